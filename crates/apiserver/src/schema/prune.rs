//! Removes unknown fields and reports them.
//!
//! `apiVersion`, `kind` and `metadata` of the object and of embedded resources stay. Recursion is bounded by the depth
//! limit of the JSON reader.

use serde_json::Value;

use super::path::{child, index};
use super::{Additional, Node, Schema, objectmeta};

/// Removes every field of a whole object that its schema does not specify.
pub(crate) fn prune(schema: &Schema, value: &mut Value) {
    prune_node(schema, value, true);
}

/// The paths that [`prune`] would remove, sorted, as a strict decoding error names them: `spec.list[0].bar`.
pub(crate) fn unknown_fields(schema: &Schema, value: &Value) -> Vec<String> {
    let mut out = Vec::new();
    unknown_in(schema, value, true, "", &mut out);
    out.sort();
    out
}

fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// What a schema says about an entry of an object.
enum Entry<'a> {
    Known(&'a Node),
    /// Kept with all that is in it.
    Free,
    Unknown,
}

fn entry<'a>(schema: &'a Schema, name: &str) -> Entry<'a> {
    match (schema.properties.get(name), &schema.additional) {
        (Some(property), _) => Entry::Known(property),
        (None, Additional::Schema(shared)) => Entry::Known(shared),
        (None, Additional::None) if schema.preserve_unknown => Entry::Free,
        (None, Additional::None) => Entry::Unknown,
    }
}

/// `resource` holds for the root and for embedded resources.
pub(super) fn prune_node(schema: &Schema, value: &mut Value, resource: bool) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| (resource && is_meta(name)) || !matches!(entry(schema, name), Entry::Unknown));
            for (name, value) in fields {
                if resource && is_meta(name) {
                    if name == "metadata" {
                        objectmeta::prune(value);
                    }
                } else if let Entry::Known(node) = entry(schema, name) {
                    prune_node(node, value, node.embedded_resource);
                }
            }
        }
        Value::Array(items) => match &schema.items {
            Some(node) => items.iter_mut().for_each(|item| prune_node(node, item, node.embedded_resource)),
            None if schema.preserve_unknown => {}
            None => items.iter_mut().for_each(|item| prune_node(&Schema::default(), item, false)),
        },
        _ => {}
    }
}

fn unknown_in(schema: &Schema, value: &Value, resource: bool, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let place = child(path, name);
                if resource && is_meta(name) {
                    if name == "metadata" {
                        out.extend(objectmeta::unknown_fields(&place, value));
                    }
                    continue;
                }
                match entry(schema, name) {
                    Entry::Known(node) => unknown_in(node, value, node.embedded_resource, &place, out),
                    Entry::Free => {}
                    Entry::Unknown => out.push(place),
                }
            }
        }
        Value::Array(items) => {
            let nothing = Schema::default();
            let (schema, resource) = match &schema.items {
                Some(node) => (&**node, node.embedded_resource),
                None if schema.preserve_unknown => return,
                None => (&nothing, false),
            };
            for (position, item) in items.iter().enumerate() {
                unknown_in(schema, item, resource, &index(path, position), out);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::from_openapi(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "name": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "any": {"type": "object", "additionalProperties": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"strict": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
            "raw": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        }}}}))
        .unwrap()
    }

    fn messy() -> Value {
        json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "a", "bogus": 1}, "extra": 1, "spec": {
            "name": "n", "foo": 1, "list": [{"a": "1"}, {"bar": 1}], "labels": {"x": "y"}, "any": {"k": {"deep": 1}, "s": 1},
            "free": {"x": {"y": 1}, "strict": {"z": 1}},
            "template": {"apiVersion": "v1", "kind": "P", "metadata": {"labels": {}, "oops": 1}, "spec": {"gone": 1}, "status": {}},
            "raw": {"apiVersion": "v1", "kind": "P", "metadata": {"nope": 1}, "data": {"a": 1}},
        }})
    }

    #[test]
    fn unknown_fields_are_named_by_their_path() {
        expect![[r#"
            [
                "extra",
                "metadata.bogus",
                "spec.any.k.deep",
                "spec.foo",
                "spec.free.strict.z",
                "spec.list[1].bar",
                "spec.raw.metadata.nope",
                "spec.template.metadata.oops",
                "spec.template.spec.gone",
                "spec.template.status",
            ]
        "#]]
        .assert_debug_eq(&unknown_fields(&schema(), &messy()));
    }

    #[test]
    fn only_the_named_fields_are_dropped() {
        let mut value = messy();
        prune(&schema(), &mut value);
        let clean = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, "spec": {
            "name": "n", "list": [{"a": "1"}, {}], "labels": {"x": "y"}, "any": {"k": {}, "s": 1}, "free": {"x": {"y": 1}, "strict": {}},
            "template": {"apiVersion": "v1", "kind": "P", "metadata": {"labels": {}}, "spec": {}},
            "raw": {"apiVersion": "v1", "kind": "P", "metadata": {}, "data": {"a": 1}},
        }});
        assert_eq!(value, clean);
        assert_eq!(unknown_fields(&schema(), &value), [""; 0]);
    }
}
