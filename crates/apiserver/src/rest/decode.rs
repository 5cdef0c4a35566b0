//! Decodes a request body into an object of the expected kind, and finds duplicate fields.

use std::fmt::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::DuplicateKeyPolicy;

use super::request::{ContentType, Request};
use super::shape;
use crate::builtin;
use crate::error::{ApiError, Reason};
use crate::field::FieldError;
use crate::go_errors::json_error;
use crate::registry::Served;

/// A body of more bytes than this is refused.
pub(crate) const MAX_BODY_BYTES: usize = 3 << 20;

/// Findings beyond this number are not reported: a body of nothing but repeated keys must not grow in memory.
const MAX_DUPLICATES: usize = 100;

/// A parsed body.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Paths of fields that were given more than once; the last value counts.
    pub(crate) duplicates: Vec<String>,
    /// Warnings about duplicate keys in YAML maps.
    pub(crate) repeated_in_yaml: Vec<String>,
}

/// Parses JSON, keeping count of repeated keys.
pub(crate) fn parse_json(body: &[u8]) -> Result<Decoded, String> {
    let mut path = Vec::new();
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let seed = Seed { path: &mut path, duplicates: &mut duplicates };
    let parsed = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    match parsed {
        Ok(value) => Ok(Decoded { value, duplicates, ..Decoded::default() }),
        Err(error) => Err(json_error(body, &error)),
    }
}

/// Reads a body in the encoding that the request names. The inner error says why it could not be read, without naming
/// what was expected; `expected` is the apiVersion and kind of a protobuf message that names none.
pub(crate) fn body(
    request: &Request,
    custom: bool,
    expected: (&str, &str),
) -> Result<Result<Decoded, String>, ApiError> {
    const CUSTOM: &[&str] = &["application/json", "application/yaml"];
    const BUILT_IN: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
    let json_error = |error| format!("couldn't get version/kind; json parse error: {error}");
    Ok(match &request.content_type {
        ContentType::Json => parse_json(&request.body).map_err(json_error),
        ContentType::Yaml if shape::is_json(&request.body) => parse_json(&request.body).map_err(json_error),
        ContentType::Yaml => shape::parse_yaml(&request.body),
        ContentType::Protobuf if !custom => {
            builtin::decode_protobuf(&request.body, expected).map(|value| Decoded { value, ..Decoded::default() })
        }
        _ => return Err(unsupported(if custom { CUSTOM } else { BUILT_IN })),
    })
}

/// The body of a create or update as an object of the resource, with missing `kind` and `apiVersion` filled in where
/// Kubernetes does so.
pub(crate) fn object(request: &Request, served: &Served) -> Result<Decoded, ApiError> {
    let kind = &served.info.kind;
    let decoded = body(request, served.info.is_custom(), (&served.api_version(), kind))?.map_err(|error| {
        let shown = summary(&request.body);
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {error} ({shown})"
        ))
    })?;
    with_kind(decoded, served, &request.body)
}

/// Checks `kind` and `apiVersion` of an object against the resource.
pub(crate) fn with_kind(mut decoded: Decoded, served: &Served, body: &[u8]) -> Result<Decoded, ApiError> {
    let kind = &served.info.kind;
    let api_version = served.api_version();
    if decoded.value.is_null() && !served.info.is_custom() {
        decoded.value = Value::Object(Map::new());
    }
    let Some(fields) = decoded.value.as_object_mut() else {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse \
             error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} ({})",
            go_type(&decoded.value),
            summary(body)
        )));
    };
    let given_kind = fields.get("kind").and_then(Value::as_str).unwrap_or("").to_owned();
    let given_version = fields.get("apiVersion").and_then(Value::as_str).unwrap_or("").to_owned();
    if given_kind.is_empty() {
        if served.info.is_custom() {
            let text = String::from_utf8_lossy(body);
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{text}' ({})",
                summary(body)
            )));
        }
        fields.insert("kind".to_owned(), kind.as_str().into());
    }
    let same_version = given_version.is_empty() || given_version == api_version;
    if served.info.is_custom() && same_version && !given_kind.is_empty() && given_kind != *kind {
        let name = fields.get("metadata").and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        let finding = FieldError::invalid("kind", &given_kind.as_str().into(), format!("must be {kind}"));
        return Err(ApiError::invalid(&served.info.group, &given_kind, name, &[finding]));
    }
    if let Some(why) = misfit(served, &given_kind, &given_version, body) {
        return Err(ApiError::bad_request(why));
    }
    fields.insert("apiVersion".to_owned(), api_version.into());
    if !fields.get("metadata").is_some_and(Value::is_object) {
        fields.insert("metadata".to_owned(), Value::Object(Map::new()));
    }
    if served.info.is_custom() {
        whole_numbers(&mut decoded.value);
    }
    Ok(decoded)
}

