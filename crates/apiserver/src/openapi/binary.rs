//! The definitions of the OpenAPI v2 document as protocol buffers, which is the only form that kubectl requests when it
//! validates a `List` on the client.
//!
//! Field numbers are those of the public OpenAPI v2 message. Operations are omitted, because clients of this form do not
//! use them.

use serde_json::{Map, Value};

/// What clients call this form in `Accept`.
pub(crate) const ACCEPTED: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
/// What the answer calls it: `@` may not stand in a media type.
pub(crate) const CONTENT_TYPE: &str = ACCEPTED[1];

/// Lengths and numbers are cut into groups of so many bits.
const VARINT_BITS: u32 = 7;
/// Wire types: a number, and a text or message that is preceded by its length.
const NUMBER: u64 = 0;
const DELIMITED: u64 = 2;

/// The whole document.
pub(crate) fn document(json: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &json["swagger"]);
    let mut info = Message::default();
    info.text(1, &json["info"]["title"]);
    info.text(2, &json["info"]["version"]);
    out.message(2, &info);
    out.message(9, &named_schemas(&json["definitions"]));
    out.0
}

/// `Definitions` and `Properties` are alike: a list of names with schemas.
fn named_schemas(schemas: &Value) -> Message {
    let mut out = Message::default();
    for (name, value) in schemas.as_object().into_iter().flatten() {
        let mut named = Message::default();
        named.bytes(1, name.as_bytes());
        named.message(2, &schema(value));
        out.message(1, &named);
    }
    out
}

fn schema(json: &Value) -> Message {
    let mut out = Message::default();
    for (number, key) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        out.text(number, &json[key]);
    }
    out.any(5, json.get("default"));
    for (number, key) in [(11, "maxLength"), (12, "minLength"), (14, "maxItems"), (15, "minItems")] {
        if let Some(limit) = json[key].as_u64() {
            out.number(number, limit);
        }
    }
    for name in json["required"].as_array().into_iter().flatten() {
        out.text(19, name);
    }
    for value in json["enum"].as_array().into_iter().flatten() {
        out.any(20, Some(value));
    }
    match json.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut item = Message::default();
            item.number(2, u64::from(*allowed));
            out.message(21, &item);
        }
        Some(values) => out.message(21, &Message::wrapping(&schema(values))),
        None => {}
    }
    if json["type"].is_string() {
        let mut kind = Message::default();
        kind.text(1, &json["type"]);
        out.message(22, &kind);
    }
    if let Some(items) = json.get("items") {
        out.message(23, &Message::wrapping(&schema(items)));
    }
    for part in json["allOf"].as_array().into_iter().flatten() {
        out.message(24, &schema(part));
    }
    if json["properties"].is_object() {
        out.message(25, &named_schemas(&json["properties"]));
    }
    extensions(&mut out, json.as_object());
    out
}

fn extensions(out: &mut Message, schema: Option<&Map<String, Value>>) {
    for (name, value) in schema.into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
        let mut named = Message::default();
        named.bytes(1, name.as_bytes());
        named.any(2, Some(value));
        out.message(31, &named);
    }
}

/// A message while it is written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn wrapping(inner: &Message) -> Self {
        let mut out = Self::default();
        out.message(1, inner);
        out
    }

    fn varint(&mut self, mut value: u64) {
        while value >> VARINT_BITS > 0 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= VARINT_BITS;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | NUMBER);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, inner: &Message) {
        self.bytes(field, &inner.0);
    }

    /// Anything but a text is left out.
    fn text(&mut self, field: u64, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// A value of any kind travels as YAML, of which JSON is a part.
    fn any(&mut self, field: u64, value: Option<&Value>) {
        if let Some(value) = value {
            let mut any = Self::default();
            any.bytes(2, value.to_string().as_bytes());
            self.message(field, &any);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Fields of a message in their order, numbers as they are, the rest as bytes.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let key = take_varint(&mut bytes);
            let value = take_varint(&mut bytes);
            if key & 7 == DELIMITED {
                let (content, rest) = bytes.split_at(usize::try_from(value).unwrap());
                out.push((key >> 3, content.to_vec()));
                bytes = rest;
            } else {
                out.push((key >> 3, vec![u8::try_from(value).unwrap()]));
            }
        }
        out
    }

    fn take_varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn field(bytes: &[u8], number: u64) -> Vec<u8> {
        fields(bytes).into_iter().find(|(found, _)| *found == number).unwrap().1
    }

    #[test]
    fn a_schema_keeps_type_references_requirements_and_extensions() {
        let long = "x".repeat(300);
        let out = schema(&json!({
            "type": "object", "description": long, "required": ["a"], "minItems": 3,
            "properties": {"a": {"$ref": "#/definitions/A"}, "b": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": false, "x-kind": [{"kind": "K"}],
        }));
        assert_eq!(field(&out.0, 4), long.as_bytes());
        assert_eq!(field(&out.0, 15), [3]);
        assert_eq!(field(&out.0, 19), b"a");
        assert_eq!(field(&field(&out.0, 21), 2), [0]);
        assert_eq!(field(&field(&out.0, 22), 1), b"object");
        let properties = fields(&field(&out.0, 25));
        assert_eq!(field(&properties[0].1, 1), b"a");
        assert_eq!(field(&field(&properties[0].1, 2), 1), b"#/definitions/A");
        let items = field(&field(&field(&properties[1].1, 2), 23), 1);
        assert_eq!(field(&field(&items, 22), 1), b"string");
        let extension = field(&out.0, 31);
        assert_eq!(field(&extension, 1), b"x-kind");
        assert_eq!(field(&field(&extension, 2), 2), br#"[{"kind":"K"}]"#);
    }

    #[test]
    fn a_document_has_its_definitions() {
        let out =
            document(&json!({"swagger": "2.0", "info": {"title": "t"}, "definitions": {"A": {"type": "string"}}}));
        assert_eq!(field(&out, 1), b"2.0");
        assert_eq!(field(&field(&field(&out, 9), 1), 1), b"A");
    }
}
