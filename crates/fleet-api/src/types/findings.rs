//! Failed, drifted and different resources on clusters, and the limits of these lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{nullable, words};
use crate::conditions::Condition;
use crate::time::Time;

/// At most this many failed, drifted and differing resources are listed per cluster; the schema refuses more.
pub const FINDINGS_PER_LIST: usize = 100;

words! {
    /// What wraps an enveloped resource. ConfigMaps no longer wrap anything; the word survives in stored objects.
    EnvelopeType = ConfigMap { ConfigMap, ClusterResourceEnvelope, ResourceEnvelope }
}

/// Which resource is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ResourceIdentifier {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace; empty for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub namespace: String,
    /// The envelope that the resource came in, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope: Option<EnvelopeIdentifier>,
}

/// Which envelope a resource came in.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct EnvelopeIdentifier {
    /// Name of the envelope.
    pub name: String,
    /// Namespace of the envelope; empty for a ClusterResourceEnvelope.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub namespace: String,
    /// Kind of the envelope.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none", deserialize_with = "word_or_empty")]
    #[schemars(extend("default" = "ConfigMap"))]
    pub type_: Option<EnvelopeType>,
}

/// Other agents write an unset type as an empty text.
fn word_or_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<EnvelopeType>, D::Error> {
    let word = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    if word.is_empty() {
        return Ok(None);
    }
    let known = EnvelopeType::ALL.iter().find(|known| known.as_str() == word);
    known.copied().map(Some).ok_or_else(|| serde::de::Error::custom(format_args!("unknown envelope type {word:?}")))
}

/// One field that differs between hub and member. A side that is absent has no such field.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PatchDetail {
    /// JSON pointer of the field.
    pub path: String,
    /// Value on the member cluster.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub value_in_member: String,
    /// Value that the hub asks for.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub value_in_hub: String,
}

/// A resource that could not be placed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct FailedResourcePlacement {
    #[serde(flatten)]
    pub resource: ResourceIdentifier,
    /// What went wrong.
    pub condition: Condition,
}

/// A resource that was changed on the member cluster after it had been placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DriftedResourcePlacement {
    #[serde(flatten)]
    pub resource: ResourceIdentifier,
    /// When the drift was last seen.
    pub observation_time: Time,
    /// Generation of the object on the member cluster when it was last seen.
    #[serde(deserialize_with = "nullable")]
    pub target_cluster_observed_generation: i64,
    /// When a drift was first seen.
    pub first_drifted_observed_time: Time,
    /// The fields that drifted.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub observed_drifts: Vec<PatchDetail>,
}

/// A resource that differs between hub and member cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DiffedResourcePlacement {
    #[serde(flatten)]
    pub resource: ResourceIdentifier,
    /// When the difference was last seen.
    pub observation_time: Time,
    /// Generation of the object on the member cluster; absent if there is no such object yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster_observed_generation: Option<i64>,
    /// When a difference was first seen.
    pub first_diffed_observed_time: Time,
    /// The fields that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub observed_diffs: Vec<PatchDetail>,
}

/// A namespaced object by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NamespacedName {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
}
