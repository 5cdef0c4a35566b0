//! Overrides: how what is placed differs from cluster to cluster.
//!
//! Decides three things that meet only in the names of override snapshots. `plan` freezes an override into snapshots.
//! `Matched` says which of the latest snapshots concern a placement's resources and a cluster: whoever rolls out pins
//! these on the binding. `Pinned` applies exactly what is pinned to one resource for one cluster. Never writes a binding
//! and never decides when a cluster gets what.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts, for both kinds of overrides |
//! | `snapshots` | which snapshots there shall be |
//! | `candidates`, `matching`, `clusters` | which overrides concern which resources and clusters |
//! | `apply`, `json_patch`, `variables` | what an override makes of a resource |
//! | `report` | what was found out, as values |

mod apply;
mod candidates;
mod clusters;
mod json_patch;
mod matching;
mod observed;
mod report;
mod snapshots;
mod variables;

#[cfg(test)]
pub(crate) mod tests;

pub use apply::{Cause, MissingSnapshot, OverrideFailure, Pinned, Place, ResourceText};
pub use candidates::{Candidates, ResourceKey, Scopes};
pub use clusters::Target;
pub use json_patch::PatchError;
pub use matching::{Matched, Pins};
pub use observed::{Observed, OverrideFacts, OverrideSpec, OverrideSpecRef, SnapshotFacts};
pub use report::{Fault, Outcome, Report};
pub use snapshots::{NewOverrideSnapshot, Plan, Write, plan};
pub use variables::VariableError;
