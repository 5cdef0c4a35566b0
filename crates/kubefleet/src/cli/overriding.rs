//! The overrides on the hub, and which of them a run would apply. A cluster-scoped placement reads the overrides of all
//! namespaces, a namespaced one those of its own. An override without a snapshot counts as its next snapshot.

use fleet_api::kinds::{
    Cluster, ClusterOverride, ClusterOverrideSnapshot, Family, MemberCluster, Namespaced, NamespacedOverride,
    NamespacedOverrideSnapshot, Obj, Scope,
};
use fleet_api::names::PlacementKey;
use fleet_api::types::{Base64, EmbeddedObject};
use fleet_core::overrides::{
    Candidates, Matched, OverrideSpec as _, OverrideSpecRef, Scopes, SnapshotFacts, Target, has_latest_snapshot,
};
use fleet_core::updaterun::{MatchedOverrides, Overrides, Unmatched};

use super::connection::Hub;

/// The objects that were read.
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

    /// All snapshots, including those that do not exist yet.
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

/// Overrides without a latest snapshot.
fn unfrozen<O: Family, F: Family, S: Scope>(overrides: Vec<Obj<O, S>>, snapshots: &[Obj<F, S>]) -> Vec<Obj<O, S>> {
    let is_unfrozen = |one: &Obj<O, S>| {
        one.metadata.deletion_timestamp.is_none()
            && !has_latest_snapshot(&one.metadata, snapshots.iter().map(|one| &one.metadata))
    };
    overrides.into_iter().filter(is_unfrozen).collect()
}

/// The overrides that a run of a placement applies.
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
