//! Instants as they stand on the wire: RFC 3339, UTC, whole seconds.
//!
//! Decides the precision that survives a round trip. Never reads a clock.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant with the precision of Kubernetes' `metav1.Time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Timestamp);

impl Time {
    /// Cuts to whole seconds: what cannot be written must not be compared with.
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
        text.parse::<Timestamp>().map(Self::new).map_err(serde::de::Error::custom)
    }
}

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
    fn a_text_that_is_no_instant_is_refused() {
        assert!(serde_json::from_str::<Time>(r#""yesterday""#).is_err());
    }
}
