//! The difference of two JSON values: as a merge patch (RFC 7386), as a JSON patch (RFC 6902), and as a list of changed fields.
//!
//! Fields are named as `Ownership` names them: `spec.state`, `metadata.labels[team]`, `status.conditions[Applied]`,
//! `metadata.finalizers[x]`. A `null` field equals a missing one, because a merge patch cannot express the difference.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// The patch that turns `old` into `new`; `None` if they are equal.
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let patch = object_patch(old, new);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (!is_same(old, new)).then(|| new.clone()),
    }
}

/// Equality for a merge patch: API servers drop `null` fields, also of objects in lists.
fn is_same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(was, is)| is_same(was, is))
        }
        (Value::Object(old), Value::Object(new)) => {
            let there = |fields: &Map<String, Value>| fields.values().filter(|value| !value.is_null()).count();
            let is_kept =
                |(name, was): (&String, &Value)| was.is_null() || new.get(name).is_some_and(|is| is_same(was, is));
            there(old) == there(new) && old.iter().all(is_kept)
        }
        _ => old == new,
    }
}

fn object_patch(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, was) in old {
        if !was.is_null() && new.get(name).is_none_or(Value::is_null) {
            patch.insert(name.clone(), Value::Null);
        }
    }
    for (name, is) in new.iter().filter(|(_, is)| !is.is_null()) {
        match old.get(name).filter(|was| !was.is_null()) {
            Some(was) => {
                if let Some(change) = merge_patch(was, is) {
                    patch.insert(name.clone(), change);
                }
            }
            None => {
                patch.insert(name.clone(), is.clone());
            }
        }
    }
    patch
}

/// The operations that turn `old` into `new`, below `path`. Lists are compared by position, so that one changed element of a long
/// list is one operation; a merge patch would contain the whole list.
pub fn json_patch(old: &Value, new: &Value, path: &str) -> Vec<Value> {
    let mut operations = Vec::new();
    collect_operations(old, new, &mut path.to_owned(), &mut operations);
    if operations.len() <= OPERATIONS_MAX { operations } else { whole_values(old, new, path) }
}

/// Most operations of one JSON patch. API servers reject more than 10,000, and the caller adds a few.
const OPERATIONS_MAX: usize = 9_900;

/// As few operations: replaces the whole value at `path`. The root cannot be replaced, so its fields are.
fn whole_values(old: &Value, new: &Value, path: &str) -> Vec<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if path.is_empty() => {
            let at = |name: &str| format!("/{}", pointer_token(name));
            let gone = old.keys().filter(|name| !new.contains_key(*name));
            let changed = new.iter().filter(|(name, is)| old.get(*name) != Some(*is));
            gone.map(|name| json!({"op": "remove", "path": at(name)}))
                .chain(changed.map(|(name, is)| json!({"op": "add", "path": at(name), "value": is})))
                .collect()
        }
        _ => vec![json!({"op": "replace", "path": path, "value": new})],
    }
}

fn collect_operations(old: &Value, new: &Value, path: &mut String, operations: &mut Vec<Value>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(old), Value::Object(new)) => {
            for name in old.keys().filter(|name| !new.contains_key(*name)) {
                operations.push(json!({"op": "remove", "path": format!("{path}/{}", pointer_token(name))}));
            }
            for (name, is) in new {
                let length = path.len();
                path.extend(["/", pointer_token(name).as_str()]);
                match old.get(name) {
                    Some(was) => collect_operations(was, is, path, operations),
                    None => operations.push(json!({"op": "add", "path": path, "value": is})),
                }
                path.truncate(length);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (place, (was, is)) in old.iter().zip(new).enumerate() {
                let length = path.len();
                path.extend(["/", place.to_string().as_str()]);
                collect_operations(was, is, path, operations);
                path.truncate(length);
            }
            for place in (new.len()..old.len()).rev() {
                operations.push(json!({"op": "remove", "path": format!("{path}/{place}")}));
            }
            for is in new.iter().skip(old.len()) {
                operations.push(json!({"op": "add", "path": format!("{path}/-"), "value": is}));
            }
        }
        _ => operations.push(json!({"op": "replace", "path": path, "value": new})),
    }
}

