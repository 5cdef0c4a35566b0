//! Snapshots of a placement's policy, with the scheduler's decisions, and of the selected resources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Base64, EmbeddedObject, PlacementPolicy, nullable};
use crate::conditions::Condition;
use crate::kinds::Part;

/// A policy as it was at one moment. Never changed afterwards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SchedulingPolicySnapshotSpec {
    /// The policy, copied from the placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// Hash of the policy without its number of clusters.
    pub policy_hash: Base64,
}

impl Part for SchedulingPolicySnapshotSpec {}

/// What the scheduler decided under this policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SchedulingPolicySnapshotStatus {
    /// Generation of the placement that the scheduler last acted on.
    #[serde(rename = "observedCRPGeneration")]
    pub observed_crp_generation: i64,
    /// Whether the policy is fulfilled.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Clusters with the decision on each, picked ones first, the first 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 1000))]
    pub target_clusters: Vec<ClusterDecision>,
}

impl Part for SchedulingPolicySnapshotStatus {}

/// Whether a cluster was picked, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterDecision {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Whether it was picked.
    pub selected: bool,
    /// How it scored; absent where no scores are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_score: Option<ClusterScore>,
    /// Why it was picked or not.
    pub reason: String,
}

/// What a cluster scored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterScore {
    /// Sum of the preferences that it matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity_score: Option<i32>,
    /// How well it fits the topology spread.
    #[serde(rename = "priorityScore", skip_serializing_if = "Option::is_none")]
    pub topology_spread_score: Option<i32>,
}

/// Selected resources as they were at one moment. Never changed afterwards.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ResourceSnapshotSpec {
    /// The resources, without the fields that belong to the hub.
    pub selected_resources: Vec<EmbeddedObject>,
}

impl Part for ResourceSnapshotSpec {}

/// Not used by any controller; kept because the API has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ResourceSnapshotStatus {
    /// Unused.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl Part for ResourceSnapshotStatus {}
