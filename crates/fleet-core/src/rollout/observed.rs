//! The input of a rollout's plan. Objects are borrowed, not copied.

use std::collections::BTreeMap;

use fleet_api::conditions::Condition;
use fleet_api::kinds::{Binding, Obj, Placement, Scope, Snapshot};
use fleet_api::types::{BindingState, DeletePropagationPolicy, PlacementSpec, ResourceBindingSpec};
use fleet_api::well_known::annotations;

use crate::overrides::Pins;

/// The input of a plan.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub placement: PlacementFacts<'a>,
    /// Whether the scheduler has decided for the placement's current generation. Until then an unscheduled cluster may
    /// be picked again.
    pub scheduled: bool,
    pub snapshot: LatestSnapshot<'a>,
    pub overrides: Overrides<'a>,
    /// All bindings of the placement, in any order.
    pub bindings: Vec<BindingFacts<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub struct PlacementFacts<'a> {
    pub deleting: bool,
    pub spec: &'a PlacementSpec,
}

impl<'a> PlacementFacts<'a> {
    pub fn of<S: Scope>(placement: &'a Obj<Placement, S>) -> Self {
        Self { deleting: placement.is_deleting(), spec: &placement.spec }
    }

    /// Whether its resources stay on the clusters when it is deleted.
    pub fn abandons(&self) -> bool {
        let strategy = self.spec.strategy.as_ref().and_then(|strategy| strategy.delete_strategy);
        strategy.unwrap_or_default().propagation_policy() == DeletePropagationPolicy::Abandon
    }
}

/// The master snapshot that is marked as the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatestSnapshot<'a> {
    /// Not created yet.
    Missing,
    /// More than one has the label, for example during a change.
    Several(usize),
    /// The one of this name.
    One(&'a str),
}

impl<'a> LatestSnapshot<'a> {
    /// From all snapshots of the placement that are marked as the latest.
    pub fn of<S: Scope>(marked: &[&'a Obj<Snapshot, S>]) -> Self {
        let masters: Vec<_> =
            marked.iter().filter(|one| one.annotation(annotations::RESOURCE_HASH).is_some()).collect();
        match masters.as_slice() {
            [] => LatestSnapshot::Missing,
            [one] => LatestSnapshot::One(one.name()),
            several => LatestSnapshot::Several(several.len()),
        }
    }
}

/// Which override snapshots apply to the latest content.
#[derive(Debug, Clone)]
pub enum Overrides<'a> {
    /// Unknown for now: an override has no latest snapshot, the group of resource snapshots is incomplete, or the scope of a
    /// kind is undiscovered.
    Unknown,
    /// By cluster. Clusters without overrides are missing.
    Matched(BTreeMap<&'a str, ClusterOverrides>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterOverrides {
    /// An override matches the content, but the cluster with the labels is no longer in the fleet.
    ClusterGone,
    Pinned(Pins),
}

#[derive(Debug, Clone, Copy)]
pub struct BindingFacts<'a> {
    pub name: &'a str,
    pub cluster: &'a str,
    pub deleting: bool,
    pub generation: i64,
    pub spec: &'a ResourceBindingSpec,
    pub conditions: &'a [Condition],
    /// Whether it has the annotation that its resources stay on the cluster.
    pub abandoned: bool,
    /// Whether its cluster has left the fleet. Its conditions then mean nothing.
    pub cluster_gone: bool,
}

impl<'a> BindingFacts<'a> {
    pub fn of<S: Scope>(binding: &'a Obj<Binding, S>) -> Self {
        Self {
            name: binding.name(),
            cluster: &binding.spec.target_cluster,
            deleting: binding.is_deleting(),
            generation: binding.generation(),
            spec: &binding.spec,
            conditions: binding.status.as_ref().map_or(&[], |status| &status.conditions),
            abandoned: binding.annotation(annotations::DELETE_PROPAGATION)
                == Some(DeletePropagationPolicy::Abandon.as_str()),
            cluster_gone: false,
        }
    }

    #[must_use]
    pub fn with_cluster_gone(self, cluster_gone: bool) -> Self {
        Self { cluster_gone, ..self }
    }

    /// Whether the cluster has, or is about to get, resources through it.
    pub(super) fn has_content(&self) -> bool {
        self.spec.state == BindingState::Bound || !self.spec.resource_snapshot_name.is_empty()
    }

    pub(super) fn has(&self, snapshot: &str) -> bool {
        self.spec.resource_snapshot_name == snapshot
    }

    pub(super) fn has_overrides(&self, wanted: &Pins) -> bool {
        let spec = self.spec;
        wanted.are_on(spec.resource_override_snapshots.as_deref(), spec.cluster_resource_override_snapshots.as_deref())
    }
}
