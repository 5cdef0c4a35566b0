//! What a MemberCluster's plan found out, as values.
//!
//! Decides the vocabulary; `diagnose`, metrics and events render from here. Never decides which value holds.

use fleet_api::conditions::events::MemberClusterEvent;
use fleet_api::conditions::member::MemberJoined;
use fleet_api::names::NameError;
use jiff::Timestamp;

use crate::membership::Counter;

/// What a plan rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: Outcome,
    /// What happens with this plan, in the order in which it does.
    pub events: Vec<MemberClusterEvent>,
    /// What is to be counted once the plan's status is written.
    pub counted: Option<Counter>,
}

impl Report {
    pub(super) fn of(outcome: Outcome) -> Self {
        Self { outcome, events: Vec::new(), counted: None }
    }
}

/// Where the member stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has everything it needs on the hub, and this is what its agents say.
    Prepared(MemberJoined),
    /// It can have no namespace, so it cannot join under this name.
    Unnameable(NameError),
    /// Somebody deletes its namespace; it gets a new one when that is gone.
    NamespaceGoing,
    Leaving(Leaving),
}

/// How far a member that leaves has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// We hold nothing of it.
    NotHeld,
    AwaitingAgent {
        forced_at: Timestamp,
    },
    /// What it has on the hub is taken away.
    Clearing(Clearance),
    AwaitingNamespace {
        since: Timestamp,
        /// It takes so long that a person should look.
        stuck: bool,
    },
    Released,
}

/// Why a member's belongings may be taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clearance {
    AgentsLeft,
    /// There is nobody to be asked through it.
    NoMailbox,
    /// The agent was asked to leave and has not answered for too long.
    Forced,
}
