//! Defaulting by schema.
//!
//! A default fills an absent property or replaces a null that the property cannot hold; a null that no
//! default replaces is dropped. A default inside an absent object has no effect. Also checks whether the defaults of a CRD
//! are valid. Defaults in lists of defaults multiply, so their size is limited.

use serde_json::Value;

use super::path::{child, key};
use super::{Node, Schema, embedded, objectmeta, prune, validate_at};
use crate::field::FieldError;

/// Most bytes that defaults may add to one object, and that all defaults of a schema may have once they are filled in. As much as a
/// request may have, and twice what can be stored: an object with more is refused by every API server.
pub(crate) const MAX_DEFAULT_BYTES: usize = 3 << 20;

/// The defaults of a schema would add more than `MAX_DEFAULT_BYTES` to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the defaults of its schema would add more than {MAX_DEFAULT_BYTES} bytes")]
pub(crate) struct DefaultsTooLarge;

/// Applies the defaults of `schema` to a whole object. One for which they are too large has some of them.
pub(crate) fn apply_defaults(schema: &Schema, value: &mut Value) -> Result<(), DefaultsTooLarge> {
    drop_nulls(schema, value);
    fill(schema, value, &mut Allowance { left: MAX_DEFAULT_BYTES })
}

/// How many bytes defaults may still add.
struct Allowance {
    left: usize,
}

impl Allowance {
    fn copy(&mut self, default: &Value) -> Result<Value, DefaultsTooLarge> {
        self.left = self.left.checked_sub(size(default)).ok_or(DefaultsTooLarge)?;
        Ok(default.clone())
    }
}

/// About as many bytes as a value has in JSON, and never none.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len().saturating_add(2),
        Value::Array(items) => items.iter().fold(2, |bytes, item| bytes.saturating_add(size(item)).saturating_add(1)),
        Value::Object(fields) => fields.iter().fold(2, |bytes, (name, value)| {
            bytes.saturating_add(name.len()).saturating_add(size(value)).saturating_add(4)
        }),
        _ => 4,
    }
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

fn fill(schema: &Schema, value: &mut Value, allowance: &mut Allowance) -> Result<(), DefaultsTooLarge> {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                if fields.get(name).is_none_or(|value| value.is_null() && !property.nullable) {
                    fields.insert(name.clone(), allowance.copy(default)?);
                }
            }
            for (name, value) in fields {
                let Some(node) = schema.field(name) else { continue };
                replace_null(node, value, allowance)?;
                fill(node, value, allowance)?;
            }
        }
        Value::Array(items) => {
            let Some(node) = &schema.items else { return Ok(()) };
            for item in items {
                replace_null(node, item, allowance)?;
                fill(node, item, allowance)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn replace_null(node: &Node, value: &mut Value, allowance: &mut Allowance) -> Result<(), DefaultsTooLarge> {
    if let (true, false, Some(default)) = (value.is_null(), node.nullable, &node.default) {
        *value = allowance.copy(default)?;
    }
    Ok(())
}

/// Whether each default in the schema at `path` is pruned and valid by its own schema. CEL rules are not asked.
pub(super) fn check_defaults(path: &str, schema: &Schema) -> Vec<FieldError> {
    let mut findings = Vec::new();
    check_node(path, schema, true, false, &mut findings);
    findings.extend(check_sizes(path, schema, &mut Allowance { left: MAX_DEFAULT_BYTES }));
    findings
}

/// The first default that is too large once the defaults within it are filled in. All defaults of a schema share one allowance, so
/// that this takes no longer than filling in one of them.
fn check_sizes(path: &str, schema: &Schema, allowance: &mut Allowance) -> Option<FieldError> {
    if let Some(default) = &schema.default {
        let filled = allowance.copy(default).and_then(|mut filled| fill(schema, &mut filled, allowance));
        if filled.is_err() {
            let place = child(path, "default");
            let detail = format!(
                "the defaults of this schema must not have more than {MAX_DEFAULT_BYTES} bytes in all, with the defaults within them filled in"
            );
            return Some(FieldError::forbidden(place, detail));
        }
    }
    let items = schema.items.iter().map(|node| (child(path, "items"), node));
    let properties = &schema.properties;
    let properties = properties.iter().map(|(name, node)| (key(&child(path, "properties"), name), node));
    items.chain(properties).find_map(|(path, node)| check_sizes(&path, node, allowance))
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
        apply_defaults(&schema, &mut value).unwrap();
        assert_eq!(value["spec"], expected);
    }

    /// A list of ten items, each of which has such a list, and so on.
    fn multiplying(levels: usize) -> Value {
        (0..levels).fold(json!({"type": "string"}), |inner, _| {
            let items = json!({"type": "object", "properties": {"in": inner}});
            json!({"type": "array", "items": items, "default": [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}]})
        })
    }

    #[test]
    fn audit_fuzzing_defaults_that_multiply_are_refused_in_a_schema() {
        let parsed = |levels: usize| {
            Schema::from_openapi_at("s", &json!({"type": "object", "properties": {"spec": multiplying(levels)}}))
        };
        assert!(parsed(4).is_ok(), "ten thousand items");
        for levels in [7, 40] {
            let refused: Vec<String> = parsed(levels).unwrap_err().iter().map(ToString::to_string).collect();
            expect_test::expect!["s.properties[spec].default: Forbidden: the defaults of this schema must not have more than 3145728 bytes in all, with the defaults within them filled in"]
                .assert_eq(&refused.join("\n"));
        }
    }

    #[test]
    fn audit_fuzzing_defaults_that_are_repeated_for_every_item_of_an_object_are_limited() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "array", "items": {
            "type": "object", "properties": {"text": {"type": "string", "default": "x".repeat(1000)}}}}}});
        let schema = Schema::from_openapi(&schema).unwrap();
        let object = |items: usize| json!({"spec": vec![json!({}); items]});
        assert_eq!(apply_defaults(&schema, &mut object(3000)), Ok(()));
        let mut large = object(500_000);
        assert_eq!(apply_defaults(&schema, &mut large), Err(DefaultsTooLarge));
        assert!(large.to_string().len() < 3 * MAX_DEFAULT_BYTES);
        assert_eq!(DefaultsTooLarge.to_string(), "the defaults of its schema would add more than 3145728 bytes");
    }

    #[test]
    fn a_default_fills_absent_fields_and_invalid_nulls() {
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
