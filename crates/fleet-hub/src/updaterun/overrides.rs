//! Which overrides a run takes along for which cluster.
//!
//! Decides nothing by itself: asks the same as a rolling update does. What the run records stays, whatever is edited later.
//! If an override that concerns the run is not frozen yet, that is the answer: the run waits for it rather than go without.

use fleet_api::kinds::MemberCluster;
use fleet_api::names::PlacementKey;
use fleet_api::types::EmbeddedObject;
use fleet_core::overrides::{Candidates, Scopes};
use fleet_core::rollout::{ClusterOverrides, Overrides as Found};
use fleet_core::updaterun::{MatchedOverrides, Overrides, Unmatched};
use fleet_runtime::Cache;

use crate::rollout::overriding::Held;

/// The latest overrides, and the clusters that they may be for.
#[derive(Debug)]
pub(super) struct Latest<'a> {
    pub(super) placement: Option<&'a PlacementKey>,
    pub(super) held: Option<Held>,
    pub(super) members: &'a Cache<MemberCluster>,
    pub(super) scopes: &'a dyn Scopes,
}

impl Overrides for Latest<'_> {
    fn matching(&self, resources: &[&EmbeddedObject], clusters: &[&str]) -> Result<Vec<MatchedOverrides>, Unmatched> {
        let (Some(placement), Some(held)) = (self.placement, &self.held) else {
            return Ok(vec![MatchedOverrides::default(); clusters.len()]);
        };
        let candidates = Candidates::of(resources.iter().copied(), self.scopes);
        let not_frozen = || Unmatched::NotFrozen { name: held.awaited(placement, &candidates).unwrap_or_default() };
        let found = match held.matched(placement, &candidates, clusters.iter().copied(), self.members) {
            Found::Matched(found) => found,
            Found::Unsettled => return Err(not_frozen()),
        };
        let of_cluster = |cluster: &&str| match found.get(cluster) {
            Some(ClusterOverrides::Pinned(pinned)) => pinned.clone(),
            Some(ClusterOverrides::ClusterGone) | None => MatchedOverrides::default(),
        };
        Ok(clusters.iter().map(of_cluster).collect())
    }
}
