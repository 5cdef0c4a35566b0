//! Values of flags: bools, numbers and Go durations, with their bounds.

use std::fmt;
use std::time::Duration;

use k8s_values::GoDuration;

/// The type of a flag.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Bool,
    Text,
    /// Text with a validation function. Its error is the end of a sentence.
    Checked(fn(&str) -> Result<(), String>),
    Integer {
        least: i64,
        most: i64,
    },
    /// May have a fraction.
    Number {
        least: f64,
        most: f64,
    },
    /// Per second, may have a fraction. Negative means no limit, and so does zero with `zero_is_off`.
    Rate {
        least: f64,
        most: f64,
        zero_is_off: bool,
    },
    Duration {
        least: Duration,
        most: Duration,
    },
}

/// A value within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Text(String),
    Integer(i64),
    Number(f64),
    Rate(Option<f64>),
    Duration(Duration),
}

impl Shape {
    /// Parses a value; an error is the end of a sentence.
    pub(super) fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Shape::Bool => bool_of(text).map(Value::Bool).ok_or_else(|| "is not true or false".to_owned()),
            Shape::Text => Ok(Value::Text(text.to_owned())),
            Shape::Checked(check) => check(text).map(|()| Value::Text(text.to_owned())),
            Shape::Integer { least, most } => {
                let number: i64 = text.parse().map_err(|_| "is not a whole number".to_owned())?;
                within(&number, &least, &most).map(|()| Value::Integer(number))
            }
            Shape::Number { least, most } => {
                let number: f64 = text.parse().map_err(|_| "is not a number".to_owned())?;
                within(&number, &least, &most).map(|()| Value::Number(number))
            }
            Shape::Rate { least, most, zero_is_off } => rate_of(text, least, most, zero_is_off).map(Value::Rate),
            Shape::Duration { least, most } => {
                let duration =
                    duration_of(text).ok_or_else(|| "is not a duration such as 30s, 5m or 1h30m".to_owned())?;
                within(&Span(duration), &Span(least), &Span(most)).map(|()| Value::Duration(duration))
            }
        }
    }

    pub(super) fn placeholder(self) -> &'static str {
        match self {
            Shape::Bool => "[=BOOL]",
            Shape::Text | Shape::Checked(_) => " TEXT",
            Shape::Integer { .. } | Shape::Number { .. } | Shape::Rate { .. } => " NUMBER",
            Shape::Duration { .. } => " DURATION",
        }
    }
}

fn within<T: PartialOrd + fmt::Display>(value: &T, least: &T, most: &T) -> Result<(), String> {
    if value >= least && value <= most { Ok(()) } else { Err(format!("is not between {least} and {most}")) }
}

/// The values of Go's `strconv.ParseBool`.
fn bool_of(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn rate_of(text: &str, least: f64, most: f64, zero_is_off: bool) -> Result<Option<f64>, String> {
    let rate: f64 =
        text.parse().ok().filter(|rate: &f64| !rate.is_nan()).ok_or_else(|| "is not a number".to_owned())?;
    if rate < 0.0 || (rate == 0.0 && zero_is_off) {
        return Ok(None);
    }
    if (least..=most).contains(&rate) {
        return Ok(Some(rate));
    }
    let off = if zero_is_off { "zero or negative" } else { "negative" };
    Err(format!("is neither between {least} and {most} nor {off} (no limit)"))
}

/// Parses a Go duration that is not negative.
pub(crate) fn duration_of(text: &str) -> Option<Duration> {
    text.parse::<GoDuration>().ok()?.unsigned()
}

/// A duration in the largest unit with a whole number.
pub(crate) fn shown(duration: Duration) -> String {
    Span(duration).to_string()
}

#[derive(PartialEq, PartialOrd)]
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0 => f.write_str("0s"),
            _ if millis.is_multiple_of(3_600_000) => write!(f, "{}h", millis / 3_600_000),
            _ if millis.is_multiple_of(60_000) => write!(f, "{}m", millis / 60_000),
            _ if millis.is_multiple_of(1000) => write!(f, "{}s", millis / 1000),
            _ => write!(f, "{millis}ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_takes_no_negative_duration() {
        let read = |text: &str| duration_of(text).map(|duration| duration.as_millis());
        assert_eq!((read("0"), read("1h30m"), read("+2s")), (Some(0), Some(5_400_000), Some(2000)));
        assert_eq!((read("-1s"), read("1d")), (None, None));
    }

    #[test]
    fn durations_are_printed_in_the_largest_fitting_unit() {
        let millis = [0, 5, 1000, 60_000, 90_000, 3_600_000];
        assert_eq!(millis.map(|millis| shown(Duration::from_millis(millis))), ["0s", "5ms", "1s", "1m", "90s", "1h"]);
    }
}
