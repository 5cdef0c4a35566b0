//! Overrides: changes to placed resources for some clusters. Override hashes depend on the order of fields.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Base64, ClusterSelector, ResourceSelectorTerm, words};
use crate::kinds::Part;

words! {
    /// Whether a placement is cluster-scoped or namespaced.
    PlacementScope = Cluster { Cluster, Namespaced }
}

words! {
    /// What a rule does to the resource.
    OverrideType = JSONPatch { JSONPatch, Delete }
}

/// The one placement that an override is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PlacementRef {
    /// Name of the placement.
    pub name: String,
    /// Cluster for a ClusterResourcePlacement, Namespaced for a ResourcePlacement in the override's own namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Cluster"))]
    pub scope: Option<PlacementScope>,
}

impl PlacementRef {
    pub fn scope(&self) -> PlacementScope {
        self.scope.unwrap_or_default()
    }
}

/// Changes to cluster-scoped resources, and to everything in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [{
    "rule": "has(oldSelf.placement) ? (has(self.placement) && self.placement == oldSelf.placement) : !has(self.placement)",
    "message": "The placement field is immutable",
}]))]
pub struct ClusterResourceOverrideSpec {
    /// The placement that this is for; absent means every one. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRef>,
    /// The resources to change, by name.
    #[schemars(length(min = 1, max = 20))]
    pub cluster_resource_selectors: Vec<ResourceSelectorTerm>,
    /// The changes.
    pub policy: OverridePolicy,
}

impl Part for ClusterResourceOverrideSpec {}

/// Changes to resources of the override's own namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [{
    "rule": "has(oldSelf.placement) ? (has(self.placement) && self.placement == oldSelf.placement) : !has(self.placement)",
    "message": "The placement field is immutable",
}]))]
pub struct ResourceOverrideSpec {
    /// The placement that this is for; absent means every one. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRef>,
    /// The resources to change, by name.
    #[schemars(length(min = 1, max = 20))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// The changes.
    pub policy: OverridePolicy,
}

impl Part for ResourceOverrideSpec {}

/// One resource by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ResourceSelector {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// Rules, applied in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct OverridePolicy {
    /// The rules; where two change one field, the later one wins.
    #[schemars(length(min = 1, max = 20))]
    pub override_rules: Vec<OverrideRule>,
}

/// What changes on which clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct OverrideRule {
    /// The clusters that the rule is for. Absent means none; an empty list of terms means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<ClusterSelector>,
    /// JSONPatch changes fields; Delete keeps the resource off the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "JSONPatch"))]
    pub override_type: Option<OverrideType>,
    /// The changes for JSONPatch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minItems" = 1, "maxItems" = 20))]
    pub json_patch_overrides: Option<Vec<JsonPatchOverride>>,
}

impl OverrideRule {
    pub fn override_type(&self) -> OverrideType {
        self.override_type.unwrap_or_default()
    }

    pub fn patches(&self) -> &[JsonPatchOverride] {
        self.json_patch_overrides.as_deref().unwrap_or_default()
    }
}

/// What a JSON patch entry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PatchOperator {
    Add,
    Remove,
    Replace,
}

impl PatchOperator {
    pub const fn as_str(self) -> &'static str {
        match self {
            PatchOperator::Add => "add",
            PatchOperator::Remove => "remove",
            PatchOperator::Replace => "replace",
        }
    }
}

/// One change of a JSON patch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct JsonPatchOverride {
    /// add, remove or replace.
    pub op: PatchOperator,
    /// JSON pointer of the field.
    pub path: String,
    /// The new value; absent for remove. The texts ${MEMBER-CLUSTER-NAME} and ${MEMBER-CLUSTER-LABEL-KEY-<key>} in it stand for the
    /// cluster's name and for the value of its label.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(schema_with = "anything")]
    pub value: Option<Value>,
}

/// An explicit null is a value here, and different from no value.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// An override as it was at one moment. Never changed afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct OverrideSnapshotSpec<O> {
    /// The override's spec.
    pub override_spec: O,
    /// Hash of that spec.
    pub override_hash: Base64,
}

impl Part for OverrideSnapshotSpec<ClusterResourceOverrideSpec> {}
impl Part for OverrideSnapshotSpec<ResourceOverrideSpec> {}
