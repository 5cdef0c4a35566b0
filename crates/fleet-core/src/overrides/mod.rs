//! Overrides: differences of placed resources between clusters.
//!
//! `plan` creates snapshots of an override. `Matched` finds the latest snapshots that match a placement's resources and
//! a cluster; a rollout stores their names in the binding. `Pinned` applies the snapshots of a binding to one resource.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the input of a plan, for both kinds of overrides |
//! | `snapshots` | which snapshots exist |
//! | `candidates`, `matching`, `clusters` | which overrides match which resources and clusters |
//! | `apply`, `variables` | applying an override to a resource |
//! | `report` | the result as values |

mod apply;
mod candidates;
mod clusters;
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
pub(crate) use matching::is_for_placement;
pub use matching::{Matched, Pins};
pub use observed::{Observed, OverrideFacts, OverrideSpec, OverrideSpecRef, SnapshotFacts, has_latest_snapshot};
pub use report::{Fault, OverrideOutcome, Report};
pub use snapshots::{NewOverrideSnapshot, Plan, Write, plan};
pub use variables::VariableError;
