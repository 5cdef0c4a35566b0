//! MemberCluster and InternalMemberCluster.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IntOrString, TaintEffect, nullable, open_words, words};
use crate::conditions::Condition;
use crate::kinds::Part;
use crate::time::Time;

/// Seconds between heartbeats where nothing else is said.
pub const DEFAULT_HEARTBEAT_PERIOD_SECONDS: i32 = 60;

/// How quantities are spelled; the same text stands in every Kubernetes schema that has one.
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

words! {
    /// Whether leaving is refused while other things depend on the member.
    DeleteValidationMode = Strict { Skip, Strict }
}

open_words! {
    /// What the hub wants of a member agent.
    ClusterState { Join, Leave }
}

open_words! {
    /// Which agent reports.
    AgentType { MemberAgent, MultiClusterServiceAgent, ServiceExportImportAgent }
}

/// How a cluster takes part in the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct MemberClusterSpec {
    /// The identity that the member's agent uses on the hub; it is given rights on the member's namespace there.
    pub identity: Subject,
    /// Seconds between two heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 600, "default" = 60))]
    pub heartbeat_period_seconds: Option<i32>,
    /// Marks that keep placements away which do not tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(length(max = 100))]
    pub taints: Vec<Taint>,
    /// How the deletion of this object is checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_options: Option<DeleteOptions>,
}

impl Part for MemberClusterSpec {}

impl MemberClusterSpec {
    pub fn heartbeat_period_seconds(&self) -> i32 {
        self.heartbeat_period_seconds.unwrap_or(DEFAULT_HEARTBEAT_PERIOD_SECONDS)
    }
}

/// A user, group or service account.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-map-type" = "atomic"))]
pub struct Subject {
    /// User, Group or ServiceAccount.
    pub kind: String,
    /// API group of the subject; empty for service accounts.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub api_group: String,
    /// Name.
    pub name: String,
    /// Namespace, for service accounts.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub namespace: String,
}

/// A mark that keeps placements away which do not tolerate it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Taint {
    /// Key of the taint.
    pub key: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub value: String,
    /// NoSchedule: no new placement comes here; what is here stays.
    pub effect: TaintEffect,
}

/// How the deletion of a MemberCluster is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DeleteOptions {
    /// Strict refuses while exported services remain; Skip asks nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Strict"))]
    pub validation_mode: Option<DeleteValidationMode>,
}

/// What is known of a member cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct MemberClusterStatus {
    /// What holds for the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    #[serde(flatten)]
    pub observed: ObservedCluster,
}

impl Part for MemberClusterStatus {}

/// What the agents of a member cluster report; the same in both kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ObservedCluster {
    /// Named properties of the cluster, such as its number of nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub properties: BTreeMap<String, PropertyValue>,
    /// What the cluster's nodes offer and what of it is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_usage: Option<ResourceUsage>,
    /// Namespaces of the member cluster, each with the Work that owns it, or an empty text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub namespaces: BTreeMap<String, String>,
    /// What each agent last reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub agent_status: Vec<AgentStatus>,
}

/// A property with the moment it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PropertyValue {
    /// The value as text.
    pub value: String,
    /// When it was read.
    pub observation_time: Time,
}

/// Quantities by resource name.
pub type ResourceList = BTreeMap<String, IntOrString>;

/// What the cluster's nodes offer and what of it is free.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ResourceUsage {
    /// All that the nodes have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    #[schemars(schema_with = "quantities")]
    pub capacity: ResourceList,
    /// What of it workloads may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    #[schemars(schema_with = "quantities")]
    pub allocatable: ResourceList,
    /// What of that is not yet asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    #[schemars(schema_with = "quantities")]
    pub available: ResourceList,
    /// When this was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation_time: Option<Time>,
}

fn quantities(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut quantity = IntOrString::json_schema(generator);
    quantity.insert("pattern".to_owned(), QUANTITY_PATTERN.into());
    schemars::json_schema!({"type": "object", "additionalProperties": quantity})
}

/// What one agent last reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct AgentStatus {
    /// Which agent.
    #[serde(rename = "type")]
    pub type_: AgentType,
    /// Whether it joined and is healthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// When its last heartbeat arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_received_heartbeat: Option<Time>,
}

/// What the hub asks of a member's agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct InternalMemberClusterSpec {
    /// Join or Leave.
    pub state: ClusterState,
    /// Seconds between two heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 600, "default" = 60))]
    pub heartbeat_period_seconds: Option<i32>,
}

impl Part for InternalMemberClusterSpec {}

impl InternalMemberClusterSpec {
    pub fn heartbeat_period_seconds(&self) -> i32 {
        self.heartbeat_period_seconds.unwrap_or(DEFAULT_HEARTBEAT_PERIOD_SECONDS)
    }
}

/// What a member's agents report to the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct InternalMemberClusterStatus {
    /// What holds for the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    #[serde(flatten)]
    pub observed: ObservedCluster,
}

impl Part for InternalMemberClusterStatus {}
