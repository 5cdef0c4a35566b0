//! The result of a member agent's plan as values; logs, metrics and events render them.

use fleet_api::conditions::events::AgentEvent;
use jiff::Timestamp;

use crate::membership::Counter;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: AgentOutcome,
    /// Events to emit, in order.
    pub events: Vec<AgentEvent>,
    /// The counter to increment when the plan's status has been written.
    pub counted: Option<Counter>,
}

impl Report {
    pub(super) fn of(outcome: AgentOutcome) -> Self {
        Self { outcome, events: Vec::new(), counted: None }
    }
}

/// The state of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentOutcome {
    /// The hub does not know the cluster, or no longer. The applier keeps its state.
    NoInternalMemberCluster,
    /// The hub requests a state that this release does not know.
    UnknownState(String),
    /// A heartbeat is due; health and properties must be collected first.
    HeartbeatDue,
    Joined {
        healthy: bool,
        next_heartbeat: Timestamp,
    },
    Left,
    /// The last attempt to join or leave failed.
    AwaitingRetry {
        error: String,
        retry_at: Timestamp,
    },
}
