//! What one member cluster shall run, what came of it, and the member's own ledger of it.
//!
//! Decides the wire form. Never applies a manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplyStrategy, EmbeddedObject, PatchDetail, ReportBackStrategy, nullable};
use crate::conditions::Condition;
use crate::kinds::Part;
use crate::time::Time;

/// The manifests for one member cluster and how to apply them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct WorkSpec {
    /// What to apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// How to apply it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// Whether and where the status of the applied objects is brought back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

impl WorkSpec {
    pub fn manifests(&self) -> &[EmbeddedObject] {
        self.workload.as_ref().map_or(&[], |workload| &workload.manifests)
    }
}

impl Part for WorkSpec {
    fn missing() -> Option<Self> {
        Some(Self::default())
    }
}

/// The manifests of a Work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Workload {
    /// Whole objects, in the order in which they are reported on.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub manifests: Vec<EmbeddedObject>,
}

/// What came of a Work on its member cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct WorkStatus {
    /// What holds for all manifests together.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// What holds for each manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub manifest_conditions: Vec<ManifestCondition>,
}

impl Part for WorkStatus {}

/// What came of one manifest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ManifestCondition {
    /// Which manifest this is about.
    pub identifier: WorkResourceIdentifier,
    /// What holds for it.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    /// How the object was changed on the member cluster. Never together with diffDetails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_details: Option<DriftDetails>,
    /// How the object differs from the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff_details: Option<DiffDetails>,
    /// The object's status as the member cluster has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_reported_status: Option<BackReportedStatus>,
}

/// Which manifest of a Work, and which object it became.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct WorkResourceIdentifier {
    /// Place of the manifest in the Work, from 0; -1 if it is no longer there.
    #[schemars(schema_with = "super::plain_integer")]
    pub ordinal: i64,
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub group: String,
    /// API version.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub version: String,
    /// Kind.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub kind: String,
    /// Plural resource name.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub resource: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub namespace: String,
    /// Name.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub name: String,
}

/// How an object was changed on the member cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DriftDetails {
    /// When the drift was last seen.
    pub observation_time: Time,
    /// Generation of the object when it was last seen.
    #[serde(deserialize_with = "nullable")]
    pub observed_in_member_cluster_generation: i64,
    /// When a drift was first seen.
    pub first_drifted_observed_time: Time,
    /// The fields that drifted.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub observed_drifts: Vec<PatchDetail>,
}

/// How an object differs from its manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DiffDetails {
    /// When the difference was last seen.
    pub observation_time: Time,
    /// Generation of the object; absent if there is no such object yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_in_member_cluster_generation: Option<i64>,
    /// When a difference was first seen.
    pub first_diffed_observed_time: Time,
    /// The fields that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub observed_diffs: Vec<PatchDetail>,
}

/// A status that was brought back from the member cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct BackReportedStatus {
    /// The object with its status, and without its spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_status: Option<EmbeddedObject>,
    /// When it was read.
    pub observation_time: Time,
}

/// Which Work a ledger belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct AppliedWorkSpec {
    /// Name of the Work on the hub.
    pub work_name: String,
    /// Namespace of the Work on the hub.
    pub work_namespace: String,
}

impl Part for AppliedWorkSpec {}

/// What a Work applied on this member cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct AppliedWorkStatus {
    /// The applied objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub applied_resources: Vec<AppliedResourceMeta>,
}

impl Part for AppliedWorkStatus {}

/// One applied object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct AppliedResourceMeta {
    #[serde(flatten)]
    pub identifier: WorkResourceIdentifier,
    /// The object's uid: a namesake that was made anew is another object.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub uid: String,
}
