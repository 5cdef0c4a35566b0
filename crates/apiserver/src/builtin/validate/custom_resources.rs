//! Checks of CustomResourceDefinitions: names, conversion, approval of protected groups, and versions
//! (`definition_versions`).
//!
//! On an update, values that were accepted before are not checked again.

use std::collections::BTreeSet;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, child};
use super::{admission, definition_versions};
use crate::builtin::values::{at, flag, list, text};

/// The annotation with the approval of an API in Kubernetes' protected groups.
const APPROVED: &str = "api-approved.kubernetes.io";

pub(super) fn definition(object: &Value, out: &mut Findings) {
    definition_after(object, None, out);
}

fn definition_after(object: &Value, old: Option<&Value>, out: &mut Findings) {
    let spec = at(object, "spec");
    let unchanged = old.map(|old| unchanged_schemas(spec, at(old, "spec"))).unwrap_or_default();
    let (plural, group) = (text(spec, "names.plural"), text(spec, "group"));
    if old.is_none() && text(object, "metadata.name") != format!("{plural}.{group}") {
        out.invalid("metadata.name", at(object, "metadata.name"), "must be spec.names.plural+\".\"+spec.group");
    }
    if group.is_empty() {
        out.required("spec.group", "");
    } else {
        let messages = validation::dns1123_subdomain(group);
        if !messages.is_empty() {
            out.invalid("spec.group", &json!(group), messages.join(","));
        } else if !group.contains('.') {
            out.invalid("spec.group", &json!(group), "should be a domain with at least one dot");
        }
    }
    out.one_of("spec.scope", at(spec, "scope"), &["Cluster", "Namespaced"]);
    definition_versions::each(spec, &unchanged, out);
    // The server keeps the name of the first version under an older field as well and reports it there too.
    let first = list(spec, "versions").first().map_or("", |version| text(version, "name"));
    joined(&validation::dns1035_label(first), first, "", "spec.version", out);
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(spec, &format!("names.{field}")).is_empty() {
            out.required(format!("spec.names.{field}"), "");
        }
    }
    definition_names(at(spec, "names"), "spec.names", out);
    definition_versions::shared(spec, &unchanged, out);
    let any_bundle = old.is_none_or(allows_any_bundle);
    conversion(at(spec, "conversion"), any_bundle, out);
    definition_names(at(object, "status.acceptedNames"), "status.acceptedNames", out);
    stored_versions(object, out);
    approval(object, old, out);
    if flag(spec, "preserveUnknownFields") && !old.is_some_and(|old| flag(old, "spec.preserveUnknownFields")) {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        out.invalid("spec.preserveUnknownFields", &json!(true), why);
    }
}

/// Versions whose schema and way to keep status are as before.
fn unchanged_schemas<'s>(new: &'s Value, old: &Value) -> Vec<&'s str> {
    let same = |version: &&Value| {
        let before = list(old, "versions").iter().find(|before| at(before, "name") == at(version, "name"));
        before.is_some_and(|before| {
            ["schema", "subresources"].iter().all(|field| at(before, field) == at(version, field))
        })
    };
    let versions = list(new, "versions");
    let kept: Vec<&str> = versions.iter().filter(same).map(|version| text(version, "name")).collect();
    // Whether a schema is judged with all others depends on all of them.
    if kept.len() == versions.len() && versions.len() == list(old, "versions").len() { kept } else { Vec::new() }
}

#[derive(PartialEq)]
enum Approval {
    Given,
    Bypassed,
    Missing,
    Invalid,
}

fn approval_of(object: &Value) -> Approval {
    let given = object["metadata"]["annotations"][APPROVED].as_str().unwrap_or_default();
    let is_url = given.split_once("://").is_some_and(|(scheme, rest)| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric()) && !host.is_empty()
    });
    match given {
        "" => Approval::Missing,
        _ if given.starts_with("unapproved") => Approval::Bypassed,
        _ if is_url => Approval::Given,
        _ => Approval::Invalid,
    }
}

/// Groups of the Kubernetes community need its approval, unless that was missing before.
fn approval(object: &Value, old: Option<&Value>, out: &mut Findings) {
    let group = text(object, "spec.group");
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    let state = approval_of(object);
    if !protected || old.is_some_and(|old| approval_of(old) == state) {
        return;
    }
    let place = format!("metadata.annotations[{APPROVED}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match state {
        Approval::Given | Approval::Bypassed => {}
        Approval::Missing => {
            out.required(place, &format!("protected groups must have approval annotation {APPROVED:?}, {see}"));
        }
        Approval::Invalid => {
            let why = format!(
                "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting with \
                 \"unapproved\", {see}"
            );
            out.invalid(place, &object["metadata"]["annotations"][APPROVED], why);
        }
    }
}

