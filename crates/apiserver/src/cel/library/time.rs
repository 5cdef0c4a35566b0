//! Durations and points in time.

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::{Offset, TimeZone};
use k8s_values::GoDuration;

use super::super::value::{Evaluated, Fault, Val};

/// A duration in Go's notation (`1h30m`), as nanoseconds.
pub(in crate::cel) fn parse_duration(text: &str) -> Option<i64> {
    text.parse().ok().map(GoDuration::as_nanos)
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
fn durations_are_printed_in_seconds() {
    assert_eq!(duration_text(-1_500_000_000), "-1.5s");
}