/// Why an object of this kind and version is not what the resource takes; empty ones are filled in.
fn misfit(served: &Served, kind: &str, api_version: &str, body: &[u8]) -> Option<String> {
    let (wanted, expected) = (&served.info.kind, served.api_version());
    let kind = if kind.is_empty() { wanted } else { kind };
    let given = if api_version.is_empty() { expected.as_str() } else { api_version };
    if given == expected && kind == wanted {
        return None;
    }
    let other_version =
        || format!("the API version in the data ({given}) does not match the expected API version ({expected})");
    let version = given.rsplit('/').next().unwrap_or(given);
    let why = if served.info.is_custom() {
        if given != expected {
            return Some(other_version());
        }
        not_registered(kind, given)
    } else if given.matches('/').count() > 1 {
        let shown = summary(body);
        return Some(format!(
            "the object provided is unrecognized (must be of type {wanted}): unexpected GroupVersion string: {given} \
             ({shown})"
        ));
    } else if !builtin::is_registered(given, kind) {
        not_registered(kind, given)
    } else if kind == wanted && given.split('/').next() == expected.split('/').next() {
        // Another version of the kind can be read; it is refused for what it is.
        return Some(other_version());
    } else {
        // Kubernetes' own words name the Go packages: the inner one is the first part of the group.
        let group = served.info.storage.group().split('.').next().filter(|group| !group.is_empty());
        format!("converting ({version}.{kind}) to ({}.{wanted}): unknown conversion", group.unwrap_or("core"))
    };
    Some(format!("{kind} in version {version:?} cannot be handled as a {wanted}: {why}"))
}

/// The words for a kind that Kubernetes itself does not have.
pub(super) fn not_registered(kind: &str, api_version: &str) -> String {
    format!("no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:110\"")
}

/// Writes floating point numbers without a fraction as whole ones, which is how they are kept.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            // Up to here every whole number has a floating point form of its own.
            const EXACT: f64 = 9_007_199_254_740_992.0;
            let whole = number.as_f64().filter(|n| number.is_f64() && n.fract() == 0.0 && n.abs() <= EXACT);
            #[allow(clippy::cast_possible_truncation)] // bounded right above
            if let Some(whole) = whole {
                *number = (whole as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// Parses YAML that is not JSON. Keys are read as YAML 1.1 reads them: `n` is a word for false.
pub(crate) fn parse_yaml(text: &str) -> Result<Decoded, String> {
    let read = |policy| {
        let mut options = serde_saphyr::Options::default();
        options.duplicate_keys = policy;
        let (mut path, mut duplicates) = (Vec::new(), Vec::new());
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            Seed { path: &mut path, duplicates: &mut duplicates }.deserialize(deserializer)
        })
    };
    let failure = match read(DuplicateKeyPolicy::Error) {
        Ok(value) => return Ok(Decoded { value, ..Decoded::default() }),
        Err(error) => error,
    };
    let value = read(DuplicateKeyPolicy::LastWins).map_err(|error| error.to_string())?;
    let line = failure.location().map_or(0, |location| location.line());
    let shown = failure.to_string();
    let key = shown.split("duplicate mapping key: ").nth(1).unwrap_or_default();
    let key = key.split([',', '\n']).next().unwrap_or_default();
    let note = format!("yaml: unmarshal errors:\n  line {line}: key {key:?} already set in map");
    Ok(Decoded { value, repeated_in_yaml: vec![note], ..Decoded::default() })
}

