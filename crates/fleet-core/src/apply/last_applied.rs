//! The text on an object that says what it was last applied from; a three-way merge tells by it what to delete.
//!
//! Decides whether the text fits among the object's annotations. Never deletes anything itself: a text that is missing or
//! cannot be read means that nothing was applied before, hence that nothing is to go.

use fleet_api::go_json;
use fleet_api::well_known::{annotations, limits};
use serde_json::{Map, Value};

/// Whether the text could be put on the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastApplied {
    Stored,
    /// All annotations together would be more than the API server takes, so the annotation is empty and the object has
    /// to be applied on the server's side.
    TooLarge,
}

/// Puts on an object what it is about to be applied from: all that stands in it now, so hash and owner must be there
/// already.
pub fn store(desired: &mut Value) -> LastApplied {
    if let Some(Value::Object(texts)) = desired.pointer_mut("/metadata/annotations") {
        texts.remove(annotations::LAST_APPLIED);
    }
    let mut text = go_json::to_vec(desired);
    text.push(b'\n');
    let fits = annotations_bytes(desired) + annotations::LAST_APPLIED.len() + text.len() <= limits::ANNOTATIONS_BYTES;
    let text = if fits { String::from_utf8(text).unwrap_or_default() } else { String::new() };
    super::sanitize::annotate(desired, annotations::LAST_APPLIED, text);
    if fits { LastApplied::Stored } else { LastApplied::TooLarge }
}

/// What the live object was last applied from, as a document. Empty if that is unknown.
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
    fn the_text_is_compact_sorted_and_ends_with_a_line_end() {
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

    /// An object whose annotations, the new text included, are `bytes` long.
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
