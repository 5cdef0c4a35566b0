//! The caches of the hub, shared by its controllers: which part of each object is kept, and by which indexes it is
//! found.
//!
//! Works are kept without manifests, resource snapshots with the names of their resources only, and bindings and
//! Works as packed bytes.

use fleet_api::admission::reserved;
use fleet_api::kinds::{
    Approval, Binding, Cluster, ClusterOverride, ClusterOverrideSnapshot, ClusterProfile,
    ClusterResourcePlacementEviction, ClusterResourcePlacementStatus, Family, InternalMemberCluster, MemberCluster,
    Namespaced, NamespacedOverride, NamespacedOverrideSnapshot, Obj, Placement, PolicySnapshot, Scope, Snapshot,
    UpdateRun, UpdateStrategy, Work,
};
use fleet_api::names::PlacementKey;
use fleet_api::well_known::{labels, namespaces};
use fleet_runtime::{Cache, Kind, ObjectKey, Runtime};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::{Map, Value, json};

use crate::keys::{parent_of, placement_of, placement_of_work};
use crate::options::HubOptions;
use crate::placement::selector_index_keys;
use crate::report_back::reported_back;
use crate::scheduler::{OPEN, is_open};
use crate::updaterun::{Phase, strategy_of};

/// Names of indexes.
pub mod by {
    /// Snapshots, bindings and evictions by the key of their placement.
    pub const PLACEMENT: &str = "placement";
    /// Resource snapshots by placement and index, see `group_value`.
    pub const GROUP: &str = "group";
    /// Placements by what they may select, see `placement::selector_index`.
    pub const SELECTOR: &str = "selector";
    /// Placements that want statuses reported back, by each selected resource, see `report_back::reported_back`.
    pub const REPORTED_BACK: &str = "reported back";
    /// Policy snapshots that a change of a member may affect, under `scheduler::OPEN`.
    pub const OPEN: &str = "open";
    /// Bindings by their target cluster.
    pub const CLUSTER: &str = "cluster";
    /// Works by `works_at`: the placement and the member's namespace.
    pub const PLACEMENT_AND_MEMBER: &str = "placement and member";
    /// Bindings by their pinned override snapshots, as `Pin` prints.
    pub const PIN: &str = "pin";
    /// Override snapshots by the key of their override.
    pub const OVERRIDE: &str = "override";
    /// Unfinished staged runs by `namespace/name` of their strategy, or its name alone.
    pub const STRATEGY: &str = "strategy";
    /// Unfinished staged runs by phase, see `updaterun::Phase`.
    pub const PHASE: &str = "phase";
    /// Approval requests by `namespace/name` of the run in their label, or its name alone.
    pub const RUN: &str = "run";
}

