//! Documents that only an adversarial or broken server would send, for property tests.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Keys with a meaning for merging, comparing or sanitizing, and plain ones.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["name", "a", "b", "spec", "data", "items", "uid", "containers", "ports", "env"]),
        2 => prop::sample::select(vec![
            "metadata", "annotations", "labels", "status", "template", "finalizers", "ownerReferences", "containerPort",
            "strategy", "volumes", "type", "conditions", "key", "k8s.io/x", "a/b", "a~b", "", "-", "0", "$patch",
            "$retainKeys", "$setElementOrder/ports", "$deleteFromPrimitiveList/finalizers",
        ]),
    ]
    .prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        prop::sample::select(vec![json!(i64::MIN), json!(u64::MAX), json!(0.5), json!(1e300), json!(1.0)]),
        prop::sample::select(vec!["", "a", "b", "delete", "replace", "merge", "\u{2028}<&>", "x y"])
            .prop_map(Value::from),
    ]
}

/// Any document.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(5, 48, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(key(), inner, 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Documents that claim to be objects of kinds with special handling.
pub(crate) fn object() -> impl Strategy<Value = Value> {
    let kinds = vec![
        ("v1", "Secret"),
        ("v1", "ConfigMap"),
        ("v1", "Service"),
        ("v1", "Pod"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "Job"),
        ("example.com/v1", "Widget"),
    ];
    let fields = btree_map(prop::sample::select(vec!["metadata", "spec", "data", "status", "x"]), value(), 0..4);
    (prop::sample::select(kinds), fields).prop_map(|((version, kind), fields)| {
        let mut object: Map<String, Value> = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        object.insert("apiVersion".to_owned(), json!(version));
        object.insert("kind".to_owned(), json!(kind));
        Value::Object(object)
    })
}
