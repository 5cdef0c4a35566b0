//! Strategic merge: merge keys, directives, order.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// Part of a pod: containers by name, finalizers as a set, a deployment-like strategy with retained keys.
fn schema() -> Schema {
    let source = json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "finalizers": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "string"}}}},
        "spec": {"type": "object", "properties": {
            "containers": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name", "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "image": {"type": "string"},
                "args": {"type": "array", "items": {"type": "string"}},
                "ports": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "containerPort", "items": {"type": "object", "properties": {"containerPort": {"type": "integer"}, "name": {"type": "string"}}}}}}},
            "selector": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
            "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {"type": {"type": "string"}, "rollingUpdate": {"type": "object"}}}}},
    }});
    node(&source)
}

/// Built-in kinds are not structural CRDs, so the tree is made without the CRD checks.
fn node(source: &Value) -> Schema {
    let strategies = source["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
    Schema {
        properties: source["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), crate::schema::Node::new(node(value))))
            .collect(),
        items: source.get("items").map(|items| crate::schema::Node::new(node(items))),
        patch: crate::schema::PatchStrategy {
            replace: strategies == "replace",
            merge: strategies == "merge",
            retain_keys: strategies == "retainKeys",
            merge_key: source["x-kubernetes-patch-merge-key"].as_str().map(str::to_owned),
        },
        ..Schema::default()
    }
}

#[allow(clippy::needless_pass_by_value)] // json! literals at every call
fn check(original: Value, patch: Value, expected: Expect) {
    let text = match strategic_merge_patch(&schema(), &original, &patch) {
        Ok(value) => value.to_string(),
        Err(error) => format!("{} {}", error.code(), error.message),
    };
    expected.assert_eq(&text);
}

fn containers(list: &Value) -> Value {
    json!({"spec": {"containers": list}})
}

#[test]
fn lists_merge_by_key_and_new_items_come_first() {
    check(
        containers(&json!([{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}])),
        containers(&json!([{"name": "b", "image": "2"}, {"name": "c", "image": "3"}])),
        expect![[
            r#"{"spec":{"containers":[{"args":["x"],"image":"1","name":"a"},{"image":"2","name":"b"},{"image":"3","name":"c"}]}}"#
        ]],
    );
    check(
        containers(&json!([{"name": "a", "args": ["x", "y"], "ports": [{"containerPort": 80}]}])),
        containers(
            &json!([{"name": "a", "args": ["z"], "ports": [{"containerPort": 81}, {"containerPort": 80, "name": "web"}]}]),
        ),
        expect![[
            r#"{"spec":{"containers":[{"args":["z"],"name":"a","ports":[{"containerPort":81},{"containerPort":80,"name":"web"}]}]}}"#
        ]],
    );
}

#[test]
fn a_replace_directive_replaces_a_field() {
    check(
        json!({"spec": {"selector": {"matchLabels": {"a": "1"}, "matchExpressions": []}}}),
        json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}}),
        expect![[r#"{"spec":{"selector":{"matchLabels":{"b":"2"}}}}"#]],
    );
}

#[test]
fn objects_merge_and_null_removes() {
    check(
        json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"x": 1}}),
        json!({"metadata": {"labels": {"a": null, "c": "3"}}, "spec": null, "new": {"kept": 1, "dropped": null}}),
        expect![[r#"{"metadata":{"labels":{"b":"2","c":"3"}},"new":{"kept":1}}"#]],
    );
}

