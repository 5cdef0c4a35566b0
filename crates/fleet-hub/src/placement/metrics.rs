//! The metric `fleet_workload_placement_status_last_timestamp_seconds`.
//!
//! Each reconcile updates the series of the first expected condition that is not True, or of `Completed`, with the
//! current time. Earlier series keep their last time, so that the latest one shows the current state. A deleted
//! placement leaves no series.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fleet_api::kinds::{Obj, Placement, Scope};
use fleet_api::names::{NamespaceName, PlacementKey};
use fleet_api::types::PlacementStatus;
use fleet_api::well_known::metrics;
use fleet_core::placement;
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

/// Label value for a condition that is missing or of an older generation.
const NIL: &str = "nil";
/// Label value if all expected conditions are True.
const COMPLETED: &str = "Completed";
/// Maximum number of series per placement: enough for several generations, and a bound for placements that are edited
/// for years.
const MAX_SERIES: usize = 50;

/// The series of the placements of both scopes. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlacementStatusMetrics(Arc<Mutex<BTreeMap<PlacementKey, SeriesTimes>>>);

/// Ordered by last observation, with its time in seconds since 1970.
type SeriesTimes = Vec<(StatusSeries, f64)>;

impl PlacementStatusMetrics {
    /// Updates the series of a placement after a reconcile.
    pub(crate) fn observe<S: Scope>(
        &self,
        key: &PlacementKey,
        placement: &Obj<Placement, S>,
        status: Option<&PlacementStatus>,
        now: Timestamp,
    ) {
        let current = StatusSeries::of(placement, status);
        let mut all = self.0.lock();
        let states = all.entry(key.clone()).or_default();
        states.retain(|(known, _)| *known != current);
        if states.len() >= MAX_SERIES {
            states.remove(0);
        }
        states.push((current, now.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64()));
    }

    /// Removes the series of a deleted placement.
    pub(crate) fn forget(&self, key: &PlacementKey) {
        self.0.lock().remove(key);
    }
}

impl Collector for PlacementStatusMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "When a placement was last seen at its first condition that is not True, or completed";
        let mut series = encoder.encode_descriptor(metrics::PLACEMENT_STATUS, help, None, MetricType::Gauge)?;
        for (key, states) in &*self.0.lock() {
            for (state, at) in states {
                let generation = state.generation.to_string();
                let labels = [
                    ("namespace", key.namespace.as_ref().map_or("", NamespaceName::as_str)),
                    ("name", key.name.as_str()),
                    ("generation", &generation),
                    ("conditionType", state.condition_type),
                    ("status", state.status),
                    ("reason", &state.reason),
                ];
                series.encode_family(&labels)?.encode_gauge(at)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StatusSeries {
    generation: i64,
    condition_type: &'static str,
    status: &'static str,
    reason: String,
}

impl StatusSeries {
    fn of<S: Scope>(placement: &Obj<Placement, S>, status: Option<&PlacementStatus>) -> Self {
        let generation = placement.generation();
        let progress = placement::PlacementProgress::of(placement, status);
        let Some(milestone) = progress.at else {
            return Self { generation, condition_type: COMPLETED, status: "True", reason: COMPLETED.to_owned() };
        };
        let (status, reason) = match progress.said {
            Some(condition) => (condition.status.as_str(), condition.reason.clone()),
            None => (NIL, NIL.to_owned()),
        };
        Self { generation, condition_type: milestone.type_word(S::KIND.into()), status, reason }
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::kinds::Cluster;
    use prometheus_client::registry::Registry;
    use serde_json::{Value, json};

    use super::*;

    fn placement(generation: i64, conditions: &[(&str, &str, &str, i64)]) -> Obj<Placement, Cluster> {
        let condition = |(type_, status, reason, generation): &(&str, &str, &str, i64)| -> Value {
            json!({"type": type_, "status": status, "reason": reason, "observedGeneration": generation, "message": "",
                "lastTransitionTime": "1970-01-01T00:02:00Z"})
        };
        serde_json::from_value(json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": {"name": "web", "generation": generation},
            "spec": {"resourceSelectors": []},
            "status": {"conditions": conditions.iter().map(condition).collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    fn series(conditions: &[(&str, &str, &str, i64)]) -> (&'static str, &'static str, String) {
        let placement = placement(2, conditions);
        let StatusSeries { condition_type, status, reason, .. } =
            StatusSeries::of(&placement, placement.status.as_ref());
        (condition_type, status, reason)
    }

    const SCHEDULED: (&str, &str, &str, i64) =
        ("ClusterResourcePlacementScheduled", "True", "SchedulingPolicyFulfilled", 2);

    fn completed() -> Vec<(&'static str, &'static str, &'static str, i64)> {
        let types = [
            "ClusterResourcePlacementRolloutStarted",
            "ClusterResourcePlacementOverridden",
            "ClusterResourcePlacementWorkSynchronized",
            "ClusterResourcePlacementApplied",
            "ClusterResourcePlacementAvailable",
        ];
        std::iter::once(SCHEDULED).chain(types.map(|type_| (type_, "True", "Fine", 2))).collect()
    }

    #[test]
    fn the_series_shows_the_first_condition_that_is_not_true() {
        let expected = |type_: &'static str, status, reason: &str| (type_, status, reason.to_owned());
        assert_eq!(series(&[]), expected("ClusterResourcePlacementScheduled", "nil", "nil"));
        assert_eq!(
            series(&[SCHEDULED, ("ClusterResourcePlacementRolloutStarted", "False", "RolloutNotStartedYet", 2)]),
            expected("ClusterResourcePlacementRolloutStarted", "False", "RolloutNotStartedYet")
        );
        assert_eq!(
            series(&[SCHEDULED, ("ClusterResourcePlacementRolloutStarted", "True", "RolloutStarted", 1)]),
            expected("ClusterResourcePlacementRolloutStarted", "nil", "nil"),
            "of an older generation"
        );
        assert_eq!(series(&completed()), expected("Completed", "True", "Completed"));
    }

    fn exported(status_metrics: &PlacementStatusMetrics) -> Vec<String> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(status_metrics.clone()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let name = format!("{}{{", metrics::PLACEMENT_STATUS);
        text.lines().filter_map(|line| line.strip_prefix(&name)).map(str::to_owned).collect()
    }

    #[test]
    fn every_reconcile_updates_one_series_and_earlier_series_stay_until_the_placement_is_gone() {
        let status_metrics = PlacementStatusMetrics::default();
        let key = PlacementKey::parse("web").unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let reconcile = |placement: &Obj<Placement, Cluster>, second| {
            status_metrics.observe(&key, placement, placement.status.as_ref(), at(second));
        };
        let fresh = r#"namespace="",name="web",generation="2",conditionType="ClusterResourcePlacementScheduled",status="nil",reason="nil"} "#;
        let done =
            r#"namespace="",name="web",generation="2",conditionType="Completed",status="True",reason="Completed"} "#;
        reconcile(&placement(2, &[]), 10);
        reconcile(&placement(2, &[]), 20);
        assert_eq!(exported(&status_metrics), [format!("{fresh}20.0")]);
        reconcile(&placement(2, &completed()), 30);
        reconcile(&placement(2, &completed()), 40);
        assert_eq!(exported(&status_metrics), [format!("{fresh}20.0"), format!("{done}40.0")]);
        for generation in 3..200 {
            reconcile(&placement(generation, &[]), 50 + generation);
        }
        assert_eq!(exported(&status_metrics).len(), MAX_SERIES, "the oldest are forgotten");
        status_metrics.forget(&key);
        assert_eq!(exported(&status_metrics), Vec::<String>::new());
    }
}