/// All caches of the hub.
#[derive(Debug, Clone)]
pub struct Caches {
    pub members: Cache<MemberCluster>,
    pub works: Cache<Work>,
    pub member_resources: MemberResources,
    pub cluster_overrides: OverrideCaches<ClusterOverride, ClusterOverrideSnapshot, Cluster>,
    pub overrides: OverrideCaches<NamespacedOverride, NamespacedOverrideSnapshot, Namespaced>,
    /// `None` if ClusterProfiles are disabled.
    pub profiles: Option<Cache<ClusterProfile>>,
    /// Copies of placements' statuses in their selected namespaces.
    pub status_copies: Cache<ClusterResourcePlacementStatus>,
    /// `None` if evictions are disabled.
    pub evictions: Option<Cache<ClusterResourcePlacementEviction>>,
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
#[derive(Debug)]
pub struct PlacementCaches<S: Scope> {
    pub placements: Cache<Obj<Placement, S>>,
    pub policy_snapshots: Cache<Obj<PolicySnapshot, S>>,
    /// With names only, see `names_only`.
    pub resource_snapshots: Cache<Obj<Snapshot, S>>,
    pub bindings: Cache<Obj<Binding, S>>,
}

impl<S: Scope> Clone for PlacementCaches<S> {
    fn clone(&self) -> Self {
        Self {
            placements: self.placements.clone(),
            policy_snapshots: self.policy_snapshots.clone(),
            resource_snapshots: self.resource_snapshots.clone(),
            bindings: self.bindings.clone(),
        }
    }
}

/// The kinds of staged runs of one scope.
#[derive(Debug)]
pub struct RunCaches<S: Scope> {
    pub runs: Cache<Obj<UpdateRun, S>>,
    pub strategies: Cache<Obj<UpdateStrategy, S>>,
    pub approvals: Cache<Obj<Approval, S>>,
}

impl<S: Scope> Clone for RunCaches<S> {
    fn clone(&self) -> Self {
        Self { runs: self.runs.clone(), strategies: self.strategies.clone(), approvals: self.approvals.clone() }
    }
}

impl<S: Scope> RunCaches<S> {
    fn new(runtime: &mut Runtime) -> Self {
        let runs = served::<UpdateRun, S>()
            .index(by::PLACEMENT, |run| open_run(run, placement_of(run).map(|key| key.to_string())))
            .index(by::STRATEGY, |run| open_run(run, Some(strategy_of(run).to_string())))
            .index(by::PHASE, |run| Phase::of(run).index_values().iter().map(|word| (*word).to_owned()).collect());
        let approvals = served::<Approval, S>().index(by::RUN, |request| {
            let run = request.metadata.labels.as_ref().and_then(|labels| labels.get(labels::TARGET_UPDATE_RUN));
            let key = run.map(|run| ObjectKey::new(request.metadata.namespace.as_deref(), run).to_string());
            key.into_iter().collect()
        });
        Self { runs: runtime.cache(runs), strategies: runtime.cache(served()), approvals: runtime.cache(approvals) }
    }
}

/// Finished runs are not indexed: no change affects them.
fn open_run<S: Scope>(run: &Obj<UpdateRun, S>, word: Option<String>) -> Vec<String> {
    word.filter(|_| Phase::of(run) != Phase::Finished).into_iter().collect()
}

/// Overrides of one scope with their snapshots. `O` and `F` are the families of the two.
#[derive(Debug)]
pub struct OverrideCaches<O: Family, F: Family, S: Scope> {
    pub overrides: Cache<Obj<O, S>>,
    pub snapshots: Cache<Obj<F, S>>,
}

impl<O: Family, F: Family, S: Scope> Clone for OverrideCaches<O, F, S> {
    fn clone(&self) -> Self {
        Self { overrides: self.overrides.clone(), snapshots: self.snapshots.clone() }
    }
}

/// The value of a placement and a member's namespace in `by::PLACEMENT_AND_MEMBER`.
pub fn works_at(placement: &PlacementKey, member_namespace: &str) -> String {
    format!("{placement} {member_namespace}")
}

/// The value of an override snapshot in `by::PIN`.
pub fn pin(snapshot: &ObjectKey) -> String {
    snapshot.to_string()
}

impl Caches {
    pub(crate) fn new(runtime: &mut Runtime, options: &HubOptions) -> Self {
        let works = Kind::<Work>::new().packed().slim(without_manifests).index(by::PLACEMENT_AND_MEMBER, |work| {
            let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
            placement_of_work(work).map(|placement| works_at(&placement, namespace)).into_iter().collect()
        });
        Self {
            members: runtime.cache(Kind::new()),
            works: runtime.cache(works),
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
                let kind = Kind::<ClusterResourcePlacementEviction>::new();
                runtime.cache(kind.index(by::PLACEMENT, |eviction| vec![eviction.spec.placement_name.clone()]))
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
        let snapshots = served::<F, S>().index(by::OVERRIDE, |snapshot| {
            let parent = snapshot.metadata.labels.as_ref().and_then(|labels| labels.get(labels::PARENT_OVERRIDE));
            let key = |name: &String| ObjectKey::new(snapshot.metadata.namespace.as_deref(), name);
            parent.map(|name| key(name).to_string()).into_iter().collect()
        });
        Self { overrides: runtime.cache(served()), snapshots: runtime.cache(snapshots) }
    }
}

impl<S: Scope> PlacementCaches<S> {
    fn new(runtime: &mut Runtime) -> Self {
        let policy_snapshots = served::<PolicySnapshot, S>()
            .index(by::PLACEMENT, |snapshot| parent_of(snapshot).iter().map(ToString::to_string).collect())
            .index(by::OPEN, |snapshot| is_open(snapshot).then(|| OPEN.to_owned()).into_iter().collect());
        let resource_snapshots = served::<Snapshot, S>()
            .slim(names_only)
            .packed()
            .index(by::PLACEMENT, |snapshot| parent_of(snapshot).iter().map(ToString::to_string).collect())
            .index(by::GROUP, |snapshot| group_value(snapshot).into_iter().collect());
        let bindings = served::<Binding, S>()
            .packed()
            .index(by::PLACEMENT, |binding| parent_of(binding).iter().map(ToString::to_string).collect())
            .index(by::CLUSTER, |binding| vec![binding.spec.target_cluster.clone()])
            .index(by::PIN, |binding| {
                let cluster = binding.spec.cluster_resource_override_snapshots.iter().flatten();
                let cluster = cluster.map(|name| ObjectKey::cluster(name.as_str()));
                let namespaced = binding.spec.resource_override_snapshots.iter().flatten();
                let namespaced = namespaced.map(|one| ObjectKey::namespaced(one.namespace.as_str(), one.name.as_str()));
                cluster.chain(namespaced).map(|snapshot| pin(&snapshot)).collect()
            });
        Self {
            placements: runtime
                .cache(served().index(by::SELECTOR, selector_index_keys).index(by::REPORTED_BACK, reported_back)),
            policy_snapshots: runtime.cache(policy_snapshots),
            resource_snapshots: runtime.cache(resource_snapshots),
            bindings: runtime.cache(bindings),
        }
    }
}

/// A kind whose objects in reserved namespaces are ignored.
fn served<F: Family, S: Scope>() -> Kind<Obj<F, S>> {
    Kind::new().ignoring(reserved::is_ignored)
}

/// The value of a snapshot in `by::GROUP`; `None` if its labels cannot be read.
pub(crate) fn group_value<S: Scope>(snapshot: &Obj<Snapshot, S>) -> Option<String> {
    let index = snapshot.metadata.labels.as_ref()?.get(labels::RESOURCE_INDEX)?;
    Some(format!("{} {index}", parent_of(snapshot)?))
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
    fn snapshots_keep_the_names_of_what_is_in_them() {
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
    fn works_lose_their_manifests_and_nothing_else() {
        let mut work = json!({"metadata": {"name": "w"}, "spec": {"workload": {"manifests": [{"kind": "Secret"}]}}});
        without_manifests(&mut work);
        assert_eq!(work, json!({"metadata": {"name": "w"}, "spec": {"workload": {"manifests": []}}}));
        let mut empty = json!({"metadata": {"name": "w"}});
        without_manifests(&mut empty);
        assert_eq!(empty, json!({"metadata": {"name": "w"}}));
    }
}
