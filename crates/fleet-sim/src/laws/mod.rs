//! What must hold of a fleet.
//!
//! Decides, write by write as servers carry them out, whether a law is broken: by the hub agent or by a member's. A law is
//! judged by the objects on the servers; where an agent cannot know the latest yet, what was so a while ago counts as well.
//! Never compares two worlds: that is `state`.
//!
//! | file | law |
//! |---|---|
//! | `rollout` | maxUnavailable and maxSurge are kept |
//! | `eviction` | whoever is wanted goes only by an eviction that the disruption budget allows |
//! | `staged` | stages in order, concurrency, gates, terminal stays terminal, Stop starts nothing |
//! | `members` | nothing is deleted on a member that the hub did not ask to delete, nothing applied that is forbidden or needless |
//! | `kept` | no binding is doubled or orphaned, no snapshot lost |
//! | `rest` | what a settled fleet looks like |
//! | `shadow` | the objects on all servers, as the writes tell |

mod eviction;
mod kept;
mod members;
pub mod rest;
mod rollout;
mod shadow;
mod staged;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::network::Carried;
use crate::state::Strategies;
use rollout::Rollouts;
use shadow::Shadow;
use staged::Stages;

/// How far behind the truth agents may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// How far the clocks of two agents, or of an agent's two lives, may be apart.
    pub skew: SignedDuration,
    /// How long an agent may act on what is no longer so.
    pub stale: Duration,
}

/// Broken laws that are told. One fault may break them at every write.
const TOLD: usize = 5;

/// Looks at every write.
#[derive(Debug)]
pub struct Laws {
    shadow: Shadow,
    rollouts: Rollouts,
    stages: Stages,
    members: members::Members,
    broken: Vec<String>,
}

impl Laws {
    /// For a world that begins at this instant, and whose agents are no further behind than this.
    pub fn from(origin: Timestamp, lag: Lag) -> Self {
        Self {
            shadow: Shadow::default(),
            rollouts: Rollouts::from(origin, lag),
            stages: Stages::from(origin, lag),
            members: members::Members::from(lag),
            broken: Vec::new(),
        }
    }

    pub fn observe(&mut self, carried: &Carried<'_>) {
        let Some(change) = self.shadow.take_in(carried) else { return };
        let mut found = kept::broken(&self.shadow, &change);
        found.extend(eviction::broken(&self.shadow, &self.rollouts, &change));
        found.extend(self.rollouts.judge(&self.shadow, &change));
        found.extend(self.stages.judge(&self.shadow, &change));
        found.extend(self.members.judge(&change));
        let (seconds, actor) = (carried.at.as_secs_f64(), carried.actor);
        for law in found {
            if self.broken.len() < TOLD {
                let (verb, path) = (carried.verb, carried.path);
                self.broken.push(format!("at {seconds:.3} by {actor}: {law} ({verb} {path})"));
            }
        }
    }

    /// How Works were last to be applied, by member and name.
    pub fn strategies(&self) -> BTreeMap<String, Strategies> {
        self.members.strategies()
    }

    /// Every law that was broken so far, as a sentence.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }
}
