//! Which kinds the hub holds, in which form, and by what they are found.
//!
//! Decides what of an object is kept: Works without manifests, resource snapshots with the names of what is in them,
//! bindings and Works as packed bytes. Controllers share these caches. Never decides what a change means.

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
use crate::placement::interests;
use crate::report_back::reported_back;
use crate::scheduler::{OPEN, is_open};
use crate::updaterun::{Stand, strategy_of};

/// Names of indexes.
pub mod by {
    /// Snapshots, bindings and evictions by the key of their placement.
    pub const PLACEMENT: &str = "placement";
    /// Resource snapshots by placement and index, see `group_value`.
    pub const GROUP: &str = "group";
    /// Placements by what they may select, see `placement::interest`.
    pub const INTEREST: &str = "interest";
    /// Placements that want statuses back, by each resource that they select, see `report_back::reported_back`.
    pub const REPORTED_BACK: &str = "reported back";
    /// Policy snapshots that a change in the fleet may matter to, under `scheduler::OPEN`.
    pub const OPEN: &str = "open";
    /// Bindings by the cluster that they are for.
    pub const CLUSTER: &str = "cluster";
    /// Works by `works_at`: the placement and the member's namespace.
    pub const PLACEMENT_AND_MEMBER: &str = "placement and member";
    /// Bindings by the override snapshots that are pinned on them, as `Pin` prints.
    pub const PIN: &str = "pin";
    /// Override snapshots by the key of their override.
    pub const OVERRIDE: &str = "override";
    /// Staged runs that are not over, by the `namespace/name` of their strategy, or its name alone.
    pub const STRATEGY: &str = "strategy";
    /// Staged runs that are not over, by how far they are, see `updaterun::Stand`.
    pub const STAND: &str = "stand";
    /// Approval requests by `namespace/name` of the run that their label names, or its name alone.
    pub const RUN: &str = "run";
}

/// Everything that the hub holds of its API server.
#[derive(Debug, Clone)]
pub struct Caches {
    pub members: Cache<MemberCluster>,
    pub works: Cache<Work>,
    pub belongings: Belongings,
    pub cluster_overrides: OverrideCaches<ClusterOverride, ClusterOverrideSnapshot, Cluster>,
    pub overrides: OverrideCaches<NamespacedOverride, NamespacedOverrideSnapshot, Namespaced>,
    /// Absent where the inventory is turned off.
    pub profiles: Option<Cache<ClusterProfile>>,
    /// Copies of placements' statuses, in the namespaces that those select.
    pub status_copies: Cache<ClusterResourcePlacementStatus>,
    /// Absent where evictions are turned off.
    pub evictions: Option<Cache<ClusterResourcePlacementEviction>>,
    pub cluster: PlacementCaches<Cluster>,
    /// Absent where ResourcePlacements are turned off.
    pub namespaced: Option<PlacementCaches<Namespaced>>,
    /// Absent where staged runs are turned off.
    pub cluster_runs: Option<RunCaches<Cluster>>,
    /// Absent where staged runs or ResourcePlacements are turned off.
    pub namespaced_runs: Option<RunCaches<Namespaced>>,
}

/// What members have on the hub beside their Works.
#[derive(Debug, Clone)]
pub struct Belongings {
    /// All namespaces, because one of a member's name may be there already. With metadata only.
    pub namespaces: Cache<Namespace>,
    pub roles: Cache<Role>,
    pub role_bindings: Cache<RoleBinding>,
    pub mailboxes: Cache<InternalMemberCluster>,
}

/// The kinds around placements of one scope.
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

