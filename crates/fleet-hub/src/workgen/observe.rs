//! Collects the cached objects that a binding's plan needs. A member counts only if it exists, can be decoded, is not
//! leaving, and has not left and joined again since the scheduler picked it for the binding.

use std::sync::Arc;

use fleet_api::kinds::{
    Binding, ClusterResourceOverrideSnapshot, MemberCluster, Obj, Placement, ResourceOverrideSnapshot, Scope, Snapshot,
    Work,
};
use fleet_api::names::{ClusterName, MemberNamespace, PlacementKey};
use fleet_api::types::RolloutStrategyType;
use fleet_core::overrides::{Scopes, SnapshotFacts, Target};
use fleet_core::placement::ResourceSnapshotFacts;
use fleet_core::scheduler::{self, is_of_membership};
use fleet_core::workgen::{BindingFacts, ContentDepth, Observed, ReportBack, RolloutStart, WorkFacts};
use fleet_runtime::{Cache, CacheIndex, ObjectKey};

use crate::caches::{Caches, PlacementAndMember, PlacementCaches};
use crate::keys::{object_key, parent_of};
use crate::snapshot_content::{GroupId, group_in};

/// Reads bindings and their related objects from the caches.
pub(super) struct Observer<S: Scope> {
    caches: PlacementCaches<S>,
    members: Cache<MemberCluster>,
    works: CacheIndex<Work, PlacementAndMember>,
    cluster_overrides: Cache<ClusterResourceOverrideSnapshot>,
    overrides: Cache<ResourceOverrideSnapshot>,
}

/// A binding and the cached objects that its plan needs.
pub(super) struct Observation<S: Scope> {
    pub(super) binding: Arc<Obj<Binding, S>>,
    key: PlacementKey,
    placement: Option<Arc<Obj<Placement, S>>>,
    member: Option<Arc<MemberCluster>>,
    leaving: bool,
    namespace: MemberNamespace,
    works: Vec<Arc<Work>>,
    /// The snapshot group that the binding names, master first, with names only; empty if the master is missing.
    snapshots: Vec<Arc<Obj<Snapshot, S>>>,
    cluster_overrides: Vec<Arc<ClusterResourceOverrideSnapshot>>,
    overrides: Vec<Arc<ResourceOverrideSnapshot>>,
}

impl<S: Scope> Observer<S> {
    pub(super) fn new(caches: &Caches, scope: &PlacementCaches<S>) -> Self {
        Self {
            caches: scope.clone(),
            members: caches.members.clone(),
            works: caches.works_by_placement_and_member.clone(),
            cluster_overrides: caches.cluster_overrides.snapshots.clone(),
            overrides: caches.overrides.snapshots.clone(),
        }
    }

    pub(super) fn generation(&self, key: &ObjectKey) -> Option<i64> {
        Some(self.caches.bindings.get(key)?.generation())
    }

    /// `None` if the binding does not exist, or its placement label or target cluster is invalid.
    pub(super) fn observe(&self, key: &ObjectKey) -> Option<Observation<S>> {
        let binding = self.caches.bindings.get(key)?;
        let placement_key = parent_of(&*binding)?;
        let namespace = MemberNamespace::of(&ClusterName::parse(&binding.spec.target_cluster).ok()?).ok()?;
        let spec = &binding.spec;
        let pinned_cluster = spec.cluster_resource_override_snapshots.iter().flatten();
        let pinned_cluster = pinned_cluster.map(|name| ObjectKey::cluster(name.as_str()));
        let pinned = spec.resource_override_snapshots.iter().flatten();
        let pinned = pinned.map(|one| ObjectKey::namespaced(one.namespace.as_str(), one.name.as_str()));
        let at = PlacementAndMember { placement: placement_key, member_namespace: namespace.to_string() };
        let works = self.works.get(&at);
        let placement_key = at.placement;
        Some(Observation {
            placement: self.caches.placements.get(&object_key(&placement_key)),
            member: self.member(&binding),
            leaving: self.is_leaving(&spec.target_cluster),
            works,
            snapshots: group_in(&self.caches, &placement_key, &spec.resource_snapshot_name),
            cluster_overrides: pinned_cluster.filter_map(|key| self.cluster_overrides.get(&key)).collect(),
            overrides: pinned.filter_map(|key| self.overrides.get(&key)).collect(),
            key: placement_key,
            namespace,
            binding,
        })
    }

