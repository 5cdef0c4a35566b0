//! Parses and prints Go durations: `1h30m` in a strategy is `1h30m0s` in a status.

use jiff::SignedDuration;

/// Units of Go durations in nanoseconds; longer names first, so that `m` does not match `ms`.
const UNITS: &[(&str, i128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

/// Parses a Go duration such as `1h30m` or `1.5h`. Signs are not accepted; the schema rejects them too.
pub(crate) fn parse(text: &str) -> Option<SignedDuration> {
    if text == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut rest = text;
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let (unit, nanoseconds) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        total = total.checked_add(scaled(number, *nanoseconds)?)?;
        rest = after.strip_prefix(unit)?;
    }
    let second = 1_000_000_000;
    (!text.is_empty()).then_some(())?;
    Some(SignedDuration::new(i64::try_from(total / second).ok()?, i32::try_from(total % second).ok()?))
}

/// A decimal number times a unit, in whole nanoseconds.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut total = if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()?.checked_mul(unit)? };
    let mut place = unit;
    for digit in fraction.chars() {
        place /= 10;
        total = total.checked_add(i128::from(digit.to_digit(10)?) * place)?;
    }
    Some(total)
}

/// Prints a duration as Go does: hours, minutes and seconds, with smaller units only below a second.
pub(crate) fn print(duration: SignedDuration) -> String {
    let nanoseconds = duration.subsec_nanos();
    match duration.as_secs() {
        0 if nanoseconds == 0 => "0s".to_owned(),
        0 if nanoseconds < 1_000 => format!("{nanoseconds}ns"),
        0 if nanoseconds < 1_000_000 => with_fraction(i64::from(nanoseconds), 1_000, "µs"),
        0 => with_fraction(i64::from(nanoseconds), 1_000_000, "ms"),
        seconds => {
            let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
            let rest = with_fraction(seconds % 60 * 1_000_000_000 + i64::from(nanoseconds), 1_000_000_000, "s");
            match (hours, minutes) {
                (0, 0) => rest,
                (0, _) => format!("{minutes}m{rest}"),
                _ => format!("{hours}h{minutes}m{rest}"),
            }
        }
    }
}

fn with_fraction(amount: i64, unit: i64, word: &str) -> String {
    let width = unit.ilog10() as usize;
    let fraction = format!("{:0width$}", amount % unit);
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{}{dot}{fraction}{word}", amount / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_repeated_as_go_prints_them() {
        for (given, printed) in [
            ("30s", "30s"),
            ("1m", "1m0s"),
            ("90s", "1m30s"),
            ("1h", "1h0m0s"),
            ("1h30m", "1h30m0s"),
            ("1.5h", "1h30m0s"),
            ("0s", "0s"),
            ("0.5s", "500ms"),
            ("1.25s", "1.25s"),
            ("0.0015s", "1.5ms"),
            ("100us", "100µs"),
            ("36h0m5s", "36h0m5s"),
        ] {
            assert_eq!(parse(given).map(print).as_deref(), Some(printed), "{given}");
            assert_eq!(parse(printed), parse(given), "{printed}");
        }
    }

    #[test]
    fn other_texts_are_no_durations() {
        for text in ["", "1", "1d", "h", ".s", "1.2.3s", "-5s", "99999999999999999999h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
