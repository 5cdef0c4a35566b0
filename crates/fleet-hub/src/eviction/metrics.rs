//! The metric `fleet_workload_eviction_complete`. It is computed from the cached evictions at every scrape, so a
//! restart changes nothing and a deleted eviction leaves no series.

use std::fmt;

use fleet_api::conditions::decode;
use fleet_api::conditions::eviction::EvictionValid;
use fleet_api::kinds::ClusterResourcePlacementEviction;
use fleet_api::well_known::metrics;
use fleet_core::eviction::{Verdict, verdict};
use fleet_runtime::Cache;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

/// Exports the evictions of a cache.
#[derive(Debug)]
pub(crate) struct EvictionMetrics(pub(crate) Cache<ClusterResourcePlacementEviction>);

impl Collector for EvictionMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "When an eviction was decided, or since when it waits";
        let mut series = encoder.encode_descriptor(metrics::EVICTION_COMPLETE, help, None, MetricType::Gauge)?;
        for eviction in self.0.list() {
            let Sample { completed, valid, at } = Sample::of(&eviction);
            let labels = [("name", eviction.name()), ("isCompleted", completed), ("isValid", valid)];
            series.encode_family(&labels)?.encode_gauge(&at)?;
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Sample {
    completed: &'static str,
    valid: &'static str,
    /// In seconds since 1970.
    at: i64,
}

impl Sample {
    fn of(eviction: &ClusterResourcePlacementEviction) -> Self {
        let conditions = eviction.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let decided = conditions.iter().map(|condition| condition.last_transition_time.instant().as_second()).max();
        let created = eviction.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
        if verdict(eviction) == Verdict::Pending {
            return Self { completed: "false", valid: "unknown", at: created.unwrap_or_default() };
        }
        let is_valid = decode::<EvictionValid>(conditions, eviction.generation()).is_true();
        let valid = if is_valid { "true" } else { "false" };
        Self { completed: "true", valid, at: decided.or(created).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_eviction_is_unknown_then_complete_and_valid_or_not() {
        let eviction = |conditions: serde_json::Value| -> ClusterResourcePlacementEviction {
            serde_json::from_value(json!({
                "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacementEviction",
                "metadata": {"name": "e", "generation": 1, "creationTimestamp": "1970-01-01T00:01:00Z"},
                "spec": {"placementName": "web", "clusterName": "c1"},
                "status": {"conditions": conditions},
            }))
            .unwrap()
        };
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": "", "observedGeneration": 1,
                "lastTransitionTime": "1970-01-01T00:02:00Z"})
        };
        let sample = |conditions| {
            let Sample { completed, valid, at } = Sample::of(&eviction(conditions));
            (completed, valid, at)
        };
        let valid = condition("Valid", "True", "ClusterResourcePlacementEvictionValid");
        let executed = condition("Executed", "False", "ClusterResourcePlacementEvictionNotExecuted");
        assert_eq!(sample(json!([])), ("false", "unknown", 60));
        assert_eq!(sample(json!([valid])), ("false", "unknown", 60), "recorded is not decided");
        assert_eq!(sample(json!([valid, executed])), ("true", "true", 120));
        let invalid = condition("Valid", "False", "ClusterResourcePlacementEvictionInvalid");
        assert_eq!(sample(json!([invalid])), ("true", "false", 120));
    }
}
