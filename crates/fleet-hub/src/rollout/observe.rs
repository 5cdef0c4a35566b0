//! Collects what a rollout depends on: the latest snapshots, whether the scheduler has decided, and the override
//! candidates, which are remembered.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_api::kinds::{Binding, Obj, Placement, Scope, Snapshot};
use fleet_api::names::PlacementKey;
use fleet_api::types::RolloutStrategyType;
use fleet_api::well_known::annotations;
use fleet_core::overrides::{Candidates, Scopes};
use fleet_core::rollout::{BindingFacts, LatestSnapshot, Overrides};
use fleet_runtime::ObjectKey;
use parking_lot::Mutex;

use super::Rollouts;
use super::overrides::PlacementOverrides;
use super::triggers::decided_for;
use crate::keys::object_key;
use crate::meta;
use crate::snapshot_content::{GroupId, group_of, is_complete};

/// Override candidates of the latest snapshots, by placement. Only names are kept.
#[derive(Debug, Clone, Default)]
pub(super) struct CandidateCache(Arc<Mutex<BTreeMap<PlacementKey, KnownCandidates>>>);

impl CandidateCache {
    pub(super) fn keep(&self, key: &PlacementKey, known: &KnownCandidates) {
        self.0.lock().insert(key.clone(), known.clone());
    }

    pub(super) fn forget(&self, key: &PlacementKey) {
        self.0.lock().remove(key);
    }

    /// The remembered candidates of this group, unless the kinds on the hub have changed.
    pub(super) fn of(&self, key: &PlacementKey, group: &GroupId, scopes: &dyn Scopes) -> Option<KnownCandidates> {
        self.0.lock().get(key).filter(|known| known.group == *group && known.candidates.are_current(scopes)).cloned()
    }

    /// Placements whose candidates are outdated because the kinds on the hub have changed.
    pub(super) fn outdated(&self, scopes: &dyn Scopes) -> Vec<PlacementKey> {
        let known = self.0.lock();
        known.iter().filter(|(_, one)| !one.candidates.are_current(scopes)).map(|(key, _)| key.clone()).collect()
    }
}

/// Override candidates of one group of snapshots.
#[derive(Debug, Clone)]
pub(super) struct KnownCandidates {
    pub(super) group: GroupId,
    pub(super) candidates: Arc<Candidates>,
}

/// How to get the override candidates.
pub(super) enum CandidateSource {
    Nothing,
    Known(KnownCandidates),
    Read(GroupId),
}

impl<S: Scope> Rollouts<S> {
    pub(super) fn candidate_source(&self, key: &PlacementKey) -> CandidateSource {
        let is_rolling = |placement: &Obj<Placement, S>| {
            !placement.is_deleting() && placement.spec.strategy_type() == RolloutStrategyType::RollingUpdate
        };
        let is_rolling = self.caches.placements.get(&object_key(key)).is_some_and(|placement| is_rolling(&placement));
        if !is_rolling || self.override_lookup.of_placement(key).is_empty() {
            return CandidateSource::Nothing;
        }
        let snapshots = self.caches.resource_snapshots_by_placement.get(key);
        let LatestSnapshot::One(master) = LatestSnapshot::of(&latest_snapshots(&snapshots)) else {
            return CandidateSource::Nothing;
        };
        let group = group_of(&snapshots, master);
        if !is_complete(&group) {
            return CandidateSource::Nothing;
        }
        let id = GroupId::of(group.iter().copied());
        let scopes = self.view.scopes();
        if let Some(known) = self.candidate_cache.of(key, &id, &scopes) {
            return CandidateSource::Known(known);
        }
        // The cached names are sufficient unless the group has envelopes.
        if group[0].annotation(annotations::NUMBER_OF_ENVELOPES).is_none_or(|count| count != "0") {
            return CandidateSource::Read(id);
        }
        let resources = group.iter().flat_map(|one| &one.spec.selected_resources);
        CandidateSource::Known(KnownCandidates { group: id, candidates: Arc::new(Candidates::of(resources, &scopes)) })
    }

    /// Whether the scheduler has decided for the latest generation of the placement. It reports that after it has
    /// written the bindings.
    pub(super) fn is_scheduled(&self, key: &PlacementKey, placement: &Obj<Placement, S>) -> bool {
        let snapshots = self.caches.policy_snapshots_by_placement.get(key);
        let mut latest = snapshots.iter().filter(|one| meta::is_latest(&***one) && !one.is_deleting());
        latest.any(|one| decided_for(one) >= Some(placement.generation()))
    }

    /// A member that cannot be decoded still exists.
    pub(super) fn facts<'a>(&self, binding: &'a Obj<Binding, S>) -> BindingFacts<'a> {
        let member = ObjectKey::cluster(binding.spec.target_cluster.as_str());
        BindingFacts::of(binding)
            .with_cluster_gone(self.members.get(&member).is_none() && !self.members.is_unreadable(&member))
    }

    /// The overrides of each cluster, if the candidates of this group and the scopes of their kinds are known.
    pub(super) fn overrides<'a>(
        &self,
        key: &PlacementKey,
        placement_overrides: &'a PlacementOverrides,
        group: &[&Obj<Snapshot, S>],
        known: Option<&KnownCandidates>,
        clusters: impl Iterator<Item = &'a str>,
    ) -> Overrides<'a> {
        let is_usable = |known: &&KnownCandidates| {
            known.group == GroupId::of(group.iter().copied()) && known.candidates.undiscovered_kind().is_none()
        };
        match known.filter(is_usable) {
            Some(known) => placement_overrides.matched(key, &known.candidates, clusters, &self.members),
            None => Overrides::Unknown,
        }
    }
}

pub(super) fn latest_snapshots<S: Scope>(snapshots: &[Arc<Obj<Snapshot, S>>]) -> Vec<&Obj<Snapshot, S>> {
    let latest = |one: &&Obj<Snapshot, S>| meta::is_latest(*one) && !one.is_deleting();
    snapshots.iter().map(Arc::as_ref).filter(latest).collect()
}
