//! Checks of webhook configurations and API services.

use std::collections::BTreeSet;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use k8s_values::validation;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::findings::{Findings, child};
use crate::builtin::values::{at, flag, int, list, text};

/// Versions of the review that servers speak.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn webhooks(object: &Value, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, hook) in list(object, "webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        webhook(hook, &path, out);
        let name = text(hook, "name");
        if !name.is_empty() && !seen.insert(name) {
            out.duplicate(child(&path, "name"), &json!(name));
        }
        review_versions(hook, &path, out);
    }
}

fn webhook(hook: &Value, path: &str, out: &mut Findings) {
    let name = text(hook, "name");
    let messages = validation::dns1123_subdomain(name);
    if name.is_empty() {
        out.required(child(path, "name"), "");
    } else if !messages.is_empty() {
        out.invalid(child(path, "name"), &json!(name), messages.join(","));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        out.invalid(child(path, "name"), &json!(name), why);
    }
    for (index, rule) in list(hook, "rules").iter().enumerate() {
        webhook_rule(rule, &format!("{path}.rules[{index}]"), out);
    }
    out.maybe_one_of(child(path, "failurePolicy"), at(hook, "failurePolicy"), &["Fail", "Ignore"]);
    out.maybe_one_of(child(path, "matchPolicy"), at(hook, "matchPolicy"), &["Equivalent", "Exact"]);
    if at(hook, "sideEffects").is_null() {
        out.required(child(path, "sideEffects"), "must specify one of None, NoneOnDryRun");
    }
    out.maybe_one_of(child(path, "sideEffects"), at(hook, "sideEffects"), &["None", "NoneOnDryRun"]);
    if int(hook, "timeoutSeconds").is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        out.invalid(child(path, "timeoutSeconds"), at(hook, "timeoutSeconds"), why);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        out.label_selector(at(hook, field), &child(path, field));
    }
    out.maybe_one_of(child(path, "reinvocationPolicy"), at(hook, "reinvocationPolicy"), &["IfNeeded", "Never"]);
    client(at(hook, "clientConfig"), &child(path, "clientConfig"), out);
}

fn client(config: &Value, path: &str, out: &mut Findings) {
    let (url, service) = (at(config, "url"), at(config, "service"));
    if url.is_null() == service.is_null() {
        out.required(path, "exactly one of url or service is required");
    } else if let Some(url) = url.as_str() {
        webhook_url(url, &child(path, "url"), out);
    } else {
        webhook_service(service, &child(path, "service"), out);
    }
}

