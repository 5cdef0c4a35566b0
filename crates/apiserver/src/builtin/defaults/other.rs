//! Defaults of the remaining groups that depend on other fields of the same object.

use serde_json::{Value, json};

use super::Rule;
use crate::builtin::values::{Object, field, put, sub, sub_path};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("io.k8s.api.networking.v1.NetworkPolicySpec", network_policy),
    ("io.k8s.api.rbac.v1.Subject", subject),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition", custom_resource_definition),
];

fn network_policy(spec: &mut Object) {
    let types = if field(spec, "egress").is_null() { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
    put(spec, "policyTypes", types);
}

fn subject(subject: &mut Object) {
    if matches!(field(subject, "kind").as_str(), Some("User" | "Group")) {
        put(subject, "apiGroup", "rbac.authorization.k8s.io");
    }
}

fn custom_resource_definition(definition: &mut Object) {
    let spec = sub(definition, "spec");
    let names = sub(spec, "names");
    let kind = field(names, "kind").as_str().unwrap_or_default().to_owned();
    if !kind.is_empty() {
        put(names, "singular", kind.to_lowercase());
        put(names, "listKind", format!("{kind}List"));
    }
    put(spec, "conversion", json!({"strategy": "None"}));
    let storage = field(spec, "versions").as_array().into_iter().flatten().find(|v| v["storage"] == json!(true));
    if let Some(name) = storage.and_then(|version| version.get("name")).and_then(Value::as_str) {
        let stored = json!([name]);
        put(sub_path(definition, "status"), "storedVersions", stored);
    }
}
