//! Checks of embedded resources: `apiVersion`, `kind` and metadata.

use serde_json::Value;

use super::path::{child, index, key};
use super::{Additional, Schema, objectmeta};
use crate::builtin::{NameRule, validate_metadata};
use crate::field::FieldError;

const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
/// Characters of a DNS-1035 label.
const LABEL_LIMIT: usize = 63;

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
            Some(Value::String(text)) if name == "kind" && !is_label(&text.to_lowercase()) => {
                format!("may have mixed case, but should otherwise match: {DNS_1035}")
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

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= LABEL_LIMIT
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.bytes().all(inner)
}
