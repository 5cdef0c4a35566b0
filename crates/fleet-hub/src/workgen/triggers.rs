//! Maps events of watched objects to bindings whose Works or status may change. The controller's own status writes are
//! ignored.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet_api::conditions::binding::{BindingOverridden, BindingRolloutStarted};
use fleet_api::conditions::{Condition, decode};
use fleet_api::kinds::{Binding, Family, MemberCluster, Obj, Placement, Scope, ScopeKind, Snapshot, Work};
use fleet_api::names::{ClusterName, MemberNamespace};
use fleet_runtime::{Cache, Event, ObjectKey};

use crate::caches::{PlacementCaches, SnapshotGroup};
use crate::keys::{binding_of_work, key_of, parent_of, placement_of_work};

/// Other controllers write only RolloutStarted into its status.
pub(super) fn on_binding<S: Scope>(event: Event<'_, Obj<Binding, S>>) -> Option<ObjectKey> {
    let is_relevant = event.changed(|binding| {
        let metadata = &binding.metadata;
        let started = decode::<BindingRolloutStarted>(conditions(binding), binding.generation()).status();
        let marks = (&metadata.labels, &metadata.annotations, &metadata.finalizers);
        (binding.generation(), binding.is_deleting(), started, marks)
    });
    is_relevant.then(|| event.key())
}

fn conditions<S: Scope>(binding: &Obj<Binding, S>) -> &[Condition] {
    binding.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
}

/// Maps events of objects that bindings depend on to bindings.
pub(super) struct BindingTriggers<S: Scope> {
    pub(super) caches: PlacementCaches<S>,
    pub(super) members: Cache<MemberCluster>,
}

impl<S: Scope> BindingTriggers<S> {
    pub(super) fn on_work(&self, event: Event<'_, Work>) -> BTreeSet<ObjectKey> {
        let mut affected: BTreeSet<ObjectKey> = event.versions().filter_map(own_binding::<S>).collect();
        if let (Some(gone), None) = (event.old, event.new) {
            // Another binding may wait for the name of the Work.
            affected.extend(self.neighbours(gone));
        }
        let same = |old: &Work, new: &Work| {
            old.status == new.status
                && old.spec == new.spec
                && old.generation() == new.generation()
                && old.metadata.labels == new.metadata.labels
                && old.metadata.annotations == new.metadata.annotations
                && old.is_deleting() == new.is_deleting()
        };
        match (event.old, event.new) {
            (Some(old), Some(new)) if same(old, new) => BTreeSet::new(),
            _ => affected,
        }
    }

    /// All bindings of the Work's placement for the Work's member.
    fn neighbours(&self, work: &Work) -> BTreeSet<ObjectKey> {
        let placement = placement_of_work(work).filter(|key| key.namespace.is_some() == is_namespaced::<S>());
        let cluster = work.metadata.namespace.as_deref().and_then(MemberNamespace::cluster_of);
        let (Some(placement), Some(cluster)) = (placement, cluster) else { return BTreeSet::new() };
        let there: BTreeSet<_> = self.on_cluster(&cluster).into_iter().collect();
        let own = self.caches.bindings_by_placement.keys(&placement);
        own.into_iter().filter(|key| there.contains(key)).collect()
    }

    fn on_cluster(&self, cluster: &ClusterName) -> Vec<ObjectKey> {
        self.caches.bindings_by_cluster.keys(cluster.as_str())
    }

    /// The group may be complete now, the snapshot may be the latest now, or it is gone before its Works were written.
    pub(super) fn on_resource_snapshot(&self, event: Event<'_, Obj<Snapshot, S>>) -> Vec<ObjectKey> {
        // During the initial list every binding is enqueued anyway.
        if !self.caches.resource_snapshots.is_synced()
            || !event.changed(|one| (&one.metadata.labels, &one.metadata.annotations))
        {
            return Vec::new();
        }
        let Some(placement) = event.new.or(event.old).and_then(parent_of) else { return Vec::new() };
        // Bindings name the master, which may be any snapshot of the group, or the deleted one.
        let groups = event.versions().filter_map(SnapshotGroup::of);
        let parts = groups.flat_map(|group| self.caches.resource_snapshots_by_group.keys(&group));
        let names: BTreeSet<ObjectKey> = parts.chain([event.key()]).collect();
        let names_one = |binding: &Obj<Binding, S>| {
            let named = &binding.spec.resource_snapshot_name;
            names.contains(&ObjectKey::new(binding.metadata.namespace.as_deref(), named))
        };
        let bindings = self.caches.bindings_by_placement.get(&placement);
        bindings.iter().filter(|binding| names_one(binding)).map(|binding| ObjectKey::of(&**binding)).collect()
    }

    /// Only the strategy type and the report-back strategy of the placement matter.
    pub(super) fn on_placement(&self, event: Event<'_, Obj<Placement, S>>) -> Vec<ObjectKey> {
        let relevant = |placement: &Obj<Placement, S>| {
            let report_back = placement.spec.strategy.as_ref().and_then(|strategy| strategy.report_back_strategy);
            (placement.spec.strategy_type(), report_back)
        };
        if !self.caches.placements.is_synced() || !event.changed(relevant) {
            return Vec::new();
        }
        let key = event.new.or(event.old).and_then(key_of);
        key.map(|key| self.caches.bindings_by_placement.keys(&key)).unwrap_or_default()
    }

    /// Existence and deletion of a member matter. Its labels matter only to bindings whose overrides have failed;
    /// existing Works are not changed.
    pub(super) fn on_member(&self, event: Event<'_, MemberCluster>) -> Vec<ObjectKey> {
        if !self.members.is_synced() {
            return Vec::new();
        }
        let cluster = event.key();
        if event.changed(|member| (member.is_deleting(), &member.metadata.uid)) {
            return self.caches.bindings_by_cluster.keys(cluster.name());
        }
        if !event.changed(|member| &member.metadata.labels) {
            return Vec::new();
        }
        let bindings = self.caches.bindings_by_cluster.get(cluster.name());
        let is_open =
            |one: &&Arc<Obj<Binding, S>>| !decode::<BindingOverridden>(conditions(one), one.generation()).is_true();
        bindings.iter().filter(is_open).map(|binding| ObjectKey::of(&**binding)).collect()
    }

    /// Override snapshots are immutable, but may be created late. A deleted one does not matter, because its Works
    /// stay.
    pub(super) fn on_override_snapshot<F: Family, X: Scope>(&self, event: Event<'_, Obj<F, X>>) -> Vec<ObjectKey> {
        if event.old.is_some() {
            return Vec::new();
        }
        self.caches.bindings_by_pin.keys(&event.key())
    }
}

fn is_namespaced<S: Scope>() -> bool {
    S::KIND == ScopeKind::Namespaced
}

/// The binding that a Work was made for, if it is one of this scope.
fn own_binding<S: Scope>(work: &Work) -> Option<ObjectKey> {
    binding_of_work(work).filter(|key| key.namespace().is_some() == is_namespaced::<S>())
}
