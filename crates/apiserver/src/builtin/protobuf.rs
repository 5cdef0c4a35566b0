//! Request bodies in Kubernetes' protobuf form, which typed Go clients (`kubectl create` among them) send without falling
//! back to JSON.
//!
//! Field numbers come from `protobuf.json`, the shapes of values from the table of schemas. Responses are always JSON,
//! which these clients accept.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value, json};

use super::table::{self, Definition, Shape};
use super::wire;

static TEXT: &str = include_str!("protobuf.json");

/// The four bytes by which Kubernetes marks its protobuf messages.
const PREFIX: &[u8] = b"k8s\0";
const NOT_PROTOBUF: &str = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
/// Messages nested deeper than this are refused; no built-in kind but the JSON schema of a CRD can be this deep.
const MAX_DEPTH: usize = 200;

/// Reads a message as the kind that it names, or as `expected` (apiVersion and kind) if it names none. An object of an
/// unknown kind has nothing but its name: the caller refuses it by that. The error is worded for the client.
pub(crate) fn decode(body: &[u8], expected: (&str, &str)) -> Result<Value, String> {
    let Some(envelope) = body.strip_prefix(PREFIX) else {
        return Err(NOT_PROTOBUF.to_owned());
    };
    let (mut api_version, mut kind) = (expected.0.to_owned(), expected.1.to_owned());
    let mut raw: &[u8] = &[];
    for field in fields(envelope)? {
        match (field.number, field.payload) {
            (1, Payload::Bytes(names)) => {
                for name in fields(names)? {
                    match (name.number, name.payload) {
                        (1, Payload::Bytes(text)) if !text.is_empty() => api_version = utf8(text),
                        (2, Payload::Bytes(text)) if !text.is_empty() => kind = utf8(text),
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let mut object = match definition_of(&api_version, &kind) {
        None => Value::Object(Map::new()),
        Some(definition) => {
            let mut object = Value::Object(message(definition, raw, MAX_DEPTH)?);
            wire::read(definition, &mut object)?;
            object
        }
    };
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    Ok(object)
}

/// Whether Kubernetes knows a type of this name, be it an object, a list or options of a request.
pub(crate) fn is_registered(api_version: &str, kind: &str) -> bool {
    definition_of(api_version, kind).is_some()
}

fn definition_of(api_version: &str, kind: &str) -> Option<&'static Definition> {
    static INDEX: OnceLock<BTreeMap<(String, String), &'static Definition>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        let mut out = BTreeMap::new();
        for definition in table::definitions().values() {
            for named in definition.raw().get("g").and_then(Value::as_array).into_iter().flatten() {
                let text = |key: &str| named[key].as_str().unwrap_or_default();
                let api_version = match text("group") {
                    "" => text("version").to_owned(),
                    group => format!("{group}/{}", text("version")),
                };
                out.entry((api_version, text("kind").to_owned())).or_insert(definition);
            }
        }
        out
    });
    index.get(&(api_version.to_owned(), kind.to_owned())).copied()
}

/// Field numbers of a Go struct: to a JSON name, or to the numbers of a struct that JSON shows inline.
#[derive(Debug)]
enum Numbered {
    Name(String),
    Inline(Numbers),
}

type Numbers = BTreeMap<u64, Numbered>;

fn numbers_of(definition: &Definition) -> Option<&'static Numbers> {
    static NUMBERS: OnceLock<BTreeMap<String, Numbers>> = OnceLock::new();
    let all = NUMBERS.get_or_init(|| {
        let parsed: Map<String, Value> = serde_json::from_str(TEXT).unwrap_or_default();
        parsed.iter().map(|(name, value)| (name.clone(), numbers(value))).collect()
    });
    all.get(definition.name)
}

fn numbers(value: &Value) -> Numbers {
    let fields = value.as_object().into_iter().flatten();
    fields
        .filter_map(|(number, target)| {
            let target = target
                .as_str()
                .map_or_else(|| Numbered::Inline(numbers(target)), |name| Numbered::Name(name.to_owned()));
            Some((number.parse().ok()?, target))
        })
        .collect()
}

fn message(definition: &'static Definition, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    if let Some(numbers) = numbers_of(definition) {
        fill(definition, numbers, bytes, depth, &mut out)?;
    }
    Ok(out)
}

