//! Which rollouts are looked at when something changes.
//!
//! Decides what of a change can move a binding, or let another one move. Messages alone cannot. Never plans.

use std::collections::BTreeSet;

use fleet_api::conditions::Condition;
use fleet_api::kinds::{Binding, Family, MemberCluster, Obj, Placement, Scope, ScopeKind, Snapshot};
use fleet_api::names::{NamespaceName, PlacementKey, PlacementName};
use fleet_api::types::{OverrideSnapshotSpec, PlacementScope};
use fleet_api::well_known::annotations;
use fleet_core::overrides::{OverrideSpec, OverrideSpecRef};
use fleet_runtime::{Cache, Event};

use crate::caches::by;
use crate::keys::{key_of, parent_of};
use crate::meta;

pub(super) fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<PlacementKey> {
    let looked_at = |placement: &Obj<Placement, S>| (placement.generation(), meta::is_deleting(placement));
    let placement = event.new.or(event.old)?;
    key_of(placement).filter(|_| event.changed(looked_at))
}

/// Content never changes; which snapshot counts does, and whether its group is complete.
pub(super) fn on_snapshot<S: Scope>(event: Event<'_, Obj<Snapshot, S>>) -> BTreeSet<PlacementKey> {
    let looked_at = |one: &Obj<Snapshot, S>| (parent_of(one), meta::is_latest(one), meta::is_deleting(one));
    if !event.changed(looked_at) {
        return BTreeSet::new();
    }
    event.sides().filter_map(parent_of).collect()
}

pub(super) fn on_binding<S: Scope>(event: Event<'_, Obj<Binding, S>>) -> BTreeSet<PlacementKey> {
    if !event.changed(looked_at) {
        return BTreeSet::new();
    }
    event.sides().filter_map(parent_of).collect()
}

/// Of a binding: whose it is, what it asks for, and what is said of it but for the sentences.
fn looked_at<S: Scope>(binding: &Obj<Binding, S>) -> impl PartialEq {
    let conditions = binding.status.iter().flat_map(|status| &status.conditions);
    let said = |one: &Condition| (one.status, one.observed_generation, one.last_transition_time);
    let conditions: Vec<_> = conditions.map(|one| (one.type_.as_str(), one.reason.as_str(), said(one))).collect();
    let abandoned = meta::annotation(binding, annotations::DELETE_PROPAGATION);
    (parent_of(binding), binding.generation(), meta::is_deleting(binding), abandoned, conditions)
}

/// Members matter through their labels, by which overrides choose, and by not being there.
pub(super) struct MemberChanges<S: Scope> {
    pub(super) members: Cache<MemberCluster>,
    pub(super) bindings: Cache<Obj<Binding, S>>,
}

impl<S: Scope> MemberChanges<S> {
    pub(super) fn concerned(&self, event: Event<'_, MemberCluster>) -> BTreeSet<PlacementKey> {
        // While members are listed for the first time, every placement is looked at anyway.
        if !self.members.is_synced() || !event.changed(|member| &member.metadata.labels) {
            return BTreeSet::new();
        }
        let bindings = self.bindings.by(by::CLUSTER, event.key().name());
        bindings.iter().filter_map(|binding| parent_of(&**binding)).collect()
    }
}

/// Overrides matter to the placement that they name, or to all.
pub(super) struct OverrideChanges<S: Scope> {
    pub(super) placements: Cache<Obj<Placement, S>>,
}

impl<S: Scope> OverrideChanges<S> {
    pub(super) fn on_snapshot<O, F, X>(&self, event: Event<'_, Obj<F, X>>) -> BTreeSet<PlacementKey>
    where
        O: OverrideSpec,
        F: Family<Spec = OverrideSnapshotSpec<O>>,
        X: Scope,
    {
        if !event.changed(|one| (meta::is_latest(one), meta::is_deleting(one))) {
            return BTreeSet::new();
        }
        let specs = event.sides().map(|one| (&one.spec.override_spec, one.metadata.namespace.as_deref()));
        specs.flat_map(|(spec, namespace)| self.of(spec.as_ref(namespace.unwrap_or_default()))).collect()
    }

    /// One that goes before it was ever frozen is waited for no longer.
    pub(super) fn on_override<O, F, X>(&self, event: Event<'_, Obj<F, X>>) -> BTreeSet<PlacementKey>
    where
        O: OverrideSpec,
        F: Family<Spec = O>,
        X: Scope,
    {
        if !event.changed(meta::is_deleting) {
            return BTreeSet::new();
        }
        let specs = event.sides().map(|one| (&one.spec, one.metadata.namespace.as_deref()));
        specs.flat_map(|(spec, namespace)| self.of(spec.as_ref(namespace.unwrap_or_default()))).collect()
    }

    fn of(&self, spec: OverrideSpecRef<'_>) -> Vec<PlacementKey> {
        let own = spec.namespace();
        let Some(reference) = spec.placement() else {
            let keys = self.placements.keys().into_iter();
            let concerned = keys.filter(|key| own.is_empty() || key.namespace().is_none_or(|space| space == own));
            return concerned.filter_map(|key| PlacementKey::parse(&key.to_string()).ok()).collect();
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
