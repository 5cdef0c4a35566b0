//! The objects that a diagnosis is made from, as they were read, and what could not be read.
//!
//! Cluster-scoped and namespaced kinds share one type; whether there is a namespace tells them apart. Never treat an object that
//! was
//! not read as absent.

use std::collections::BTreeMap;

use fleet_api::conditions::update_run::{ClusterUpdateStarted, ClusterUpdateSucceeded, StageSucceeded};
use fleet_api::conditions::{Condition, ConditionState, decode_ignoring_generation};
use fleet_api::kinds::{
    AppliedWorkFamily, Approval, Binding, Cluster, ClusterOverride, DisruptionBudget, Eviction, Family, Member,
    NamespacedOverride, Obj, Placement, PolicySnapshot, Scope, UpdateRun, UpdateStrategy, WorkFamily,
};
use fleet_api::names::PlacementKey;
use fleet_api::types::{
    ApplyStrategy, ApplyStrategyType, ClusterUpdatingStatus, RolloutStrategyType, StageUpdatingStatus,
};
use fleet_api::well_known::{label_values, labels, namespaces};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::commands::Kubectl;
use super::finding::{ObjectRef, Unread};
use crate::overrides::{OverrideSpec as _, OverrideSpecRef, has_latest_snapshot, is_for_placement};

/// An object of either scope.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedObject<F: Family> {
    pub metadata: ObjectMeta,
    pub spec: F::Spec,
    pub status: Option<F::Status>,
}

impl<F: Family, S: Scope> From<Obj<F, S>> for ObservedObject<F> {
    fn from(object: Obj<F, S>) -> Self {
        Self { metadata: object.metadata, spec: object.spec, status: object.status }
    }
}

impl<F: Family> ObservedObject<F> {
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        self.metadata.labels.clone().unwrap_or_default()
    }

    pub(super) fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn reference(&self) -> ObjectRef {
        ObjectRef::of::<F>(self.metadata.namespace.as_deref(), self.name())
    }

    /// The object as the plans of controllers take it. These distinguish scopes by the namespace.
    pub(super) fn object(&self) -> Obj<F, Cluster> {
        let mut object = Obj::new(self.metadata.clone(), self.spec.clone());
        object.status.clone_from(&self.status);
        object
    }
}

/// A resource snapshot without its content.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotMetadata {
    pub metadata: ObjectMeta,
}

impl SnapshotMetadata {
    pub fn index(&self) -> Option<u32> {
        self.metadata.labels.as_ref()?.get(labels::RESOURCE_INDEX)?.parse().ok()
    }
}

/// The objects that were read on a member.
#[derive(Debug, Clone, Default)]
pub struct MemberInputs {
    pub applied_works: Vec<ObservedObject<AppliedWorkFamily>>,
    /// Placed objects that failed or are not available according to the hub.
    pub objects: Vec<Value>,
    /// Pods and events of the namespaces of these objects.
    pub pods: Vec<Pod>,
    pub events: Vec<Event>,
}

/// The objects that were read. Everything but the subject may be missing.
#[derive(Debug, Clone)]
pub struct Inputs {
    pub now: Timestamp,
    pub kubectl: Kubectl,
    /// The namespace of the run and the placement; `None` for cluster-scoped ones.
    pub namespace: Option<String>,
    /// The name of the run to diagnose, among `runs`.
    pub run: Option<String>,
    /// All runs of the scope.
    pub runs: Vec<ObservedObject<UpdateRun>>,
    /// All strategies of the scope.
    pub strategies: Vec<ObservedObject<UpdateStrategy>>,
    /// Strategies of the other scope or of other namespaces that have the name that the run asks for.
    pub strategies_elsewhere: Vec<ObservedObject<UpdateStrategy>>,
    /// Approval requests with a name or a label of the run.
    pub approvals: Vec<ObservedObject<Approval>>,
    pub placement: Option<ObservedObject<Placement>>,
    /// Names of all placements of the scope.
    pub placement_names: Vec<String>,
    pub policy_snapshots: Vec<ObservedObject<PolicySnapshot>>,
    pub resource_snapshots: Vec<SnapshotMetadata>,
    pub bindings: Vec<ObservedObject<Binding>>,
    /// Works of failing clusters.
    pub works: Vec<ObservedObject<WorkFamily>>,
    pub members: Vec<ObservedObject<Member>>,
    pub cluster_overrides: Vec<ObservedObject<ClusterOverride>>,
    pub overrides: Vec<ObservedObject<NamespacedOverride>>,
    /// Snapshots of overrides of both kinds, without their content. `None` if they were not read.
    pub override_snapshots: Option<Vec<ObjectMeta>>,
    pub evictions: Vec<ObservedObject<Eviction>>,
    pub budget: Option<ObservedObject<DisruptionBudget>>,
    /// By the member's name.
    pub member_inputs: BTreeMap<String, MemberInputs>,
    pub unread: Vec<Unread>,
}

impl Inputs {
    /// Inputs without objects.
    pub fn empty(now: Timestamp) -> Self {
        Self {
            now,
            kubectl: Kubectl::default(),
            namespace: None,
            run: None,
            runs: Vec::new(),
            strategies: Vec::new(),
            strategies_elsewhere: Vec::new(),
            approvals: Vec::new(),
            placement: None,
            placement_names: Vec::new(),
            policy_snapshots: Vec::new(),
            resource_snapshots: Vec::new(),
            bindings: Vec::new(),
            works: Vec::new(),
            members: Vec::new(),
            cluster_overrides: Vec::new(),
            overrides: Vec::new(),
            override_snapshots: None,
            evictions: Vec::new(),
            budget: None,
            member_inputs: BTreeMap::new(),
            unread: Vec::new(),
        }
    }