fn fill(
    definition: &'static Definition,
    numbers: &Numbers,
    bytes: &[u8],
    depth: usize,
    out: &mut Map<String, Value>,
) -> Result<(), String> {
    let depth = depth.checked_sub(1).ok_or("proto: message is nested too deeply")?;
    for field in fields(bytes)? {
        match numbers.get(&field.number) {
            None => {}
            Some(Numbered::Inline(inner)) => fill(definition, inner, field.payload.bytes()?, depth, out)?,
            Some(Numbered::Name(name)) => {
                let Some(known) = definition.fields().get(name) else { continue };
                let slot = out.entry(name.clone()).or_insert(Value::Null);
                put(&known.shape, field.payload, depth, slot)?;
            }
        }
    }
    Ok(())
}

/// Puts one occurrence of a field into its place: lists and maps grow, everything else is replaced.
fn put(shape: &Shape, payload: Payload<'_>, depth: usize, slot: &mut Value) -> Result<(), String> {
    match shape {
        Shape::List(item) => {
            let entry = single(item, payload, depth)?;
            match slot {
                Value::Array(list) => list.push(entry),
                other => *other = Value::Array(vec![entry]),
            }
        }
        Shape::Map(item) => {
            let (mut key, mut value) = (String::new(), None);
            for part in fields(payload.bytes()?)? {
                match part.number {
                    1 => key = utf8(part.payload.bytes()?),
                    2 => value = Some(map_value(item, part.payload, depth)?),
                    _ => {}
                }
            }
            let value = match value {
                Some(value) => value,
                None => map_value(item, Payload::Bytes(&[]), depth)?,
            };
            match slot {
                Value::Object(map) => {
                    map.insert(key, value);
                }
                other => *other = json!({ key: value }),
            }
        }
        other => *slot = single(other, payload, depth)?,
    }
    Ok(())
}