/// Escapes a field name for a JSON pointer.
fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Applies a merge patch as an API server does.
pub fn apply_merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = without_null_fields(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            apply_merge_patch(fields.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
}

/// A value without `null` fields, also of objects in lists.
fn without_null_fields(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(without_null_fields).collect()),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_null_fields(value))).collect())
        }
        other => other.clone(),
    }
}

/// The fields in which two objects differ, in order, as deep as `Ownership` names them.
pub fn changed_fields(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(old, new, &mut String::new(), &mut found);
    found
}

fn collect(old: &Value, new: &Value, path: &mut String, found: &mut Vec<String>) {
    if old == new {
        return;
    }
    let before = found.len();
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => collect_objects(old, new, path, found),
        (Value::Object(old), Value::Null) => collect_objects(old, &Map::new(), path, found),
        (Value::Null, Value::Object(new)) => collect_objects(&Map::new(), new, path, found),
        (Value::Array(old), Value::Array(new)) => collect_elements(old, new, path, found),
        (Value::Array(old), Value::Null) => collect_elements(old, &[], path, found),
        (Value::Null, Value::Array(new)) => collect_elements(&[], new, path, found),
        _ => {}
    }
    if found.len() == before && !path.is_empty() {
        found.push(path.clone());
    }
}

fn collect_objects(old: &Map<String, Value>, new: &Map<String, Value>, path: &mut String, found: &mut Vec<String>) {
    // Keys of labels and annotations contain dots.
    let by_key = matches!(path.as_str(), "metadata.labels" | "metadata.annotations");
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let length = path.len();
        if by_key {
            path.extend(["[", name, "]"]);
        } else {
            path.extend([if length == 0 { "" } else { "." }, name]);
        }
        collect(old.get(name).unwrap_or(&Value::Null), new.get(name).unwrap_or(&Value::Null), path, found);
        path.truncate(length);
    }
}

/// Named elements (conditions by `type`, strings by their value) count as separate fields.
fn collect_elements(old: &[Value], new: &[Value], path: &str, found: &mut Vec<String>) {
    let (Some(old), Some(new)) = (named(old), named(new)) else { return };
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    for name in names {
        if old.get(name) != new.get(name) {
            found.push(format!("{path}[{name}]"));
        }
    }
}

