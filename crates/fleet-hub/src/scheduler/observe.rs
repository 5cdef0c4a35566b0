//! Collects the members that a plan may pick, and the seed of its names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_api::bits;
use fleet_api::kinds::{MemberCluster, Obj, Placement, Scope};
use fleet_api::names::ClusterName;
use fleet_api::types::PropertyValue;
use fleet_core::scheduler::{ClusterFacts, Namespaces};
use fleet_runtime::ObjectKey;

use super::Scheduler;

impl<S: Scope> Scheduler<S> {
    /// All members, including unreadable ones, whose bindings would otherwise be removed.
    pub(super) fn clusters<'a>(&self, members: &'a [Arc<MemberCluster>]) -> Vec<ClusterFacts<'a>> {
        let facts =
            |member: &'a Arc<MemberCluster>| Some(ClusterFacts::of(ClusterName::parse(member.name()).ok()?, member));
        let mut clusters: Vec<_> = members.iter().filter_map(facts).collect();
        let known: BTreeSet<&str> = members.iter().map(|member| member.name()).collect();
        let unknown = self.members.unreadable().into_iter().filter(|(key, _)| !known.contains(key.name()));
        clusters.extend(unknown.filter_map(|(key, _)| unreadable(&key)));
        clusters
    }
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
static NO_PROPERTIES: BTreeMap<String, PropertyValue> = BTreeMap::new();

/// An unreadable member, of which only the name is known.
fn unreadable(key: &ObjectKey) -> Option<ClusterFacts<'static>> {
    Some(ClusterFacts {
        name: ClusterName::parse(key.name()).ok()?,
        uid: None,
        leaving: false,
        labels: &NO_LABELS,
        taints: &[],
        properties: &NO_PROPERTIES,
        usage: None,
        agent: None,
        namespaces: Namespaces::NotCollected,
    })
}

/// Equal for every plan of one placement, and different for a recreated placement.
pub(super) fn suffix_seed<S: Scope>(placement: &Obj<Placement, S>) -> u64 {
    bits::hashed(0, placement.metadata.uid.as_deref().unwrap_or_default())
}
