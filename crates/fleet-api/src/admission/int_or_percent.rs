//! Numbers that may be given as a percentage, with Go's error texts.

use k8s_values::go::quoted;

use crate::types::{IntOrString, Rounding};

/// Why a value is neither a number nor a percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PercentError {
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    #[error("invalid value for IntOrString: invalid value {}: strconv.Atoi: parsing {}: {cause}", quoted(.text), quoted(.number))]
    NotANumber { text: String, number: String, cause: &'static str },
}

/// The value for a total of this size.
pub fn scaled(value: &IntOrString, whole: u32, rounding: Rounding) -> Result<i64, PercentError> {
    let text = match value {
        IntOrString::Int(number) => return Ok(*number),
        IntOrString::String(text) => text,
    };
    let number = text.strip_suffix('%').ok_or(PercentError::NotAPercentage)?;
    let percent: i64 = number.parse().map_err(|error: std::num::ParseIntError| {
        let cause = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        PercentError::NotANumber { text: text.clone(), number: number.to_owned(), cause }
    })?;
    // Wide enough for any percentage of any total.
    let share = i128::from(percent) * i128::from(whole);
    let rounded = share.div_euclid(100) + i128::from(rounding == Rounding::Up && share.rem_euclid(100) > 0);
    Ok(i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX }))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check_error(text: &str, expected: Expect) {
        expected.assert_eq(&scaled(&IntOrString::from(text), 10, Rounding::Up).unwrap_err().to_string());
    }

    #[test]
    fn numbers_stand_for_themselves_and_percentages_are_rounded() {
        assert_eq!(scaled(&IntOrString::from(-3), 10, Rounding::Up), Ok(-3));
        for (text, up, down) in [("25%", 3, 2), ("-5%", 0, -1), ("+5%", 1, 0), ("100%", 10, 10)] {
            assert_eq!(scaled(&IntOrString::from(text), 10, Rounding::Up), Ok(up), "{text}");
            assert_eq!(scaled(&IntOrString::from(text), 10, Rounding::Down), Ok(down), "{text}");
        }
    }

    #[test]
    fn the_largest_percentage_of_the_largest_whole_stays_in_bounds() {
        let most = IntOrString::from("9223372036854775807%");
        assert_eq!(scaled(&most, u32::MAX, Rounding::Up), Ok(i64::MAX));
    }

    #[test]
    fn other_texts_are_refused() {
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
