//! Maps events of watched objects to placements whose rollout may change.

use std::collections::BTreeSet;

use fleet_api::conditions::Condition;
use fleet_api::kinds::{Binding, Family, MemberCluster, Obj, Placement, PolicySnapshot, Scope, ScopeKind, Snapshot};
use fleet_api::names::{NamespaceName, PlacementKey, PlacementName};
use fleet_api::types::{OverrideSnapshotSpec, PlacementScope};
use fleet_api::well_known::annotations;
use fleet_core::overrides::{OverrideSpec, OverrideSpecRef};
use fleet_runtime::{Cache, CacheIndex, Event};

use crate::keys::{key_of, parent_of};
use crate::meta;

pub(super) fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<PlacementKey> {
    let relevant = |placement: &Obj<Placement, S>| (placement.generation(), placement.is_deleting());
    let placement = event.new.or(event.old)?;
    key_of(placement).filter(|_| event.changed(relevant))
}

/// Unscheduled bindings are removed once the scheduler has decided for the latest generation of the placement.
pub(super) fn on_policy_snapshot<S: Scope>(event: Event<'_, Obj<PolicySnapshot, S>>) -> BTreeSet<PlacementKey> {
    let relevant = |one: &Obj<PolicySnapshot, S>| (parent_of(one), meta::is_latest(one), decided_for(one));
    if !event.changed(relevant) {
        return BTreeSet::new();
    }
    event.versions().filter_map(parent_of).collect()
}

/// The generation of the placement that the scheduler has decided for.
pub(super) fn decided_for<S: Scope>(snapshot: &Obj<PolicySnapshot, S>) -> Option<i64> {
    snapshot.status.as_ref().map(|status| status.observed_crp_generation)
}

/// The content of snapshots is immutable; only the latest label and the completeness of the group change.
pub(super) fn on_snapshot<S: Scope>(event: Event<'_, Obj<Snapshot, S>>) -> BTreeSet<PlacementKey> {
    let relevant = |one: &Obj<Snapshot, S>| (parent_of(one), meta::is_latest(one), one.is_deleting());
    if !event.changed(relevant) {
        return BTreeSet::new();
    }
    event.versions().filter_map(parent_of).collect()
}

pub(super) fn on_binding<S: Scope>(event: Event<'_, Obj<Binding, S>>) -> BTreeSet<PlacementKey> {
    if !event.changed(relevant) {
        return BTreeSet::new();
    }
    event.versions().filter_map(parent_of).collect()
}

/// The fields of a binding that a plan depends on. Messages of conditions are not among them.
fn relevant<S: Scope>(binding: &Obj<Binding, S>) -> impl PartialEq {
    let conditions = binding.status.iter().flat_map(|status| &status.conditions);
    let state = |one: &Condition| (one.status, one.observed_generation, one.last_transition_time);
    let conditions: Vec<_> = conditions.map(|one| (one.type_.as_str(), one.reason.as_str(), state(one))).collect();
    let abandoned = binding.annotation(annotations::DELETE_PROPAGATION);
    (parent_of(binding), binding.generation(), binding.is_deleting(), abandoned, conditions)
}

/// Members matter through their labels, which overrides select by, and their existence.
pub(super) struct MemberTriggers<S: Scope> {
    pub(super) members: Cache<MemberCluster>,
    /// By cluster.
    pub(super) bindings: CacheIndex<Obj<Binding, S>, String>,
}

impl<S: Scope> MemberTriggers<S> {
    pub(super) fn on_member(&self, event: Event<'_, MemberCluster>) -> BTreeSet<PlacementKey> {
        // During the initial list of members every placement is enqueued anyway.
        if !self.members.is_synced() || !event.changed(|member| &member.metadata.labels) {
            return BTreeSet::new();
        }
        let bindings = self.bindings.get(event.key().name());
        bindings.iter().filter_map(|binding| parent_of(&**binding)).collect()
    }
}

/// Overrides matter to the placement that they name, or to all placements.
pub(super) struct OverrideTriggers<S: Scope> {
    pub(super) placements: Cache<Obj<Placement, S>>,
}

impl<S: Scope> OverrideTriggers<S> {
    pub(super) fn on_snapshot<O, F, X>(&self, event: Event<'_, Obj<F, X>>) -> BTreeSet<PlacementKey>
    where
        O: OverrideSpec,
        F: Family<Spec = OverrideSnapshotSpec<O>>,
        X: Scope,
    {
        if !event.changed(|one| (meta::is_latest(one), one.is_deleting())) {
            return BTreeSet::new();
        }
        let specs = event.versions().map(|one| (&one.spec.override_spec, one.metadata.namespace.as_deref()));
        specs.flat_map(|(spec, namespace)| self.of(spec.as_ref(namespace.unwrap_or_default()))).collect()
    }

    /// An override that is deleted before its first snapshot no longer blocks a rollout.
    pub(super) fn on_override<O, F, X>(&self, event: Event<'_, Obj<F, X>>) -> BTreeSet<PlacementKey>
    where
        O: OverrideSpec,
        F: Family<Spec = O>,
        X: Scope,
    {
        if !event.changed(Obj::is_deleting) {
            return BTreeSet::new();
        }
        let specs = event.versions().map(|one| (&one.spec, one.metadata.namespace.as_deref()));
        specs.flat_map(|(spec, namespace)| self.of(spec.as_ref(namespace.unwrap_or_default()))).collect()
    }

    fn of(&self, spec: OverrideSpecRef<'_>) -> Vec<PlacementKey> {
        let own = spec.namespace();
        let Some(reference) = spec.placement() else {
            let keys = self.placements.keys().into_iter();
            let affected = keys.filter(|key| own.is_empty() || key.namespace().is_none_or(|space| space == own));
            return affected.filter_map(|key| PlacementKey::parse(&key.to_string()).ok()).collect();
        };
        let named = || {
            let name = PlacementName::parse(&reference.name).ok()?;
            match (S::KIND, reference.scope()) {
                (ScopeKind::Cluster, PlacementScope::Cluster) => Some(PlacementKey::cluster_scoped(name)),
                (ScopeKind::Namespaced, PlacementScope::Namespaced) => {
                    Some(PlacementKey::namespaced(NamespaceName::parse(own).ok()?, name))
                }
                _ => None,
            }
        };
        named().into_iter().collect()
    }
}
