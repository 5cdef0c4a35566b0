//! Removes `apiVersion` and `kind` from the items of a list, as lists of built-in kinds have them. Works on the stored
//! bytes without parsing.

use bytes::{BufMut, BytesMut};
use memchr::memchr2;

/// Appends the object without `apiVersion` and `kind`; bytes that are no compact JSON object are appended as they are.
pub(super) fn put_without_type(out: &mut BytesMut, object: &[u8]) {
    let start = out.len();
    if put_stripped(out, object).is_none() {
        out.truncate(start);
        out.put_slice(object);
    }
}

fn put_stripped(out: &mut BytesMut, object: &[u8]) -> Option<()> {
    let start = out.len();
    let put_member = |out: &mut BytesMut, member: &[u8]| {
        if out.len() > start + 1 {
            out.put_u8(b',');
        }
        out.put_slice(member);
    };
    out.put_u8(b'{');
    let mut at = 1;
    let mut left = 2;
    while left > 0 && object.get(at) == Some(&b'"') {
        let colon = string_end(object, at)?;
        let end = value_end(object, colon + 1)?;
        if matches!(&object[at..colon], b"\"apiVersion\"" | b"\"kind\"") {
            left -= 1;
        } else {
            put_member(out, &object[at..end]);
        }
        at = if object.get(end)? == &b',' { end + 1 } else { end };
    }
    // The rest of the bytes need not be scanned.
    match object.get(at)? {
        b'}' => out.put_u8(b'}'),
        _ => put_member(out, &object[at..]),
    }
    Some(())
}

/// The position behind the string that starts at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut position = at + 1;
    loop {
        position += memchr2(b'"', b'\\', bytes.get(position..)?)?;
        match bytes[position] {
            b'"' => return Some(position + 1),
            _ => position += 2,
        }
    }
}

/// The position behind the value that starts at `at`.
fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut position = at;
    loop {
        match bytes.get(position)? {
            b'"' => position = string_end(bytes, position)?,
            b'{' | b'[' => {
                depth += 1;
                position += 1;
            }
            b'}' | b']' | b',' if depth == 0 => return Some(position),
            b'}' | b']' => {
                depth -= 1;
                position += 1;
            }
            _ => position += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn without_type(object: &[u8]) -> Bytes {
        let mut out = BytesMut::from(&b"before"[..]);
        put_without_type(&mut out, object);
        out.freeze().slice(b"before".len()..)
    }

    fn stripped(object: &Value) -> Value {
        serde_json::from_slice(&without_type(object.to_string().as_bytes())).expect("JSON")
    }

    #[test]
    fn both_fields_are_removed_at_every_depth() {
        for (object, expected) in [
            (json!({"apiVersion": "v1", "kind": "A"}), json!({})),
            (
                json!({"action": 1, "apiVersion": "v1", "data": {"kind": "}\""}, "kind": "A"}),
                json!({"action": 1, "data": {"kind": "}\""}}),
            ),
            (json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}}), json!({"metadata": {"name": "x"}})),
            (json!({"metadata": {}}), json!({"metadata": {}})),
            (json!({}), json!({})),
        ] {
            assert_eq!(stripped(&object), expected);
        }
    }

    #[test]
    fn other_values_are_unchanged() {
        for text in ["", "[", "{\"a\":", "{\"kind\""] {
            assert_eq!(without_type(text.as_bytes()), text);
        }
    }

    proptest! {
        #[test]
        fn other_fields_are_unchanged(
            texts in proptest::collection::btree_map("[a-z\"\\\\{}\\[\\],:]{0,6}|kind|apiVersion", ".{0,8}", 0..6),
            numbers in proptest::collection::btree_map("[a-z]{0,6}|kind", proptest::collection::vec(any::<i16>(), 0..3), 0..4),
        ) {
            let mut object = json!(texts);
            for (key, list) in numbers {
                object[key] = json!({"kind": list});
            }
            let mut expected = object.clone();
            for key in ["apiVersion", "kind"] {
                expected.as_object_mut().expect("object").remove(key);
            }
            prop_assert_eq!(stripped(&object), expected);
        }
    }
}