/// A list cannot be the value of a map in protobuf: it stands in a message of its own.
fn map_value(shape: &Shape, payload: Payload<'_>, depth: usize) -> Result<Value, String> {
    let Shape::List(item) = shape else { return single(shape, payload, depth) };
    let items = fields(payload.bytes()?)?.into_iter().filter(|field| field.number == 1);
    items.map(|field| single(item, field.payload, depth)).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

fn single(shape: &Shape, payload: Payload<'_>, depth: usize) -> Result<Value, String> {
    Ok(match shape {
        Shape::Text => json!(utf8(payload.bytes()?)),
        Shape::Bytes => json!(STANDARD.encode(payload.bytes()?)),
        Shape::Integer { .. } => json!(payload.integer()?),
        Shape::Bool => json!(payload.integer()? != 0),
        Shape::Number => Number::from_f64(f64::from_bits(payload.number()?)).map_or(Value::Null, Value::Number),
        Shape::Quantity => json!(first_text(payload.bytes()?)?),
        Shape::Time => time(payload.bytes()?, wire::time_text)?,
        Shape::MicroTime => time(payload.bytes()?, wire::micro_time)?,
        Shape::IntOrText => int_or_text(payload.bytes()?)?,
        Shape::Anything => anything(payload.bytes()?)?,
        Shape::Struct(inner) => Value::Object(message(inner, payload.bytes()?, depth)?),
        Shape::SchemaUnion(inner) => schema_union(inner, payload.bytes()?, depth)?,
        Shape::List(_) | Shape::Map(_) => return Err("proto: a list within a list".to_owned()),
    })
}

fn first_text(bytes: &[u8]) -> Result<String, String> {
    let found = fields(bytes)?.into_iter().find(|field| field.number == 1);
    found.map_or(Ok(String::new()), |field| field.payload.bytes().map(utf8))
}

/// Seconds and nanoseconds since 1970; both zero is Go's zero time, which JSON shows as null.
fn time(bytes: &[u8], print: fn(Timestamp) -> String) -> Result<Value, String> {
    let (mut seconds, mut nanos) = (0, 0);
    for field in fields(bytes)? {
        match field.number {
            1 => seconds = field.payload.integer()?,
            2 => nanos = field.payload.integer()?,
            _ => {}
        }
    }
    if (seconds, nanos) == (0, 0) {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).map_err(|_| OVERFLOW)?;
    Timestamp::new(seconds, nanos).map(|time| json!(print(time))).map_err(|why| why.to_string())
}

fn int_or_text(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in fields(bytes)? {
        match field.number {
            1 => is_text = field.payload.integer()? == 1,
            2 => number = field.payload.integer()?,
            3 => text = utf8(field.payload.bytes()?),
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

/// Arbitrary JSON travels as JSON text in the first field.
fn anything(bytes: &[u8]) -> Result<Value, String> {
    let text = first_text(bytes)?;
    if text.is_empty() { Ok(Value::Null) } else { serde_json::from_str(&text).map_err(|why| why.to_string()) }
}

/// One schema, a list of them, or a flag: `items` carries the schema first, `additionalProperties` the flag.
fn schema_union(inner: &'static Definition, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let mut out = Value::Null;
    let mut list = Vec::new();
    for field in fields(bytes)? {
        match (field.number, field.payload) {
            (1, Payload::Integer(flag)) if out.is_null() => out = json!(flag != 0),
            (1, Payload::Bytes(schema)) => out = Value::Object(message(inner, schema, depth)?),
            (2, Payload::Bytes(schema)) => list.push(Value::Object(message(inner, schema, depth)?)),
            _ => {}
        }
    }
    // A flag is followed by at most one schema, which counts if it is there.
    Ok(match (out, list.len()) {
        (out, 0) => out,
        (Value::Bool(_), _) => list.swap_remove(0),
        _ => Value::Array(list),
    })
}

#[derive(Debug, Clone, Copy)]
enum Payload<'a> {
    Integer(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Payload<'a> {
    fn bytes(self) -> Result<&'a [u8], String> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(WRONG_TYPE.to_owned()) }
    }

    fn integer(self) -> Result<i64, String> {
        // Negative numbers are sent as their two's complement in 64 bits.
        if let Self::Integer(number) = self { Ok(number.cast_signed()) } else { Err(WRONG_TYPE.to_owned()) }
    }

    fn number(self) -> Result<u64, String> {
        if let Self::Fixed(bits) = self { Ok(bits) } else { Err(WRONG_TYPE.to_owned()) }
    }
}

const WRONG_TYPE: &str = "proto: wrong wireType";
const TRUNCATED: &str = "unexpected EOF";
const OVERFLOW: &str = "proto: integer overflow";

struct WireField<'a> {
    number: u64,
    payload: Payload<'a>,
}

/// Takes a message apart into its fields, in the order in which they were sent.
fn fields(mut bytes: &[u8]) -> Result<Vec<WireField<'_>>, String> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let payload = match tag & 7 {
            0 => Payload::Integer(varint(&mut bytes)?),
            1 => Payload::Fixed(fixed::<8>(&mut bytes).map(u64::from_le_bytes)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|_| OVERFLOW)?;
                let (head, rest) = bytes.split_at_checked(length).ok_or(TRUNCATED)?;
                bytes = rest;
                Payload::Bytes(head)
            }
            5 => Payload::Fixed(fixed::<4>(&mut bytes).map(u32::from_le_bytes)?.into()),
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        out.push(WireField { number: tag >> 3, payload });
    }
    Ok(out)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut out = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(TRUNCATED)?;
        *bytes = rest;
        out |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(out);
        }
    }
    Err(OVERFLOW.to_owned())
}