    pub fn the_run(&self) -> Option<&ObservedObject<UpdateRun>> {
        let name = self.run.as_deref()?;
        self.runs.iter().find(|run| run.name() == name)
    }

    /// The same inputs for another run.
    pub(super) fn about_run(&self, name: &str) -> Self {
        Self { run: Some(name.to_owned()), ..self.clone() }
    }

    /// Runs of the placement, the newest first.
    pub fn runs_of(&self, placement: &str) -> Vec<&ObservedObject<UpdateRun>> {
        let mut runs: Vec<_> = self.runs.iter().filter(|run| run.spec.placement_name == placement).collect();
        runs.sort_by_key(|run| std::cmp::Reverse((run.created(), run.name().to_owned())));
        runs
    }

    pub(super) fn strategy(&self, name: &str) -> Option<&ObservedObject<UpdateStrategy>> {
        self.strategies.iter().find(|strategy| strategy.name() == name)
    }

    pub(super) fn member(&self, name: &str) -> Option<&ObservedObject<Member>> {
        self.members.iter().find(|member| member.name() == name)
    }

    pub(super) fn binding_to(&self, cluster: &str) -> Option<&ObservedObject<Binding>> {
        let all = || self.bindings.iter().filter(|binding| binding.spec.target_cluster == cluster);
        all().find(|binding| !binding.is_deleting()).or_else(|| all().next())
    }

    /// Works of the placement for a cluster.
    pub(super) fn works_for(&self, cluster: &str) -> impl Iterator<Item = &ObservedObject<WorkFamily>> {
        let is_for = move |work: &&ObservedObject<WorkFamily>| {
            work.metadata.namespace.as_deref().and_then(namespaces::member_of) == Some(cluster)
        };
        self.works.iter().filter(is_for)
    }

    pub(super) fn latest_policy(&self) -> Option<&ObservedObject<PolicySnapshot>> {
        let is_latest =
            |one: &&ObservedObject<PolicySnapshot>| one.label(labels::IS_LATEST_SNAPSHOT) == Some(label_values::TRUE);
        self.policy_snapshots.iter().find(is_latest)
    }

    /// Indices of the placement's resource snapshots, ascending, each once.
    pub(super) fn snapshot_indices(&self) -> Vec<u32> {
        let mut indices: Vec<u32> = self.resource_snapshots.iter().filter_map(SnapshotMetadata::index).collect();
        indices.sort_unstable();
        indices.dedup();
        indices
    }

    /// Overrides of the placement that have no snapshot yet.
    pub(super) fn overrides_without_snapshot(&self, placement: &str) -> Vec<ObjectRef> {
        let Some(snapshots) = &self.override_snapshots else { return Vec::new() };
        let key = match &self.namespace {
            Some(namespace) => PlacementKey::parse(&format!("{namespace}/{placement}")),
            None => PlacementKey::parse(placement),
        };
        let Ok(key) = key else { return Vec::new() };
        let is_open = |metadata: &ObjectMeta, spec: OverrideSpecRef<'_>| {
            metadata.deletion_timestamp.is_none()
                && is_for_placement(&spec, &key)
                && !has_latest_snapshot(metadata, snapshots)
        };
        let cluster = self.cluster_overrides.iter().filter(|one| is_open(&one.metadata, one.spec.as_ref("")));
        let namespaced = self.overrides.iter().filter(|one| {
            is_open(&one.metadata, one.spec.as_ref(one.metadata.namespace.as_deref().unwrap_or_default()))
        });
        cluster.map(ObservedObject::reference).chain(namespaced.map(ObservedObject::reference)).collect()
    }

    pub(super) fn is_external(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.spec.strategy_type() == RolloutStrategyType::External)
    }

    pub(super) fn apply_strategy(&self) -> Option<&ApplyStrategy> {
        self.placement.as_ref()?.spec.apply_strategy()
    }

    pub(super) fn only_reports_differences(&self) -> bool {
        self.apply_strategy().is_some_and(|strategy| strategy.strategy_type() == ApplyStrategyType::ReportDiff)
    }

    pub(super) fn placement_reference(&self, name: &str) -> ObjectRef {
        ObjectRef::of::<Placement>(self.namespace.as_deref(), name)
    }
}

/// A condition of this type, of any generation: evidence quotes the stored condition.
pub(super) fn condition<T: ConditionState<Scope = ()>>(conditions: &[Condition]) -> Option<&Condition> {
    decode_ignoring_generation::<T>(conditions).any()
}

pub(super) fn is_true<T: ConditionState<Scope = ()>>(conditions: &[Condition]) -> bool {
    decode_ignoring_generation::<T>(conditions).is_true()
}

/// `False UpdateRunStuck: The updateRun is stuck …`
pub(super) fn quote(condition: &Condition) -> String {
    let Condition { status, reason, message, .. } = condition;
    if message.is_empty() { format!("{status} {reason}") } else { format!("{status} {reason}: {message}") }
}

/// Whether the run has started the cluster and it is not done.
pub(super) fn is_updating(cluster: &ClusterUpdatingStatus) -> bool {
    let conditions = &cluster.conditions;
    is_true::<ClusterUpdateStarted>(conditions) && condition::<ClusterUpdateSucceeded>(conditions).is_none()
}

pub(super) fn is_done(stage: &StageUpdatingStatus) -> bool {
    is_true::<StageSucceeded>(&stage.conditions)
}
