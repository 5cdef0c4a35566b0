//! Encodes objects for storage: JSON with a gap for the resource version.
//!
//! The revision of a write is known only inside the lock of the store, and encoding is slow. So an object is encoded
//! before, without its `metadata.resourceVersion`, and the store copies the digits in. The encoder also measures the
//! nesting depth: the store refuses objects that it could not read back.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

/// An encoded object that lacks only the digits of its resource version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    head_and_tail: Vec<u8>,
    gap: usize,
    depth: usize,
}

/// Levels of objects and lists in each other that a stored object may have, `managedFields` included. The JSON reader goes
/// 127 levels deep, of which a list takes two, a watch event one and an AdmissionReview two.
pub(crate) const MAX_DEPTH: usize = 120;

/// How many levels of objects and lists are in each other.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Most digits that a revision has.
const MAX_DIGITS: usize = 20;

impl Encoded {
    /// An object without `metadata` gets an empty one. A `resourceVersion` that is present is left out.
    pub(crate) fn new(object: &Value) -> Self {
        let mut out = Vec::with_capacity(1024);
        let mut gap = 0;
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        let mut written = false;
        out.push(b'{');
        for (key, value) in fields {
            if key == "metadata" {
                written = true;
                separate(&mut out);
                put(&mut out, "metadata");
                gap = metadata(&mut out, value.as_object().unwrap_or(&empty));
            } else {
                separate(&mut out);
                put(&mut out, key);
                put_value(&mut out, value);
            }
        }
        if !written {
            separate(&mut out);
            put(&mut out, "metadata");
            gap = metadata(&mut out, &empty);
        }
        out.push(b'}');
        // An object has metadata in the end, which is the second level.
        Self { head_and_tail: out, gap, depth: depth(object).max(2) }
    }

    /// The bytes with the revision filled in, and where its digits start.
    pub(crate) fn with_revision(&self, revision: u64) -> (Bytes, u32) {
        fill(&self.head_and_tail[..self.gap], revision, &self.head_and_tail[self.gap..])
    }

    /// Levels of nesting.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn len(&self) -> usize {
        self.head_and_tail.len()
    }
}

/// Stored bytes whose revision digits at `at` are replaced by those of `revision`.
pub(crate) fn with_other_revision(bytes: &Bytes, at: u32, revision: u64) -> (Bytes, u32) {
    let start = (at as usize).min(bytes.len());
    let digits = bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count();
    fill(&bytes[..start], revision, &bytes[start + digits..])
}

fn fill(head: &[u8], revision: u64, tail: &[u8]) -> (Bytes, u32) {
    let mut out = BytesMut::with_capacity(head.len() + MAX_DIGITS + tail.len());
    out.put_slice(head);
    out.put_slice(revision.to_string().as_bytes());
    out.put_slice(tail);
    (out.freeze(), u32::try_from(head.len()).unwrap_or(u32::MAX))
}

/// Writes the metadata with its keys sorted, as the rest of the object is; gives the position of the gap.
fn metadata(out: &mut Vec<u8>, fields: &Map<String, Value>) -> usize {
    const KEY: &str = "resourceVersion";
    let mut gap = None;
    out.push(b'{');
    for (key, value) in fields {
        if key == KEY {
            continue;
        }
        if gap.is_none() && key.as_str() > KEY {
            gap = Some(put_gap(out));
        }
        separate(out);
        put(out, key);
        put_value(out, value);
    }
    let gap = gap.unwrap_or_else(|| put_gap(out));
    out.push(b'}');
    gap
}

fn put_gap(out: &mut Vec<u8>) -> usize {
    separate(out);
    put(out, "resourceVersion");
    out.extend_from_slice(b"\"\"");
    out.len() - 1
}

fn separate(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

fn put(out: &mut Vec<u8>, key: &str) {
    // Writing to a vector cannot fail.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    let _ = serde_json::to_writer(&mut *out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_revision_is_inserted_at_its_sorted_position() {
        let object = json!({"kind": "A", "metadata": {"name": "x", "uid": "u", "resourceVersion": "7"}, "a": {}});
        let (bytes, at) = Encoded::new(&object).with_revision(42);
        assert_eq!(bytes, r#"{"a":{},"kind":"A","metadata":{"name":"x","resourceVersion":"42","uid":"u"}}"#);
        let (bytes, _) = with_other_revision(&bytes, at, 1000);
        assert_eq!(bytes, r#"{"a":{},"kind":"A","metadata":{"name":"x","resourceVersion":"1000","uid":"u"}}"#);
    }

    #[test]
    fn an_object_without_metadata_gets_one() {
        assert_eq!(Encoded::new(&json!({"z": 1})).with_revision(3).0, r#"{"z":1,"metadata":{"resourceVersion":"3"}}"#);
        assert_eq!(Encoded::new(&json!({})).with_revision(3).0, r#"{"metadata":{"resourceVersion":"3"}}"#);
    }

    proptest! {
        #[test]
        fn encoding_is_the_object_with_its_revision(
            keys in proptest::collection::btree_map("[a-z{\"]{0,9}", any::<i32>(), 0..6),
            meta in proptest::collection::btree_map("[a-zA-Z]{1,12}", ".{0,5}", 0..6),
            revision in any::<u64>(),
        ) {
            let mut object = json!(keys);
            object["metadata"] = json!(meta);
            let encoded = Encoded::new(&object);
            let (bytes, at) = encoded.with_revision(revision);
            object["metadata"]["resourceVersion"] = json!(revision.to_string());
            let decoded: Value = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(&decoded, &object);
            let (again, _) = with_other_revision(&bytes, at, 5);
            object["metadata"]["resourceVersion"] = json!("5");
            let decoded: Value = serde_json::from_slice(&again).unwrap();
            prop_assert_eq!(&decoded, &object);
        }
    }
}
