//! One decision to place a placement on a cluster, and its progress.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApplyStrategy, ClusterDecision, DiffedResourcePlacement, DriftedResourcePlacement, FailedResourcePlacement,
    NamespacedName, nullable, open_words,
};
use crate::conditions::Condition;
use crate::kinds::Part;

open_words! {
    /// Where a binding stands: chosen by the scheduler, told to carry resources, or to be removed.
    BindingState { Scheduled, Bound, Unscheduled }
}

/// Which snapshot a cluster shall have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ResourceBindingSpec {
    /// Scheduled: chosen, nothing rolled out yet. Bound: the cluster shall have the snapshot. Unscheduled: to be removed.
    pub state: BindingState,
    /// Name of the resource snapshot that the cluster shall have; empty until a rollout reaches it.
    pub resource_snapshot_name: String,
    /// Snapshots of the ResourceOverrides to apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_override_snapshots: Option<Vec<NamespacedName>>,
    /// Snapshots of the ClusterResourceOverrides to apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_resource_override_snapshots: Option<Vec<String>>,
    /// Name of the policy snapshot that the decision was made under.
    pub scheduling_policy_snapshot_name: String,
    /// Name of the member cluster.
    pub target_cluster: String,
    /// The scheduler's decision.
    pub cluster_decision: ClusterDecision,
    /// How manifests are applied there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
}

impl Part for ResourceBindingSpec {}

/// How far the resources got on the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ResourceBindingStatus {
    /// Resources that could not be placed, the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 100))]
    pub failed_placements: Vec<FailedResourcePlacement>,
    /// Resources that were changed on the cluster, the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 100))]
    pub drifted_placements: Vec<DriftedResourcePlacement>,
    /// Resources that differ from the hub's, the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 100))]
    pub diffed_placements: Vec<DiffedResourcePlacement>,
    /// What holds for this cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl Part for ResourceBindingStatus {}
