//! The caches of the hub, shared by its controllers: which part of each object is kept, and by which indexes it is
//! found.
//!
//! Works are kept without manifests, resource snapshots with the names of their resources only, and bindings and
//! Works as packed bytes.

use std::fmt;

use fleet_api::admission::reserved;
use fleet_api::kinds::{
    Approval, Binding, Cluster, ClusterOverride, ClusterOverrideSnapshot, ClusterProfile,
    ClusterResourcePlacementEviction, ClusterResourcePlacementStatus, Family, InternalMemberCluster, MemberCluster,
    Namespaced, NamespacedOverride, NamespacedOverrideSnapshot, Obj, Placement, PolicySnapshot, Scope, Snapshot,
    UpdateRun, UpdateStrategy, Work,
};
use fleet_api::names::PlacementKey;
use fleet_api::well_known::{labels, namespaces};
use fleet_runtime::{Cache, CacheIndex, Kind, ObjectKey, Runtime};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::{Map, Value, json};

use crate::keys::{parent_of, placement_of, placement_of_work};
use crate::options::HubOptions;
use crate::placement::selector_index_keys;
use crate::report_back::reported_resources;
use crate::scheduler::is_open;
use crate::snapshot_content::SnapshotContentCache;
use crate::updaterun::{Phase, Unfinished, strategy_of};

/// All caches of the hub.
#[derive(Debug, Clone)]
pub struct Caches {
    pub members: Cache<MemberCluster>,
    pub works: Cache<Work>,
    pub(crate) works_by_placement_and_member: CacheIndex<Work, PlacementAndMember>,
    pub member_resources: MemberResources,
    pub cluster_overrides: OverrideCaches<ClusterOverride, ClusterOverrideSnapshot, Cluster>,
    pub overrides: OverrideCaches<NamespacedOverride, NamespacedOverrideSnapshot, Namespaced>,
    /// `None` if ClusterProfiles are disabled.
    pub profiles: Option<Cache<ClusterProfile>>,
    /// Copies of placements' statuses in their selected namespaces.
    pub status_copies: Cache<ClusterResourcePlacementStatus>,
    /// By the name of the placement; `None` if evictions are disabled.
    pub evictions: Option<CacheIndex<ClusterResourcePlacementEviction, String>>,
    pub cluster: PlacementCaches<Cluster>,
    /// `None` if ResourcePlacements are disabled.
    pub namespaced: Option<PlacementCaches<Namespaced>>,
    /// `None` if staged runs are disabled.
    pub cluster_runs: Option<RunCaches<Cluster>>,
    /// `None` if staged runs or ResourcePlacements are disabled.
    pub namespaced_runs: Option<RunCaches<Namespaced>>,
}

/// The objects of members on the hub, except Works.
#[derive(Debug, Clone)]
pub struct MemberResources {
    /// All namespaces with metadata only, because one with a member's name may already exist.
    pub namespaces: Cache<Namespace>,
    pub roles: Cache<Role>,
    pub role_bindings: Cache<RoleBinding>,
    pub internal_member_clusters: Cache<InternalMemberCluster>,
}

/// The kinds of placements of one scope.
#[derive(Debug, Clone)]
pub struct PlacementCaches<S: Scope> {
    pub placements: Cache<Obj<Placement, S>>,
    /// By what placements may select, see `placement::selector_index`.
    pub(crate) placements_by_selector: CacheIndex<Obj<Placement, S>, String>,
    /// Placements that want statuses reported back, by each selected resource.
    pub(crate) placements_by_reported_resource: CacheIndex<Obj<Placement, S>, String>,
    pub policy_snapshots: Cache<Obj<PolicySnapshot, S>>,
    pub(crate) policy_snapshots_by_placement: CacheIndex<Obj<PolicySnapshot, S>, PlacementKey>,
    /// Under `true`: those that a change of a member may affect.
    pub(crate) open_policy_snapshots: CacheIndex<Obj<PolicySnapshot, S>, bool>,
    /// With names only, see `names_only`.
    pub resource_snapshots: Cache<Obj<Snapshot, S>>,
    pub(crate) resource_snapshots_by_placement: CacheIndex<Obj<Snapshot, S>, PlacementKey>,
    pub(crate) resource_snapshots_by_group: CacheIndex<Obj<Snapshot, S>, SnapshotGroup>,
    pub bindings: Cache<Obj<Binding, S>>,
    pub(crate) bindings_by_placement: CacheIndex<Obj<Binding, S>, PlacementKey>,
    /// By the name of the target cluster.
    pub(crate) bindings_by_cluster: CacheIndex<Obj<Binding, S>, String>,
    /// By the keys of pinned override snapshots of both scopes.
    pub(crate) bindings_by_pin: CacheIndex<Obj<Binding, S>, ObjectKey>,
    /// The whole content of resource snapshots that were used last.
    pub(crate) contents: SnapshotContentCache<S>,
}

