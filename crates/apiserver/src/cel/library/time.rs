//! Durations and points in time.

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::{Offset, TimeZone};

use super::super::value::{Evaluated, Fault, Val};

const NANOS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration in Go's notation (`1h30m`), as nanoseconds.
pub(in crate::cel) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (_, nanos) = NANOS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(scaled(number, *nanos)?)?;
        rest = tail;
    }
    (!text.is_empty() && total <= i128::from(i64::MAX))
        .then(|| i64::try_from(if negative { -total } else { total }).ok())
        .flatten()
        .filter(|_| text.ends_with(|c: char| c.is_ascii_alphabetic()))
}

fn scaled(number: &str, nanos: i128) -> Option<i128> {
    /// Digits after the point that can matter: hours have 3.6e12 nanoseconds.
    const FRACTION_DIGITS: usize = 15;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS)];
    let below = if fraction.is_empty() { 0 } else { fraction.parse::<i128>().ok()? };
    let power = 10i128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_mul(nanos)?.checked_add(below * nanos / power)
}

/// A point in time in RFC 3339 notation.
pub(in crate::cel) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// `string(duration)`: seconds, however long.
pub(super) fn duration_text(nanos: i64) -> String {
    let (sign, magnitude) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let fraction = format!(".{:09}", magnitude % 1_000_000_000);
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{sign}{}{fraction}s", magnitude / 1_000_000_000)
}

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    match args {
        [Val::Duration(nanos)] => {
            let unit = match name {
                "getHours" => 3_600_000_000_000,
                "getMinutes" => 60_000_000_000,
                "getSeconds" => 1_000_000_000,
                "getMilliseconds" => 1_000_000,
                _ => return None,
            };
            Some(Ok(Val::Int(nanos / unit)))
        }
        [Val::Timestamp(time)] => part(name, *time, TimeZone::UTC),
        [Val::Timestamp(time), Val::Text(zone)] => match time_zone(zone) {
            Some(zone) => part(name, *time, zone),
            None => Some(Err(Fault::new(format!("unknown time zone {}", &**zone)))),
        },
        _ => None,
    }
}

/// An offset as `+02:00`, or the name of a zone.
fn time_zone(text: &str) -> Option<TimeZone> {
    let Some((hours, minutes)) = text.split_once(':') else { return TimeZone::get(text).ok() };
    let negative = hours.starts_with('-');
    let hours: i32 = hours.trim_start_matches(['+', '-']).parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    let seconds = hours * 3600 + minutes * 60;
    Some(Offset::from_seconds(if negative { -seconds } else { seconds }).ok()?.to_time_zone())
}

fn part<'a>(name: &str, time: Timestamp, zone: TimeZone) -> Option<Evaluated<'a>> {
    let local = time.to_zoned(zone);
    let value = match name {
        "getFullYear" => i64::from(local.year()),
        "getMonth" => i64::from(local.month()) - 1,
        "getDate" => i64::from(local.day()),
        "getDayOfMonth" => i64::from(local.day()) - 1,
        "getDayOfWeek" => i64::from(local.weekday().since(Weekday::Sunday)),
        "getDayOfYear" => i64::from(local.day_of_year()) - 1,
        "getHours" => i64::from(local.hour()),
        "getMinutes" => i64::from(local.minute()),
        "getSeconds" => i64::from(local.second()),
        "getMilliseconds" => i64::from(local.millisecond()),
        _ => return None,
    };
    Some(Ok(Val::Int(value)))
}

#[test]
fn durations_are_read_as_go_reads_them() {
    let read: Vec<Option<i64>> = ["1h30m", "1.5s", "-2ms", "0", "", "5", "1x", ".", "3ns4"].map(parse_duration).into();
    let expected =
        [Some(5_400_000_000_000), Some(1_500_000_000), Some(-2_000_000), Some(0), None, None, None, None, None];
    assert_eq!(read, expected);
    assert_eq!(duration_text(-1_500_000_000), "-1.5s");
}
