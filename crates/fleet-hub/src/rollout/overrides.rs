//! Looks up the overrides of a placement and the snapshots that each cluster gets.
//!
//! A cluster-scoped placement uses overrides of every namespace, a namespaced one those of its own. A matching override
//! without a snapshot blocks the rollout: otherwise clusters would get the resources twice, first without it. An
//! override that can never have a snapshot does not block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_api::kinds::{
    Cluster, ClusterOverride, ClusterOverrideSnapshot, Family, MemberCluster, Namespaced, NamespacedOverride,
    NamespacedOverrideSnapshot, Obj, Scope,
};
use fleet_api::names::{NamespaceName, OverrideName, PlacementKey};
use fleet_api::types::Base64;
use fleet_api::well_known::labels;
use fleet_core::overrides::{Candidates, Matched, OverrideSpec, OverrideSpecRef, SnapshotFacts, Target};
use fleet_core::rollout::{ClusterOverrides, Overrides};
use fleet_runtime::{Cache, ObjectKey};

use crate::caches::OverrideCaches;
use crate::meta;

/// Looks up overrides in the caches.
#[derive(Debug)]
pub(crate) struct OverrideLookup {
    pub(crate) cluster: OverrideCaches<ClusterOverride, ClusterOverrideSnapshot, Cluster>,
    pub(crate) namespaced: OverrideCaches<NamespacedOverride, NamespacedOverrideSnapshot, Namespaced>,
}

/// The overrides that may apply to one placement.
#[derive(Debug)]
pub(crate) struct PlacementOverrides {
    cluster: Set<ClusterOverride, ClusterOverrideSnapshot, Cluster>,
    namespaced: Set<NamespacedOverride, NamespacedOverrideSnapshot, Namespaced>,
    no_hash: Base64,
}

/// Overrides of one scope: the latest snapshots, and overrides that have no snapshot yet.
#[derive(Debug)]
struct Set<O: Family, F: Family, S: Scope> {
    latest: Vec<Arc<Obj<F, S>>>,
    without_snapshot: Vec<Arc<Obj<O, S>>>,
}

impl OverrideLookup {
    pub(crate) fn of_placement(&self, placement: &PlacementKey) -> PlacementOverrides {
        let namespace = placement.namespace.as_ref().map(NamespaceName::as_str);
        PlacementOverrides {
            cluster: Set::of(&self.cluster, None),
            namespaced: Set::of(&self.namespaced, namespace),
            no_hash: Base64::default(),
        }
    }
}

impl<O: Family, F: Family, S: Scope> Set<O, F, S> {
    fn of(caches: &OverrideCaches<O, F, S>, namespace: Option<&str>) -> Self {
        let (snapshots, overrides) = match namespace {
            Some(namespace) => (caches.snapshots.in_namespace(namespace), caches.overrides.in_namespace(namespace)),
            None => (caches.snapshots.list(), caches.overrides.list()),
        };
        let is_latest = |one: &Arc<Obj<F, S>>| meta::is_latest(&**one) && !one.is_deleting();
        let latest: Vec<_> = snapshots.into_iter().filter(is_latest).collect();
        let snapshotted: BTreeSet<ObjectKey> = latest.iter().filter_map(|one| parent(one)).collect();
        let is_without_snapshot = |one: &Arc<Obj<O, S>>| {
            let can_have_snapshot = !one.is_deleting() && OverrideName::parse(one.name()).is_ok();
            can_have_snapshot && !snapshotted.contains(&ObjectKey::of(&**one))
        };
        Self { without_snapshot: overrides.into_iter().filter(is_without_snapshot).collect(), latest }
    }

    fn is_empty(&self) -> bool {
        self.latest.is_empty() && self.without_snapshot.is_empty()
    }
}

fn parent<F: Family, S: Scope>(snapshot: &Obj<F, S>) -> Option<ObjectKey> {
    let name = snapshot.metadata.labels.as_ref()?.get(labels::PARENT_OVERRIDE)?;
    Some(ObjectKey::new(snapshot.metadata.namespace.as_deref(), name))
}

impl PlacementOverrides {
    /// Whether no override can apply.
    pub(crate) fn is_empty(&self) -> bool {
        self.cluster.is_empty() && self.namespaced.is_empty()
    }

    /// A matching override that has no snapshot yet.
    pub(crate) fn missing_snapshot(&self, placement: &PlacementKey, candidates: &Candidates) -> Option<String> {
        Matched::new(placement, candidates, self.without_snapshot()).first()
    }

    /// The override snapshots of each cluster.
    pub(crate) fn matched<'a>(
        &'a self,
        placement: &PlacementKey,
        candidates: &Candidates,
        clusters: impl Iterator<Item = &'a str>,
        members: &Cache<MemberCluster>,
    ) -> Overrides<'a> {
        if self.missing_snapshot(placement, candidates).is_some() {
            return Overrides::Unknown;
        }
        let matched = Matched::new(placement, candidates, self.latest());
        if matched.is_empty() {
            return Overrides::Matched(BTreeMap::new());
        }
        let pinned = |cluster: &str| match members.get(&ObjectKey::cluster(cluster)) {
            None => ClusterOverrides::ClusterGone,
            Some(member) => ClusterOverrides::Pinned(matched.pins(&Target::of(&member))),
        };
        Overrides::Matched(clusters.map(|cluster| (cluster, pinned(cluster))).collect())
    }

    fn latest(&self) -> impl Iterator<Item = SnapshotFacts<'_>> {
        let cluster = self.cluster.latest.iter().map(|one| SnapshotFacts::of(&**one));
        cluster.chain(self.namespaced.latest.iter().map(|one| SnapshotFacts::of(&**one)))
    }

    /// Overrides without a snapshot, in the form of their future snapshots.
    fn without_snapshot(&self) -> impl Iterator<Item = SnapshotFacts<'_>> {
        let cluster =
            self.cluster.without_snapshot.iter().map(|one| self.future_snapshot(one.name(), one.spec.as_ref("")));
        let namespaced = self.namespaced.without_snapshot.iter().map(|one| {
            let namespace = one.metadata.namespace.as_deref().unwrap_or_default();
            self.future_snapshot(one.name(), one.spec.as_ref(namespace))
        });
        cluster.chain(namespaced)
    }

    fn future_snapshot<'a>(&'a self, name: &'a str, spec: OverrideSpecRef<'a>) -> SnapshotFacts<'a> {
        SnapshotFacts { name, parent: name, index: None, latest: true, hash: &self.no_hash, spec }
    }
}
