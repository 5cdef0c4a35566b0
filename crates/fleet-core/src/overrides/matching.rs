//! Which override snapshots match a placement's resources and a cluster. The order decides which override wins.

use std::collections::BTreeMap;

use fleet_api::names::PlacementKey;
use fleet_api::types::{NamespacedName, PlacementScope, ResourceSelector, ResourceSelectorTerm};

use super::candidates::{Candidates, ResourceKey};
use super::clusters::{Target, has_rule_for};
use super::observed::{OverrideSpecRef, SnapshotFacts};

/// The override snapshots that match a placement's resources, in the order in which bindings list them.
#[derive(Debug, Clone, Default)]
pub struct Matched<'a> {
    cluster: Vec<SnapshotFacts<'a>>,
    namespaced: Vec<SnapshotFacts<'a>>,
}

/// The override snapshots of a binding, by name, in the order in which they are applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    pub cluster_overrides: Vec<String>,
    pub overrides: Vec<NamespacedName>,
}

impl Pins {
    /// Whether a binding has exactly these. An absent list equals an empty one.
    pub fn are_on(&self, overrides: Option<&[NamespacedName]>, cluster_overrides: Option<&[String]>) -> bool {
        self.overrides == overrides.unwrap_or_default()
            && self.cluster_overrides == cluster_overrides.unwrap_or_default()
    }
}

impl<'a> Matched<'a> {
    /// From override snapshots of any kind and age, in any order.
    pub fn new(
        placement: &PlacementKey,
        candidates: &Candidates,
        snapshots: impl IntoIterator<Item = SnapshotFacts<'a>>,
    ) -> Self {
        let mut matched = Self::default();
        for snapshot in latest(snapshots) {
            if is_for_placement(&snapshot.spec, placement) && selects(&snapshot, candidates) {
                match snapshot.spec {
                    OverrideSpecRef::Cluster(_) => matched.cluster.push(snapshot),
                    OverrideSpecRef::Namespaced { .. } => matched.namespaced.push(snapshot),
                }
            }
        }
        // Plain text order, so `x-10` comes before `x-9`. Existing deployments depend on it.
        matched.cluster.sort_unstable_by_key(|one| one.name);
        matched.namespaced.sort_unstable_by_key(|one| (one.spec.namespace(), one.name));
        matched
    }

    /// Whether no override matches, on any cluster.
    pub fn is_empty(&self) -> bool {
        self.cluster.is_empty() && self.namespaced.is_empty()
    }

    /// The first matching override: `namespace/name`, or `name` if it is cluster-scoped.
    pub fn first(&self) -> Option<String> {
        let first = self.cluster.iter().chain(&self.namespaced).next()?;
        Some(match first.spec.namespace() {
            "" => first.parent.to_owned(),
            namespace => format!("{namespace}/{}", first.parent),
        })
    }

    /// The override snapshots for the binding of this cluster.
    pub fn pins(&self, target: &Target<'_>) -> Pins {
        let applies = |one: &&SnapshotFacts<'_>| has_rule_for(one.spec.policy(), target);
        let named = |one: &SnapshotFacts<'_>| NamespacedName {
            name: one.name.to_owned(),
            namespace: one.spec.namespace().to_owned(),
        };
        Pins {
            cluster_overrides: self.cluster.iter().filter(applies).map(|one| one.name.to_owned()).collect(),
            overrides: self.namespaced.iter().filter(applies).map(named).collect(),
        }
    }
}

/// One snapshot per override. While a new one replaces an old one, both have the latest label; the higher index wins.
fn latest<'a>(snapshots: impl IntoIterator<Item = SnapshotFacts<'a>>) -> impl Iterator<Item = SnapshotFacts<'a>> {
    let mut newest: BTreeMap<(bool, &str, &str), SnapshotFacts<'a>> = BTreeMap::new();
    for snapshot in snapshots.into_iter().filter(|one| one.latest) {
        let is_cluster_scoped = matches!(snapshot.spec, OverrideSpecRef::Cluster(_));
        // A snapshot without a parent label counts as its own override.
        let parent = if snapshot.parent.is_empty() { snapshot.name } else { snapshot.parent };
        let newest_one = newest.entry((is_cluster_scoped, snapshot.spec.namespace(), parent)).or_insert(snapshot);
        if (newest_one.index, newest_one.name) < (snapshot.index, snapshot.name) {
            *newest_one = snapshot;
        }
    }
    newest.into_values()
}

pub(crate) fn is_for_placement(spec: &OverrideSpecRef<'_>, placement: &PlacementKey) -> bool {
    let Some(reference) = spec.placement() else { return true };
    if reference.name != placement.name.as_str() {
        return false;
    }
    match (reference.scope(), &placement.namespace, *spec) {
        (PlacementScope::Cluster, None, _) => true,
        (PlacementScope::Namespaced, Some(own), OverrideSpecRef::Namespaced { namespace, .. }) => {
            own.as_str() == namespace
        }
        _ => false,
    }
}

fn selects(snapshot: &SnapshotFacts<'_>, candidates: &Candidates) -> bool {
    keys(snapshot).iter().any(|key| match snapshot.spec {
        OverrideSpecRef::Cluster(_) => candidates.cluster.contains(key),
        OverrideSpecRef::Namespaced { .. } => candidates.namespaced.contains(key),
    })
}

/// The keys that an override selects.
pub(super) fn keys(snapshot: &SnapshotFacts<'_>) -> Vec<ResourceKey> {
    match snapshot.spec {
        OverrideSpecRef::Cluster(spec) => {
            let key = |one: &ResourceSelectorTerm| ResourceKey {
                group: one.group.clone(),
                version: one.version.clone(),
                kind: one.kind.clone(),
                namespace: String::new(),
                name: one.name.clone(),
            };
            spec.cluster_resource_selectors.iter().map(key).collect()
        }
        OverrideSpecRef::Namespaced { namespace, spec } => {
            let key = |one: &ResourceSelector| ResourceKey {
                group: one.group.clone(),
                version: one.version.clone(),
                kind: one.kind.clone(),
                namespace: namespace.to_owned(),
                name: one.name.clone(),
            };
            spec.resource_selectors.iter().map(key).collect()
        }
    }
}
