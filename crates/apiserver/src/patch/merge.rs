//! JSON merge patch (RFC 7386), as kube-apiserver does it: nulls also vanish from objects inside a list that is set.

use serde_json::{Map, Value};

/// The document with the patch merged into it: objects field by field, null removes, anything else replaces.
pub fn merge_patch(document: &Value, patch: &Value) -> Value {
    let mut out = document.clone();
    merge(&mut out, patch);
    out
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        drop_nulls(target);
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
            merge(fields.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples of the RFC.
    #[test]
    fn objects_merge_nulls_remove_and_the_rest_replaces() {
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
            assert_eq!(merge_patch(&document, &patch), expected, "{document} {patch}");
        }
    }
}
