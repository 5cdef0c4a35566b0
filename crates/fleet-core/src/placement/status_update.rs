//! The update of a placement's status and of its copy, and whether the write may be deferred because more changes
//! will follow.

use std::time::Duration;

use fleet_api::conditions::{Condition, ConditionStatus};
use fleet_api::types::PlacementStatus;

use super::observed::PlacementFacts;
use super::status_copy::StatusCopy;
use crate::plan::StatusWrite;

/// How long a status may be deferred if only single clusters have changed. Clusters report one by one, each several
/// times.
const STATUS_WINDOW: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusUpdate {
    /// The new status; `None` if it has not changed. Deferred if only single clusters have changed and there is no copy, because
    /// more of them will.
    pub status: Option<StatusWrite<PlacementStatus>>,
    /// Written after the status. `copied` reports the result.
    pub copy: Option<StatusCopy>,
}

impl StatusUpdate {
    /// `None` if neither has changed.
    pub(super) fn of(
        placement: &PlacementFacts<'_>,
        status: PlacementStatus,
        copy: Option<StatusCopy>,
    ) -> Option<Self> {
        let is_deferrable =
            |new: &PlacementStatus| copy.is_none() && placement.status.is_some_and(|old| only_clusters_moved(old, new));
        let status = Some(status).filter(|new| placement.status != Some(new)).map(|status| {
            let defer = is_deferrable(&status).then_some(STATUS_WINDOW);
            StatusWrite { status, defer }
        });
        (status.is_some() || copy.is_some()).then_some(Self { status, copy })
    }
}

/// Whether only the entries of clusters and the numbers in messages have changed.
fn only_clusters_moved(old: &PlacementStatus, new: &PlacementStatus) -> bool {
    fn gist(one: &Condition) -> (&str, ConditionStatus, &str, i64) {
        (&one.type_, one.status, &one.reason, one.observed_generation)
    }
    let conditions = |status: &PlacementStatus| status.conditions.len();
    let entries = |status: &PlacementStatus| status.placement_statuses.len();
    old.selected_resources == new.selected_resources
        && old.observed_resource_index == new.observed_resource_index
        && (conditions(old), entries(old)) == (conditions(new), entries(new))
        && old.conditions.iter().zip(&new.conditions).all(|(old, new)| gist(old) == gist(new))
        && old
            .placement_statuses
            .iter()
            .zip(&new.placement_statuses)
            .all(|(old, new)| old.cluster_name == new.cluster_name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(reason: &str, message: &str, entry: &str) -> PlacementStatus {
        let condition = |reason: &str, message: &str| {
            json!({"type": "T", "status": "Unknown", "reason": reason, "message": message, "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        serde_json::from_value(json!({
            "conditions": [condition(reason, message)],
            "placementStatuses": [{"clusterName": "c1", "conditions": [condition(entry, "")]}],
        }))
        .unwrap()
    }

    #[test]
    fn a_status_may_wait_while_only_clusters_move() {
        let old = status("Busy", "2 clusters", "A");
        assert!(only_clusters_moved(&old, &status("Busy", "1 cluster", "B")));
        assert!(!only_clusters_moved(&old, &status("Done", "2 clusters", "A")));
        let mut other = old.clone();
        other.observed_resource_index = "1".to_owned();
        assert!(!only_clusters_moved(&old, &other));
        let mut fewer = old.clone();
        fewer.placement_statuses.clear();
        assert!(!only_clusters_moved(&old, &fewer));
        let mut renamed = old.clone();
        renamed.placement_statuses[0].cluster_name = "c2".to_owned();
        assert!(!only_clusters_moved(&old, &renamed));
        let mut silent = old.clone();
        silent.conditions.clear();
        assert!(!only_clusters_moved(&old, &silent));
    }
}
