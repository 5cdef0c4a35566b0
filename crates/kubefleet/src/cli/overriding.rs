//! The overrides of the hub, and which of them a run would take along.
//!
//! Decides which overrides are read: those of every namespace for a cluster-scoped placement, those of its own for a
//! namespaced one. An override that is not frozen yet counts as the snapshot that it is about to have. What matches is
//! `fleet_core::overrides`' to say.

use std::collections::BTreeSet;

use fleet_api::kinds::{
    Cluster, ClusterOverride, ClusterOverrideSnapshot, Family, MemberCluster, Namespaced, NamespacedOverride,
    NamespacedOverrideSnapshot, Obj, Scope,
};
use fleet_api::names::PlacementKey;
use fleet_api::types::{Base64, EmbeddedObject};
use fleet_api::well_known::labels;
use fleet_core::overrides::{Candidates, Matched, OverrideSpec as _, OverrideSpecRef, Scopes, SnapshotFacts, Target};
use fleet_core::updaterun::{MatchedOverrides, Overrides, Unmatched};

use super::connection::Hub;

/// What was read.
#[derive(Debug)]
pub(crate) struct Overriding {
    cluster: Vec<Obj<ClusterOverrideSnapshot, Cluster>>,
    namespaced: Vec<Obj<NamespacedOverrideSnapshot, Namespaced>>,
    cluster_unfrozen: Vec<Obj<ClusterOverride, Cluster>>,
    namespaced_unfrozen: Vec<Obj<NamespacedOverride, Namespaced>>,
    no_hash: Base64,
}

impl Overriding {
    pub(crate) async fn read(hub: &Hub) -> anyhow::Result<Self> {
        let cluster = hub.list(None).await?;
        let namespaced = hub.list(None).await?;
        Ok(Self {
            cluster_unfrozen: unfrozen(hub.list(None).await?, &cluster),
            namespaced_unfrozen: unfrozen(hub.list(None).await?, &namespaced),
            cluster,
            namespaced,
            no_hash: Base64::default(),
        })
    }

    /// All snapshots, those included that are about to be made.
    pub(crate) fn facts(&self) -> Vec<SnapshotFacts<'_>> {
        let cluster = self.cluster.iter().map(SnapshotFacts::of);
        let namespaced = self.namespaced.iter().map(SnapshotFacts::of);
        let cluster_unfrozen = self.cluster_unfrozen.iter().map(|one| self.to_be(one, one.spec.as_ref("")));
        let namespaced_unfrozen = self
            .namespaced_unfrozen
            .iter()
            .map(|one| self.to_be(one, one.spec.as_ref(one.metadata.namespace.as_deref().unwrap_or_default())));
        cluster.chain(namespaced).chain(cluster_unfrozen).chain(namespaced_unfrozen).collect()
    }

    fn to_be<'a, F: Family, S: Scope>(&'a self, one: &'a Obj<F, S>, spec: OverrideSpecRef<'a>) -> SnapshotFacts<'a> {
        let name = one.metadata.name.as_deref().unwrap_or_default();
        SnapshotFacts { name, parent: name, index: None, latest: true, hash: &self.no_hash, spec }
    }
}

/// Overrides of which there is no latest snapshot.
fn unfrozen<O: Family, F: Family, S: Scope>(overrides: Vec<Obj<O, S>>, snapshots: &[Obj<F, S>]) -> Vec<Obj<O, S>> {
    let label = |one: &Obj<F, S>, key: &str| one.metadata.labels.as_ref()?.get(key).cloned();
    let frozen: BTreeSet<(Option<&str>, String)> = snapshots
        .iter()
        .filter(|one| label(one, labels::IS_LATEST_SNAPSHOT).as_deref() == Some("true"))
        .filter_map(|one| Some((one.metadata.namespace.as_deref(), label(one, labels::PARENT_OVERRIDE)?)))
        .collect();
    let key = |one: &Obj<O, S>| (one.metadata.namespace.clone(), one.metadata.name.clone().unwrap_or_default());
    let is_unfrozen = |one: &Obj<O, S>| {
        let (namespace, name) = key(one);
        !frozen.contains(&(namespace.as_deref(), name)) && one.metadata.deletion_timestamp.is_none()
    };
    overrides.into_iter().filter(is_unfrozen).collect()
}

/// What a run of a placement takes along.
#[derive(Debug)]
pub(crate) struct ForPlacement<'a> {
    pub(crate) placement: &'a PlacementKey,
    pub(crate) snapshots: &'a [SnapshotFacts<'a>],
    pub(crate) members: &'a [MemberCluster],
    pub(crate) scopes: &'a dyn Scopes,
}

impl Overrides for ForPlacement<'_> {
    fn matching(&self, resources: &[&EmbeddedObject], clusters: &[&str]) -> Result<Vec<MatchedOverrides>, Unmatched> {
        let candidates = Candidates::of(resources.iter().copied(), self.scopes);
        let matched = Matched::new(self.placement, &candidates, self.snapshots.iter().copied());
        let of_cluster = |name: &&str| {
            let member = self.members.iter().find(|one| one.metadata.name.as_deref() == Some(*name));
            member.map(|member| matched.pins(&Target::of(member))).unwrap_or_default()
        };
        Ok(clusters.iter().map(of_cluster).collect())
    }
}
