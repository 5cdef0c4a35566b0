//! Texts as Go prints them: quoted with `%q`, and as JSON of `encoding/json`.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

/// A text in quotes, as `%q` prints it.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        // Writing to a text cannot fail.
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\u{7}' => out.write_str("\\a"),
            '\u{8}' => out.write_str("\\b"),
            '\u{c}' => out.write_str("\\f"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\u{b}' => out.write_str("\\v"),
            ' '..='~' => out.write_char(c),
            '\u{0}'..='\u{7f}' => write!(out, "\\x{:02x}", u32::from(c)),
            _ if is_printable(c) => out.write_char(c),
            '\u{10000}'.. => write!(out, "\\U{:08x}", u32::from(c)),
            _ => write!(out, "\\u{:04x}", u32::from(c)),
        };
    }
    out.push('"');
    out
}

/// Rust and Go differ only in combining marks, which Rust escapes.
fn is_printable(c: char) -> bool {
    c.is_alphanumeric() || !c.escape_debug().to_string().starts_with("\\u")
}

/// The bytes of `encoding/json`: compact, with `<`, `>`, `&` and two line separators escaped, and numbers in Go's format.
/// Hashes in stored objects are computed from them.
pub fn json_bytes(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, GoFormatter);
    // Writing to memory cannot fail, and keys of objects are texts.
    let _ = value.serialize(&mut serializer);
    out
}

/// The text of `encoding/json`.
pub fn json(value: &impl Serialize) -> String {
    String::from_utf8(json_bytes(value)).unwrap_or_default()
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
    use serde_json::json as value;

    fn check(value: &serde_json::Value, expected: &str) {
        assert_eq!(json(value), expected);
    }

    #[test]
    fn texts_are_quoted_with_gos_escapes() {
        assert_eq!(quoted("a\u{7}\u{1}\"\u{85}ü'"), r#""a\a\x01\"\u0085ü'""#);
        assert_eq!(quoted("\u{8}\u{c}\n\r\t\u{b}\\\u{7f}"), r#""\b\f\n\r\t\v\\\x7f""#);
        assert_eq!(quoted("a\"b\\\n\t\u{1}é\u{2028}\u{7f}"), r#""a\"b\\\n\t\x01é\u2028\x7f""#);
        assert_eq!(quoted("x<&é\u{2028}\u{e000}\u{10ffff}"), r#""x<&é\u2028\ue000\U0010ffff""#);
    }

    #[test]
    fn html_characters_and_line_separators_are_escaped() {
        check(&value!({"a<b": "x>y & \u{2028}z\u{2029}"}), r#"{"a\u003cb":"x\u003ey \u0026 \u2028z\u2029"}"#);
        check(&value!("tab\tquote\"back\\bell\u{7}"), r#""tab\tquote\"back\\bell\u0007""#);
    }

    #[test]
    fn numbers_are_in_gos_form() {
        check(
            &value!([1, -7, 1.0, 0.5, 1e21, 1e20, 1.5e-7, 0.000_001, -0.0]),
            "[1,-7,1,0.5,1e+21,100000000000000000000,1.5e-7,0.000001,-0]",
        );
    }

    #[test]
    fn keys_are_sorted_and_nothing_is_spaced() {
        check(&value!({"b": [1, {"d": null}], "a": true}), r#"{"a":true,"b":[1,{"d":null}]}"#);
    }
}
