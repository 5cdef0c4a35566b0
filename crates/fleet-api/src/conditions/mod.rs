//! Conditions: how a controller says what it found.
//!
//! Decides the wire form of a condition. Never decides which condition holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// One observed aspect of an object: which, whether it holds, since when, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Condition {
    /// Which aspect is meant, in CamelCase.
    #[schemars(
        length(max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds: True, False or Unknown.
    pub status: ConditionStatus,
    /// Generation of the object that this was found on; an older one means the finding is out of date.
    #[schemars(range(min = 0))]
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// When the status last changed from one value to another.
    pub last_transition_time: Time,
    /// One CamelCase word for machines, saying why.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// A sentence for people, saying why. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde's skip_serializing_if asks for")]
fn is_zero(generation: &i64) -> bool {
    *generation == 0
}
