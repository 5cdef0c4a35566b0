//! The result of a MemberCluster's plan as values; `diagnose`, metrics and events render them.

use fleet_api::conditions::events::MemberClusterEvent;
use fleet_api::conditions::member::MemberJoined;
use fleet_api::names::NameError;
use jiff::Timestamp;

use crate::membership::Counter;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: MemberOutcome,
    /// Events to emit, in order.
    pub events: Vec<MemberClusterEvent>,
    /// The counter to increment when the plan's status has been written.
    pub counted: Option<Counter>,
}

impl Report {
    pub(super) fn of(outcome: MemberOutcome) -> Self {
        Self { outcome, events: Vec::new(), counted: None }
    }
}

/// The state of the member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberOutcome {
    /// It has all its objects on the hub; the value says what its agents report.
    Prepared(MemberJoined),
    /// Its name cannot be part of a namespace name, so it cannot join.
    InvalidName(NameError),
    /// Its namespace is being deleted; it gets a new one afterwards.
    NamespaceTerminating,
    Leaving(Leaving),
}

/// The progress of a member that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// The MemberCluster does not have our finalizer, and its namespace stays.
    NoFinalizer,
    /// The MemberCluster is gone, or lost our finalizer, while its namespace terminates; the finalizers of its Works
    /// are removed.
    AbandonedNamespace {
        since: Timestamp,
    },
    AwaitingAgent {
        forced_at: Timestamp,
    },
    /// Its objects on the hub are deleted.
    Removing(RemovalReason),
    AwaitingNamespace {
        since: Timestamp,
        /// It takes so long that a person should look.
        stuck: bool,
    },
    Released,
}

/// Why the objects of a member may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalReason {
    AgentsLeft,
    /// Without it, no agent can be asked to leave.
    NoInternalMemberCluster,
    /// The agent was asked to leave and has not answered in time.
    Forced,
}