/// Where a webhook listens, by address.
pub(super) fn webhook_url(url: &str, path: &str, out: &mut Findings) {
    let (before, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (before, query) = before.split_once('?').unwrap_or((before, ""));
    let (scheme, rest) = before.split_once("://").unwrap_or(("", ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if scheme != "https" {
        let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
        out.invalid(path, &json!(scheme), why);
    }
    if host.is_empty() {
        out.invalid(path, &json!(""), "host must be specified; desired format: https://host[/path]");
    }
    if let Some(user) = user {
        out.invalid(path, &json!(user), "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        out.invalid(path, &json!(fragment), "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        out.invalid(path, &json!(query), "query parameters are not permitted in the URL");
    }
}

/// Where a webhook listens, by service.
pub(super) fn webhook_service(service: &Value, path: &str, out: &mut Findings) {
    // Kubernetes reports a missing namespace as a missing name, and the other way round.
    for (reported, missing) in [("name", "namespace"), ("namespace", "name")] {
        if text(service, missing).is_empty() {
            out.required(child(path, reported), "");
        }
    }
    port(service, &child(path, "port"), out);
    let value = at(service, "path");
    let whole = value.as_str().unwrap_or_default();
    let path = child(path, "path");
    if whole.is_empty() || whole == "/" {
        return;
    }
    if whole == "//" {
        out.invalid(path, value, "segment[0] may not be empty");
        return;
    }
    if !whole.starts_with('/') {
        out.invalid(path.clone(), value, "must start with a '/'");
    }
    // As in Kubernetes, the first character is taken for the slash even if it is none.
    let steps: String = whole.chars().skip(1).collect();
    for (index, step) in steps.strip_suffix('/').unwrap_or(&steps).split('/').enumerate() {
        if step.is_empty() {
            out.invalid(path.clone(), value, format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in validation::dns1123_subdomain(step) {
            out.invalid(path.clone(), value, format!("segment[{index}]: {problem}"));
        }
    }
}

/// Certificates of the authorities that a webhook is trusted by, as PEM in base64.
pub(super) fn certificates(bundle: &str, path: &str, out: &mut Findings) {
    let pem = BASE64_STANDARD.decode(bundle).unwrap_or_default();
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem).collect();
    if found.iter().flatten().any(|certificate| webpki::anchor_from_trusted_cert(certificate).is_ok()) {
        return;
    }
    let why = if found.iter().any(Result::is_ok) {
        "failed to parse certificate: x509: malformed certificate"
    } else {
        "unable to parse bytes as PEM block"
    };
    out.invalid(path, &json!(bundle), format!("unable to load root certificates: {why}"));
}

fn port(service: &Value, path: &str, out: &mut Findings) {
    let number = int(service, "port").unwrap_or_default();
    let messages = validation::port_number(number);
    if !messages.is_empty() {
        out.invalid(path, &json!(number), format!("port is not valid: {}", messages.join(", ")));
    }
}

fn webhook_rule(rule: &Value, path: &str, out: &mut Findings) {
    let star = json!("*");
    let operations = list(rule, "operations");
    if operations.is_empty() {
        out.required(child(path, "operations"), "");
    }
    if operations.len() > 1 && operations.contains(&star) {
        let why = "if '*' is present, must not specify other operations";
        out.invalid(child(path, "operations"), at(rule, "operations"), why);
    }
    for (index, operation) in operations.iter().enumerate() {
        let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        out.maybe_one_of(format!("{path}.operations[{index}]"), operation, &known);
    }
    for (field, words) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let values = list(rule, field);
        if values.is_empty() {
            out.required(child(path, field), "");
        }
        if values.len() > 1 && values.contains(&star) {
            let why = format!("if '*' is present, must not specify other {words}");
            out.invalid(child(path, field), at(rule, field), why);
        }
    }
    for (index, version) in list(rule, "apiVersions").iter().enumerate() {
        if version == "" {
            out.required(format!("{path}.apiVersions[{index}]"), "");
        }
    }
    rule_resources(rule, &child(path, "resources"), out);
    out.maybe_one_of(child(path, "scope"), at(rule, "scope"), &["*", "Cluster", "Namespaced"]);
}

/// Resources with or without a subresource; a wildcard must not stand beside what it covers.
fn rule_resources(rule: &Value, path: &str, out: &mut Findings) {
    let resources: Vec<&str> = list(rule, "resources").iter().map(|name| name.as_str().unwrap_or_default()).collect();
    if resources.is_empty() {
        out.required(path, "");
    }
    let (mut all_subresources_of, mut everywhere) = (BTreeSet::new(), BTreeSet::new());
    let mut plain_beside = false;
    for (index, whole) in resources.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if whole.is_empty() {
            out.required(path, "");
            continue;
        }
        let Some((resource, subresource)) = whole.split_once('/') else {
            // As in Kubernetes, the last plain name decides.
            plain_beside = *whole != "*";
            continue;
        };
        for (known, covering) in [
            (all_subresources_of.contains(resource), format!("{resource}/*")),
            (everywhere.contains(subresource), format!("*/{subresource}")),
        ] {
            if known {
                let why = format!("if '{covering}' is present, must not specify {whole}");
                out.invalid(path.clone(), &json!(whole), why);
            }
        }
        if subresource == "*" {
            all_subresources_of.insert(resource);
        }
        if resource == "*" {
            everywhere.insert(subresource);
        }
    }
    let all = at(rule, "resources");
    if resources.len() > 1 && resources.contains(&"*/*") {
        out.invalid(path, all, "if '*/*' is present, must not specify other resources");
    }
    if resources.contains(&"*") && plain_beside {
        out.invalid(path, all, "if '*' is present, must not specify other resources without subresources");
    }
}

fn review_versions(hook: &Value, path: &str, out: &mut Findings) {
    let path = child(path, "admissionReviewVersions");
    let versions = list(hook, "admissionReviewVersions");
    if versions.is_empty() {
        out.required(path, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let name = version.as_str().unwrap_or_default();
        let path = format!("{path}[{index}]");
        if !seen.insert(name) {
            out.invalid(path.clone(), version, "duplicate version");
        }
        out.messages(&path, name, validation::dns1035_label(name));
    }
    if !versions.iter().any(|version| version.as_str().is_some_and(|name| REVIEWS.contains(&name))) {
        let why = "must include at least one of v1, v1beta1";
        out.invalid(path, at(hook, "admissionReviewVersions"), why);
    }
}

pub(super) fn api_service(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let wanted = format!("{version}.{group}");
    if text(object, "metadata.name") != wanted {
        let why = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        out.invalid("metadata.name", at(object, "metadata.name"), why);
    }
    if group.is_empty() && version != "v1" {
        out.required("spec.group", "only v1 may have an empty group and it better be legacy kube");
    }
    if !group.is_empty() {
        out.messages("spec.group", group, validation::dns1123_subdomain(group));
    }
    out.messages("spec.version", version, validation::dns1035_label(version));
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let value = int(spec, field).unwrap_or_default();
        if value <= 0 || value > most {
            out.invalid(child("spec", field), &json!(value), format!("must be positive and less than {most}"));
        }
    }
    let service = at(spec, "service");
    if service.is_null() {
        if flag(spec, "insecureSkipTLSVerify") {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            out.invalid("spec.insecureSkipTLSVerify", &json!(true), why);
        }
        return;
    }
    for field in ["namespace", "name"] {
        if text(service, field).is_empty() {
            out.required(format!("spec.service.{field}"), "");
        }
    }
    port(service, "spec.service.port", out);
    if flag(spec, "insecureSkipTLSVerify") && !at(spec, "caBundle").is_null() {
        out.invalid("spec.insecureSkipTLSVerify", &json!(true), "may not be true if caBundle is present");
    }
}
