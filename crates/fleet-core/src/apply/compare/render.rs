//! Values as text in the form in which Go prints them, which users see in drift and diff details.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Which document a value comes from. Numbers of the member have been converted to doubles, those of the hub have
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Hub,
    Member,
}

/// From this decimal exponent on, doubles are printed with an exponent.
const LARGE_EXPONENT: i32 = 6;
/// Below this decimal exponent, too.
const SMALL_EXPONENT: i32 = -4;

/// The value as text; `None` if it would be longer than `limit` bytes.
pub(super) fn text(value: &Value, side: Side, limit: usize) -> Option<String> {
    let mut out = String::new();
    write_value(&mut out, value, side, limit).then_some(out)
}

/// Returns whether the value was written within the limit.
fn write_value(out: &mut String, value: &Value, side: Side, limit: usize) -> bool {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(out, number, side),
        Value::String(text) if out.len() + text.len() > limit => return false,
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                if !write_value(out, item, side, limit) {
                    return false;
                }
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push_str("map[");
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                if !write_value(out, value, side, limit) {
                    return false;
                }
            }
            out.push(']');
        }
    }
    out.len() <= limit
}

fn write_number(out: &mut String, number: &Number, side: Side) {
    match (side, number.as_i64(), number.as_f64()) {
        (Side::Hub, Some(integer), _) => _ = write!(out, "{integer}"),
        (_, _, Some(double)) => out.push_str(&double_text(double)),
        // Every JSON number without arbitrary precision is an integer or a double.
        _ => _ = write!(out, "{number}"),
    }
}

/// The shortest digits that parse to the same value, with an exponent of at least two digits for large and small
/// numbers.
fn double_text(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (SMALL_EXPONENT..LARGE_EXPONENT).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: &Value, hub: &str, member: &str) {
        assert_eq!(text(value, Side::Hub, usize::MAX).unwrap(), hub);
        assert_eq!(text(value, Side::Member, usize::MAX).unwrap(), member);
    }

    #[test]
    fn numbers_of_manifest_and_live_object_are_printed_differently() {
        check(&json!(999_999), "999999", "999999");
        check(&json!(1_000_000), "1000000", "1e+06");
        check(&json!(1_234_567), "1234567", "1.234567e+06");
        check(&json!(-1_234_567), "-1234567", "-1.234567e+06");
        check(&json!(0), "0", "0");
        check(&json!(i64::MIN), "-9223372036854775808", "-9.223372036854776e+18");
        check(&json!(u64::MAX), "1.8446744073709552e+19", "1.8446744073709552e+19");
    }

    #[test]
    fn fractions_are_printed_as_doubles() {
        for (value, shown) in [
            (0.5, "0.5"),
            (1.0, "1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456.75, "123456.75"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (-2.5e-7, "-2.5e-07"),
            (-0.0, "-0"),
        ] {
            check(&json!(value), shown, shown);
        }
    }

    #[test]
    fn containers_are_printed_as_go_prints_them() {
        check(
            &json!({"b": [1, null, true], "a": "x y", "c": {}, "d": []}),
            "map[a:x y b:[1 <nil> true] c:map[] d:[]]",
            "map[a:x y b:[1 <nil> true] c:map[] d:[]]",
        );
        check(&json!([1_000_000, {"z": 1.5}]), "[1000000 map[z:1.5]]", "[1e+06 map[z:1.5]]");
        check(&json!(""), "", "");
    }

    #[test]
    fn values_are_cut_at_the_limit() {
        let value = json!({"key": ["aaaa", "bbbb"]});
        assert_eq!(
            text(&value, Side::Hub, 19).as_deref(),
            Some("map[key:[aaaa bbbb]]").filter(|shown| shown.len() <= 19)
        );
        assert_eq!(text(&value, Side::Hub, 20).as_deref(), Some("map[key:[aaaa bbbb]]"));
        assert_eq!(text(&json!("abcde"), Side::Member, 4), None);
    }
}
