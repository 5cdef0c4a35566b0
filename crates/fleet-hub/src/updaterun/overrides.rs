//! Which overrides a run takes along for which cluster.
//!
//! Decides nothing by itself: asks the same as a rolling update does. What the run records stays, whatever is edited later.
//! If an override that concerns the run is not frozen yet, that is noted: the run waits for it rather than go without.

use std::cell::Cell;

use fleet_api::kinds::MemberCluster;
use fleet_api::names::PlacementKey;
use fleet_api::types::EmbeddedObject;
use fleet_core::overrides::{Candidates, Scopes};
use fleet_core::rollout::{ClusterOverrides, Overrides as Found};
use fleet_core::updaterun::{MatchedOverrides, Overrides};
use fleet_runtime::Cache;

use crate::rollout::overriding::Held;

/// The latest overrides, and the clusters that they may be for.
#[derive(Debug)]
pub(super) struct Latest<'a> {
    placement: Option<&'a PlacementKey>,
    held: Option<Held>,
    members: &'a Cache<MemberCluster>,
    scopes: &'a dyn Scopes,
    unsettled: Cell<bool>,
}

impl<'a> Latest<'a> {
    pub(super) fn new(
        placement: Option<&'a PlacementKey>,
        held: Option<Held>,
        members: &'a Cache<MemberCluster>,
        scopes: &'a dyn Scopes,
    ) -> Self {
        Self { placement, held, members, scopes, unsettled: Cell::new(false) }
    }

    /// Whether an override was asked for that is not frozen yet.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled.get()
    }
}

impl Overrides for Latest<'_> {
    fn matching(&self, resources: &[&EmbeddedObject], clusters: &[&str]) -> Result<Vec<MatchedOverrides>, String> {
        let (Some(placement), Some(held)) = (self.placement, &self.held) else {
            return Ok(vec![MatchedOverrides::default(); clusters.len()]);
        };
        let candidates = Candidates::of(resources.iter().copied(), self.scopes);
        let found = match held.matched(placement, &candidates, clusters.iter().copied(), self.members) {
            Found::Matched(found) => found,
            Found::Unsettled => {
                self.unsettled.set(true);
                return Ok(vec![MatchedOverrides::default(); clusters.len()]);
            }
        };
        let of_cluster = |cluster: &&str| match found.get(cluster) {
            Some(ClusterOverrides::Pinned(pinned)) => pinned.clone(),
            Some(ClusterOverrides::ClusterGone) | None => MatchedOverrides::default(),
        };
        Ok(clusters.iter().map(of_cluster).collect())
    }
}
