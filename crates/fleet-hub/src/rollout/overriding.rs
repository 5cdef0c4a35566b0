//! Which overrides there are for a placement, and what each cluster gets of them.
//!
//! Decides which overrides are looked at: those of every namespace for a cluster-scoped placement, those of its own for a
//! namespaced one. An override that has no snapshot yet and would match makes a rollout wait: otherwise clusters would get
//! the resources twice, first without it. One that can never have a snapshot is waited for by nobody. Never decides what
//! matches: that is `fleet_core::overrides`.

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

/// All overrides of the hub.
#[derive(Debug)]
pub(crate) struct Overriding {
    pub(crate) cluster: OverrideCaches<ClusterOverride, ClusterOverrideSnapshot, Cluster>,
    pub(crate) namespaced: OverrideCaches<NamespacedOverride, NamespacedOverrideSnapshot, Namespaced>,
}

/// The overrides that may concern one placement, held while a plan is made.
#[derive(Debug)]
pub(crate) struct Held {
    cluster: Set<ClusterOverride, ClusterOverrideSnapshot, Cluster>,
    namespaced: Set<NamespacedOverride, NamespacedOverrideSnapshot, Namespaced>,
    no_hash: Base64,
}

/// Overrides of one scope: the latest snapshots, and those that are about to have their first.
#[derive(Debug)]
struct Set<O: Family, F: Family, S: Scope> {
    latest: Vec<Arc<Obj<F, S>>>,
    unfrozen: Vec<Arc<Obj<O, S>>>,
}

impl Overriding {
    pub(crate) fn hold(&self, placement: &PlacementKey) -> Held {
        let namespace = placement.namespace.as_ref().map(NamespaceName::as_str);
        Held {
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
        let is_latest = |one: &Arc<Obj<F, S>>| meta::is_latest(&**one) && !meta::is_deleting(&**one);
        let latest: Vec<_> = snapshots.into_iter().filter(is_latest).collect();
        let frozen: BTreeSet<ObjectKey> = latest.iter().filter_map(|one| parent(one)).collect();
        let is_unfrozen = |one: &Arc<Obj<O, S>>| {
            let is_to_be = !meta::is_deleting(&**one) && OverrideName::parse(meta::name(&**one)).is_ok();
            is_to_be && !frozen.contains(&ObjectKey::of(&**one))
        };
        Self { unfrozen: overrides.into_iter().filter(is_unfrozen).collect(), latest }
    }

    fn is_empty(&self) -> bool {
        self.latest.is_empty() && self.unfrozen.is_empty()
    }
}

fn parent<F: Family, S: Scope>(snapshot: &Obj<F, S>) -> Option<ObjectKey> {
    let name = snapshot.metadata.labels.as_ref()?.get(labels::PARENT_OVERRIDE)?;
    Some(ObjectKey::new(snapshot.metadata.namespace.as_deref(), name))
}

impl Held {
    /// Whether no override can matter.
    pub(crate) fn is_empty(&self) -> bool {
        self.cluster.is_empty() && self.namespaced.is_empty()
    }

    /// An override that matches and has no snapshot yet.
    pub(crate) fn awaited(&self, placement: &PlacementKey, candidates: &Candidates) -> Option<String> {
        Matched::new(placement, candidates, self.unfrozen()).first()
    }

    /// What each of these clusters gets.
    pub(crate) fn matched<'a>(
        &'a self,
        placement: &PlacementKey,
        candidates: &Candidates,
        clusters: impl Iterator<Item = &'a str>,
        members: &Cache<MemberCluster>,
    ) -> Overrides<'a> {
        if self.awaited(placement, candidates).is_some() {
            return Overrides::Unsettled;
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

    /// Overrides without a snapshot, as the snapshots that they will have.
    fn unfrozen(&self) -> impl Iterator<Item = SnapshotFacts<'_>> {
        let cluster = self.cluster.unfrozen.iter().map(|one| self.to_be(meta::name(&**one), one.spec.as_ref("")));
        let namespaced = self.namespaced.unfrozen.iter().map(|one| {
            let namespace = one.metadata.namespace.as_deref().unwrap_or_default();
            self.to_be(meta::name(&**one), one.spec.as_ref(namespace))
        });
        cluster.chain(namespaced)
    }

    fn to_be<'a>(&'a self, name: &'a str, spec: OverrideSpecRef<'a>) -> SnapshotFacts<'a> {
        SnapshotFacts { name, parent: name, index: None, latest: true, hash: &self.no_hash, spec }
    }
}
