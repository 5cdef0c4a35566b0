//! The last-applied annotation, from which a three-way merge knows which fields to delete.
//!
//! Never causes a deletion by itself: a missing or unreadable annotation counts as empty.

use fleet_api::well_known::{annotations, limits};
use k8s_values::go;
use serde_json::{Map, Value};

/// Whether the annotation fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastApplied {
    Stored,
    /// The annotations would exceed the limit of the API server, so the annotation is empty and the object needs
    /// server-side apply.
    TooLarge,
}

/// Sets the annotation to the current content of the object; hash and owner must be set before.
pub fn store(desired: &mut Value) -> LastApplied {
    if let Some(Value::Object(texts)) = desired.pointer_mut("/metadata/annotations") {
        texts.remove(annotations::LAST_APPLIED);
    }
    let mut text = go::json_bytes(desired);
    text.push(b'\n');
    let fits = annotations_bytes(desired) + annotations::LAST_APPLIED.len() + text.len() <= limits::ANNOTATIONS_BYTES;
    let text = if fits { String::from_utf8(text).unwrap_or_default() } else { String::new() };
    super::sanitize::annotate(desired, annotations::LAST_APPLIED, text);
    if fits { LastApplied::Stored } else { LastApplied::TooLarge }
}

/// The document from which the live object was last applied; empty if unknown.
pub fn of_live(live: &Value) -> Value {
    let text = live.pointer("/metadata/annotations").and_then(|texts| texts.get(annotations::LAST_APPLIED));
    let text = text.and_then(Value::as_str).unwrap_or_default();
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        _ => Value::Object(Map::new()),
    }
}

/// The size of all annotations as the API server counts it: keys and values.
fn annotations_bytes(object: &Value) -> usize {
    let texts = object.pointer("/metadata/annotations").and_then(Value::as_object);
    texts.into_iter().flatten().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored_text(object: &Value) -> &str {
        object["metadata"]["annotations"][annotations::LAST_APPLIED].as_str().unwrap()
    }

    #[test]
    fn the_annotation_is_compact_sorted_json_with_a_final_newline() {
        let mut desired = json!({
            "kind": "ConfigMap", "apiVersion": "v1", "data": {"b": "<1>", "a": 2},
            "metadata": {"annotations": {"kubernetes-fleet.io/spec-hash": "h", "kubernetes-fleet.io/last-applied-configuration": "old"}},
        });
        assert_eq!(store(&mut desired), LastApplied::Stored);
        assert_eq!(
            stored_text(&desired),
            "{\"apiVersion\":\"v1\",\"data\":{\"a\":2,\"b\":\"\\u003c1\\u003e\"},\"kind\":\"ConfigMap\",\
             \"metadata\":{\"annotations\":{\"kubernetes-fleet.io/spec-hash\":\"h\"}}}\n"
        );
        let mut without = desired.clone();
        without["metadata"]["annotations"].as_object_mut().unwrap().remove(annotations::LAST_APPLIED);
        assert_eq!(of_live(&desired), without);
    }

    /// An object whose annotations, including the new one, have `bytes` bytes.
    fn object_with_annotations_of(bytes: usize) -> Value {
        let sized = |padding: usize| json!({"data": "x".repeat(padding), "metadata": {"annotations": {"k": "v"}}});
        let mut unpadded = sized(0);
        store(&mut unpadded);
        sized(bytes - annotations_bytes(&unpadded))
    }

    #[test]
    fn applier_s19_annotations_may_fill_the_limit_to_the_byte() {
        let mut fits = object_with_annotations_of(limits::ANNOTATIONS_BYTES);
        assert_eq!(store(&mut fits), LastApplied::Stored);
        assert_eq!(annotations_bytes(&fits), limits::ANNOTATIONS_BYTES);
        let mut too_large = object_with_annotations_of(limits::ANNOTATIONS_BYTES + 1);
        assert_eq!(store(&mut too_large), LastApplied::TooLarge);
        assert_eq!(stored_text(&too_large), "");
    }

    #[test]
    fn applier_s17_a_text_that_is_missing_empty_or_broken_deletes_nothing() {
        let live = |text: Value| json!({"metadata": {"annotations": {"kubernetes-fleet.io/last-applied-configuration": text}}});
        for unreadable in
            [json!({}), json!(null), live(json!("")), live(json!("{")), live(json!("[1]")), live(json!(7))]
        {
            assert_eq!(of_live(&unreadable), json!({}));
        }
        let nested = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(of_live(&live(json!(nested))), json!({}));
    }
}