/// Names as they are asked for, or as they were accepted.
fn definition_names(all: &Value, path: &str, out: &mut Findings) {
    for field in ["plural", "singular"] {
        let name = text(all, field);
        joined(&validation::dns1035_label(name), name, "", &child(path, field), out);
    }
    for field in ["kind", "listKind"] {
        let name = text(all, field);
        let prefix = "may have mixed case, but should otherwise match: ";
        joined(&validation::dns1035_label(&name.to_lowercase()), name, prefix, &child(path, field), out);
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(all, field).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            joined(&validation::dns1035_label(name), name, "", &format!("{path}.{field}[{index}]"), out);
        }
    }
    if !text(all, "kind").is_empty() && text(all, "kind") == text(all, "listKind") {
        out.invalid(child(path, "listKind"), at(all, "listKind"), "kind and listKind may not be the same");
    }
}

fn joined(messages: &[String], name: &str, prefix: &str, path: &str, out: &mut Findings) {
    if !name.is_empty() && !messages.is_empty() {
        out.invalid(path, &json!(name), format!("{prefix}{}", messages.join(",")));
    }
}

/// Certificates are not looked at until a definition is in use, nor where bad ones were let pass before.
fn allows_any_bundle(old: &Value) -> bool {
    let bundle = text(old, "spec.conversion.webhook.clientConfig.caBundle");
    let mut problems = Findings::default();
    if !bundle.is_empty() {
        admission::certificates(bundle, "", &mut problems);
    }
    !is_established(old) || !problems.0.is_empty()
}

fn conversion(conversion: &Value, any_bundle: bool, out: &mut Findings) {
    if conversion.is_null() {
        return;
    }
    out.one_of("spec.conversion.strategy", at(conversion, "strategy"), &["None", "Webhook"]);
    let client = at(conversion, "webhook.clientConfig");
    let reviews = list(conversion, "webhook.conversionReviewVersions");
    if text(conversion, "strategy") != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if !client.is_null() {
            out.forbidden("spec.conversion.webhookClientConfig", why);
        }
        if !reviews.is_empty() {
            out.forbidden("spec.conversion.conversionReviewVersions", why);
        }
        return;
    }
    if client.is_null() {
        out.required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook");
    } else if at(client, "url").is_null() == at(client, "service").is_null() {
        out.required("spec.conversion.webhookClientConfig", "exactly one of url or service is required");
    } else if let Some(url) = at(client, "url").as_str() {
        admission::webhook_url(url, "spec.conversion.webhookClientConfig.url", out);
    } else {
        admission::webhook_service(at(client, "service"), "spec.conversion.webhookClientConfig.service", out);
    }
    if let Some(bundle) = at(client, "caBundle").as_str().filter(|bundle| !bundle.is_empty() && !any_bundle) {
        admission::certificates(bundle, "spec.conversion.webhookClientConfig.caBundle", out);
    }
    let place = "spec.conversion.conversionReviewVersions";
    for (index, version) in reviews.iter().enumerate() {
        let path = format!("{place}[{index}]");
        if reviews[..index].contains(version) {
            out.invalid(path, version, "duplicate version");
            continue;
        }
        let name = version.as_str().unwrap_or_default();
        out.messages(&path, name, validation::dns1035_label(name));
    }
    if reviews.is_empty() {
        out.required(place, "");
    } else if !reviews.iter().any(|version| version == "v1" || version == "v1beta1") {
        out.invalid(place, &json!(reviews), "must include at least one of v1, v1beta1");
    }
}

fn stored_versions(object: &Value, out: &mut Findings) {
    let stored = list(object, "status.storedVersions");
    if stored.is_empty() {
        out.invalid(
            "status.storedVersions",
            at(object, "status.storedVersions"),
            "must have at least one stored version",
        );
        return;
    }
    let versions = list(object, "spec.versions");
    for version in versions.iter().filter(|version| flag(version, "storage")) {
        if !stored.contains(at(version, "name")) {
            let why = format!("must have the storage version {}", text(version, "name"));
            out.invalid("status.storedVersions", at(object, "status.storedVersions"), why);
        }
    }
    let known: BTreeSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    for (index, name) in stored.iter().enumerate() {
        if !name.as_str().is_some_and(|name| known.contains(name)) {
            let plain = name.as_str().unwrap_or_default();
            out.invalid(
                format!("status.storedVersions[{index}]"),
                name,
                format!(
                    "missing from spec.versions; {plain} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {plain} and removes {plain} from status.storedVersions"
                ),
            );
        }
    }
}

/// What decides how and where objects are stored cannot change once they may exist.
pub(super) fn definition_update(new: &Value, old: &Value, out: &mut Findings) {
    definition_after(new, Some(old), out);
    if is_established(old) {
        out.immutable(at(new, "spec"), at(old, "spec"), "spec", &["scope", "names.kind"]);
    }
    out.immutable(at(new, "spec"), at(old, "spec"), "spec", &["group", "names.plural"]);
}

fn is_established(definition: &Value) -> bool {
    list(definition, "status.conditions")
        .iter()
        .any(|condition| text(condition, "type") == "Established" && text(condition, "status") == "True")
}
