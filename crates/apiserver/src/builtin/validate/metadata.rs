//! Checks of `metadata` for every kind, including custom resources.

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, IMMUTABLE};
use crate::builtin::kind::NameRule;
use crate::builtin::values::{at, flag, list, text, texts};
use crate::field::FieldError;

/// Keys and values of all annotations together, in bytes; keeps objects small enough to be watched.
const ANNOTATIONS_MAXIMUM: usize = 256 * 1024;

/// Finalizers that have no domain because Kubernetes itself acts on them.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// The messages for a name under a rule. With `prefix`, the name is a `generateName`.
pub(super) fn validate_name(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    let masked = if prefix { validation::masked_prefix(name) } else { name.to_owned() };
    match rule {
        NameRule::DnsSubdomain => validation::dns1123_subdomain(&masked),
        NameRule::DnsLabel => validation::dns1123_label(&masked),
        NameRule::Dns1035Label => validation::dns1035_label(&masked),
        NameRule::PathSegment => validation::path_segment(name),
        NameRule::Anything => Vec::new(),
    }
}

/// Checks the metadata of a new object.
pub(crate) fn validate_metadata(object: &Value, namespaced: bool, rule: NameRule, path: &str) -> Vec<FieldError> {
    let mut out = Findings::default();
    let metadata = at(object, "metadata");
    let generate = text(metadata, "generateName");
    if !generate.is_empty() {
        out.messages(&format!("{path}.generateName"), generate, validate_name(rule, generate, true));
    }
    match text(metadata, "name") {
        "" => out.required(format!("{path}.name"), "name or generateName is required"),
        name => out.messages(&format!("{path}.name"), name, validate_name(rule, name, false)),
    }
    match (namespaced, text(metadata, "namespace")) {
        (true, "") => out.required(format!("{path}.namespace"), ""),
        (true, namespace) => {
            out.messages(&format!("{path}.namespace"), namespace, validation::dns1123_label(namespace));
        }
        (false, "") => {}
        (false, _) => out.forbidden(format!("{path}.namespace"), "not allowed on this type"),
    }
    out.not_negative(metadata, path, &["generation"]);
    common(&mut out, metadata, path);
    finalizers(&mut out, metadata, path);
    out.0
}

/// Checks what an update may not do to metadata.
pub(crate) fn validate_metadata_update(object: &Value, old: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Findings::default();
    let (new, old) = (at(object, "metadata"), at(old, "metadata"));
    finalizers(&mut out, new, path);
    if !at(old, "deletionTimestamp").is_null() {
        let before = list(old, "finalizers");
        let mut added: Vec<&str> =
            list(new, "finalizers").iter().filter(|name| !before.contains(name)).filter_map(Value::as_str).collect();
        added.sort_unstable();
        if !added.is_empty() {
            let quoted: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            out.forbidden(
                format!("{path}.finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    quoted.join(", ")
                ),
            );
        }
    }
    if at(new, "generation").as_i64().unwrap_or_default() < at(old, "generation").as_i64().unwrap_or_default() {
        out.invalid(format!("{path}.generation"), at(new, "generation"), "must not be decremented");
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if at(new, field) != at(old, field) {
            out.invalid(format!("{path}.{field}"), at(new, field), IMMUTABLE);
        }
    }
    common(&mut out, new, path);
    out.0
}

fn common(out: &mut Findings, metadata: &Value, path: &str) {
    out.labels(metadata, "labels", &format!("{path}.labels"));
    annotations(out, metadata, &format!("{path}.annotations"));
    owners(out, metadata, &format!("{path}.ownerReferences"));
}

/// Annotations of an object or of a pod template.
pub(super) fn annotations(out: &mut Findings, metadata: &Value, path: &str) {
    let mut size = 0;
    for (key, value) in texts(metadata, "annotations") {
        for message in validation::qualified_name(&key.to_lowercase()) {
            out.invalid(path, &json!(key), message);
        }
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_MAXIMUM {
        out.push(FieldError::too_long(path, ANNOTATIONS_MAXIMUM));
    }
}

fn owners(out: &mut Findings, metadata: &Value, path: &str) {
    let mut controller: Option<String> = None;
    for owner in list(metadata, "ownerReferences") {
        let api_version = text(owner, "apiVersion");
        let version = api_version.rsplit('/').next().unwrap_or_default();
        if version.is_empty() {
            out.invalid(format!("{path}.apiVersion"), &json!(api_version), "version must not be empty");
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                out.invalid(format!("{path}.{field}"), &json!(""), "must not be empty");
            }
        }
        if (api_version, text(owner, "kind")) == ("v1", "Event") {
            out.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner");
        }
        if flag(owner, "controller") {
            let name = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    let error = FieldError::invalid(path, &Value::Null, why);
                    out.push(FieldError { value: Some(go_owners(metadata)), ..error });
                }
                None => controller = Some(name),
            }
        }
    }
}

/// Owner references as Go prints them: fields in the order of the type.
fn go_owners(metadata: &Value) -> String {
    let order = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let one = |owner: &Value| {
        let fields = order.iter().filter(|field| !at(owner, field).is_null());
        let parts: Vec<String> = fields.map(|field| format!("{field:?}:{}", at(owner, field))).collect();
        format!("{{{}}}", parts.join(","))
    };
    let all: Vec<String> = list(metadata, "ownerReferences").iter().map(one).collect();
    format!("[{}]", all.join(","))
}

fn finalizers(out: &mut Findings, metadata: &Value, path: &str) {
    let all: Vec<&str> = list(metadata, "finalizers").iter().filter_map(Value::as_str).collect();
    for name in &all {
        out.messages(&format!("{path}.finalizers"), name, validation::qualified_name(name));
    }
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        out.invalid(format!("{path}.finalizers"), at(metadata, "finalizers"), why);
    }
}

/// Built-in kinds also want finalizers to carry a domain.
pub(super) fn finalizer_domains(out: &mut Findings, object: &Value) {
    for (index, name) in list(object, "metadata.finalizers").iter().enumerate() {
        finalizer_domain(out, name, &format!("metadata.finalizers[{index}]"));
    }
}

pub(super) fn finalizer_domain(out: &mut Findings, name: &Value, path: &str) {
    let plain = name.as_str().unwrap_or_default();
    if !plain.contains('/') && !STANDARD_FINALIZERS.contains(&plain) {
        out.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified");
    }
}
