//! Conditions: types, reasons and messages for every object. No other code spells one.
//!
//! | file | whose conditions |
//! |---|---|
//! | `placement` | both placement kinds, for the whole placement |
//! | `per_cluster` | scheduling per cluster, and the order of rollout conditions |
//! | `binding` | bindings, and their copies in a placement's per-cluster entries |
//! | `policy_snapshot` | both policy snapshot kinds |
//! | `work` | Works and their manifests |
//! | `update_run`, `run_fault`, `run_remedy`, `run_message` | runs, stages, clusters and tasks of both run kinds; faults of runs, written and read |
//! | `approval`, `eviction` | approval requests; evictions |
//! | `member` | member clusters, their agents and properties, cluster profiles |
//! | `events` | the events that accompany them |

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;
use crate::types::nullable;

pub mod approval;
pub mod binding;
pub mod events;
pub mod eviction;
mod list;
pub mod member;
pub mod per_cluster;
pub mod placement;
pub mod policy_snapshot;
pub mod run_fault;
pub mod run_message;
pub mod run_remedy;
mod state;
pub mod update_run;
pub mod work;

#[cfg(test)]
mod tests;

pub use list::{Decoded, decode, decode_ignoring_generation, decode_in, put, remove};
pub use state::{ConditionState, Finding, MESSAGE_LIMIT_CHARACTERS, Reason};

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
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
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "nullable")]
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