fn fixed<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], String> {
    let (head, rest) = bytes.split_first_chunk::<N>().ok_or(TRUNCATED)?;
    *bytes = rest;
    Ok(*head)
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// A field of bytes: a message, a text, or the entry of a map.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn integer(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    fn sent(api_version: &str, kind: &str, message: &[Vec<u8>]) -> Vec<u8> {
        let names = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [PREFIX.to_vec(), bytes(1, &names), bytes(2, &message.concat())].concat()
    }

    #[test]
    fn a_protobuf_object_is_decoded_into_its_json() {
        let metadata = [bytes(1, b"web"), bytes(2, b""), bytes(8, b"")].concat();
        let entry = [bytes(1, b"key"), bytes(2, b"value")].concat();
        let body = sent("v1", "ConfigMap", &[bytes(1, &metadata), bytes(2, &entry)]);
        let object = decode(&body, ("v1", "ConfigMap")).unwrap();
        expect![[r#"{"apiVersion":"v1","data":{"key":"value"},"kind":"ConfigMap","metadata":{"name":"web"}}"#]]
            .assert_eq(&object.to_string());
    }

    #[test]
    fn inline_structs_quantities_and_ports_are_found() {
        let source = bytes(2, &bytes(2, &bytes(2, &bytes(1, b"1024Mi"))));
        let volume = [bytes(1, b"cache"), source].concat();
        let port = bytes(2, &[integer(1, 1), bytes(3, b"http")].concat());
        let probe = bytes(10, &[bytes(1, &bytes(2, &port)), integer(3, 5)].concat());
        let container = [bytes(1, b"c"), probe].concat();
        let spec = [bytes(1, &volume), bytes(2, &container), integer(4, 0)].concat();
        let object = decode(&sent("v1", "Pod", &[bytes(2, &spec)]), ("v1", "Pod")).unwrap();
        expect![[r#"{"containers":[{"livenessProbe":{"httpGet":{"port":"http"},"timeoutSeconds":5},"name":"c"}],"terminationGracePeriodSeconds":0,"volumes":[{"emptyDir":{"sizeLimit":"1Gi"},"name":"cache"}]}"#]]
            .assert_eq(&object["spec"].to_string());
    }

    #[test]
    fn a_message_without_a_name_is_of_the_expected_kind() {
        let body = [PREFIX.to_vec(), bytes(2, &bytes(4, b"Orphan"))].concat();
        let object = decode(&body, ("v1", "DeleteOptions")).unwrap();
        assert_eq!(object, json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"}));
    }

    #[test]
    fn lists_as_values_of_maps_are_their_own_message() {
        let extra = bytes(5, &[bytes(1, b"k"), bytes(2, &[bytes(1, b"a"), bytes(1, b"b")].concat())].concat());
        let body = sent("authorization.k8s.io/v1", "SubjectAccessReview", &[bytes(2, &extra)]);
        let object = decode(&body, ("", "")).unwrap();
        assert_eq!(object["spec"]["extra"], json!({"k": ["a", "b"]}));
    }

    #[test]
    fn malformed_messages_are_refused() {
        let refused = |body: &[u8]| decode(body, ("v1", "ConfigMap")).unwrap_err();
        expect!["provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"]
            .assert_eq(&refused(b"nonsense"));
        expect!["unexpected EOF"].assert_eq(&refused(b"k8s\0\x12\x05a"));
        expect!["proto: wrong wireType"].assert_eq(&refused(&sent("v1", "ConfigMap", &[integer(1, 1)])));
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |levels: usize| {
            let tail = (0..levels).fold(Vec::new(), |inner: Vec<u8>, _| {
                // Number 28 is `not`: a schema within a schema. Lengths take up to three bytes here.
                let length = inner.len();
                let length =
                    [length & 0x7f | 0x80, length >> 7 & 0x7f | 0x80, length >> 14].map(|b| u8::try_from(b).unwrap());
                [&[0xe2, 0x01], length.as_slice(), &inner].concat()
            });
            let schema = table::definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
            message(schema.unwrap(), &tail, MAX_DEPTH)
        };
        assert!(deep(MAX_DEPTH - 2).is_ok());
        assert!(deep(MAX_DEPTH + 2).is_err());
    }

    #[test]
    fn every_field_of_every_message_is_known_to_the_schemas() {
        let known: Map<String, Value> = serde_json::from_str(TEXT).unwrap();
        assert!(known.len() > 400, "{}", known.len());
        for (name, fields) in known {
            let definition = table::definition(&name).unwrap();
            check_names(definition, &fields);
        }
    }

    fn check_names(definition: &'static Definition, fields: &Value) {
        for target in fields.as_object().unwrap().values() {
            match target.as_str() {
                None => check_names(definition, target),
                Some(field) => assert!(definition.fields().contains_key(field), "{} {field}", definition.name),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics(content in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = decode(&[PREFIX, &content].concat(), ("v1", "Pod"));
            let _ = decode(&sent("apps/v1", "Deployment", &[content.into_iter().take(90).collect()]), ("", ""));
        }
    }
}
