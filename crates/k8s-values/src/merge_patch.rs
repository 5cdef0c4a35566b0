//! JSON merge patches (RFC 7386) as kube-apiserver applies them: `null` also removes fields of objects in a list that is set.

use serde_json::{Map, Value};

/// Merges a patch into a document: objects field by field, null removes, anything else replaces.
pub fn apply(document: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *document = patch.clone();
        drop_nulls(document);
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(fields) = document else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            apply(fields.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
}

/// The document with the patch merged into it.
#[must_use]
pub fn applied(document: &Value, patch: &Value) -> Value {
    let mut patched = document.clone();
    apply(&mut patched, patch);
    patched
}

/// Items that are null themselves keep their place.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The patch that turns `old` into `new`; `None` if they are equal. A `null` field equals a missing one, because a merge
/// patch cannot express the difference.
pub fn diff(old: &Value, new: &Value) -> Option<Value> {
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
                if let Some(change) = diff(was, is) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::tests::values;

    /// The examples of the RFC.
    #[test]
    fn objects_merge_nulls_remove_and_other_values_replace() {
        for (document, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({"a": "b"}), json!(["c", null]), json!(["c", null])),
            (json!({"a": []}), json!({"a": [{"b": null, "c": 1}, null]}), json!({"a": [{"c": 1}, null]})),
        ] {
            assert_eq!(applied(&document, &patch), expected, "{document} {patch}");
        }
    }

    #[test]
    fn a_difference_contains_only_what_changed() {
        for (old, new, patch) in [
            (json!({"a": 1, "b": {"c": 2}}), json!({"a": 1, "b": {"c": 2}}), None),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), Some(json!({"b": null}))),
            (json!({"a": 1}), json!({"a": null}), Some(json!({"a": null}))),
            (json!({"a": {"b": 1}}), json!({"a": {}}), Some(json!({"a": {"b": null}}))),
            (json!({}), json!({"a": {}}), Some(json!({"a": {}}))),
            (json!({"l": ["a", "b"]}), json!({"l": ["b", "a"]}), Some(json!({"l": ["b", "a"]}))),
        ] {
            assert_eq!(diff(&old, &new), patch, "{old} {new}");
        }
    }

    #[test]
    fn a_null_field_of_an_object_in_a_list_equals_a_missing_one() {
        let patch = json!({"list": [{"a": null, "b": [{"c": null}], "d": 1}, null]});
        let target = applied(&json!({}), &patch);
        assert_eq!(target, json!({"list": [{"b": [{}], "d": 1}, null]}));
        assert_eq!(diff(&target, &patch), None, "there would be something to send for ever");
        assert_eq!(
            diff(&json!({"list": [{"a": 1}]}), &json!({"list": [{"a": null}]})),
            Some(json!({"list": [{"a": null}]}))
        );
    }

    proptest! {
        #[test]
        fn a_difference_leads_from_the_old_to_the_new(old in values(), new in values()) {
            let patched = diff(&old, &new).map_or_else(|| old.clone(), |patch| applied(&old, &patch));
            prop_assert_eq!(&patched, &new);
            prop_assert_eq!(diff(&new, &new), None);
        }
    }
}