    fn member(&self, binding: &Obj<Binding, S>) -> Option<Arc<MemberCluster>> {
        let key = ObjectKey::cluster(binding.spec.target_cluster.as_str());
        let picked = scheduler::BindingFacts::of(binding).cluster_uid;
        let counts = |member: &MemberCluster| {
            !self.members.is_unreadable(&key)
                && !member.is_deleting()
                && is_of_membership(picked, member.metadata.uid.as_deref())
        };
        self.members.get(&key).filter(|member| counts(member))
    }

    fn is_leaving(&self, name: &str) -> bool {
        self.members.get(&ObjectKey::cluster(name)).is_some_and(|member| member.is_deleting())
    }
}

impl<S: Scope> Observation<S> {
    /// `content` is the content of the binding's snapshot group, if it was read.
    pub(super) fn observed<'a>(
        &'a self,
        content: Option<&'a [Obj<Snapshot, S>]>,
        scopes: &'a dyn Scopes,
    ) -> Observed<'a> {
        let cluster_overrides = self.cluster_overrides.iter().map(|one| SnapshotFacts::of(&**one));
        let strategy = self.placement.as_ref().map(|placement| placement.spec.strategy_type());
        Observed {
            placement: &self.key,
            binding: BindingFacts::of(&*self.binding),
            cluster: self.member.as_deref().map(Target::of),
            leaving: self.leaving,
            namespace: &self.namespace,
            works: self.works.iter().map(|work| WorkFacts::of(work)).collect(),
            snapshots: self.snapshot_facts(content),
            content: content_depth(content.is_some()),
            overrides: cluster_overrides.chain(self.overrides.iter().map(|one| SnapshotFacts::of(&**one))).collect(),
            report_back: self.placement.as_ref().map_or(ReportBack::Unknown, |placement| {
                ReportBack::As(placement.spec.strategy.as_ref().and_then(|strategy| strategy.report_back_strategy))
            }),
            start: match strategy {
                Some(RolloutStrategyType::RollingUpdate) => RolloutStart::ImpliedByBinding,
                Some(RolloutStrategyType::External) | None => RolloutStart::SetByRollout,
            },
            rejection: None,
            scopes,
        }
    }

    /// Resources come from `content` if it was read. Labels and annotations come from the cache, because they change.
    fn snapshot_facts<'a>(&'a self, content: Option<&'a [Obj<Snapshot, S>]>) -> Vec<ResourceSnapshotFacts<'a>> {
        let whole = |facts: &ResourceSnapshotFacts<'_>| {
            content?.iter().find(|one| one.name() == facts.name).map(|one| one.spec.selected_resources.as_slice())
        };
        self.snapshots
            .iter()
            .map(|one| ResourceSnapshotFacts::of(&**one))
            .map(|facts| ResourceSnapshotFacts { resources: whole(&facts).unwrap_or(facts.resources), ..facts })
            .collect()
    }

    /// The snapshots that the binding names.
    pub(super) fn group(&self) -> GroupId {
        GroupId::of(self.snapshots.iter().map(Arc::as_ref))
    }

    pub(super) fn work(&self, name: &str) -> Option<&Work> {
        self.works.iter().map(Arc::as_ref).find(|work| work.name() == name)
    }
}

fn content_depth(is_whole: bool) -> ContentDepth {
    if is_whole { ContentDepth::Whole } else { ContentDepth::Identities }
}
