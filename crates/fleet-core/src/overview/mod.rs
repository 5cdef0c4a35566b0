//! The state of a run or a placement as a tree for display or JSON: stages, clusters and gates, and what is waited
//! for.
//!
//! The state comes from recorded conditions. What is waited for comes from the same plan that the controller makes.
//! Every view of a fleet uses these trees.
//!
//! | file | of what |
//! |---|---|
//! | `run` | a staged update run |
//! | `placement` | a placement and its clusters |
//! | `changes` | differences between two versions of the resources |
//! | `history` | versions, and which clusters have them |
//! | `forecast` | what a run would do |
//! | `state_labels` | labels, tones and symbols of states |

mod changes;
mod forecast;
mod history;
mod placement;
mod run;
pub mod state_labels;

#[cfg(test)]
mod tests;

pub use changes::{Change, ChangeSort, FieldChange, changes};
pub use forecast::{ClusterForecast, Contents, Forecast, StageForecast, forecast};
pub use history::{Version, history};
pub use placement::{ClusterState, PlacedCluster, PlacementOverview, PlacementState, RunLine, placement};
pub use run::{ClusterOverview, Gate, GateState, GateTask, RunOverview, StageOverview, Wait, run};

use fleet_api::conditions::Condition;
use fleet_api::names::ResourceSnapshotName;
use fleet_api::time::Time;

/// The last transition of a condition.
fn since(condition: Option<&Condition>) -> Option<Time> {
    condition.map(|condition| condition.last_transition_time)
}

/// The index of the resources in a binding; `None` before a rollout reached it.
fn index_of(resource_snapshot: &str) -> Option<u32> {
    ResourceSnapshotName::parse(resource_snapshot).map(|name| name.index.0)
}
