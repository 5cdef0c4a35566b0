//! Filling in what a user left out.
//!
//! Decides by the schema alone: a default fills an absent property or replaces a null that the property cannot hold; a
//! null that no default replaces is dropped. A default inside an object that is itself absent does nothing. Also decides
//! whether the defaults of a CRD are valid values themselves.

use serde_json::Value;

use super::path::{child, key};
use super::{Node, Schema, embedded, objectmeta, prune, validate_at};
use crate::field::FieldError;

/// Applies the defaults of `schema` to a whole object.
pub fn apply_defaults(schema: &Schema, value: &mut Value) {
    drop_nulls(schema, value);
    fill(schema, value);
}

/// Entries only: a null in a list keeps its place, since dropping it would move its neighbours.
fn drop_nulls(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                !value.is_null()
                    || schema.field(name).is_none_or(|node| node.nullable || node.default.is_some())
                    || !has_shape(schema.field(name))
            });
            for (name, value) in fields {
                if let Some(node) = schema.field(name) {
                    drop_nulls(node, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(node) = &schema.items {
                for item in items {
                    drop_nulls(node, item);
                }
            }
        }
        _ => {}
    }
}

/// A schema that was made for `additionalProperties: true` says nothing about its entries, not even that they may not be
/// null.
fn has_shape(node: Option<&Node>) -> bool {
    node.is_some_and(|node| !node.says_nothing())
}

fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                if fields.get(name).is_none_or(|value| value.is_null() && !property.nullable) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields {
                let Some(node) = schema.field(name) else { continue };
                replace_null(node, value);
                fill(node, value);
            }
        }
        Value::Array(items) => {
            let Some(node) = &schema.items else { return };
            for item in items {
                replace_null(node, item);
                fill(node, item);
            }
        }
        _ => {}
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if let (true, false, Some(default)) = (value.is_null(), node.nullable, &node.default) {
        *value = default.clone();
    }
}

/// Whether each default in the schema at `path` is pruned and valid by its own schema. CEL rules are not asked.
pub(super) fn check_defaults(path: &str, schema: &Schema) -> Vec<FieldError> {
    let mut findings = Vec::new();
    check_node(path, schema, true, false, &mut findings);
    findings
}

fn check_node(path: &str, schema: &Schema, resource: bool, in_metadata: bool, findings: &mut Vec<FieldError>) {
    let in_metadata = in_metadata && !schema.embedded_resource;
    if let Some(default) = &schema.default {
        check_default(&child(path, "default"), schema, default, in_metadata, findings);
    }
    if let Some(items) = &schema.items {
        check_node(&child(path, "items"), items, false, in_metadata, findings);
    }
    for (name, property) in &schema.properties {
        let meta =
            (resource || schema.embedded_resource) && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        check_node(&key(&child(path, "properties"), name), property, false, in_metadata || meta, findings);
    }
}

fn check_default(place: &str, schema: &Schema, default: &Value, in_metadata: bool, findings: &mut Vec<FieldError>) {
    if !in_metadata {
        let mut pruned = default.clone();
        prune::prune_node(schema, &mut pruned, schema.embedded_resource);
        if pruned != *default {
            findings.push(FieldError::invalid(place, default, "must not have unknown fields"));
        }
        let mut embedded_findings = Vec::new();
        embedded::check(place, schema, default, schema.embedded_resource, &mut embedded_findings);
        if !embedded_findings.is_empty() {
            findings.extend(embedded_findings);
            return;
        }
    } else if place.ends_with("properties[metadata].default")
        && let Some(finding) = objectmeta::check("metadata", default)
    {
        findings.push(FieldError::invalid(place, default, format!("must result in valid metadata: {finding}")));
        return;
    }
    findings.extend(validate_at(place, schema, default, None));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value)] // json! literals at every call
    fn check(spec_schema: Value, spec: Value, expected: Value) {
        let schema = Schema::from_openapi(&json!({"type": "object", "properties": {"spec": spec_schema}})).unwrap();
        let mut value = json!({"spec": spec});
        apply_defaults(&schema, &mut value);
        assert_eq!(value["spec"], expected);
    }

    #[test]
    fn a_default_fills_what_is_absent_and_replaces_a_null_that_may_not_be() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"}, "b": {"type": "string", "default": "x", "nullable": true},
            "c": {"type": "string"}, "d": {"type": "string", "nullable": true},
        }});
        check(schema.clone(), json!({}), json!({"a": "x", "b": "x"}));
        check(
            schema.clone(),
            json!({"a": null, "b": null, "c": null, "d": null}),
            json!({"a": "x", "b": null, "d": null}),
        );
        check(schema, json!({"a": "y", "b": ""}), json!({"a": "y", "b": ""}));
    }

    #[test]
    fn defaults_of_a_nested_object_need_the_object() {
        let inner = json!({"type": "object", "properties": {"x": {"type": "integer", "default": 1}}});
        check(json!({"type": "object", "properties": {"in": inner}}), json!({}), json!({}));
        check(json!({"type": "object", "properties": {"in": inner}}), json!({"in": {}}), json!({"in": {"x": 1}}));
        let mut with_default = inner.clone();
        with_default["default"] = json!({});
        check(json!({"type": "object", "properties": {"in": with_default}}), json!({}), json!({"in": {"x": 1}}));
    }

    #[test]
    fn list_items_and_map_entries_are_filled_too() {
        let inner = json!({"type": "object", "properties": {"x": {"type": "integer", "default": 1}}});
        check(json!({"type": "array", "items": inner}), json!([{}, {"x": 2}, null]), json!([{"x": 1}, {"x": 2}, null]));
        check(
            json!({"type": "object", "additionalProperties": inner}),
            json!({"a": {}, "b": null}),
            json!({"a": {"x": 1}}),
        );
        check(
            json!({"type": "array", "items": {"type": "string", "default": "d"}}),
            json!([null, "a"]),
            json!(["d", "a"]),
        );
    }

    #[test]
    fn a_null_in_a_free_form_map_stays() {
        check(json!({"type": "object", "additionalProperties": true}), json!({"a": null}), json!({"a": null}));
        check(
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            json!({"a": null}),
            json!({"a": null}),
        );
    }
}