/// 415 with the types that would do.
pub(crate) fn unsupported(accepted: &[&str]) -> ApiError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    ApiError::new(Reason::UnsupportedMediaType, message)
}

/// A short form of a body for an error message.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = &body[..body.len().min(SHOWN)];
    let dots = if body.len() > SHOWN { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{dots}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let mut out = String::new();
            for byte in shown {
                let _ = write!(out, "{byte:02x}");
            }
            out + dots
        }
    }
}

pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Reads the key of a map as text. YAML also has keys that look like flags or numbers; JSON shows them as text.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_str<E>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }

    fn visit_unit<E>(self) -> Result<String, E> {
        Ok("null".to_owned())
    }
}

struct Seed<'a> {
    path: &'a mut Vec<Step>,
    duplicates: &'a mut Vec<String>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        loop {
            self.path.push(Step::Index(out.len()));
            let item = access.next_element_seed(Seed { path: self.path, duplicates: self.duplicates })?;
            self.path.pop();
            match item {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = access.next_key_seed(Key)? {
            self.path.push(Step::Key(key));
            let value = access.next_value_seed(Seed { path: self.path, duplicates: self.duplicates })?;
            if let Some(Step::Key(key)) = self.path.last()
                && out.contains_key(key)
                && self.duplicates.len() < MAX_DUPLICATES
            {
                self.duplicates.push(printed(self.path));
            }
            if let Some(Step::Key(key)) = self.path.pop() {
                out.insert(key, value);
            }
        }
        Ok(Value::Object(out))
    }
}

fn printed(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Key(key) if out.is_empty() => out.push_str(key),
            Step::Key(key) => {
                out.push('.');
                out.push_str(key);
            }
            Step::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn repeated_keys_are_found_with_their_paths_and_the_last_one_counts() {
        let decoded = parse_json(br#"{"a":1,"a":2,"b":[{"c":1,"c":2}],"d":{"e":{"f":1.5,"f":null}}}"#).unwrap();
        assert_eq!(decoded.duplicates, ["a", "b[0].c", "d.e.f"]);
        assert_eq!(decoded.value, json!({"a": 2, "b": [{"c": 2}], "d": {"e": {"f": null}}}));
    }

    proptest::proptest! {
        #[test]
        fn audit_fuzzing_fractions_keep_their_last_digit(number in proptest::num::f64::NORMAL) {
            let text = json!({ "a": number }).to_string();
            let decoded = parse_json(text.as_bytes()).unwrap();
            proptest::prop_assert_eq!(decoded.value["a"].as_f64().map(f64::to_bits), Some(number.to_bits()));
            proptest::prop_assert_eq!(decoded.value.to_string(), text);
        }
    }

    #[test]
    fn yaml_reads_keys_and_values_as_version_1_1_does() {
        let decoded = parse_yaml("n: yes\n\"y\": \"no\"\n1: [on, ~]\n").unwrap();
        assert_eq!(decoded.value, json!({"false": true, "y": "no", "1": [true, null]}));
        let twice = parse_yaml("a: 1\nb:\n  k: 1\n  k: 2\n").unwrap();
        assert_eq!(twice.value, json!({"a": 1, "b": {"k": 2}}));
        assert_eq!(twice.repeated_in_yaml, ["yaml: unmarshal errors:\n  line 4: key \"k\" already set in map"]);
    }

    #[test]
    fn floats_without_fraction_become_whole_numbers() {
        let mut value = json!({"a": [1000.0, 1.5, -2.0], "b": 1e300});
        whole_numbers(&mut value);
        assert_eq!(value, json!({"a": [1000, 1.5, -2], "b": 1e300}));
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "[".repeat(100_000);
        assert!(parse_json(deep.as_bytes()).is_err());
    }
}
