//! The part of an applied object that is reported back to the hub: its status.

use fleet_api::time::Time;
use fleet_api::types::{BackReportedStatus, EmbeddedObject};
use serde_json::{Map, Value};

/// The status to report back; `None` if the object has no status.
pub fn of_live(live: &Value, now: Time) -> Option<BackReportedStatus> {
    let status = live.get("status")?;
    let mut report = Map::new();
    for field in ["apiVersion", "kind"] {
        report.insert(field.to_owned(), live.get(field).cloned().unwrap_or_default());
    }
    report.insert("status".to_owned(), status.clone());
    Some(BackReportedStatus { observed_status: Some(EmbeddedObject(Value::Object(report))), observation_time: now })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn applier_s55_only_the_status_is_reported_and_unchanged() {
        let now = Time::new(jiff::Timestamp::UNIX_EPOCH);
        let live = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1},
            "status": {"replicas": 1, "conditions": []},
        });
        let report = of_live(&live, now).unwrap();
        assert_eq!(
            serde_json::to_value(report.observed_status).unwrap(),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 1, "conditions": []}})
        );
        assert_eq!(of_live(&json!({"apiVersion": "v1", "kind": "ConfigMap"}), now), None);
    }
}
