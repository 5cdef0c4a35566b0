//! Operations, their limits and their errors, under both sets of rules; and that a difference leads from the old to the new.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::tests::values;

fn check(document: Value, operations: Value, expected: Expect) {
    let text = match apply(&document, operations.as_array().unwrap(), Rules::KubeApiserver) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&text);
}

/// One operation under strict rules. An error leaves the document as it was.
fn strictly(operation: &str, path: &str, expected: Expect) {
    let before = json!({"a": {"b/c": 1, "d~e": 2}, "list": [1, 2, 3], "text": "t"});
    let mut document = before.clone();
    let operation = json!({"op": operation, "path": path, "from": path, "value": "new"});
    match Patcher::new(&mut document, Rules::Strict).apply(Operation::of_value(&operation).unwrap()) {
        Ok(()) => expected.assert_eq(&document.to_string()),
        Err(error) => {
            assert_eq!(document, before);
            expected.assert_eq(&error.to_string());
        }
    }
}

#[test]
fn operations_follow_rfc_6902() {
    let list = json!({"l": [1, 2], "m": {"a/b": 1, "~": 2}});
    check(
        list.clone(),
        json!([{"op": "add", "path": "/l/1", "value": 9}]),
        expect![[r#"{"l":[1,9,2],"m":{"a/b":1,"~":2}}"#]],
    );
    check(
        list.clone(),
        json!([{"op": "add", "path": "/l/-", "value": 9}, {"op": "remove", "path": "/m"}]),
        expect![[r#"{"l":[1,2,9]}"#]],
    );
    check(
        list.clone(),
        json!([{"op": "replace", "path": "/m/a~1b", "value": null}, {"op": "remove", "path": "/m/~0"}]),
        expect![[r#"{"l":[1,2],"m":{"a/b":null}}"#]],
    );
    check(
        list.clone(),
        json!([{"op": "move", "from": "/l/0", "path": "/m/x"}]),
        expect![[r#"{"l":[2],"m":{"a/b":1,"x":1,"~":2}}"#]],
    );
    check(
        list.clone(),
        json!([{"op": "copy", "from": "/m", "path": "/l/0"}]),
        expect![[r#"{"l":[{"a/b":1,"~":2},1,2],"m":{"a/b":1,"~":2}}"#]],
    );
    check(
        list,
        json!([{"op": "test", "path": "/l", "value": [1, 2]}, {"op": "replace", "path": "", "value": {}}]),
        expect!["{}"],
    );
}

#[test]
fn kube_apiserver_is_lenient_with_absent_keys() {
    check(json!({"l": [1, 2]}), json!([{"op": "remove", "path": "/l/-1"}]), expect![[r#"{"l":[1]}"#]]);
    check(json!({}), json!([{"op": "replace", "path": "/new", "value": 1}]), expect![[r#"{"new":1}"#]]);
    check(json!({}), json!([{"op": "copy", "from": "/none", "path": "/x"}]), expect![[r#"{"x":null}"#]]);
    check(json!({}), json!([{"op": "test", "path": "/none", "value": null}]), expect!["{}"]);
    check(json!({"a": 1}), json!([{"op": "replace", "path": "", "value": 1}]), expect![[r#"{"a":1}"#]]);
}

#[test]
fn strict_rules_need_a_value_at_the_path() {
    strictly(
        "replace",
        "/a/x",
        expect![[r#"replace operation does not apply: doc is missing key: "/a/x": missing value"#]],
    );
    strictly("copy", "/a/x", expect![[r#"copy operation does not apply: doc is missing key: "/a/x": missing value"#]]);
    strictly("test", "/a/x", expect![[r#"test operation does not apply: doc is missing key: "/a/x": missing value"#]]);
    strictly("replace", "", expect![[r#"replace operation does not apply: doc is missing path: "": missing value"#]]);
}

#[test]
fn add_sets_keys_and_inserts_items() {
    strictly("add", "/a/f", expect![[r#"{"a":{"b/c":1,"d~e":2,"f":"new"},"list":[1,2,3],"text":"t"}"#]]);
    strictly("add", "/a/b~1c", expect![[r#"{"a":{"b/c":"new","d~e":2},"list":[1,2,3],"text":"t"}"#]]);
    strictly("add", "/a/d~0e", expect![[r#"{"a":{"b/c":1,"d~e":"new"},"list":[1,2,3],"text":"t"}"#]]);
    strictly("add", "/list/0", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":["new",1,2,3],"text":"t"}"#]]);
    strictly("add", "/list/3", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,2,3,"new"],"text":"t"}"#]]);
    strictly("add", "/list/-", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,2,3,"new"],"text":"t"}"#]]);
    strictly("add", "/list/-1", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,2,3,"new"],"text":"t"}"#]]);
    strictly("add", "/list/-4", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":["new",1,2,3],"text":"t"}"#]]);
}

#[test]
fn add_creates_no_parents() {
    strictly("add", "/x/y", expect![[r#"add operation does not apply: doc is missing path: "/x/y": missing value"#]]);
    strictly(
        "add",
        "/text/y",
        expect![[r#"add operation does not apply: doc is missing path: "/text/y": missing value"#]],
    );
    strictly("add", "", expect![[r#"add operation does not apply: doc is missing path: "": missing value"#]]);
    strictly(
        "add",
        "/list/4",
        expect!["error in add for path: '/list/4': Unable to access invalid index: 4: invalid index referenced"],
    );
    strictly(
        "add",
        "/list/-5",
        expect!["error in add for path: '/list/-5': Unable to access invalid index: -5: invalid index referenced"],
    );
    strictly(
        "add",
        "/list/x",
        expect!["error in add for path: '/list/x': Unable to access invalid index: x: invalid index referenced"],
    );
}

#[test]
fn replace_needs_an_existing_value() {
    strictly("replace", "/text", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,2,3],"text":"new"}"#]]);
    strictly("replace", "/list/-1", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,2,"new"],"text":"t"}"#]]);
    strictly(
        "replace",
        "/x/y",
        expect![[r#"replace operation does not apply: doc is missing path: "/x/y": missing value"#]],
    );
    strictly(
        "replace",
        "/list/3",
        expect!["error in replace for path: '/list/3': Unable to access invalid index: 3: invalid index referenced"],
    );
    strictly(
        "replace",
        "/list/-",
        expect!["error in replace for path: '/list/-': Unable to access invalid index: -: invalid index referenced"],
    );
}

#[test]
fn remove_needs_an_existing_value() {
    strictly("remove", "/a", expect![[r#"{"list":[1,2,3],"text":"t"}"#]]);
    strictly("remove", "/list/-2", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,3],"text":"t"}"#]]);
    strictly(
        "remove",
        "/a/x",
        expect!["error in remove for path: '/a/x': Unable to remove nonexistent key: x: missing value"],
    );
    strictly(
        "remove",
        "/x/y",
        expect![[r#"remove operation does not apply: doc is missing path: "/x/y": missing value"#]],
    );
}

#[test]
fn failures_say_why() {
    let document = json!({"a": 1, "l": []});
    for (operation, expected) in [
        (json!({"op": "test", "path": "/a", "value": 2}), expect!["testing value /a failed: test failed"]),
        (
            json!({"op": "add", "path": "/x/y", "value": 2}),
            expect![[r#"add operation does not apply: doc is missing path: "/x/y": missing value"#]],
        ),
        (
            json!({"op": "add", "path": "", "value": 2}),
            expect![[r#"add operation does not apply: doc is missing path: "": missing value"#]],
        ),
        (
            json!({"op": "remove", "path": "/x"}),
            expect!["error in remove for path: '/x': Unable to remove nonexistent key: x: missing value"],
        ),
        (
            json!({"op": "remove", "path": "/l/0"}),
            expect!["error in remove for path: '/l/0': Unable to access invalid index: 0: invalid index referenced"],
        ),
        (
            json!({"op": "replace", "path": "/l/x", "value": 1}),
            expect!["error in replace for path: '/l/x': Unable to access invalid index: x: invalid index referenced"],
        ),
        (
            json!({"op": "add", "path": "/l/2", "value": 1}),
            expect!["error in add for path: '/l/2': Unable to access invalid index: 2: invalid index referenced"],
        ),
        (
            json!({"op": "move", "from": "/x", "path": "/y"}),
            expect!["error in move for path: '/x': Unable to remove nonexistent key: x: missing value"],
        ),
        (json!({"op": "swap", "path": "/x"}), expect!["Unexpected kind: swap"]),
        (json!({"op": "add"}), expect!["add operation failed to decode path: missing value"]),
    ] {
        check(document.clone(), json!([operation]), expected);
    }
}

#[test]
fn audit_10_a_patch_that_moves_too_many_values_is_refused() {
    let list = |length: usize| json!({"l": vec![0; length], "m": {}});
    let many = |operation: &Value, count: usize| vec![operation.clone(); count];
    let insert = json!({"op": "add", "path": "/l/0", "value": 1});
    let away =
        [json!({"op": "move", "from": "/l", "path": "/m/l"}), json!({"op": "move", "from": "/m/l", "path": "/l"})];
    let back_and_forth: Vec<Value> = away.iter().cycle().take(10_000).cloned().collect();
    for operations in [many(&insert, 10_000), many(&json!({"op": "remove", "path": "/l/0"}), 10_000), back_and_forth] {
        assert_eq!(apply(&list(100_000), &operations, Rules::KubeApiserver), Err(PatchError::TooManySteps));
    }
    // Real patches are far from the limit.
    assert!(apply(&list(1000), &many(&insert, 1000), Rules::KubeApiserver).is_ok());
}

#[test]
fn a_patch_cannot_inflate_the_document() {
    let doubling = vec![json!({"op": "copy", "from": "/a", "path": "/a/0"}); 100];
    let failed = apply(&json!({"a": ["x".repeat(1000)]}), &doubling, Rules::KubeApiserver).unwrap_err();
    assert!(matches!(failed, PatchError::CopiesTooMuch { .. }), "{failed}");
    let nesting = vec![json!({"op": "copy", "from": "/a", "path": "/a/a"}); 200];
    assert!(apply(&json!({"a": {}}), &nesting, Rules::KubeApiserver).is_err());
}

#[test]
fn a_document_does_not_exceed_the_depth_of_parsers() {
    let deep = (0..DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
    let mut document = json!({"a": {}});
    for rules in [Rules::Strict, Rules::KubeApiserver] {
        let add = Operation::Add { path: "/a/b", value: Cow::Borrowed(&deep) };
        let error = Patcher::new(&mut document, rules).apply(add).unwrap_err();
        expect!["error in add for path: '/a/b': more than 127 levels deep"].assert_eq(&error.to_string());
        assert_eq!(document, json!({"a": {}}));
    }
}

#[test]
fn a_difference_is_as_large_as_the_change() {
    let patch = |old: Value, new: Value| Value::from(diff(&old, &new, "/status")).to_string();
    let stages = |word: &str| json!({"stages": [{"name": "a", "done": 1}, {"name": "b", "word": word}], "n": 1});
    assert_eq!(patch(stages("x"), stages("y")), r#"[{"op":"replace","path":"/status/stages/1/word","value":"y"}]"#);
    assert_eq!(
        patch(json!({"a/b": 1}), json!({"c~d": [1]})),
        r#"[{"op":"remove","path":"/status/a~1b"},{"op":"add","path":"/status/c~0d","value":[1]}]"#
    );
    assert_eq!(
        patch(json!([1, 2, 3]), json!([1])),
        r#"[{"op":"remove","path":"/status/2"},{"op":"remove","path":"/status/1"}]"#
    );
    assert_eq!(patch(json!([1]), json!([1, 2])), r#"[{"op":"add","path":"/status/-","value":2}]"#);
}

#[test]
fn a_difference_never_has_more_operations_than_an_api_server_accepts() {
    let many = |word: &str| json!({"list": vec![json!({"word": word}); 10_001], "same": 1});
    let whole = json!([{"op": "replace", "path": "/status", "value": many("b")}]);
    assert_eq!(Value::from(diff(&many("a"), &many("b"), "/status")), whole);
    let fields = json!([{"op": "add", "path": "/list", "value": many("b")["list"]}]);
    assert_eq!(Value::from(diff(&many("a"), &many("b"), "")), fields);
}

proptest! {
    #[test]
    fn a_difference_leads_from_the_old_to_the_new(old in values(), new in values()) {
        // Below a field, because a scalar at the root cannot be replaced.
        let (old, new) = (json!({"of": old}), json!({"of": new}));
        for rules in [Rules::Strict, Rules::KubeApiserver] {
            prop_assert_eq!(&apply(&old, &diff(&old, &new, ""), rules), &Ok(new.clone()));
        }
    }
}