/// The kinds of staged runs of one scope. Finished runs are in no index, because no change affects them.
#[derive(Debug, Clone)]
pub struct RunCaches<S: Scope> {
    pub runs: Cache<Obj<UpdateRun, S>>,
    pub(crate) runs_by_placement: CacheIndex<Obj<UpdateRun, S>, PlacementKey>,
    /// By the key of the strategy.
    pub(crate) runs_by_strategy: CacheIndex<Obj<UpdateRun, S>, ObjectKey>,
    pub(crate) unfinished_runs: CacheIndex<Obj<UpdateRun, S>, Unfinished>,
    pub strategies: Cache<Obj<UpdateStrategy, S>>,
    pub approvals: Cache<Obj<Approval, S>>,
    /// By the key of the run in their label.
    pub(crate) approvals_by_run: CacheIndex<Obj<Approval, S>, ObjectKey>,
}

impl<S: Scope> RunCaches<S> {
    fn new(runtime: &mut Runtime) -> Self {
        let runs = runtime.cache(served::<UpdateRun, S>());
        let strategies = runtime.cache(served());
        let approvals = runtime.cache(served::<Approval, S>());
        Self {
            runs_by_placement: runs.index(|run| placement_of(run).filter(|_| is_open_run(run))),
            runs_by_strategy: runs.index(|run| Some(strategy_of(run)).filter(|_| is_open_run(run))),
            unfinished_runs: runs.index(|run| Phase::of(run).index_values().iter().copied()),
            runs,
            strategies,
            approvals_by_run: approvals.index(|request| {
                let run = request.metadata.labels.as_ref()?.get(labels::TARGET_UPDATE_RUN)?;
                Some(ObjectKey::new(request.metadata.namespace.as_deref(), run))
            }),
            approvals,
        }
    }
}

fn is_open_run<S: Scope>(run: &Obj<UpdateRun, S>) -> bool {
    Phase::of(run) != Phase::Finished
}

/// Overrides of one scope with their snapshots. `O` and `F` are the families of the two.
#[derive(Debug, Clone)]
pub struct OverrideCaches<O: Family, F: Family, S: Scope> {
    pub overrides: Cache<Obj<O, S>>,
    pub snapshots: Cache<Obj<F, S>>,
    /// By the key of the override.
    pub(crate) snapshots_by_override: CacheIndex<Obj<F, S>, ObjectKey>,
}

/// A placement and the namespace of a member, by which Works are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacementAndMember {
    pub(crate) placement: PlacementKey,
    pub(crate) member_namespace: String,
}

impl fmt::Display for PlacementAndMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.placement, self.member_namespace)
    }
}

/// A placement and the index of a resource snapshot, by which the parts of a snapshot are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotGroup {
    placement: PlacementKey,
    index: String,
}

impl SnapshotGroup {
    /// `None` if its labels cannot be read.
    pub(crate) fn of<S: Scope>(snapshot: &Obj<Snapshot, S>) -> Option<Self> {
        let index = snapshot.metadata.labels.as_ref()?.get(labels::RESOURCE_INDEX)?.clone();
        Some(Self { placement: parent_of(snapshot)?, index })
    }
}

impl fmt::Display for SnapshotGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.placement, self.index)
    }
}

impl Caches {
    pub(crate) fn new(runtime: &mut Runtime, options: &HubOptions) -> Self {
        let members = runtime.cache(Kind::new());
        let works = runtime.cache(Kind::<Work>::new().packed().slim(without_manifests));
        Self {
            members,
            works_by_placement_and_member: works.index(|work| {
                let member_namespace = work.metadata.namespace.clone().unwrap_or_default();
                placement_of_work(work).map(|placement| PlacementAndMember { placement, member_namespace })
            }),
            works,
            member_resources: MemberResources {
                namespaces: runtime.cache(Kind::new().slim(metadata_only)),
                roles: runtime.cache(Kind::new().packed()),
                role_bindings: runtime.cache(Kind::new().packed()),
                internal_member_clusters: runtime.cache(Kind::new()),
            },
            cluster_overrides: OverrideCaches::new(runtime),
            overrides: OverrideCaches::new(runtime),
            profiles: options
                .cluster_inventory
                .then(|| runtime.cache(Kind::new().in_namespace(namespaces::FLEET_SYSTEM))),
            status_copies: runtime.cache(Kind::new().packed()),
            evictions: options.evictions.then(|| {
                let evictions = runtime.cache(Kind::<ClusterResourcePlacementEviction>::new());
                evictions.index(|eviction| [eviction.spec.placement_name.clone()])
            }),
            cluster: PlacementCaches::new(runtime),
            namespaced: options.resource_placements.then(|| PlacementCaches::new(runtime)),
            cluster_runs: options.staged_runs.then(|| RunCaches::new(runtime)),
            namespaced_runs: (options.staged_runs && options.resource_placements).then(|| RunCaches::new(runtime)),
        }
    }
}

