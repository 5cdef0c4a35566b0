//! Numbers that may be given as a percentage, such as `maxUnavailable: 25%`, with Go's error texts.

use std::fmt;
use std::num::IntErrorKind;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::go;

/// A whole number or a text; on the wire it is whichever was given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    Int(i64),
    String(String),
}

/// Which way a share of a whole is rounded to a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    Up,
    Down,
}

/// Why a text is not a percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PercentError {
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    #[error(
        "invalid value for IntOrString: invalid value {}: strconv.Atoi: parsing {}: {cause}",
        go::quoted(.text),
        go::quoted(.number)
    )]
    NotANumber { text: String, number: String, cause: &'static str },
}

impl IntOrString {
    /// The value in an object that has no Rust type; `None` if it is neither a number nor a text.
    pub fn of_value(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }

    /// The number itself, or the percentage of `whole`; saturates.
    pub fn scaled(&self, whole: usize, rounding: Rounding) -> Result<i64, PercentError> {
        let text = match self {
            IntOrString::Int(number) => return Ok(*number),
            IntOrString::String(text) => text,
        };
        // Wide enough for any percentage of any whole.
        let share = i128::from(percent(text)?) * whole as i128;
        let rounded = share.div_euclid(100) + i128::from(rounding == Rounding::Up && share.rem_euclid(100) > 0);
        Ok(i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX }))
    }
}

fn percent(text: &str) -> Result<i64, PercentError> {
    let number = text.strip_suffix('%').ok_or(PercentError::NotAPercentage)?;
    number.parse().map_err(|error: std::num::ParseIntError| {
        let cause = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        PercentError::NotANumber { text: text.to_owned(), number: number.to_owned(), cause }
    })
}

impl From<i64> for IntOrString {
    fn from(number: i64) -> Self {
        IntOrString::Int(number)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        IntOrString::String(text.to_owned())
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrString::Int(number) => write!(f, "{number}"),
            IntOrString::String(text) => f.write_str(text),
        }
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for IntOrString {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "IntOrString".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check_error(text: &str, expected: Expect) {
        expected.assert_eq(&IntOrString::from(text).scaled(10, Rounding::Up).unwrap_err().to_string());
    }

    #[test]
    fn numbers_are_absolute_and_percentages_are_rounded_as_requested() {
        assert_eq!(IntOrString::from(-3).scaled(10, Rounding::Up), Ok(-3));
        assert_eq!(IntOrString::from(4).scaled(100, Rounding::Up), Ok(4));
        for (text, up, down) in [("25%", 3, 2), ("-5%", 0, -1), ("+5%", 1, 0), ("100%", 10, 10)] {
            assert_eq!(IntOrString::from(text).scaled(10, Rounding::Up), Ok(up), "{text}");
            assert_eq!(IntOrString::from(text).scaled(10, Rounding::Down), Ok(down), "{text}");
        }
        assert_eq!(IntOrString::from("25%").scaled(0, Rounding::Up), Ok(0));
        assert_eq!(IntOrString::from("100%").scaled(7, Rounding::Down), Ok(7));
    }

    #[test]
    fn untyped_values_may_be_numbers_or_strings() {
        let read = |value: Value| IntOrString::of_value(&value);
        assert_eq!(read(2.into()), Some(IntOrString::Int(2)));
        assert_eq!(read("25%".into()), Some(IntOrString::from("25%")));
        assert_eq!((read(Value::Null), read(true.into()), read(0.5.into())), (None, None, None));
    }

    #[test]
    fn the_largest_percentage_of_the_largest_whole_stays_in_bounds() {
        for whole in [u32::MAX as usize, usize::MAX] {
            assert_eq!(IntOrString::from("9223372036854775807%").scaled(whole, Rounding::Up), Ok(i64::MAX));
            assert_eq!(IntOrString::from("-9223372036854775808%").scaled(whole, Rounding::Up), Ok(i64::MIN));
        }
    }

    #[test]
    fn other_strings_are_refused() {
        check_error("25", expect!["invalid value for IntOrString: invalid type: string is not a percentage"]);
        check_error(
            "x%",
            expect![[
                r#"invalid value for IntOrString: invalid value "x%": strconv.Atoi: parsing "x": invalid syntax"#
            ]],
        );
        check_error(
            "%",
            expect![[r#"invalid value for IntOrString: invalid value "%": strconv.Atoi: parsing "": invalid syntax"#]],
        );
        check_error(
            "99999999999999999999%",
            expect![[
                r#"invalid value for IntOrString: invalid value "99999999999999999999%": strconv.Atoi: parsing "99999999999999999999": value out of range"#
            ]],
        );
    }
}
