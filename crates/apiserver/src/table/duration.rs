//! Ages as `kubectl` prints them: `5s`, `3m20s`, `4h`, `2d3h`, `400d`.

use jiff::Timestamp;
use serde_json::{Value, json};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A span with two or three significant digits. One second ahead is still now; more is `<invalid>`.
pub fn human_duration(seconds: i64) -> String {
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds, MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds, HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds, DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds, YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two(seconds: i64, large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    match seconds % large / small {
        0 => format!("{}{large_unit}", seconds / large),
        rest => format!("{}{large_unit}{rest}{small_unit}", seconds / large),
    }
}

/// The age cell of a timestamp: `<unknown>` if there is none.
pub fn age(timestamp: Option<Timestamp>, now: Timestamp) -> String {
    timestamp.map_or_else(|| "<unknown>".to_owned(), |then| human_duration(now.duration_since(then).as_secs()))
}

/// The cell of a `date` column.
pub(crate) fn date_cell(value: &Value, now: Timestamp) -> Value {
    match value.as_str().map(str::parse::<Timestamp>) {
        Some(Ok(then)) => json!(age(Some(then), now)),
        Some(Err(_)) => json!("<invalid>"),
        None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_as_by_kubectl() {
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (183_600, "2d3h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (64_000_000, "2y10d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn invalid_and_missing_dates_are_distinguished() {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(date_cell(&json!("2026-01-01T00:00:00Z"), now), json!("60s"));
        assert_eq!(date_cell(&json!("yesterday"), now), json!("<invalid>"));
        assert_eq!(date_cell(&json!(7), now), Value::Null);
        assert_eq!(age(None, now), "<unknown>");
    }
}
