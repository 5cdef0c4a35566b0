//! Turns the writes of a placement's plan into requests.

use std::collections::BTreeMap;

use fleet_api::kinds::{ClusterResourcePlacementStatus, Obj, Placement, PolicySnapshot, Scope, Snapshot};
use fleet_api::names::PlacementKey;
use fleet_api::types::PlacementStatus;
use fleet_api::well_known::{annotations, finalizers};
use fleet_core::placement::{StatusCopy, StatusUpdate, Write as Planned, owner_of};
use fleet_runtime::Write;

use crate::meta;

/// The objects that a plan's writes refer to.
pub(crate) struct Executor<'a, S: Scope> {
    pub(crate) key: &'a PlacementKey,
    pub(crate) placement: &'a Obj<Placement, S>,
    pub(crate) policy_snapshots: BTreeMap<&'a str, &'a Obj<PolicySnapshot, S>>,
    pub(crate) resource_snapshots: BTreeMap<&'a str, &'a Obj<Snapshot, S>>,
}

impl<S: Scope> Executor<'_, S> {
    /// Returns `None` if the snapshot is not in the observation; a plan never refers to such a snapshot.
    pub(crate) fn write(&self, planned: Planned) -> Option<Write> {
        let placement = self.placement;
        match planned {
            Planned::AddPlacementFinalizer => {
                Some(Write::change(placement, &meta::with_finalizer(placement, finalizers::PLACEMENT)))
            }
            Planned::RemovePlacementFinalizer => {
                Some(Write::change(placement, &meta::without_finalizer(placement, finalizers::PLACEMENT)))
            }
            Planned::CreatePolicySnapshot(new) => Some(Write::create(&new.object::<S>(self.key, owner_of(placement)))),
            Planned::RefreshPolicySnapshot { snapshot, placement_generation, number_of_clusters } => {
                self.policy(&snapshot, |changed| {
                    meta::set_latest(changed, true);
                    meta::annotate(changed, annotations::PLACEMENT_GENERATION, placement_generation.to_string());
                    if let Some(number) = number_of_clusters {
                        meta::annotate(changed, annotations::NUMBER_OF_CLUSTERS, number.to_string());
                    }
                })
            }
            Planned::RetirePolicySnapshot { snapshot } => {
                self.policy(&snapshot, |changed| meta::set_latest(changed, false))
            }
            Planned::DeletePolicySnapshot { snapshot } => {
                self.policy_snapshots.get(snapshot.as_str()).map(|snapshot| Write::delete(*snapshot))
            }
            Planned::CreateResourceSnapshot(new) => {
                Some(Write::create(&new.object::<S>(self.key, owner_of(placement))))
            }
            Planned::MarkResourceSnapshot { snapshot, latest } => {
                self.resource(&snapshot, |changed| meta::set_latest(changed, latest))
            }
            Planned::RecordContentChange { snapshot, seen } => self.resource(&snapshot, |changed| {
                meta::annotate(changed, annotations::NEXT_SNAPSHOT_DETECTED_AT, seen.to_string());
            }),
            Planned::DeleteResourceSnapshot { snapshot } => {
                self.resource_snapshots.get(snapshot.as_str()).map(|snapshot| Write::delete(*snapshot))
            }
        }
    }

    fn policy(&self, name: &str, change: impl FnOnce(&mut Obj<PolicySnapshot, S>)) -> Option<Write> {
        Some(changed(self.policy_snapshots.get(name).copied()?, change))
    }

    fn resource(&self, name: &str, change: impl FnOnce(&mut Obj<Snapshot, S>)) -> Option<Write> {
        Some(changed(self.resource_snapshots.get(name).copied()?, change))
    }
}

/// The write of the status, then that of its copy, whose failure is not an error.
pub(super) fn status_writes<S: Scope>(
    update: &StatusUpdate,
    key: &PlacementKey,
    placement: &Obj<Placement, S>,
    found: Option<&ClusterResourcePlacementStatus>,
) -> Vec<Write> {
    let status = update.status.as_ref().map(|new| status_write(placement, &new.status).deferrable_for(new.defer));
    let copy = update.copy.as_ref().map(|copy| write_copy(copy, key, placement, found).best_effort());
    status.into_iter().chain(copy).collect()
}

/// The write of this status.
pub(super) fn status_write<S: Scope>(placement: &Obj<Placement, S>, status: &PlacementStatus) -> Write {
    let mut reported = placement.clone();
    reported.status = Some(status.clone());
    Write::status(placement, &reported)
}

fn write_copy<S: Scope>(
    copy: &StatusCopy,
    key: &PlacementKey,
    placement: &Obj<Placement, S>,
    found: Option<&ClusterResourcePlacementStatus>,
) -> Write {
    let wanted = copy.object(key, owner_of(placement));
    let Some(old) = found else { return Write::create(&wanted) };
    changed(old, |changed| {
        changed.spec = wanted.spec;
        changed.status = wanted.status;
        changed.metadata.owner_references = wanted.metadata.owner_references;
    })
}

fn changed<K: fleet_runtime::Writable + Clone>(old: &K, change: impl FnOnce(&mut K)) -> Write {
    let mut new = old.clone();
    change(&mut new);
    Write::change(old, &new)
}
