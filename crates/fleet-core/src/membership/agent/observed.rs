//! The facts that a member agent's plan rests on: the mailbox, the Works beside it, and what the agent remembers.
//!
//! Decides what an answer of the cluster means and what of the memory is still about the mailbox as it is. Never
//! decides what to do about it.

use std::collections::BTreeMap;

use fleet_api::conditions::member::PropertyProviderStarted;
use fleet_api::conditions::{ConditionState, ConditionStatus};
use fleet_api::kinds::{InternalMemberCluster, Work};
use fleet_api::types::{ClusterState, InternalMemberClusterStatus, PropertyValue, ResourceUsage};
use fleet_api::well_known::finalizers;
use jiff::Timestamp;

use crate::membership::properties::ProviderAnswer;

/// Everything that one plan is made from.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// `None` while there is none: before the hub knows the cluster, and after it has let it go.
    pub mailbox: Option<MailboxFacts<'a>>,
    /// All Works for this member, in any order.
    pub works: Vec<WorkFacts<'a>>,
    pub memory: &'a Memory,
    /// Random bits, drawn once when the agent starts: heartbeats are spread by them.
    pub seed: u64,
}

/// One order of the hub: a mailbox in one of its generations. A mailbox that was made anew counts from one again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The uid of the mailbox.
    mailbox: String,
    generation: i64,
}

impl Order {
    pub fn of(mailbox: &InternalMemberCluster) -> Self {
        Self { mailbox: mailbox.metadata.uid.clone().unwrap_or_default(), generation: mailbox.generation() }
    }

    pub(super) fn is_that_of(&self, mailbox: &MailboxFacts<'_>) -> bool {
        self.mailbox == mailbox.uid && self.generation == mailbox.generation
    }
}

#[derive(Debug, Clone, Copy)]
pub struct MailboxFacts<'a> {
    pub uid: &'a str,
    pub generation: i64,
    pub state: &'a ClusterState,
    pub heartbeat_period_seconds: i32,
    pub status: Option<&'a InternalMemberClusterStatus>,
}

impl<'a> MailboxFacts<'a> {
    pub fn of(mailbox: &'a InternalMemberCluster) -> Self {
        Self {
            uid: mailbox.metadata.uid.as_deref().unwrap_or_default(),
            generation: mailbox.generation(),
            state: &mailbox.spec.state,
            heartbeat_period_seconds: mailbox.spec.heartbeat_period_seconds(),
            status: mailbox.status.as_ref(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkFacts<'a> {
    pub name: &'a str,
    /// Whether the agent's finalizer is on it.
    pub held: bool,
}

impl<'a> WorkFacts<'a> {
    pub fn of(work: &'a Work) -> Self {
        let metadata = &work.metadata;
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            held: metadata.finalizers.iter().flatten().any(|one| one == finalizers::WORK),
        }
    }
}

/// What an agent knows of its own doings. It is lost with the process, and nothing is lost by that: a new one starts the
/// applier and looks at the cluster at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    pub applier_running: bool,
    pub sounding: Option<Sounding>,
    /// Why joining or leaving failed last; forgotten as soon as a plan's writes have all succeeded.
    pub setback: Option<Setback>,
}

impl Memory {
    /// A setback in what the hub asks for now.
    pub(super) fn setback_of(&self, mailbox: &MailboxFacts<'_>) -> Option<&Setback> {
        self.setback.as_ref().filter(|setback| setback.order.is_that_of(mailbox))
    }
}

/// A failed attempt to join or to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setback {
    /// What the hub asked for.
    pub order: Order,
    pub error: String,
    pub at: Timestamp,
    /// How many attempts have failed since one succeeded, this one included.
    pub in_a_row: u32,
}

impl Setback {
    /// The one that follows what is remembered.
    pub fn next(memory: &Memory, order: Order, error: String, at: Timestamp) -> Self {
        let same_order = memory.setback.as_ref().filter(|setback| setback.order == order);
        let before = same_order.map_or(0, |setback| setback.in_a_row);
        Self { order, error, at, in_a_row: before.saturating_add(1) }
    }
}

/// One look at the cluster: what a heartbeat tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sounding {
    /// What the hub asked for.
    pub order: Order,
    pub taken_at: Timestamp,
    pub probe: Probe,
    /// How the start of the property provider went; `None` where none is configured.
    pub provider: Option<PropertyProviderStarted>,
    pub collected: Collected,
    /// How many looks have failed since one succeeded, this one included.
    pub failed_in_a_row: u32,
}

impl Sounding {
    /// The one that follows what is remembered.
    pub fn next(
        memory: &Memory,
        order: Order,
        taken_at: Timestamp,
        probe: Probe,
        provider: Option<PropertyProviderStarted>,
        collected: Collected,
    ) -> Self {
        let failed = !probe.is_healthy() || matches!(collected, Collected::Failed { .. });
        let before = memory.sounding.as_ref().map_or(0, |sounding| sounding.failed_in_a_row);
        let failed_in_a_row = if failed { before.saturating_add(1) } else { 0 };
        Self { order, taken_at, probe, provider, collected, failed_in_a_row }
    }

    /// Why nothing could be collected, unless the look before failed for the same reason.
    pub fn new_failure(&self, before: Option<&Self>) -> Option<&str> {
        let Collected::Failed { error } = &self.collected else { return None };
        let is_known = before.is_some_and(|before| before.collected == self.collected);
        (!is_known).then_some(error)
    }
}

/// What became of asking the API server whether it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    Answered { status_code: u16 },
    Unreachable,
}

impl Probe {
    pub fn is_healthy(self) -> bool {
        self == Probe::Answered { status_code: 200 }
    }

    /// The code that the report speaks of; none at all reads as zero.
    pub(super) fn status_code(self) -> u16 {
        match self {
            Probe::Answered { status_code } => status_code,
            Probe::Unreachable => 0,
        }
    }
}

/// What became of collecting properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collected {
    /// The property provider's answer, which is all there is to know.
    ByProvider(ProviderAnswer),
    /// What the built-in method counts. It says nothing of anything else.
    BuiltIn {
        properties: BTreeMap<String, PropertyValue>,
        usage: ResourceUsage,
    },
    ProviderTimedOut,
    TooManyCalls,
    /// The built-in method could not read what it counts.
    Failed {
        error: String,
    },
}

/// How properties are to be collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Provider,
    BuiltIn,
}

/// A provider that is not there or did not start is replaced by the built-in method.
pub fn collection_method(provider: Option<&PropertyProviderStarted>) -> Method {
    match provider {
        Some(started) if started.status() == ConditionStatus::True => Method::Provider,
        Some(_) | None => Method::BuiltIn,
    }
}
