//! What a member agent's plan found out, as values.
//!
//! Decides the vocabulary; logs, metrics and events render from here. Never decides which value holds.

use fleet_api::conditions::events::AgentEvent;
use jiff::Timestamp;

use crate::membership::Counter;

/// What a plan rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: Outcome,
    /// What becomes known with this plan, in the order in which it does.
    pub events: Vec<AgentEvent>,
    /// What is to be counted once the plan's status is written.
    pub counted: Option<Counter>,
}

impl Report {
    pub(super) fn of(outcome: Outcome) -> Self {
        Self { outcome, events: Vec::new(), counted: None }
    }
}

/// Where the agent stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The hub does not know the cluster, or not any more. What runs goes on.
    NoMailbox,
    /// The hub asks for something that this release does not know.
    UnknownState(String),
    /// A heartbeat is due, and the cluster has to be looked at first.
    SoundingDue,
    Joined {
        healthy: bool,
        next_beat: Timestamp,
    },
    Left,
    /// The last attempt to do what the hub asks failed.
    SetBack {
        error: String,
        retry_at: Timestamp,
    },
}
