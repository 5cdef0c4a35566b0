//! A gate of a staged update run that a user opens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::nullable;
use crate::conditions::Condition;
use crate::kinds::Part;

/// Which stage of which run waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "The spec field is immutable"}]))]
pub struct ApprovalRequestSpec {
    /// Name of the update run.
    pub parent_stage_rollout: String,
    /// Name of the stage.
    pub target_stage: String,
}

impl Part for ApprovalRequestSpec {}

/// Whether the gate was opened, and whether the run took notice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ApprovalRequestStatus {
    /// Approved is set by a person, ApprovalAccepted by the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl Part for ApprovalRequestStatus {}
