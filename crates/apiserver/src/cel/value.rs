//! The values of CEL. Objects and lists of the checked document are looked at in place, never copied.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use jiff::Timestamp;
use k8s_values::Quantity;
use serde_json::Value;

use super::library::net::{Cidr, Url};
use super::library::semver::Semver;
use super::library::time::{parse_duration, parse_timestamp};
use crate::schema::{Additional, JsonType, Node, Schema};

/// A text of the document or of the program, or one that was computed.
#[derive(Clone)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Owned(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Owned(text) => text,
        }
    }
}

/// An object or list of the document, seen through its schema.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) value: &'a Value,
    pub(super) schema: &'a Schema,
    /// The root of a kind or an embedded resource, whose kind, version and name can always be seen.
    pub(super) resource: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(Rc<str>),
}

#[derive(Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Rc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    /// The name of a type.
    Type(&'static str),
    Json(View<'a>),
    List(Rc<Vec<Val<'a>>>),
    Map(Rc<BTreeMap<Key, Val<'a>>>),
    Optional(Option<Rc<Val<'a>>>),
    Quantity(Rc<Quantity>),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Semver(Rc<Semver>),
    Format(&'static str),
}

/// Why an evaluation gave no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The expression itself failed; another term of `&&` or `||` may still decide.
    Failed(String),
    /// The budget is used up; nothing may go on.
    OutOfBudget,
}

pub(super) type Evaluated<'a> = Result<Val<'a>, Fault>;

impl Fault {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Fault::Failed(message.into())
    }

    pub(super) fn no_overload() -> Self {
        Fault::new("no such overload")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Failed(message) => f.write_str(message),
            Fault::OutOfBudget => f.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}

static ANYTHING: LazyLock<Schema> = LazyLock::new(Schema::default);
static TEXT: LazyLock<Schema> = LazyLock::new(|| Schema { json_type: JsonType::String, ..Schema::default() });
static METADATA: LazyLock<Schema> = LazyLock::new(|| {
    let text = || Node::new(Schema { json_type: JsonType::String, ..Schema::default() });
    let properties = BTreeMap::from([("name".to_owned(), text()), ("generateName".to_owned(), text())]);
    Schema { json_type: JsonType::Object, properties, ..Schema::default() }
});

impl<'a> View<'a> {
    /// Whether the object is a map from text, as opposed to an object with fields.
    pub(super) fn is_map(&self) -> bool {
        !self.resource && !matches!(self.schema.additional, Additional::None)
            || self.schema.json_type == JsonType::Any && self.schema.properties.is_empty()
    }

    fn schema_of(&self, name: &str) -> Option<(&'a Schema, bool)> {
        if self.resource {
            match name {
                "metadata" => return Some((&METADATA, false)),
                "kind" | "apiVersion" => return Some((&TEXT, false)),
                _ => {}
            }
        }
        if let Some(node) = self.schema.field(name) {
            return Some((node, node.embedded_resource));
        }
        self.is_map().then_some((&*ANYTHING, false))
    }

    /// The field written as `name` in an expression, if the object has it and its schema knows it.
    pub(super) fn field(&self, name: &str) -> Option<Evaluated<'a>> {
        if self.is_map() || !name.contains("__") {
            return self.entry(name);
        }
        self.entry(&unescaped(name))
    }

    /// The entry with exactly this key.
    pub(super) fn entry(&self, name: &str) -> Option<Evaluated<'a>> {
        let value = self.value.as_object()?.get(name)?;
        let (schema, resource) = self.schema_of(name)?;
        Some(view(value, schema, resource))
    }

    pub(super) fn items(&self) -> &'a [Value] {
        self.value.as_array().map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn item(&self, value: &'a Value) -> Evaluated<'a> {
        match &self.schema.items {
            Some(node) => view(value, node, node.embedded_resource),
            None => view(value, &ANYTHING, false),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        }
    }
}

/// The opposite of how property names are escaped in expressions.
fn unescaped(name: &str) -> String {
    let keyword = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    let is_keyword =
        |inner: &&str| !matches!(*inner, "dot" | "dash" | "slash" | "underscores") && !inner.contains("__");
    if let Some(keyword) = keyword.filter(is_keyword) {
        return keyword.to_owned();
    }
    let plain = name.replace("__dot__", ".").replace("__dash__", "-").replace("__slash__", "/");
    plain.replace("__underscores__", "__")
}

/// A value of the document as its schema means it.
pub(super) fn view<'a>(value: &'a Value, schema: &'a Schema, resource: bool) -> Evaluated<'a> {
    Ok(match value {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), schema.json_type) {
            (Some(whole), JsonType::Integer | JsonType::Any) => Val::Int(whole),
            #[allow(clippy::cast_possible_truncation)] // a whole number written with a point, as 3.0
            (None, JsonType::Integer) => Val::Int(number.as_f64().unwrap_or_default() as i64),
            _ => Val::Double(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => match (schema.json_type, schema.constraints.format.as_deref()) {
            (JsonType::String, Some("byte")) => {
                let bytes = STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text));
                Val::Bytes(bytes.map_err(|_| Fault::new("invalid byte"))?.into())
            }
            (JsonType::String, Some("duration")) => {
                Val::Duration(parse_duration(text).ok_or_else(|| Fault::new(format!("Invalid duration {text}")))?)
            }
            (JsonType::String, Some("date-time")) => {
                Val::Timestamp(parse_timestamp(text).ok_or_else(|| Fault::new(format!("Invalid date-time {text}")))?)
            }
            (JsonType::String, Some("date")) => {
                let midnight = parse_timestamp(&format!("{text}T00:00:00Z"));
                Val::Timestamp(midnight.ok_or_else(|| Fault::new(format!("Invalid date {text}")))?)
            }
            _ => Val::Text(Text::Borrowed(text)),
        },
        Value::Array(_) | Value::Object(_) => Val::Json(View { value, schema, resource }),
    })
}

impl<'a> Val<'a> {
    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Val::Text(Text::Owned(text.into()))
    }

    pub(super) fn list(items: Vec<Val<'a>>) -> Self {
        Val::List(Rc::new(items))
    }

    pub(super) fn some(value: Val<'a>) -> Self {
        Val::Optional(Some(Rc::new(value)))
    }

    /// The items of a list, of either origin.
    pub(super) fn items(&self) -> Option<Result<Vec<Val<'a>>, Fault>> {
        match self {
            Val::List(items) => Some(Ok(items.to_vec())),
            Val::Json(view) if view.value.is_array() => Some(view.items().iter().map(|item| view.item(item)).collect()),
            _ => None,
        }
    }

    /// Elements, bytes or code points: what a walk over the value costs.
    pub(super) fn size(&self) -> usize {
        match self {
            Val::Text(text) => text.len(),
            Val::Bytes(bytes) => bytes.len(),
            Val::List(items) => items.len(),
            Val::Map(entries) => entries.len(),
            Val::Json(view) => view.len(),
            _ => 1,
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Val::List(_)) || matches!(self, Val::Json(view) if view.value.is_array())
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::Text(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Type(_) => "type",
            Val::List(_) => "list",
            Val::Json(view) if view.value.is_array() => "list",
            Val::Json(view) if !view.is_map() => "object",
            Val::Map(_) | Val::Json(_) => "map",
            Val::Optional(_) => "optional_type",
            Val::Quantity(_) => "kubernetes.Quantity",
            Val::Url(_) => "kubernetes.URL",
            Val::Ip(_) => "net.IP",
            Val::Cidr(_) => "net.CIDR",
            Val::Semver(_) => "kubernetes.Semver",
            Val::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// The value as a key of a map.
    pub(super) fn key(&self) -> Option<Key> {
        Some(match self {
            Val::Bool(flag) => Key::Bool(*flag),
            Val::Int(number) => Key::Int(*number),
            // Whole numbers of any type name the same entry.
            Val::Uint(number) => i64::try_from(*number).map_or(Key::Uint(*number), Key::Int),
            #[allow(clippy::cast_possible_truncation)] // only whole numbers get here
            Val::Double(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Key::Int(*number as i64),
            Val::Text(text) => Key::Text(text.deref().into()),
            _ => return None,
        })
    }
}

impl Key {
    pub(super) fn val<'a>(&self) -> Val<'a> {
        match self {
            Key::Bool(flag) => Val::Bool(*flag),
            Key::Int(number) => Val::Int(*number),
            Key::Uint(number) => Val::Uint(*number),
            Key::Text(text) => Val::Text(Text::Owned(Rc::clone(text))),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Bool(flag) => write!(f, "{flag}"),
            Key::Int(number) => write!(f, "{number}"),
            Key::Uint(number) => write!(f, "{number}"),
            Key::Text(text) => f.write_str(text),
        }
    }
}

#[test]
fn escaped_names_are_found_under_their_real_name() {
    for name in ["namespace", "x-y.z/a", "a__b", "plain"] {
        assert_eq!(unescaped(&super::types::escaped(name).unwrap()), name);
    }
}
