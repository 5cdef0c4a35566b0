//! A compact in-memory format for cached objects.
//!
//! A JSON tree in which frequent strings are indexes into a shared pool, and timestamps, uids and decimal numbers in strings are
//! binary. Lossless for every JSON value. Never stored or sent.

mod decode;
mod pool;
#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

use decode::Decoder;
use pool::Pool;

/// A packed object. Only the `Packer` that created it can unpack it.
#[derive(Debug)]
pub(crate) struct Packed(Box<[u8]>);

/// Packs and unpacks the objects of one cache.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    pool: Pool,
    /// Reused buffer: the packed object is then allocated once, with its exact size.
    scratch: Vec<u8>,
}

/// The type in a header. The comment says what the number in the header means, in brackets, and what follows.
mod tag {
    pub(super) const SIMPLE: u8 = 0; // [which of null, false, true]
    pub(super) const POSITIVE: u8 = 1; // [the number]
    pub(super) const NEGATIVE: u8 = 2; // [-1 - the number]
    pub(super) const FLOAT: u8 = 3; // eight bytes
    pub(super) const INLINE: u8 = 4; // [length], the bytes
    pub(super) const POOLED: u8 = 5; // [index in the pool]
    pub(super) const DECIMAL: u8 = 6; // [the number in the string]
    pub(super) const INSTANT: u8 = 7; // [seconds since 1970 of the timestamp in the string]
    pub(super) const UID: u8 = 8; // sixteen bytes
    pub(super) const LIST: u8 = 9; // [length], the elements
    pub(super) const OBJECT: u8 = 10; // [length], names and values in turn
}

/// The lower four bits of a header are the tag, the upper four the number. `LARGE` means that the number minus `LARGE` follows.
const LARGE: u8 = 15;

impl Packer {
    pub(crate) fn pack(&mut self, value: &Value) -> Packed {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        self.add(&mut bytes, value);
        let packed = Packed(bytes.as_slice().into());
        self.scratch = bytes;
        packed
    }

    /// Fails only for types that need the JSON text.
    pub(crate) fn unpack<K: DeserializeOwned>(&self, packed: &Packed) -> Result<K, serde::de::value::Error> {
        K::deserialize(&mut Decoder::new(&packed.0, &self.pool))
    }

    /// Releases the shared strings of a packed object.
    pub(crate) fn release(&mut self, packed: &Packed) {
        let mut used = Vec::new();
        Decoder::new(&packed.0, &self.pool).pooled(&mut used);
        for id in used {
            self.pool.release(id);
        }
    }

    fn add(&mut self, bytes: &mut Vec<u8>, value: &Value) {
        match value {
            Value::Null => header(bytes, tag::SIMPLE, 0),
            Value::Bool(value) => header(bytes, tag::SIMPLE, 1 + u64::from(*value)),
            Value::Number(number) => add_number(bytes, number),
            Value::String(text) => self.add_text(bytes, text),
            Value::Array(elements) => {
                header(bytes, tag::LIST, elements.len() as u64);
                for element in elements {
                    self.add(bytes, element);
                }
            }
            Value::Object(fields) => {
                header(bytes, tag::OBJECT, fields.len() as u64);
                for (name, value) in fields {
                    self.add_shared(bytes, name);
                    self.add(bytes, value);
                }
            }
        }
    }

    fn add_text(&mut self, bytes: &mut Vec<u8>, text: &str) {
        if let Some(number) = decimal(text) {
            header(bytes, tag::DECIMAL, number);
        } else if let Some(seconds) = instant(text) {
            header(bytes, tag::INSTANT, seconds);
        } else if let Some(uid) = uid(text) {
            header(bytes, tag::UID, 0);
            bytes.extend_from_slice(&uid);
        } else {
            self.add_shared(bytes, text);
        }
    }

    fn add_shared(&mut self, bytes: &mut Vec<u8>, text: &str) {
        if let Some(id) = self.pool.take(text) {
            header(bytes, tag::POOLED, u64::from(id));
        } else {
            header(bytes, tag::INLINE, text.len() as u64);
            bytes.extend_from_slice(text.as_bytes());
        }
    }
}

fn add_number(bytes: &mut Vec<u8>, number: &Number) {
    if let Some(positive) = number.as_u64() {
        header(bytes, tag::POSITIVE, positive);
    } else if let Some(negative) = number.as_i64() {
        header(bytes, tag::NEGATIVE, (-1 - negative).unsigned_abs());
    } else {
        header(bytes, tag::FLOAT, 0);
        bytes.extend_from_slice(&number.as_f64().unwrap_or_default().to_le_bytes());
    }
}

fn header(bytes: &mut Vec<u8>, tag: u8, number: u64) {
    match u8::try_from(number) {
        Ok(small) if small < LARGE => bytes.push(tag | small << 4),
        _ => {
            bytes.push(tag | LARGE << 4);
            varint(bytes, number - u64::from(LARGE));
        }
    }
}

/// Seven bits per byte, lowest first; the highest bit is set if more bytes follow.
fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [lowest, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            bytes.push(lowest & 0x7f);
            return;
        }
        bytes.push(lowest | 0x80);
    }
}

/// The number in a string without leading zeros, such as a resourceVersion.
fn decimal(text: &str) -> Option<u64> {
    let spelled = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !spelled || (text.len() > 1 && text.starts_with('0')) { None } else { text.parse().ok() }
}

/// The seconds of a timestamp in the format of Kubernetes: `2026-01-01T00:00:00Z`.
fn instant(text: &str) -> Option<u64> {
    if text.len() != 20 || !text.ends_with('Z') || text.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    let instant: jiff::Timestamp = text.parse().ok()?;
    let seconds = u64::try_from(instant.as_second()).ok()?;
    (instant_text(seconds)? == text).then_some(seconds)
}

fn instant_text(seconds: u64) -> Option<String> {
    let instant = jiff::Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    Some(instant.to_string())
}

/// The bytes of a uid in lower case with four dashes.
fn uid(text: &str) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let mut uid = [0u8; 16];
    let mut digits = 0;
    for (at, byte) in text.bytes().enumerate() {
        let digit = match byte {
            b'-' if is_dash(at) => continue,
            b'0'..=b'9' if !is_dash(at) => byte - b'0',
            b'a'..=b'f' if !is_dash(at) => byte - b'a' + 10,
            _ => return None,
        };
        let place = uid.get_mut(digits / 2)?;
        *place = *place << 4 | digit;
        digits += 1;
    }
    (digits == 32).then_some(uid)
}

fn is_dash(at: usize) -> bool {
    matches!(at, 8 | 13 | 18 | 23)
}

fn uid_text(uid: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(36);
    for byte in uid {
        if is_dash(text.len()) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}