/// The kinds around staged runs of one scope.
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
        let runs = Kind::<Obj<UpdateRun, S>>::new()
            .index(by::PLACEMENT, |run| open_run(run, placement_of(run).map(|key| key.to_string())))
            .index(by::STRATEGY, |run| open_run(run, Some(strategy_of(run).to_string())))
            .index(by::STAND, |run| Stand::of(run).words().iter().map(|word| (*word).to_owned()).collect());
        let approvals = Kind::<Obj<Approval, S>>::new().index(by::RUN, |request| {
            let run = request.metadata.labels.as_ref().and_then(|labels| labels.get(labels::TARGET_UPDATE_RUN));
            let key = run.map(|run| ObjectKey::new(request.metadata.namespace.as_deref(), run).to_string());
            key.into_iter().collect()
        });
        Self { runs: runtime.cache(runs), strategies: runtime.cache(Kind::new()), approvals: runtime.cache(approvals) }
    }
}

/// Runs that are over are not found: nothing concerns them any more.
fn open_run<S: Scope>(run: &Obj<UpdateRun, S>, word: Option<String>) -> Vec<String> {
    word.filter(|_| Stand::of(run) != Stand::Over).into_iter().collect()
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

/// Under which value `by::PLACEMENT_AND_MEMBER` has the Works of a placement in a member's namespace.
pub fn works_at(placement: &PlacementKey, member_namespace: &str) -> String {
    format!("{placement} {member_namespace}")
}

/// Under which value `by::PIN` has the bindings that an override snapshot is pinned on.
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
            belongings: Belongings {
                namespaces: runtime.cache(Kind::new().slim(metadata_only)),
                roles: runtime.cache(Kind::new().packed()),
                role_bindings: runtime.cache(Kind::new().packed()),
                mailboxes: runtime.cache(Kind::new()),
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
        let snapshots = Kind::<Obj<F, S>>::new().index(by::OVERRIDE, |snapshot| {
            let parent = snapshot.metadata.labels.as_ref().and_then(|labels| labels.get(labels::PARENT_OVERRIDE));
            let key = |name: &String| ObjectKey::new(snapshot.metadata.namespace.as_deref(), name);
            parent.map(|name| key(name).to_string()).into_iter().collect()
        });
        Self { overrides: runtime.cache(Kind::new()), snapshots: runtime.cache(snapshots) }
    }
}

impl<S: Scope> PlacementCaches<S> {
    fn new(runtime: &mut Runtime) -> Self {
        let policy_snapshots = Kind::<Obj<PolicySnapshot, S>>::new()
            .index(by::PLACEMENT, |snapshot| parent_of(snapshot).iter().map(ToString::to_string).collect())
            .index(by::OPEN, |snapshot| is_open(snapshot).then(|| OPEN.to_owned()).into_iter().collect());
        let resource_snapshots = Kind::<Obj<Snapshot, S>>::new()
            .slim(names_only)
            .packed()
            .index(by::PLACEMENT, |snapshot| parent_of(snapshot).iter().map(ToString::to_string).collect())
            .index(by::GROUP, |snapshot| group_value(snapshot).into_iter().collect());
        let bindings = Kind::<Obj<Binding, S>>::new()
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
                .cache(Kind::new().index(by::INTEREST, interests).index(by::REPORTED_BACK, reported_back)),
            policy_snapshots: runtime.cache(policy_snapshots),
            resource_snapshots: runtime.cache(resource_snapshots),
            bindings: runtime.cache(bindings),
        }
    }
}

/// Under which value `by::GROUP` has a snapshot; `None` for one that does not say where it belongs.
pub(crate) fn group_value<S: Scope>(snapshot: &Obj<Snapshot, S>) -> Option<String> {
    let index = snapshot.metadata.labels.as_ref()?.get(labels::RESOURCE_INDEX)?;
    Some(format!("{} {index}", parent_of(snapshot)?))
}

/// A Work's manifests are the bulk of a hub, and only members read them.
fn without_manifests(work: &mut Value) {
    if let Some(manifests) = work.pointer_mut("/spec/workload/manifests") {
        *manifests = json!([]);
    }
}

/// Whether a namespace is there, going or marked stands in its metadata.
fn metadata_only(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("spec");
        fields.remove("status");
    }
}

/// Of what a resource snapshot holds, its status needs what it is called. The content is read when it is rolled out.
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
