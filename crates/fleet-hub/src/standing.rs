//! How far placements are, for dashboards: `fleet_workload_placement_status_last_timestamp_seconds`.
//!
//! Decides the series that a placement is shown in whenever it was looked at: the first of the expected conditions that is not
//! True, or that all are, with the time of that look. Where it stood before keeps its last time, so that the latest one says where
//! it is, and the others how it came there. A deleted placement leaves no series behind. Never decides what a status says.

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

/// What stands for a condition that is missing, or of an older generation.
const NOTHING: &str = "nil";
/// What stands for all conditions where all are True.
const COMPLETED: &str = "Completed";
/// States of one placement that are remembered. More than it goes through in several generations; a placement that is edited for
/// years must not fill the memory, or Prometheus.
const MOST_STATES: usize = 50;

/// Where the placements of both scopes stand and stood. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standings(Arc<Mutex<BTreeMap<PlacementKey, States>>>);

/// In the order in which they were last seen, each with its time in seconds since 1970.
type States = Vec<(Standing, f64)>;

impl Standings {
    /// A placement was looked at, and this is its status now.
    pub(crate) fn seen<S: Scope>(
        &self,
        key: &PlacementKey,
        placement: &Obj<Placement, S>,
        status: Option<&PlacementStatus>,
        now: Timestamp,
    ) {
        let standing = Standing::of(placement, status);
        let mut all = self.0.lock();
        let states = all.entry(key.clone()).or_default();
        states.retain(|(known, _)| *known != standing);
        if states.len() >= MOST_STATES {
            states.remove(0);
        }
        states.push((standing, now.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64()));
    }

    /// A placement is gone.
    pub(crate) fn forget(&self, key: &PlacementKey) {
        self.0.lock().remove(key);
    }
}

impl Collector for Standings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "When a placement was last seen at its first condition that is not True, or completed";
        let mut series = encoder.encode_descriptor(metrics::PLACEMENT_STATUS, help, None, MetricType::Gauge)?;
        for (key, states) in &*self.0.lock() {
            for (standing, at) in states {
                let generation = standing.generation.to_string();
                let labels = [
                    ("namespace", key.namespace.as_ref().map_or("", NamespaceName::as_str)),
                    ("name", key.name.as_str()),
                    ("generation", &generation),
                    ("conditionType", standing.condition_type),
                    ("status", standing.status),
                    ("reason", &standing.reason),
                ];
                series.encode_family(&labels)?.encode_gauge(at)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Standing {
    generation: i64,
    condition_type: &'static str,
    status: &'static str,
    reason: String,
}

impl Standing {
    fn of<S: Scope>(placement: &Obj<Placement, S>, status: Option<&PlacementStatus>) -> Self {
        let generation = placement.generation();
        let standing = placement::Standing::of(placement, status);
        let Some(milestone) = standing.at else {
            return Self { generation, condition_type: COMPLETED, status: "True", reason: COMPLETED.to_owned() };
        };
        let (status, reason) = match standing.said {
            Some(condition) => (condition.status.as_str(), condition.reason.clone()),
            None => (NOTHING, NOTHING.to_owned()),
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

    fn standing(conditions: &[(&str, &str, &str, i64)]) -> (&'static str, &'static str, String) {
        let placement = placement(2, conditions);
        let Standing { condition_type, status, reason, .. } = Standing::of(&placement, placement.status.as_ref());
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
    fn a_placement_stands_at_its_first_condition_that_is_not_true() {
        let told = |type_: &'static str, status, reason: &str| (type_, status, reason.to_owned());
        assert_eq!(standing(&[]), told("ClusterResourcePlacementScheduled", "nil", "nil"));
        assert_eq!(
            standing(&[SCHEDULED, ("ClusterResourcePlacementRolloutStarted", "False", "RolloutNotStartedYet", 2)]),
            told("ClusterResourcePlacementRolloutStarted", "False", "RolloutNotStartedYet")
        );
        assert_eq!(
            standing(&[SCHEDULED, ("ClusterResourcePlacementRolloutStarted", "True", "RolloutStarted", 1)]),
            told("ClusterResourcePlacementRolloutStarted", "nil", "nil"),
            "of an older generation"
        );
        assert_eq!(standing(&completed()), told("Completed", "True", "Completed"));
    }

    fn shown(standings: &Standings) -> Vec<String> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(standings.clone()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let name = format!("{}{{", metrics::PLACEMENT_STATUS);
        text.lines().filter_map(|line| line.strip_prefix(&name)).map(str::to_owned).collect()
    }

    #[test]
    fn every_look_moves_the_time_of_one_series_and_earlier_ones_stay_until_the_placement_is_gone() {
        let standings = Standings::default();
        let key = PlacementKey::parse("web").unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let look = |placement: &Obj<Placement, Cluster>, second| {
            standings.seen(&key, placement, placement.status.as_ref(), at(second));
        };
        let fresh = r#"namespace="",name="web",generation="2",conditionType="ClusterResourcePlacementScheduled",status="nil",reason="nil"} "#;
        let done =
            r#"namespace="",name="web",generation="2",conditionType="Completed",status="True",reason="Completed"} "#;
        look(&placement(2, &[]), 10);
        look(&placement(2, &[]), 20);
        assert_eq!(shown(&standings), [format!("{fresh}20.0")]);
        look(&placement(2, &completed()), 30);
        look(&placement(2, &completed()), 40);
        assert_eq!(shown(&standings), [format!("{fresh}20.0"), format!("{done}40.0")]);
        for generation in 3..200 {
            look(&placement(generation, &[]), 50 + generation);
        }
        assert_eq!(shown(&standings).len(), MOST_STATES, "the oldest are forgotten");
        standings.forget(&key);
        assert_eq!(shown(&standings), Vec::<String>::new());
    }
}
