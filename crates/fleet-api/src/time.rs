//! Timestamps on the wire: RFC 3339, UTC, whole seconds.

use std::borrow::Cow;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_values::GoDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant with the precision of Kubernetes' `metav1.Time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Timestamp);

impl Time {
    /// Truncates to whole seconds, so that a value equals its stored form.
    pub fn new(instant: Timestamp) -> Self {
        Self(Timestamp::from_second(instant.as_second()).unwrap_or(instant))
    }

    pub fn instant(self) -> Timestamp {
        self.0
    }
}

impl From<Timestamp> for Time {
    fn from(instant: Timestamp) -> Self {
        Self::new(instant)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        match (text.parse::<Timestamp>(), beyond(&text)) {
            (Ok(instant), _) | (Err(_), Some(instant)) => Ok(Self::new(instant)),
            (Err(error), None) => Err(serde::de::Error::custom(error)),
        }
    }
}

/// A duration in the notation of Go, such as `1h30m0s`.
pub fn go_duration(duration: SignedDuration) -> GoDuration {
    GoDuration::saturating_from_nanos(duration.as_nanos())
}

/// The last possible instant, for one of the last hours of the year 9999. API servers accept these, and anyone who
/// may write a status may write one: it must not make the object unreadable.
fn beyond(text: &str) -> Option<Timestamp> {
    let (day, rest) = text.split_at_checked(LAST_DAYS[0].len())?;
    let is_time =
        rest.starts_with(['T', 't']) && rest[1..].chars().all(|one| one.is_ascii_digit() || "Zz.:+-".contains(one));
    (LAST_DAYS.contains(&day) && is_time).then_some(Timestamp::MAX)
}

/// The days on which the range of `Timestamp` ends, in any time zone.
const LAST_DAYS: [&str; 2] = ["9999-12-30", "9999-12-31"];

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_a_second_are_cut_and_offsets_become_utc() {
        let time: Time = serde_json::from_str(r#""2026-11-15T23:30:01.9+02:00""#).unwrap();
        assert_eq!(serde_json::to_string(&time).unwrap(), r#""2026-11-15T21:30:01Z""#);
    }

    #[test]
    fn audit_20_the_last_instant_of_kubernetes_can_be_read() {
        for text in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999Z", "9999-12-30T23:00:00-05:00"] {
            let time: Time = serde_json::from_value(text.into()).unwrap();
            assert_eq!(time, Time::new(Timestamp::MAX), "{text}");
        }
        for text in ["9999-12-31", "9999-12-31 and later", "9999-12-31Tx", "10000-01-01T00:00:00Z"] {
            assert!(serde_json::from_value::<Time>(text.into()).is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_times_are_refused() {
        assert!(serde_json::from_str::<Time>(r#""yesterday""#).is_err());
    }
}
