//! Checks of embedded resources: `apiVersion`, `kind` and metadata.

use k8s_values::validation;
use serde_json::Value;

use super::path::{child, index, key};
use super::{Additional, Schema, objectmeta};
use crate::builtin::{NameRule, validate_metadata};
use crate::field::FieldError;

/// Checks every embedded resource in `value`; `value` itself counts as one if `embedded` says so.
pub(super) fn check(path: &str, schema: &Schema, value: &Value, embedded: bool, findings: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if embedded {
                resource(path, value, findings);
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    check(&child(path, name), property, value, property.embedded_resource, findings);
                } else if let Additional::Schema(shared) = &schema.additional {
                    check(&key(path, name), shared, value, shared.embedded_resource, findings);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else { return };
            for (position, item) in items.iter().enumerate() {
                check(&index(path, position), item_schema, item, item_schema.embedded_resource, findings);
            }
        }
        _ => {}
    }
}

fn resource(path: &str, value: &Value, findings: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let place = child(path, name);
        let detail = match value.get(name) {
            None => {
                findings.push(FieldError::required(place, ""));
                continue;
            }
            Some(Value::String(text)) if text.is_empty() => "must not be empty".to_owned(),
            Some(Value::String(text)) if name == "apiVersion" && text.matches('/').count() > 1 => {
                format!("unexpected GroupVersion string: {text}")
            }
            Some(Value::String(text)) if name == "kind" => {
                let wrong = validation::dns1035_label(&text.to_lowercase());
                if wrong.is_empty() {
                    continue;
                }
                format!("may have mixed case, but should otherwise match: {}", wrong.join(","))
            }
            Some(Value::String(_)) => continue,
            Some(_) => "must be a string".to_owned(),
        };
        findings.push(FieldError::invalid(place, &value[name], detail));
    }
    if let Some(metadata) = value.get("metadata") {
        let place = child(path, "metadata");
        match objectmeta::check(&place, metadata) {
            Some(finding) => findings.push(finding),
            None => findings.extend(well_formed(&place, metadata)),
        }
    }
}

/// Names, labels and the like follow the rules of all objects, but an embedded one need not have a name.
fn well_formed(place: &str, metadata: &Value) -> Vec<FieldError> {
    let mut object = serde_json::json!({ "metadata": metadata });
    let text = |name: &str| metadata[name].as_str().unwrap_or_default();
    if text("name").is_empty() {
        object["metadata"]["name"] = "none".into();
    }
    validate_metadata(&object, !text("namespace").is_empty(), NameRule::PathSegment, place)
}