fn named(elements: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let mut out = BTreeMap::new();
    for element in elements {
        let name = match element {
            Value::String(text) => text.as_str(),
            other => other["type"].as_str()?,
        };
        if out.insert(name, element).is_some() {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(old: Value, new: Value, expected: Expect) {
        let patch = merge_patch(&old, &new).map_or_else(|| "nothing".to_owned(), |patch| patch.to_string());
        expected.assert_eq(&format!("{patch} {}", changed_fields(&old, &new).join(" ")));
    }

    #[test]
    fn a_patch_and_its_fields_contain_only_differences() {
        check(json!({"a": 1, "b": {"c": 2}}), json!({"a": 1, "b": {"c": 2}}), expect!["nothing "]);
        check(json!({"a": 1, "b": 2}), json!({"a": 1}), expect![[r#"{"b":null} b"#]]);
        check(json!({"a": 1}), json!({"a": null}), expect![[r#"{"a":null} a"#]]);
        check(json!({}), json!({"spec": {"x": {"y": 1}}}), expect![[r#"{"spec":{"x":{"y":1}}} spec.x.y"#]]);
        check(json!({"a": {"b": 1}}), json!({"a": {}}), expect![[r#"{"a":{"b":null}} a.b"#]]);
        check(json!({}), json!({"a": {}}), expect![[r#"{"a":{}} a"#]]);
        check(
            json!({"metadata": {"labels": {"k.io/a": "1"}}}),
            json!({"metadata": {"labels": {"k.io/a": "2", "b": "3"}}}),
            expect![[r#"{"metadata":{"labels":{"b":"3","k.io/a":"2"}}} metadata.labels[b] metadata.labels[k.io/a]"#]],
        );
    }

    #[test]
    fn named_elements_of_lists_are_separate_fields() {
        check(
            json!({"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B"}]}}),
            json!({"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B"}, {"type": "C"}]}}),
            expect![[
                r#"{"status":{"conditions":[{"status":"False","type":"A"},{"type":"B"},{"type":"C"}]}} status.conditions[A] status.conditions[C]"#
            ]],
        );
        check(
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["b", "c"]}}),
            expect![[r#"{"metadata":{"finalizers":["b","c"]}} metadata.finalizers[a] metadata.finalizers[c]"#]],
        );
        check(json!({"l": ["a", "b"]}), json!({"l": ["b", "a"]}), expect![[r#"{"l":["b","a"]} l"#]]);
        check(json!({"l": [1]}), json!({"l": [2]}), expect![[r#"{"l":[2]} l"#]]);
        check(json!({"l": ["a"]}), json!({}), expect![[r#"{"l":null} l[a]"#]]);
    }

    #[test]
    fn a_json_patch_is_as_large_as_the_change() {
        let patch = |old: Value, new: Value| Value::from(json_patch(&old, &new, "/status")).to_string();
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
    fn a_json_patch_never_has_more_operations_than_an_api_server_accepts() {
        let many = |word: &str| json!({"list": vec![json!({"word": word}); 10_001], "same": 1});
        let whole = json!([{"op": "replace", "path": "/status", "value": many("b")}]);
        assert_eq!(Value::from(json_patch(&many("a"), &many("b"), "/status")), whole);
        let fields = json!([{"op": "add", "path": "/list", "value": many("b")["list"]}]);
        assert_eq!(Value::from(json_patch(&many("a"), &many("b"), "")), fields);
    }

    #[test]
    fn a_null_field_of_an_object_in_a_list_equals_a_missing_one() {
        let patch = json!({"list": [{"a": null, "b": [{"c": null}], "d": 1}, null]});
        let mut target = json!({});
        apply_merge_patch(&mut target, &patch);
        assert_eq!(target, json!({"list": [{"b": [{}], "d": 1}, null]}));
        assert_eq!(merge_patch(&target, &patch), None, "there would be something to send for ever");
        assert_eq!(
            merge_patch(&json!({"list": [{"a": 1}]}), &json!({"list": [{"a": null}]})),
            Some(json!({"list": [{"a": null}]}))
        );
    }

    /// Applies only the operations that `json_patch` returns.
    fn apply_operations(target: &mut Value, operations: &[Value]) {
        for operation in operations {
            let path = operation["path"].as_str().unwrap();
            let value = operation["value"].clone();
            let Some((parent, token)) = path.rsplit_once('/') else {
                *target = value;
                continue;
            };
            let name = token.replace("~1", "/").replace("~0", "~");
            match (target.pointer_mut(parent).unwrap(), operation["op"].as_str().unwrap()) {
                (Value::Object(fields), "remove") => drop(fields.remove(&name)),
                (Value::Object(fields), _) => drop(fields.insert(name, value)),
                (Value::Array(list), "remove") => drop(list.remove(name.parse().unwrap())),
                (Value::Array(list), "add") => list.push(value),
                (Value::Array(list), _) => list[name.parse::<usize>().unwrap()] = value,
                (other, _) => panic!("{other} has no parts"),
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3i64).prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_leads_from_the_old_to_the_new(old in values(), new in values()) {
            let mut patched = old.clone();
            if let Some(patch) = merge_patch(&old, &new) {
                apply_merge_patch(&mut patched, &patch);
            }
            prop_assert_eq!(&patched, &new);
            prop_assert_eq!(merge_patch(&new, &new), None);
            let mut patched = old.clone();
            apply_operations(&mut patched, &json_patch(&old, &new, ""));
            prop_assert_eq!(&patched, &new);
            if old.is_object() && new.is_object() {
                prop_assert_eq!(changed_fields(&old, &new).is_empty(), old == new);
            }
        }
    }
}
