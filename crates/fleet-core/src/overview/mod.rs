//! One screen about a run or a placement: stages, clusters and gates, what is waited for and since when.
//!
//! Decides how the facts of a run (`updaterun`) and of a placement become a tree that can be shown or printed as JSON; every
//! view of a fleet shows this one. What holds comes from recorded conditions, what is waited for from the same plan that the
//! controller makes. Never decides what happens next, and never chooses words for people beyond names of states.
//!
//! | file | of what |
//! |---|---|
//! | `run` | a staged update run |
//! | `placement` | a placement, on all its clusters |
//! | `changes` | what differs between two versions of its resources |
//! | `history` | its versions, and where each runs |
//! | `forecast` | what a run would do |

mod changes;
mod forecast;
mod history;
mod placement;
mod run;

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

/// When a condition came to say what it says.
fn since(condition: Option<&Condition>) -> Option<Time> {
    condition.map(|condition| condition.last_transition_time)
}

/// The index of the resources that a binding names; `None` before a rollout reached it.
fn index_of(resource_snapshot: &str) -> Option<u32> {
    ResourceSnapshotName::parse(resource_snapshot).map(|name| name.index.0)
}
