//! One step of a field path: a field name, the keys of a list item, a value of a set, or an index.
//!
//! Defines the order of steps, their form in `fieldsV1` (`f:`, `k:`, `v:`, `i:`) and in messages.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write};

use serde_json::{Number, Value};

/// A step of a path. Borrows from the object or from the stored `fieldsV1` wherever it can: sets are built on every
/// write.
#[derive(Debug, Clone)]
pub(crate) enum Element<'a> {
    Field(Cow<'a, str>),
    /// The key fields of an item of a list map, sorted by name.
    Key(Vec<(Cow<'a, str>, Cow<'a, Value>)>),
    /// An item of a set, by its value.
    Value(Cow<'a, Value>),
    Index(i64),
}

/// Why the text of an element in `fieldsV1` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ElementFault {
    /// A kind of element that only later versions know; readers skip it.
    Unknown,
    Malformed(String),
}

impl<'a> Element<'a> {
    pub(crate) fn field(name: &'a str) -> Self {
        Element::Field(Cow::Borrowed(name))
    }

    /// Reads the text form, as `f:spec` or `k:{"name":"web"}`.
    pub(crate) fn parse(text: &'a str) -> Result<Self, ElementFault> {
        let malformed = |why: String| Err(ElementFault::Malformed(why));
        let mut letters = text.chars();
        let (Some(kind), Some(separator)) = (letters.next(), letters.next()) else {
            return malformed("key must be 2 characters long:".to_owned());
        };
        if separator != ':' {
            return malformed(format!("missing colon: {text}"));
        }
        let content = letters.as_str();
        match kind {
            'f' => Ok(Element::field(content)),
            'v' => match serde_json::from_str(content) {
                Ok(value) => Ok(Element::Value(Cow::Owned(value))),
                Err(error) => malformed(error.to_string()),
            },
            'k' => match serde_json::from_str::<serde_json::Map<String, Value>>(content) {
                // The map is sorted by name already.
                Ok(keys) => Ok(Element::Key(keys.into_iter().map(|(k, v)| (Cow::Owned(k), Cow::Owned(v))).collect())),
                Err(error) => malformed(error.to_string()),
            },
            'i' => match content.parse() {
                Ok(index) => Ok(Element::Index(index)),
                Err(_) => malformed(format!("invalid index: {content}")),
            },
            _ => Err(ElementFault::Unknown),
        }
    }

    /// The text form, as it stands as a key of `fieldsV1`.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        match self {
            Element::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            Element::Key(keys) => {
                out.push_str("k:{");
                for (position, (name, value)) in keys.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    write_json_string(&mut out, name);
                    out.push(':');
                    write_json(&mut out, value);
                }
                out.push('}');
            }
            Element::Value(value) => {
                out.push_str("v:");
                write_json(&mut out, value);
            }
            Element::Index(index) => {
                out.push_str("i:");
                out.push_str(&index.to_string());
            }
        }
        out
    }

    pub(crate) fn into_owned(self) -> Element<'static> {
        match self {
            Element::Field(name) => Element::Field(Cow::Owned(name.into_owned())),
            Element::Key(keys) => Element::Key(
                keys.into_iter().map(|(k, v)| (Cow::Owned(k.into_owned()), Cow::Owned(v.into_owned()))).collect(),
            ),
            Element::Value(value) => Element::Value(Cow::Owned(value.into_owned())),
            Element::Index(index) => Element::Index(index),
        }
    }

    /// The order of kinds inside one level of a set.
    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

impl Ord for Element<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        crate::testing::count_steps(1);
        match (self, other) {
            (Element::Field(a), Element::Field(b)) => a.cmp(b),
            (Element::Key(a), Element::Key(b)) => {
                let pairs = a.iter().zip(b).map(|((an, av), (bn, bv))| an.cmp(bn).then_with(|| compare_values(av, bv)));
                first_difference(pairs).then(a.len().cmp(&b.len()))
            }
            (Element::Value(a), Element::Value(b)) => compare_values(a, b),
            (Element::Index(a), Element::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element<'_> {}

/// The form used in messages: `.spec`, `[name="web"]`, `[="a"]`, `[0]`.
impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(keys) => {
                f.write_char('[')?;
                for (position, (name, value)) in keys.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", crate::field::printed(value))?;
                }
                f.write_char(']')
            }
            Element::Value(value) => write!(f, "[={}]", crate::field::printed(value)),
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Whether two values are the same to server-side apply: `1` and `1.0` are one number.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((ak, av), (bk, bv))| ak == bk && equal(av, bv))
        }
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
        _ => a == b,
    }
}

/// Compares no further than to the first difference.
fn first_difference(mut pairs: impl Iterator<Item = Ordering>) -> Ordering {
    pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let pairs = a.iter().zip(b).map(|(a, b)| compare_values(a, b));
            first_difference(pairs).then(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let pairs = a.iter().zip(b).map(|((ak, av), (bk, bv))| ak.cmp(bk).then_with(|| compare_values(av, bv)));
            first_difference(pairs).then(a.len().cmp(&b.len()))
        }
        _ => value_rank(a).cmp(&value_rank(b)),
    }
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (as_integer(a), as_integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
    }
}

/// The number as an integer, also when it was written `1.0`.
fn as_integer(number: &Number) -> Option<i128> {
    // Below this a float holds every integer exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(integer) = number.as_i64() {
        return Some(i128::from(integer));
    }
    if let Some(integer) = number.as_u64() {
        return Some(i128::from(integer));
    }
    let float = number.as_f64()?;
    if float.fract() == 0.0 && float.abs() < EXACT {
        // In range and without fraction, so its decimal text is an integer.
        return format!("{float:.0}").parse().ok();
    }
    None
}

/// JSON as the Go encoder writes it inside element texts: HTML characters escaped, no `.0` on whole numbers.
fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_json_string(out, text),
        Value::Number(number) => match as_integer(number) {
            Some(integer) => out.push_str(&integer.to_string()),
            None => out.push_str(&number.to_string()),
        },
        other => out.push_str(&html_escaped(&other.to_string())),
    }
}

fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{0}'..='\u{1f}' => {
                push_escape(out, letter);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// JSON text with the characters escaped that Go's encoder escapes: they occur inside strings only.
pub(super) fn html_escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => push_escape(&mut out, letter),
            other => out.push(other),
        }
    }
    out
}

/// The letter, all of the basic plane, as `\u` and four hexadecimal digits.
fn push_escape(out: &mut String, letter: char) {
    out.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        out.extend(char::from_digit((u32::from(letter) >> shift) & 0xf, 16));
    }
}
