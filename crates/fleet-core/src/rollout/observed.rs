//! The facts that a rolling update rests on, each read once from its object.
//!
//! Decides what an object means to a rollout: which snapshot is meant by "latest", what a binding carries. Objects are
//! borrowed, never copied. Never decides what to do about them.

use std::collections::BTreeMap;

use fleet_api::conditions::Condition;
use fleet_api::kinds::{Binding, Family, Obj, Placement, Scope, Snapshot};
use fleet_api::types::{BindingState, DeletePropagationPolicy, PlacementSpec, ResourceBindingSpec};
use fleet_api::well_known::annotations;

use crate::overrides::Pins;

/// Everything that one plan is made from.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub placement: PlacementFacts<'a>,
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
        Self { deleting: is_deleting(placement), spec: &placement.spec }
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
    /// Not written yet.
    Missing,
    /// More than one is marked, as in the middle of a change: which one counts cannot be known.
    Several(usize),
    /// The one of this name.
    One(&'a str),
}

impl<'a> LatestSnapshot<'a> {
    /// From all snapshots of the placement that are marked as the latest.
    pub fn of<S: Scope>(marked: &[&'a Obj<Snapshot, S>]) -> Self {
        let masters: Vec<_> =
            marked.iter().filter(|one| annotation(**one, annotations::RESOURCE_HASH).is_some()).collect();
        match masters.as_slice() {
            [] => LatestSnapshot::Missing,
            [one] => LatestSnapshot::One(name(one)),
            several => LatestSnapshot::Several(several.len()),
        }
    }
}

/// Which override snapshots apply to the latest content.
#[derive(Debug, Clone)]
pub enum Overrides<'a> {
    /// It cannot be told yet: an override is between two of its snapshots, or the group of resource snapshots is incomplete.
    Unsettled,
    /// By cluster; a cluster that is not listed has none.
    Matched(BTreeMap<&'a str, ClusterOverrides>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterOverrides {
    /// Some override matches the content, but the cluster whose labels decide is no longer in the fleet.
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
    /// Whether it says already that its resources stay on the cluster.
    pub abandoned: bool,
    /// Whether its cluster is no longer in the fleet: whatever was reported, nobody has resources through it.
    pub gone: bool,
}

impl<'a> BindingFacts<'a> {
    pub fn of<S: Scope>(binding: &'a Obj<Binding, S>) -> Self {
        Self {
            name: name(binding),
            cluster: &binding.spec.target_cluster,
            deleting: is_deleting(binding),
            generation: binding.generation(),
            spec: &binding.spec,
            conditions: binding.status.as_ref().map_or(&[], |status| &status.conditions),
            abandoned: annotation(binding, annotations::DELETE_PROPAGATION)
                == Some(DeletePropagationPolicy::Abandon.as_str()),
            gone: false,
        }
    }

    /// The same for a cluster that is no longer in the fleet, if that is so.
    #[must_use]
    pub fn gone_if(self, gone: bool) -> Self {
        Self { gone, ..self }
    }

    /// Whether the cluster has, or is about to get, resources through it.
    pub(super) fn carries(&self) -> bool {
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

fn name<F: Family, S: Scope>(object: &Obj<F, S>) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

fn is_deleting<F: Family, S: Scope>(object: &Obj<F, S>) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

fn annotation<'o, F: Family, S: Scope>(object: &'o Obj<F, S>, key: &str) -> Option<&'o str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
