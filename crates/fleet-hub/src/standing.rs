//! How far placements are, for dashboards: `fleet_workload_placement_status_last_timestamp_seconds`.
//!
//! Decides the one series of each placement from its status, at every scrape: the first of the expected conditions that is not
//! True, or that all are, and since when. So a restart changes nothing and a deleted placement leaves no series behind. Never
//! decides what a status says.

use std::fmt;

use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::placement::{PlacementScheduled, PlacementScope};
use fleet_api::conditions::{ConditionState as _, ConditionStatus};
use fleet_api::kinds::{Cluster, Namespaced, Obj, Placement, Scope, ScopeKind};
use fleet_api::types::{ApplyStrategy, ApplyStrategyType};
use fleet_api::well_known::metrics;
use fleet_runtime::Cache;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;

use crate::meta::name;

/// What stands for a condition that is missing, or of an older generation.
const NOTHING: &str = "nil";
/// What stands for all conditions where all are True.
const COMPLETED: &str = "Completed";

/// Shows the placements of both scopes.
#[derive(Debug)]
pub(crate) struct Standings {
    pub(crate) cluster: Cache<Obj<Placement, Cluster>>,
    pub(crate) namespaced: Option<Cache<Obj<Placement, Namespaced>>>,
}

impl Collector for Standings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Since when a placement is where it is: at its first condition that is not True, or completed";
        let mut series = encoder.encode_descriptor(metrics::PLACEMENT_STATUS, help, None, MetricType::Gauge)?;
        show(&self.cluster, &mut series)?;
        self.namespaced.as_ref().map_or(Ok(()), |placements| show(placements, &mut series))
    }
}

fn show<S: Scope>(placements: &Cache<Obj<Placement, S>>, series: &mut MetricEncoder<'_>) -> fmt::Result {
    for placement in placements.list() {
        let standing = Standing::of(&placement);
        let generation = placement.generation().to_string();
        let labels = [
            ("namespace", placement.metadata.namespace.as_deref().unwrap_or_default()),
            ("name", name(&*placement)),
            ("generation", &generation),
            ("conditionType", &standing.condition_type),
            ("status", standing.status),
            ("reason", &standing.reason),
        ];
        series.encode_family(&labels)?.encode_gauge(&standing.since)?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Standing {
    condition_type: String,
    status: &'static str,
    reason: String,
    /// In seconds since 1970.
    since: i64,
}

impl Standing {
    fn of<S: Scope>(placement: &Obj<Placement, S>) -> Self {
        let scope = match S::KIND {
            ScopeKind::Cluster => PlacementScope::Cluster,
            ScopeKind::Namespaced => PlacementScope::Namespaced,
        };
        let conditions = placement.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let changed = conditions.iter().map(|condition| condition.last_transition_time.instant().as_second()).max();
        let created = placement.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
        let since = changed.or(created).unwrap_or_default();
        let steps = steps(placement).iter().map(|step| step.placement_type_word(scope));
        for expected in std::iter::once(PlacementScheduled::type_word(scope)).chain(steps) {
            let current = conditions
                .iter()
                .find(|one| one.type_ == expected && one.observed_generation == placement.generation());
            let (status, reason) = match current.map(|one| (one.status, one.reason.as_str())) {
                Some((ConditionStatus::True, _)) => continue,
                Some((ConditionStatus::False, reason)) => ("False", reason),
                Some((ConditionStatus::Unknown, reason)) => ("Unknown", reason),
                None => (NOTHING, NOTHING),
            };
            return Self { condition_type: expected.to_owned(), status, reason: reason.to_owned(), since };
        }
        Self { condition_type: COMPLETED.to_owned(), status: "True", reason: COMPLETED.to_owned(), since }
    }
}

/// What is expected of a placement after it was scheduled.
fn steps<S: Scope>(placement: &Obj<Placement, S>) -> &'static [RolloutStep] {
    let strategy = placement.spec.strategy.as_ref().and_then(|strategy| strategy.apply_strategy.as_ref());
    match strategy.map(ApplyStrategy::strategy_type).unwrap_or_default() {
        ApplyStrategyType::ReportDiff => RolloutStep::REPORTING_DIFF,
        ApplyStrategyType::ClientSideApply | ApplyStrategyType::ServerSideApply => RolloutStep::APPLYING,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn standing(conditions: &[(&str, &str, &str, i64)]) -> (String, &'static str, String, i64) {
        let condition = |(type_, status, reason, generation): &(&str, &str, &str, i64)| -> Value {
            json!({"type": type_, "status": status, "reason": reason, "observedGeneration": generation, "message": "",
                "lastTransitionTime": "1970-01-01T00:02:00Z"})
        };
        let placement: Obj<Placement, Cluster> = serde_json::from_value(json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": {"name": "web", "generation": 2, "creationTimestamp": "1970-01-01T00:01:00Z"},
            "spec": {"resourceSelectors": []},
            "status": {"conditions": conditions.iter().map(condition).collect::<Vec<_>>()},
        }))
        .unwrap();
        let Standing { condition_type, status, reason, since } = Standing::of(&placement);
        (condition_type, status, reason, since)
    }

    #[test]
    fn a_placement_stands_at_its_first_condition_that_is_not_true() {
        let told = |type_: &str, status, reason: &str, since| (type_.to_owned(), status, reason.to_owned(), since);
        assert_eq!(standing(&[]), told("ClusterResourcePlacementScheduled", "nil", "nil", 60));
        let scheduled = ("ClusterResourcePlacementScheduled", "True", "SchedulingPolicyFulfilled", 2);
        assert_eq!(
            standing(&[scheduled, ("ClusterResourcePlacementRolloutStarted", "False", "RolloutNotStartedYet", 2)]),
            told("ClusterResourcePlacementRolloutStarted", "False", "RolloutNotStartedYet", 120)
        );
        assert_eq!(
            standing(&[scheduled, ("ClusterResourcePlacementRolloutStarted", "True", "RolloutStarted", 1)]),
            told("ClusterResourcePlacementRolloutStarted", "nil", "nil", 120),
            "of an older generation"
        );
        let types = ["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"];
        let types: Vec<String> = types.iter().map(|one| format!("ClusterResourcePlacement{one}")).collect();
        let mut all = vec![scheduled];
        all.extend(types.iter().map(|type_| (type_.as_str(), "True", "Fine", 2)));
        assert_eq!(standing(&all), told("Completed", "True", "Completed", 120));
    }
}
