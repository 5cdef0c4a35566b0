//! An object as kube-apiserver prints it inside the error of the patch that created it.
//!
//! The object has gone through a map, so its fields are sorted; metadata that the patch did not change keeps the order of
//! the Go structs.

use k8s_values::go;
use serde_json::{Map, Value};

const METADATA: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

const MANAGED_FIELDS: &[&str] =
    &["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// The object as text. `patched`: the patch has something for the metadata, which is then sorted too.
pub(super) fn object_text(object: &Value, patched: bool) -> String {
    let Some(fields) = object.as_object() else { return go::json(object) };
    let print = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" && !patched => member(name, &metadata_text(metadata)),
        other => member(name, &go::json(other)),
    };
    format!("{{{}}}", fields.iter().map(print).collect::<Vec<_>>().join(","))
}

fn metadata_text(metadata: &Map<String, Value>) -> String {
    ordered(metadata, METADATA, |name, value| match value.as_array() {
        Some(entries) if name == "managedFields" => {
            let print = |entry: &Value| match entry.as_object() {
                Some(entry) => ordered(entry, MANAGED_FIELDS, |_, value| go::json(value)),
                None => go::json(entry),
            };
            format!("[{}]", entries.iter().map(print).collect::<Vec<_>>().join(","))
        }
        _ => go::json(value),
    })
}

fn ordered(fields: &Map<String, Value>, order: &[&str], print: impl Fn(&str, &Value) -> String) -> String {
    let known = order.iter().filter_map(|name| Some(member(name, &print(name, fields.get(*name)?))));
    format!("{{{}}}", known.collect::<Vec<_>>().join(","))
}

fn member(name: &str, text: &str) -> String {
    format!("{}:{text}", go::json(&Value::from(name)))
}

#[test]
fn metadata_keeps_its_order_unless_it_was_patched() {
    let object = serde_json::json!({"kind": "A", "data": [1], "metadata": {"labels": {"b": "<"}, "name": "a",
        "managedFields": [{"apiVersion": "v1", "manager": "m"}]}});
    assert_eq!(
        object_text(&object, false),
        r#"{"data":[1],"kind":"A","metadata":{"name":"a","labels":{"b":"\u003c"},"managedFields":[{"manager":"m","apiVersion":"v1"}]}}"#
    );
    assert!(object_text(&object, true).ends_with(r#""manager":"m"}],"name":"a"}}"#));
}
