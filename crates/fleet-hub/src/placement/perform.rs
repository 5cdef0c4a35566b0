//! How each write of a placement's plan becomes a request, and which of them may wait.
//!
//! Decides that a status in which only clusters have moved may be put off for a moment, because more of them will. Never
//! decides what is written.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_api::kinds::{ClusterResourcePlacementStatus, Obj, Placement, PolicySnapshot, Scope, Snapshot};
use fleet_api::names::PlacementKey;
use fleet_api::types::PlacementStatus;
use fleet_api::well_known::{annotations, finalizers};
use fleet_core::placement::{StatusCopy, Write as Planned, owner_of};
use fleet_runtime::Write;

use crate::meta;

/// How long a status may wait in which nothing but single clusters has moved. Clusters report one by one, each several
/// times; readers do not notice so short a delay.
const STATUS_WINDOW: Duration = Duration::from_millis(250);

/// What a plan's writes refer to.
pub(crate) struct Performer<'a, S: Scope> {
    pub(crate) key: &'a PlacementKey,
    pub(crate) placement: &'a Obj<Placement, S>,
    pub(crate) policy_snapshots: BTreeMap<&'a str, &'a Obj<PolicySnapshot, S>>,
    pub(crate) resource_snapshots: BTreeMap<&'a str, &'a Obj<Snapshot, S>>,
    pub(crate) status_copy: Option<&'a ClusterResourcePlacementStatus>,
    /// The status that the plan leads to, if it is another.
    pub(crate) status: Option<&'a PlacementStatus>,
}

impl<S: Scope> Performer<'_, S> {
    /// `None` for a snapshot that was not observed, of which no plan speaks.
    pub(crate) fn write(&self, planned: &Planned) -> Option<Write> {
        let placement = self.placement;
        match planned {
            Planned::HoldPlacement => {
                Some(Write::change(placement, &meta::with_finalizer(placement, finalizers::PLACEMENT)))
            }
            Planned::ReleasePlacement => {
                Some(Write::change(placement, &meta::without_finalizer(placement, finalizers::PLACEMENT)))
            }
            Planned::CreatePolicySnapshot(new) => Some(Write::create(&new.object::<S>(self.key, owner_of(placement)))),
            Planned::RefreshPolicySnapshot { snapshot, placement_generation, number_of_clusters } => {
                self.policy(snapshot, |changed| {
                    meta::set_latest(changed, true);
                    meta::annotate(changed, annotations::PLACEMENT_GENERATION, placement_generation.to_string());
                    if let Some(number) = number_of_clusters {
                        meta::annotate(changed, annotations::NUMBER_OF_CLUSTERS, number.to_string());
                    }
                })
            }
            Planned::RetirePolicySnapshot { snapshot } => {
                self.policy(snapshot, |changed| meta::set_latest(changed, false))
            }
            Planned::DeletePolicySnapshot { snapshot } => {
                self.policy_snapshots.get(snapshot.as_str()).map(|snapshot| Write::delete(*snapshot))
            }
            Planned::CreateResourceSnapshot(new) => {
                Some(Write::create(&new.object::<S>(self.key, owner_of(placement))))
            }
            Planned::MarkResourceSnapshot { snapshot, latest } => {
                self.resource(snapshot, |changed| meta::set_latest(changed, *latest))
            }
            Planned::NoteChange { snapshot, seen } => self.resource(snapshot, |changed| {
                meta::annotate(changed, annotations::NEXT_SNAPSHOT_DETECTED_AT, seen.to_string());
            }),
            Planned::DeleteResourceSnapshot { snapshot } => {
                self.resource_snapshots.get(snapshot.as_str()).map(|snapshot| Write::delete(*snapshot))
            }
            Planned::CopyStatus(copy) => Some(self.patiently(self.copy(copy))),
        }
    }

    /// The write of the status itself, if it is another.
    pub(super) fn status(&self) -> Option<Write> {
        let mut reported = self.placement.clone();
        reported.status = Some(self.status?.clone());
        Some(self.patiently(Write::status(self.placement, &reported)))
    }

    fn copy(&self, copy: &StatusCopy) -> Write {
        let wanted = copy.object(self.key, owner_of(self.placement));
        let Some(old) = self.status_copy else { return Write::create(&wanted) };
        let mut changed = old.clone();
        changed.spec = wanted.spec;
        changed.status = wanted.status;
        changed.metadata.owner_references = wanted.metadata.owner_references;
        Write::change(old, &changed)
    }

    fn patiently(&self, write: Write) -> Write {
        let is_intermediate = match (&self.placement.status, self.status) {
            (Some(old), Some(new)) => only_clusters_moved(old, new),
            _ => false,
        };
        if is_intermediate { write.coalesce(STATUS_WINDOW) } else { write }
    }

    fn policy(&self, name: &str, change: impl FnOnce(&mut Obj<PolicySnapshot, S>)) -> Option<Write> {
        Some(changed(self.policy_snapshots.get(name).copied()?, change))
    }

    fn resource(&self, name: &str, change: impl FnOnce(&mut Obj<Snapshot, S>)) -> Option<Write> {
        Some(changed(self.resource_snapshots.get(name).copied()?, change))
    }
}

fn changed<K: fleet_runtime::Writable + Clone>(old: &K, change: impl FnOnce(&mut K)) -> Write {
    let mut new = old.clone();
    change(&mut new);
    Write::change(old, &new)
}

/// Whether nothing differs but what is said of single clusters, and how many of them there are.
fn only_clusters_moved(old: &PlacementStatus, new: &PlacementStatus) -> bool {
    let gist = |status: &PlacementStatus| -> Vec<_> {
        let conditions = status.conditions.iter();
        conditions.map(|one| (one.type_.clone(), one.status, one.reason.clone(), one.observed_generation)).collect()
    };
    let clusters = |status: &PlacementStatus| -> Vec<String> {
        status.placement_statuses.iter().map(|entry| entry.cluster_name.clone()).collect()
    };
    old.selected_resources == new.selected_resources
        && old.observed_resource_index == new.observed_resource_index
        && clusters(old) == clusters(new)
        && gist(old) == gist(new)
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
    }
}
