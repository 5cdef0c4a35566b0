//! Go durations: `1h30m`, which is printed as `1h30m0s`.
//!
//! Never computes with floating point.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Units in nanoseconds. There are two letters µ.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const SECOND: u64 = 1_000_000_000;
/// Digits after the point that can matter: an hour has 3.6e12 nanoseconds.
const FRACTION_DIGITS: usize = 24;

/// A span of time in whole nanoseconds, of either sign. The longest has 292 years.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// The text is not a Go duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a duration")]
pub struct NotADuration;

impl GoDuration {
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// The longest or shortest duration if there is none of this length.
    pub fn saturating_from_nanos(nanoseconds: i128) -> Self {
        Self(i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX }))
    }

    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// `None` if the duration is negative.
    pub fn unsigned(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        let is_negative = text.starts_with('-');
        let total = magnitude(text.strip_prefix(['-', '+']).unwrap_or(text)).ok_or(NotADuration)?;
        i64::try_from(if is_negative { -total } else { total }).map(Self).map_err(|_| NotADuration)
    }
}

/// The sum of numbers with units, in nanoseconds.
fn magnitude(text: &str) -> Option<i128> {
    if text == "0" {
        return Some(0);
    }
    let is_numeric = |c: char| c.is_ascii_digit() || c == '.';
    let (mut total, mut rest) = (0_i128, text);
    loop {
        let (number, tail) = rest.split_at(rest.find(|c: char| !is_numeric(c))?);
        let (unit, tail) = tail.split_at(tail.find(is_numeric).unwrap_or(tail.len()));
        let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(scaled(number, *nanoseconds)?)?;
        rest = tail;
        if rest.is_empty() {
            return Some(total);
        }
    }
}

/// A decimal number times a unit; what is less than a nanosecond is cut off.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let parsed = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
    let kept = &fraction[..fraction.len().min(FRACTION_DIGITS)];
    let below = parsed(kept)? * unit / 10_i128.pow(u32::try_from(kept.len()).ok()?);
    parsed(whole)?.checked_mul(unit)?.checked_add(below)
}

impl fmt::Display for GoDuration {
    /// Hours, minutes and seconds; smaller units only below a second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanoseconds {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanoseconds}ns"),
            1_000..1_000_000 => decimal(f, nanoseconds, 1_000, "µs"),
            1_000_000..SECOND => decimal(f, nanoseconds, 1_000_000, "ms"),
            _ => {
                let minutes = nanoseconds / (60 * SECOND);
                match minutes / 60 {
                    0 if minutes == 0 => {}
                    0 => write!(f, "{minutes}m")?,
                    hours => write!(f, "{hours}h{}m", minutes % 60)?,
                }
                decimal(f, nanoseconds % (60 * SECOND), SECOND, "s")
            }
        }
    }
}

/// A number of units with as many digits after the point as it needs.
fn decimal(f: &mut fmt::Formatter<'_>, amount: u64, unit: u64, name: &str) -> fmt::Result {
    let width = unit.ilog10() as usize;
    let fraction = format!("{:0width$}", amount % unit);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    write!(f, "{}{point}{fraction}{name}", amount / unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nanos(text: &str) -> Option<i64> {
        text.parse().ok().map(GoDuration::as_nanos)
    }

    #[test]
    fn durations_are_printed_as_go_prints_them() {
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
            ("-1h0.5s", "-1h0m0.5s"),
            ("7ns", "7ns"),
        ] {
            assert_eq!(given.parse::<GoDuration>().unwrap().to_string(), printed, "{given}");
            assert_eq!(printed.parse::<GoDuration>(), given.parse(), "{printed}");
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("0", 0),
            ("-0", 0),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("5ms", 5_000_000),
            ("-2ms", -2_000_000),
            ("+2s", 2_000_000_000),
            ("1m0.5s", 60_500_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1µs1μs1us", 3_000),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("1.9ns", 1),
        ] {
            assert_eq!(nanos(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_text_is_no_duration() {
        for text in [
            "",
            "+",
            "1",
            "5",
            "1d",
            "1x",
            "h",
            "m",
            ".",
            ".s",
            "1.2.3s",
            "3ns4",
            "s5",
            "1 s",
            "1S",
            "--1s",
            "99999999999999999999h",
            "9999999999999999999999h",
        ] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }

    /// Waits of stages used to go up to the largest number of seconds, and flags to the largest float. Go's limit is
    /// stricter.
    #[test]
    fn no_duration_is_longer_than_292_years() {
        assert_eq!(nanos("9223372036854775807ns"), Some(i64::MAX));
        assert_eq!(nanos("-9223372036854775808ns"), Some(i64::MIN));
        assert_eq!(nanos("9223372036854775808ns"), None);
        assert_eq!(nanos("2562048h"), None);
        assert_eq!(GoDuration::saturating_from_nanos(i128::MAX).to_string(), "2562047h47m16.854775807s");
        assert_eq!(GoDuration::saturating_from_nanos(i128::MIN).as_nanos(), i64::MIN);
    }

    #[test]
    fn a_negative_duration_has_no_unsigned_form() {
        assert_eq!(GoDuration::from_nanos(-1).unsigned(), None);
        assert_eq!(GoDuration::from_nanos(1_000_000).unsigned(), Some(Duration::from_millis(1)));
    }

    proptest! {
        #[test]
        fn printed_durations_are_read_back(nanoseconds in any::<i64>()) {
            let duration = GoDuration::from_nanos(nanoseconds);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_input_panics(text in prop_oneof![".{0,12}", "[-+]?([0-9.]{0,40}(ns|us|ms|s|m|h)){0,3}"]) {
            let _ = text.parse::<GoDuration>();
        }
    }
}
