//! Matches overrides with the clusters of a run, in the same way as a rolling update does. If a matching override has
//! no snapshot yet, the run waits for it.

use fleet_api::kinds::MemberCluster;
use fleet_api::names::PlacementKey;
use fleet_api::types::EmbeddedObject;
use fleet_core::overrides::{Candidates, Scopes};
use fleet_core::rollout::{ClusterOverrides, Overrides as Found};
use fleet_core::updaterun::{MatchedOverrides, Overrides, Unmatched};
use fleet_runtime::Cache;

use crate::rollout::overrides::PlacementOverrides;

/// The latest override snapshots of the placement, and the clusters to match them with.
#[derive(Debug)]
pub(super) struct LatestOverrides<'a> {
    pub(super) placement: Option<&'a PlacementKey>,
    pub(super) overrides: Option<PlacementOverrides>,
    pub(super) members: &'a Cache<MemberCluster>,
    pub(super) scopes: &'a dyn Scopes,
}

impl Overrides for LatestOverrides<'_> {
    fn matching(&self, resources: &[&EmbeddedObject], clusters: &[&str]) -> Result<Vec<MatchedOverrides>, Unmatched> {
        let (Some(placement), Some(overrides)) = (self.placement, &self.overrides) else {
            return Ok(vec![MatchedOverrides::default(); clusters.len()]);
        };
        let candidates = Candidates::of(resources.iter().copied(), self.scopes);
        if let Some(kind) = candidates.undiscovered_kind() {
            return Err(Unmatched::Undiscovered { kind });
        }
        let not_snapshotted = || Unmatched::NotSnapshotted {
            name: overrides.missing_snapshot(placement, &candidates).unwrap_or_default(),
        };
        let found = match overrides.matched(placement, &candidates, clusters.iter().copied(), self.members) {
            Found::Matched(found) => found,
            Found::Unknown => return Err(not_snapshotted()),
        };
        let of_cluster = |cluster: &&str| match found.get(cluster) {
            Some(ClusterOverrides::Pinned(pinned)) => pinned.clone(),
            Some(ClusterOverrides::ClusterGone) | None => MatchedOverrides::default(),
        };
        Ok(clusters.iter().map(of_cluster).collect())
    }
}
