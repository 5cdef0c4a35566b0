//! What is done to the content of objects by other modules: pruning, defaults, validation, patches, field owners.
//!
//! The write path calls these and nothing else, so that what a schema or a patch means is decided in one place each.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::decode::{self, Decoded};
use super::request::ContentType;
use crate::error::ApiError;
use crate::field::FieldError;
use crate::registry::Served;
use crate::schema::{Node, Schema};

/// Who writes, through which endpoint, when.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    pub manager: &'a str,
    /// Empty for the main resource.
    pub subresource: &'a str,
    pub now: Timestamp,
}

/// Parses YAML of which JSON is a part.
pub fn parse_yaml(body: &[u8]) -> Result<Decoded, String> {
    decode::parse_json(body)
}

/// Paths of fields that the schema does not know.
pub fn unknown_fields(_: &Node, _: &Value) -> Vec<String> {
    Vec::new()
}

/// Removes fields that the schema does not know.
pub fn prune(_: &Node, _: &mut Value) {}

/// Fills in what the schema gives a default for, and what the kind's own defaults say.
pub fn apply_defaults(served: &Served, object: &mut Value) {
    (served.info.hooks.default)(object);
}

/// Findings of the schema and of its rules, about an object in the served version.
pub fn validate(served: &Served, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    served.version().rules.as_ref().map(|rules| rules.check(object, old)).unwrap_or_default()
}

/// The schema of one version of a CustomResourceDefinition.
pub fn schema_of(_: &str, _: &Value) -> Result<Node, Vec<FieldError>> {
    Ok(Node::new(Schema { preserve_unknown: true, ..Schema::default() }))
}

/// Records in `managedFields` of `new` what the writer changed.
pub fn track_update(_: &Served, live: Option<&Value>, new: &mut Value, _: &Writer<'_>) {
    let kept = live.and_then(|live| live["metadata"].get("managedFields")).cloned();
    if let Some(metadata) = new["metadata"].as_object_mut() {
        match kept {
            Some(kept) => metadata.insert("managedFields".to_owned(), kept),
            None => metadata.remove("managedFields"),
        };
    }
}

/// The live object (if any) after a configuration was applied to it.
pub fn apply(
    _: &Served,
    live: Option<&Value>,
    applied: &Value,
    _: &Writer<'_>,
    _force: bool,
) -> Result<Value, ApiError> {
    let mut out = live.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    merge(&mut out, applied);
    Ok(out)
}

/// The object after a patch of the given type.
pub fn patch(_: &Served, kind: &ContentType, object: &Value, body: &Value) -> Result<Value, ApiError> {
    if *kind == ContentType::JsonPatch {
        return Err(decode::unsupported(kind, &["application/merge-patch+json"]));
    }
    let mut out = object.clone();
    merge(&mut out, body);
    Ok(out)
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(object) = target {
        for (key, value) in fields {
            if value.is_null() {
                object.remove(key);
            } else {
                merge(object.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merging_replaces_removes_and_descends() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "d": [1], "e": 1});
        merge(&mut object, &json!({"a": {"b": null, "x": {"y": 1}}, "d": [2], "e": {"f": null}}));
        assert_eq!(object, json!({"a": {"c": 2, "x": {"y": 1}}, "d": [2], "e": {}}));
    }
}
