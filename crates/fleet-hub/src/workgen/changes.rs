//! Which bindings are looked at when something changes.
//!
//! Decides what of a change can lead to other Works or to another word about them. What this controller says itself is no
//! news to it. Never plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet_api::conditions::binding::{BindingOverridden, BindingRolloutStarted};
use fleet_api::conditions::{Condition, decode};
use fleet_api::kinds::{Binding, Family, MemberCluster, Obj, Placement, Scope, ScopeKind, Snapshot, Work};
use fleet_api::names::{ClusterName, MemberNamespace};
use fleet_runtime::{Cache, Event, ObjectKey};

use crate::caches::{PlacementCaches, by, group_value, pin};
use crate::keys::{binding_of_work, key_of, parent_of, placement_of_work};
use crate::meta;

/// Of its status, others write whether its rollout has started.
pub(super) fn on_binding<S: Scope>(event: Event<'_, Obj<Binding, S>>) -> Option<ObjectKey> {
    let is_news = event.changed(|binding| {
        let metadata = &binding.metadata;
        let started = decode::<BindingRolloutStarted>(conditions(binding), binding.generation()).status();
        let marks = (&metadata.labels, &metadata.annotations, &metadata.finalizers);
        (binding.generation(), meta::is_deleting(binding), started, marks)
    });
    is_news.then(|| event.key())
}

fn conditions<S: Scope>(binding: &Obj<Binding, S>) -> &[Condition] {
    binding.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
}

/// Changes of what bindings depend on.
pub(super) struct Changes<S: Scope> {
    pub(super) caches: PlacementCaches<S>,
    pub(super) members: Cache<MemberCluster>,
}

impl<S: Scope> Changes<S> {
    pub(super) fn on_work(&self, event: Event<'_, Work>) -> BTreeSet<ObjectKey> {
        let mut concerned: BTreeSet<ObjectKey> = event.sides().filter_map(own_binding::<S>).collect();
        if let (Some(gone), None) = (event.old, event.new) {
            // Another binding may have waited for its name.
            concerned.extend(self.neighbours(gone));
        }
        let same = |old: &Work, new: &Work| {
            old.status == new.status
                && old.spec == new.spec
                && old.generation() == new.generation()
                && old.metadata.labels == new.metadata.labels
                && old.metadata.annotations == new.metadata.annotations
                && meta::is_deleting(old) == meta::is_deleting(new)
        };
        match (event.old, event.new) {
            (Some(old), Some(new)) if same(old, new) => BTreeSet::new(),
            _ => concerned,
        }
    }

    /// All bindings of the Work's placement for the Work's member.
    fn neighbours(&self, work: &Work) -> BTreeSet<ObjectKey> {
        let placement = placement_of_work(work).filter(|key| key.namespace.is_some() == is_namespaced::<S>());
        let cluster = work.metadata.namespace.as_deref().and_then(MemberNamespace::cluster_of);
        let (Some(placement), Some(cluster)) = (placement, cluster) else { return BTreeSet::new() };
        let there: BTreeSet<_> = self.on_cluster(&cluster).into_iter().collect();
        let own = self.caches.bindings.keys_by(by::PLACEMENT, &placement.to_string());
        own.into_iter().filter(|key| there.contains(key)).collect()
    }

    fn on_cluster(&self, cluster: &ClusterName) -> Vec<ObjectKey> {
        self.caches.bindings.keys_by(by::CLUSTER, cluster.as_str())
    }

    /// Its group may be complete now, or it counts as the latest, or it is gone before Works were made from it.
    pub(super) fn on_resource_snapshot(&self, event: Event<'_, Obj<Snapshot, S>>) -> Vec<ObjectKey> {
        // While they are listed for the first time, every binding is looked at anyway.
        if !self.caches.resource_snapshots.is_synced()
            || !event.changed(|one| (&one.metadata.labels, &one.metadata.annotations))
        {
            return Vec::new();
        }
        let Some(placement) = event.new.or(event.old).and_then(parent_of) else { return Vec::new() };
        // Bindings name the master, which may be any of the group, and is not there any more if it is the one that went.
        let groups = event.sides().filter_map(group_value);
        let parts = groups.flat_map(|group| self.caches.resource_snapshots.keys_by(by::GROUP, &group));
        let names: BTreeSet<ObjectKey> = parts.chain([event.key()]).collect();
        let names_one = |binding: &Obj<Binding, S>| {
            let named = &binding.spec.resource_snapshot_name;
            names.contains(&ObjectKey::new(binding.metadata.namespace.as_deref(), named))
        };
        let bindings = self.caches.bindings.by(by::PLACEMENT, &placement.to_string());
        bindings.iter().filter(|binding| names_one(binding)).map(|binding| ObjectKey::of(&**binding)).collect()
    }

    /// Of the placement matters who rolls out, and whether statuses are sent back.
    pub(super) fn on_placement(&self, event: Event<'_, Obj<Placement, S>>) -> Vec<ObjectKey> {
        let looked_at = |placement: &Obj<Placement, S>| {
            let report_back = placement.spec.strategy.as_ref().and_then(|strategy| strategy.report_back_strategy);
            (placement.spec.strategy_type(), report_back)
        };
        if !self.caches.placements.is_synced() || !event.changed(looked_at) {
            return Vec::new();
        }
        let key = event.new.or(event.old).and_then(key_of);
        key.map(|key| self.caches.bindings.keys_by(by::PLACEMENT, &key.to_string())).unwrap_or_default()
    }

    /// Of a member matters whether it is there to stay. Its labels matter where overrides that speak of them have not
    /// succeeded; what was made with other labels stays as it is.
    pub(super) fn on_member(&self, event: Event<'_, MemberCluster>) -> Vec<ObjectKey> {
        if !self.members.is_synced() {
            return Vec::new();
        }
        let cluster = event.key();
        if event.changed(meta::is_deleting) {
            return self.caches.bindings.keys_by(by::CLUSTER, cluster.name());
        }
        if !event.changed(|member| &member.metadata.labels) {
            return Vec::new();
        }
        let bindings = self.caches.bindings.by(by::CLUSTER, cluster.name());
        let is_open =
            |one: &&Arc<Obj<Binding, S>>| !decode::<BindingOverridden>(conditions(one), one.generation()).is_true();
        bindings.iter().filter(is_open).map(|binding| ObjectKey::of(&**binding)).collect()
    }

    /// Override snapshots never change, but they may come late. One that goes is no news: what was made from it stays.
    pub(super) fn on_override_snapshot<F: Family, X: Scope>(&self, event: Event<'_, Obj<F, X>>) -> Vec<ObjectKey> {
        if event.old.is_some() {
            return Vec::new();
        }
        self.caches.bindings.keys_by(by::PIN, &pin(&event.key()))
    }
}

fn is_namespaced<S: Scope>() -> bool {
    S::KIND == ScopeKind::Namespaced
}

/// The binding that a Work was made for, if it is one of this scope.
fn own_binding<S: Scope>(work: &Work) -> Option<ObjectKey> {
    binding_of_work(work).filter(|key| key.namespace().is_some() == is_namespaced::<S>())
}
