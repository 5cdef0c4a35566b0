//! JSON as Go's `encoding/json` writes it: compact, with `<`, `>`, `&` and two line separators escaped, and numbers
//! in Go's format.
//!
//! Hashes are computed from these bytes, so that a hub that ran the Go agents before sees no change.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

/// The bytes that Go would write for this value.
pub fn to_vec(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, GoFormatter);
    // Writing to memory cannot fail, and our types have only text keys.
    let _ = value.serialize(&mut serializer);
    out
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, special) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut characters = special.chars();
            let code = characters.next().map_or(0, u32::from);
            write!(writer, "\\u{code:04x}")?;
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }
}

/// Go switches to exponent form below this.
const SMALLEST_PLAIN: f64 = 1e-6;
/// Go switches to exponent form from here on.
const SMALLEST_LARGE: f64 = 1e21;

/// The shortest digits that parse to the same value; with an exponent and its sign only for very small and very large
/// numbers.
fn float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(SMALLEST_PLAIN..SMALLEST_LARGE).contains(&size) {
        let text = format!("{value:e}");
        return match text.split_once("e-") {
            Some(_) => text,
            None => text.replacen('e', "e+", 1),
        };
    }
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: &serde_json::Value, expected: &str) {
        assert_eq!(String::from_utf8(to_vec(value)).unwrap(), expected);
    }

    #[test]
    fn html_characters_and_line_separators_are_escaped() {
        check(&json!({"a<b": "x>y & \u{2028}z\u{2029}"}), r#"{"a\u003cb":"x\u003ey \u0026 \u2028z\u2029"}"#);
        check(&json!("tab\tquote\"back\\bell\u{7}"), r#""tab\tquote\"back\\bell\u0007""#);
    }

    #[test]
    fn numbers_are_in_gos_form() {
        check(
            &json!([1, -7, 1.0, 0.5, 1e21, 1e20, 1.5e-7, 0.000_001, -0.0]),
            "[1,-7,1,0.5,1e+21,100000000000000000000,1.5e-7,0.000001,-0]",
        );
    }

    #[test]
    fn keys_are_sorted_and_nothing_is_spaced() {
        check(&json!({"b": [1, {"d": null}], "a": true}), r#"{"a":true,"b":[1,{"d":null}]}"#);
    }
}
