//! Checks of CustomResourceDefinitions around their schemas: names, versions, conversion.
//!
//! The schemas themselves are checked where they are turned into trees.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::findings::{Findings, child};
use super::names;
use crate::builtin::values::{at, flag, list, text};

pub(super) fn definition(object: &Value, out: &mut Findings) {
    let spec = at(object, "spec");
    let (plural, group) = (text(spec, "names.plural"), text(spec, "group"));
    if text(object, "metadata.name") != format!("{plural}.{group}") {
        out.invalid("metadata.name", at(object, "metadata.name"), "must be spec.names.plural+\".\"+spec.group");
    }
    if group.is_empty() {
        out.required("spec.group", "");
    } else {
        let messages = names::dns_subdomain(group);
        if !messages.is_empty() {
            out.invalid("spec.group", &json!(group), messages.join(","));
        } else if !group.contains('.') {
            out.invalid("spec.group", &json!(group), "should be a domain with at least one dot");
        }
    }
    out.one_of("spec.scope", at(spec, "scope"), &["Cluster", "Namespaced"]);
    versions(spec, out);
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(spec, &format!("names.{field}")).is_empty() {
            out.required(format!("spec.names.{field}"), "");
        }
    }
    definition_names(at(spec, "names"), "spec.names", out);
    conversion(at(spec, "conversion"), out);
    stored_versions(object, out);
}

fn versions(spec: &Value, out: &mut Findings) {
    let versions = list(spec, "versions");
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = text(version, "name");
        seen.insert(name);
        let messages = names::dns_1035_label(name);
        if !messages.is_empty() {
            out.invalid(format!("{path}.name"), &json!(name), messages.join(","));
        }
        if at(version, "schema.openAPIV3Schema").is_null() {
            out.required(format!("{path}.schema.openAPIV3Schema"), "");
        }
        for (number, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
            printer_column(column, &format!("{path}.additionalPrinterColumns[{number}]"), out);
        }
    }
    if seen.len() != versions.len() {
        out.invalid("spec.versions", at(spec, "versions"), "must contain unique version names");
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        out.invalid("spec.versions", at(spec, "versions"), why);
    }
    // The server keeps the first version under an older field as well and reports it there too.
    let first = versions.first().map_or("", |version| text(version, "name"));
    joined(&names::dns_1035_label(first), first, "", "spec.version", out);
}

fn printer_column(column: &Value, path: &str, out: &mut Findings) {
    if text(column, "name").is_empty() {
        out.required(child(path, "name"), "");
    }
    match text(column, "type") {
        "" => out.required(child(path, "type"), "must be one of boolean,date,integer,number,string"),
        "boolean" | "date" | "integer" | "number" | "string" => {}
        other => out.invalid(child(path, "type"), &json!(other), "must be one of boolean,date,integer,number,string"),
    }
    let json_path = text(column, "jsonPath");
    if json_path.is_empty() {
        out.required(child(path, "JSONPath"), "");
    } else if !json_path.starts_with('.') {
        let why = "must be a simple json path starting with .";
        out.invalid(child(path, "JSONPath"), &json!(json_path), why);
    }
}

/// Names as they are asked for, or as they were accepted.
fn definition_names(all: &Value, path: &str, out: &mut Findings) {
    for field in ["plural", "singular"] {
        let name = text(all, field);
        joined(&names::dns_1035_label(name), name, "", &child(path, field), out);
    }
    for field in ["kind", "listKind"] {
        let name = text(all, field);
        let prefix = "may have mixed case, but should otherwise match: ";
        joined(&names::dns_1035_label(&name.to_lowercase()), name, prefix, &child(path, field), out);
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(all, field).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            joined(&names::dns_1035_label(name), name, "", &format!("{path}.{field}[{index}]"), out);
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

fn conversion(conversion: &Value, out: &mut Findings) {
    if conversion.is_null() {
        return;
    }
    out.one_of("spec.conversion.strategy", at(conversion, "strategy"), &["None", "Webhook"]);
    let webhook = at(conversion, "webhook");
    if text(conversion, "strategy") != "Webhook" {
        if !webhook.is_null() {
            out.forbidden("spec.conversion.webhook", "should not be set when strategy is not set to Webhook");
        }
        return;
    }
    let client = at(webhook, "clientConfig");
    if client.is_null() {
        out.required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook");
    } else if at(client, "url").is_null() == at(client, "service").is_null() {
        out.required("spec.conversion.webhookClientConfig", "exactly one of url or service is required");
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
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| at(version, "name") == name) {
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
    let established = list(old, "status.conditions")
        .iter()
        .any(|condition| text(condition, "type") == "Established" && text(condition, "status") == "True");
    if established {
        out.immutable(at(new, "spec"), at(old, "spec"), "spec", &["scope", "names.kind"]);
    }
    out.immutable(at(new, "spec"), at(old, "spec"), "spec", &["group", "names.plural"]);
}
