//! A number or a text such as `25%`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

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

impl IntOrString {
    /// The number itself, or the percentage of `whole`. `None` if the text is neither.
    pub fn of(&self, whole: usize, rounding: Rounding) -> Option<i64> {
        match self {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(text) => {
                let percent = i64::from(text.strip_suffix('%')?.parse::<i32>().ok()?);
                let share = i64::try_from(whole).ok()?.checked_mul(percent)?;
                Some(match rounding {
                    Rounding::Up => share.div_euclid(100) + i64::from(share.rem_euclid(100) > 0),
                    Rounding::Down => share.div_euclid(100),
                })
            }
        }
    }
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

impl JsonSchema for IntOrString {
    fn schema_name() -> Cow<'static, str> {
        "IntOrString".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_taken_of_the_whole_and_rounded_as_asked() {
        let quarter = IntOrString::from("25%");
        assert_eq!(quarter.of(10, Rounding::Up), Some(3));
        assert_eq!(quarter.of(10, Rounding::Down), Some(2));
        assert_eq!(quarter.of(0, Rounding::Up), Some(0));
        assert_eq!(IntOrString::from("100%").of(7, Rounding::Down), Some(7));
    }

    #[test]
    fn a_number_is_itself_and_other_text_is_nothing() {
        assert_eq!(IntOrString::from(4).of(100, Rounding::Up), Some(4));
        assert_eq!(IntOrString::from("4").of(100, Rounding::Up), None);
        assert_eq!(IntOrString::from("x%").of(100, Rounding::Up), None);
    }
}
