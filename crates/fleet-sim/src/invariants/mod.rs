//! Invariants that must hold at every write of the hub agent and of member agents.
//!
//! Each write is checked when a server commits it, against the objects on all servers. Where an agent may not have
//! received the latest objects yet, the objects of a while ago are accepted as well.
//!
//! | file | invariant |
//! |---|---|
//! | `rollout` | rolling updates respect maxUnavailable and maxSurge |
//! | `eviction` | a wanted binding is deleted only by an eviction that the disruption budget allows |
//! | `staged` | runs respect the order of stages, concurrency and gates; ended and stopped runs start nothing |
//! | `members` | agents delete only what the hub wants deleted, and apply nothing that is forbidden or needless |
//! | `bindings` | no binding is duplicated or orphaned, no snapshot is lost |
//! | `quiescent` | invariants of a settled fleet |
//! | `shadow_model` | the objects on all servers, reconstructed from the writes |

mod bindings;
mod eviction;
mod members;
pub mod quiescent;
mod rollout;
mod shadow_model;
mod staged;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::network::CommittedWrite;
use crate::state::{ClusterState, Strategies};
use rollout::Rollouts;
use shadow_model::ShadowModel;
use staged::StagedRuns;

/// How far agents may be behind the state of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// Largest difference between the clocks of two agents, or of one agent before and after a restart.
    pub skew: SignedDuration,
    /// How long an agent may act on outdated objects.
    pub stale: Duration,
}

/// Most violations that are reported. One bug may violate an invariant at every write.
const MAX_REPORTED: usize = 5;

/// Checks every write.
#[derive(Debug)]
pub struct Invariants {
    shadow: ShadowModel,
    rollouts: Rollouts,
    staged_runs: StagedRuns,
    members: members::Members,
    violations: Vec<String>,
}

impl Invariants {
    /// For a simulation that begins at `epoch` and whose agents are at most `lag` behind.
    pub fn from(epoch: Timestamp, lag: Lag) -> Self {
        Self {
            shadow: ShadowModel::default(),
            rollouts: Rollouts::from(epoch, lag),
            staged_runs: StagedRuns::from(epoch, lag),
            members: members::Members::from(lag),
            violations: Vec::new(),
        }
    }

    pub fn observe(&mut self, write: &CommittedWrite<'_>) {
        let Some(change) = self.shadow.apply(write) else { return };
        let mut found = bindings::violations(&self.shadow, &change);
        found.extend(eviction::violation(&self.shadow, &self.rollouts, &change));
        found.extend(self.rollouts.check(&self.shadow, &change));
        found.extend(self.staged_runs.check(&self.shadow, &change));
        found.extend(self.members.check(&change));
        let (seconds, actor) = (write.at.as_secs_f64(), write.actor);
        for violation in found {
            if self.violations.len() < MAX_REPORTED {
                let (verb, path) = (write.verb, write.path);
                self.violations.push(format!("at {seconds:.3} by {actor}: {violation} ({verb} {path})"));
            }
        }
    }

    /// The hub's server was restored from a backup and has these objects.
    pub fn restore_hub(&mut self, at: Duration, state: &ClusterState) {
        for change in self.shadow.restore_hub(at, state) {
            self.rollouts.check(&self.shadow, &change);
            self.staged_runs.check(&self.shadow, &change);
            self.members.check(&change);
        }
    }

    /// The last apply strategy of each Work, by member.
    pub fn strategies(&self) -> BTreeMap<String, Strategies> {
        self.members.strategies()
    }

    /// Descriptions of the violations so far.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }
}