impl<O: Family, F: Family, S: Scope> OverrideCaches<O, F, S> {
    fn new(runtime: &mut Runtime) -> Self {
        let overrides = runtime.cache(served());
        let snapshots = runtime.cache(served::<F, S>());
        Self {
            overrides,
            snapshots_by_override: snapshots.index(|snapshot| {
                let parent = snapshot.metadata.labels.as_ref()?.get(labels::PARENT_OVERRIDE)?;
                Some(ObjectKey::new(snapshot.metadata.namespace.as_deref(), parent))
            }),
            snapshots,
        }
    }
}

impl<S: Scope> PlacementCaches<S> {
    fn new(runtime: &mut Runtime) -> Self {
        let placements = runtime.cache(served::<Placement, S>());
        let policy_snapshots = runtime.cache(served::<PolicySnapshot, S>());
        let resource_snapshots = runtime.cache(served::<Snapshot, S>().slim(names_only).packed());
        let bindings = runtime.cache(served::<Binding, S>().packed());
        Self {
            placements_by_selector: placements.index(selector_index_keys),
            placements_by_reported_resource: placements.index(reported_resources),
            placements,
            policy_snapshots_by_placement: policy_snapshots.index(parent_of),
            open_policy_snapshots: policy_snapshots.index(|snapshot| is_open(snapshot).then_some(true)),
            policy_snapshots,
            resource_snapshots_by_placement: resource_snapshots.index(parent_of),
            resource_snapshots_by_group: resource_snapshots.index(SnapshotGroup::of),
            resource_snapshots,
            bindings_by_placement: bindings.index(parent_of),
            bindings_by_cluster: bindings.index(|binding| [binding.spec.target_cluster.clone()]),
            bindings_by_pin: bindings.index(pins),
            bindings,
            contents: SnapshotContentCache::default(),
        }
    }
}

/// The override snapshots that a binding names.
fn pins<S: Scope>(binding: &Obj<Binding, S>) -> Vec<ObjectKey> {
    let cluster = binding.spec.cluster_resource_override_snapshots.iter().flatten();
    let cluster = cluster.map(|name| ObjectKey::cluster(name.as_str()));
    let namespaced = binding.spec.resource_override_snapshots.iter().flatten();
    let namespaced = namespaced.map(|one| ObjectKey::namespaced(one.namespace.as_str(), one.name.as_str()));
    cluster.chain(namespaced).collect()
}

/// A kind whose objects in reserved namespaces are ignored.
fn served<F: Family, S: Scope>() -> Kind<Obj<F, S>> {
    Kind::new().ignoring(reserved::is_ignored)
}

/// Manifests are most of the data on a hub, and only members read them.
fn without_manifests(work: &mut Value) {
    if let Some(manifests) = work.pointer_mut("/spec/workload/manifests") {
        *manifests = json!([]);
    }
}

/// For namespaces, the metadata is enough.
fn metadata_only(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("spec");
        fields.remove("status");
    }
}

/// The status needs only the names of the resources in a snapshot. The content is read when it is rolled out.
fn names_only(snapshot: &mut Value) {
    let resources = snapshot.pointer_mut("/spec/selectedResources").and_then(Value::as_array_mut);
    for resource in resources.into_iter().flatten() {
        let mut kept = Map::new();
        for field in ["apiVersion", "kind"] {
            kept.extend(resource.get(field).map(|value| (field.to_owned(), value.clone())));
        }
        let mut metadata = Map::new();
        for field in ["name", "namespace"] {
            let found = resource.pointer(&format!("/metadata/{field}"));
            metadata.extend(found.map(|value| (field.to_owned(), value.clone())));
        }
        kept.insert("metadata".to_owned(), Value::Object(metadata));
        *resource = Value::Object(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_snapshots_keep_the_names_of_their_resources() {
        let mut snapshot = json!({"metadata": {"name": "web-0-snapshot"}, "spec": {"selectedResources": [
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
             "metadata": {"name": "settings", "namespace": "shop", "labels": {"x": "y"}}},
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        ]}});
        names_only(&mut snapshot);
        assert_eq!(
            snapshot,
            json!({"metadata": {"name": "web-0-snapshot"}, "spec": {"selectedResources": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}},
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            ]}})
        );
    }

    #[test]
    fn cached_works_drop_only_their_manifests() {
        let mut work = json!({"metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{"kind": "Secret"}]}}});
        without_manifests(&mut work);
        assert_eq!(work, json!({"metadata": {"name": "w"}, "spec": {"workload": {"manifests": []}}}));
        let mut empty = json!({"metadata": {"name": "w"}});
        without_manifests(&mut empty);
        assert_eq!(empty, json!({"metadata": {"name": "w"}}));
    }
}
