//! The fields in which two JSON objects differ, named as `Ownership` names them: `spec.state`, `metadata.labels[team]`,
//! `status.conditions[Applied]`, `metadata.finalizers[x]`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

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
    use k8s_values::merge_patch;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(old: Value, new: Value, expected: Expect) {
        let patch = merge_patch::diff(&old, &new).map_or_else(|| "nothing".to_owned(), |patch| patch.to_string());
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
        fn only_equal_objects_have_no_changed_fields(old in values(), new in values()) {
            if old.is_object() && new.is_object() {
                prop_assert_eq!(changed_fields(&old, &new).is_empty(), old == new);
            }
        }
    }
}