#[test]
fn directives_delete_and_replace() {
    let original = containers(&json!([{"name": "a"}, {"name": "b"}]));
    check(
        original.clone(),
        containers(&json!([{"name": "a", "$patch": "delete"}])),
        expect![[r#"{"spec":{"containers":[{"name":"b"}]}}"#]],
    );
    check(
        original.clone(),
        containers(&json!([{"name": "z"}, {"$patch": "replace"}])),
        expect![[r#"{"spec":{"containers":[{"name":"z"}]}}"#]],
    );
    check(original.clone(), json!({"spec": {"$patch": "replace", "x": 1}}), expect![[r#"{"spec":{"x":1}}"#]]);
    check(original.clone(), json!({"spec": {"$patch": "delete"}}), expect![[r#"{"spec":{}}"#]]);
    check(json!({}), json!({"spec": {"$patch": "delete"}}), expect!["{}"]);
    check(
        original.clone(),
        json!({"spec": {"$patch": "swap"}}),
        expect!["500 unknown patch type: swap in map: map[$patch:swap]"],
    );
    check(
        original.clone(),
        containers(&json!([{"$patch": "delete"}])),
        expect!["500 map: map[$patch:delete] does not contain declared merge key: name"],
    );
    check(
        original.clone(),
        containers(&json!([{"name": "a", "$patch": "merge"}])),
        expect!["500 merging lists cannot yet be specified in the patch"],
    );
    check(
        original,
        containers(&json!([{"image": "x"}])),
        expect!["500 map: map[image:x] does not contain declared merge key: name"],
    );
}

#[test]
fn primitive_lists_are_sets() {
    let original = json!({"metadata": {"finalizers": ["a", "b"]}});
    check(
        original.clone(),
        json!({"metadata": {"finalizers": ["b", "c"]}}),
        expect![[r#"{"metadata":{"finalizers":["a","b","c"]}}"#]],
    );
    check(
        original.clone(),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}}),
        expect![[r#"{"metadata":{"finalizers":["b"]}}"#]],
    );
    check(
        original,
        json!({"metadata": {"$deleteFromPrimitiveList/": []}}),
        expect!["400 invalid patch format of primitive list"],
    );
}

#[test]
fn the_patch_can_set_the_order() {
    let original = containers(&json!([{"name": "a"}, {"name": "b"}, {"name": "server"}]));
    check(
        original.clone(),
        json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "2"}]}}),
        expect![[r#"{"spec":{"containers":[{"name":"b"},{"image":"2","name":"a"},{"name":"server"}]}}"#]],
    );
    check(
        original.clone(),
        json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "x"}]}}),
        expect![[r"
            500 The order in patch list:
            [map[name:x]]
             doesn't match $setElementOrder list:
            [map[name:a]]
        "]],
    );
    check(
        json!({"metadata": {"finalizers": ["a", "b"]}}),
        json!({"metadata": {"$setElementOrder/finalizers": ["c", "a"], "finalizers": ["c"]}}),
        expect![[r#"{"metadata":{"finalizers":["c","a","b"]}}"#]],
    );
    check(
        original,
        json!({"spec": {"$setElementOrder/containers": 1}}),
        expect!["500 expected a []interface {}, but received a int64"],
    );
}

#[test]
fn retained_keys_clear_the_others() {
    let original = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    check(
        original.clone(),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        expect![[r#"{"spec":{"strategy":{"type":"Recreate"}}}"#]],
    );
    check(
        original.clone(),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}),
        expect!["400 invalid patch format of retainKeys"],
    );
    check(
        original,
        json!({"spec": {"strategy": {"$retainKeys": "type"}}}),
        expect!["400 invalid patch format of retainKeys"],
    );
}

#[test]
fn only_objects_can_be_merged() {
    assert_eq!(strategic_merge_patch(&schema(), &json!([]), &json!({})).unwrap_err().code(), 400);
    check(
        json!({"metadata": {"finalizers": ["a"]}}),
        json!({"metadata": {"finalizers": [["b"]]}}),
        expect!["500 list element types are not identical: [[a] [[b]]]"],
    );
    check(
        json!({"metadata": {"finalizers": [["a"]]}}),
        json!({"metadata": {"finalizers": [["b"]]}}),
        expect!["422 the server rejected our request due to an error in our request"],
    );
}

#[test]
fn audit_10_merging_lists_takes_n_log_n_steps() {
    let named = |count: usize, image: &str| -> Value {
        (0..count).map(|name| json!({"name": name.to_string(), "image": image})).collect()
    };
    let deleted = |count: usize| -> Value {
        (0..count).map(|name| json!({"$patch": "delete", "name": name.to_string()})).collect()
    };
    let names = |count: usize| -> Value { (0..count).rev().map(|name| json!({"name": name.to_string()})).collect() };
    let finalizers = |from: usize, to: usize| -> Value {
        let all: Value = (from..to).map(|name| name.to_string()).collect();
        json!({"metadata": {"finalizers": all}})
    };
    let merged = |original: Value, patch: Value| {
        strategic_merge_patch(&schema(), &original, &patch).unwrap();
    };
    crate::testing::assert_not_quadratic("changing every item", 250, |count| {
        merged(containers(&named(count, "1")), containers(&named(count, "2")));
    });
    crate::testing::assert_not_quadratic("deleting every item", 250, |count| {
        merged(containers(&named(count, "1")), containers(&deleted(count)));
    });
    crate::testing::assert_not_quadratic("another order", 250, |count| {
        let patch = json!({"spec": {"$setElementOrder/containers": names(count)}});
        merged(containers(&named(count, "1")), patch);
    });
    crate::testing::assert_not_quadratic("a set", 250, |count| {
        merged(finalizers(0, count), finalizers(count, 2 * count));
    });
}
