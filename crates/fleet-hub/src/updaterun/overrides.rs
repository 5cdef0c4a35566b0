//! Which overrides a run takes along for which cluster.
//!
//! Decides nothing by itself: looks at the latest snapshots in the caches for `fleet_core::overrides`. What the run
//! records stays, whatever is edited later.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_api::kinds::{ClusterResourceOverrideSnapshot, MemberCluster, ResourceOverrideSnapshot};
use fleet_api::names::PlacementKey;
use fleet_api::types::EmbeddedObject;
use fleet_core::overrides::{Candidates, Matched, Scopes, SnapshotFacts, Target};
use fleet_core::updaterun::{MatchedOverrides, Overrides};

use crate::caches::OverrideSnapshotCaches;
use crate::meta;

/// The latest overrides, and the clusters that they may be for.
#[derive(Debug)]
pub(super) struct Latest<'a> {
    placement: Option<&'a PlacementKey>,
    cluster: Vec<Arc<ClusterResourceOverrideSnapshot>>,
    namespaced: Vec<Arc<ResourceOverrideSnapshot>>,
    members: &'a [Arc<MemberCluster>],
    scopes: &'a dyn Scopes,
}

impl<'a> Latest<'a> {
    pub(super) fn new(
        placement: Option<&'a PlacementKey>,
        caches: &OverrideSnapshotCaches,
        members: &'a [Arc<MemberCluster>],
        scopes: &'a dyn Scopes,
    ) -> Self {
        Self { placement, cluster: caches.cluster.list(), namespaced: caches.namespaced.list(), members, scopes }
    }
}

impl Overrides for Latest<'_> {
    fn matching(&self, resources: &[&EmbeddedObject], clusters: &[&str]) -> Result<Vec<MatchedOverrides>, String> {
        let Some(placement) = self.placement else { return Ok(vec![MatchedOverrides::default(); clusters.len()]) };
        let candidates = Candidates::of(resources.iter().copied(), self.scopes);
        let snapshots = self.cluster.iter().map(|one| SnapshotFacts::of(&**one));
        let snapshots = snapshots.chain(self.namespaced.iter().map(|one| SnapshotFacts::of(&**one)));
        let matched = Matched::new(placement, &candidates, snapshots);
        let members: BTreeMap<&str, &MemberCluster> =
            self.members.iter().map(|member| (meta::name(&**member), &**member)).collect();
        let pins = |cluster: &&str| {
            let pins = members.get(cluster).map(|member| matched.pins(&Target::of(member))).unwrap_or_default();
            MatchedOverrides { cluster_overrides: pins.cluster_overrides, overrides: pins.overrides }
        };
        Ok(clusters.iter().map(pins).collect())
    }
}
