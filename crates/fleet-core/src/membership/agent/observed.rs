//! The facts for a plan of the member agent: the InternalMemberCluster, the member's Works, and the agent's memory.

use std::collections::BTreeMap;

use fleet_api::conditions::member::PropertyProviderStarted;
use fleet_api::conditions::{ConditionState, ConditionStatus};
use fleet_api::kinds::{InternalMemberCluster, Work};
use fleet_api::types::{ClusterState, InternalMemberClusterStatus, PropertyValue, ResourceUsage};
use fleet_api::well_known::finalizers;
use jiff::Timestamp;

use crate::membership::properties::ProviderAnswer;

/// Everything that a plan depends on.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// `None` before the hub has created it, and after the hub has deleted it.
    pub internal_member_cluster: Option<InternalMemberClusterFacts<'a>>,
    /// All Works for this member, in any order.
    pub works: Vec<WorkFacts<'a>>,
    pub memory: &'a Memory,
    /// Random bits, drawn once when the agent starts. They spread heartbeats.
    pub seed: u64,
}

/// One generation of one InternalMemberCluster. The uid is needed because the generations of a recreated object start
/// at one again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecGeneration {
    /// The uid of the InternalMemberCluster.
    internal_member_cluster: String,
    generation: i64,
}

impl SpecGeneration {
    pub fn of(internal_member_cluster: &InternalMemberCluster) -> Self {
        Self {
            internal_member_cluster: internal_member_cluster.metadata.uid.clone().unwrap_or_default(),
            generation: internal_member_cluster.generation(),
        }
    }

    pub(super) fn matches(&self, internal_member_cluster: &InternalMemberClusterFacts<'_>) -> bool {
        self.internal_member_cluster == internal_member_cluster.uid
            && self.generation == internal_member_cluster.generation
    }
}

#[derive(Debug, Clone, Copy)]
pub struct InternalMemberClusterFacts<'a> {
    pub uid: &'a str,
    pub generation: i64,
    pub state: &'a ClusterState,
    pub heartbeat_period_seconds: i32,
    pub status: Option<&'a InternalMemberClusterStatus>,
}

impl<'a> InternalMemberClusterFacts<'a> {
    pub fn of(internal_member_cluster: &'a InternalMemberCluster) -> Self {
        Self {
            uid: internal_member_cluster.metadata.uid.as_deref().unwrap_or_default(),
            generation: internal_member_cluster.generation(),
            state: &internal_member_cluster.spec.state,
            heartbeat_period_seconds: internal_member_cluster.spec.heartbeat_period_seconds(),
            status: internal_member_cluster.status.as_ref(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkFacts<'a> {
    pub name: &'a str,
    /// Whether the Work has the agent's finalizer.
    pub has_finalizer: bool,
}

impl<'a> WorkFacts<'a> {
    pub fn of(work: &'a Work) -> Self {
        let metadata = &work.metadata;
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            has_finalizer: metadata.finalizers.iter().flatten().any(|one| one == finalizers::WORK),
        }
    }
}

/// What an agent remembers about its own actions. It may be lost with the process: a new agent starts the applier and
/// sends a heartbeat at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    pub applier_running: bool,
    pub heartbeat: Option<Heartbeat>,
    /// The last failure to join or leave. Cleared when all writes of a plan have succeeded.
    pub failure: Option<Failure>,
}

impl Memory {
    /// The last failure, if it belongs to the current generation.
    pub(super) fn failure_for(&self, internal_member_cluster: &InternalMemberClusterFacts<'_>) -> Option<&Failure> {
        self.failure.as_ref().filter(|failure| failure.requested_by.matches(internal_member_cluster))
    }
}

/// A failed attempt to join or to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The generation that requested the attempt.
    pub requested_by: SpecGeneration,
    pub error: String,
    pub at: Timestamp,
    /// Consecutive failed attempts, including this one.
    pub in_a_row: u32,
}

impl Failure {
    /// A new failure, counted after the one in memory.
    pub fn next(memory: &Memory, requested_by: SpecGeneration, error: String, at: Timestamp) -> Self {
        let same_request = memory.failure.as_ref().filter(|failure| failure.requested_by == requested_by);
        let before = same_request.map_or(0, |failure| failure.in_a_row);
        Self { requested_by, error, at, in_a_row: before.saturating_add(1) }
    }
}

/// The health and the properties of the cluster that one heartbeat reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The generation for which they were collected.
    pub requested_by: SpecGeneration,
    pub collected_at: Timestamp,
    pub probe: Probe,
    /// The result of starting the property provider; `None` if no provider is configured.
    pub provider: Option<PropertyProviderStarted>,
    pub collected: Collected,
    /// Consecutive failed heartbeats, including this one.
    pub failed_in_a_row: u32,
}

impl Heartbeat {
    /// A new heartbeat, counted after the one in memory.
    pub fn next(
        memory: &Memory,
        requested_by: SpecGeneration,
        collected_at: Timestamp,
        probe: Probe,
        provider: Option<PropertyProviderStarted>,
        collected: Collected,
    ) -> Self {
        let failed = !probe.is_healthy() || matches!(collected, Collected::Failed { .. });
        let before = memory.heartbeat.as_ref().map_or(0, |heartbeat| heartbeat.failed_in_a_row);
        let failed_in_a_row = if failed { before.saturating_add(1) } else { 0 };
        Self { requested_by, collected_at, probe, provider, collected, failed_in_a_row }
    }

    /// The error of the collection, unless the previous collection failed for the same reason.
    pub fn new_collection_error(&self, before: Option<&Self>) -> Option<&str> {
        let Collected::Failed { error } = &self.collected else { return None };
        let is_known = before.is_some_and(|before| before.collected == self.collected);
        (!is_known).then_some(error)
    }
}

/// The answer of the API server's readiness endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    Answered { status_code: u16 },
    Unreachable,
}

impl Probe {
    pub fn is_healthy(self) -> bool {
        self == Probe::Answered { status_code: 200 }
    }

    /// The status code that the condition names; zero if there was no answer.
    pub(super) fn status_code(self) -> u16 {
        match self {
            Probe::Answered { status_code } => status_code,
            Probe::Unreachable => 0,
        }
    }
}

/// The result of collecting properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collected {
    /// The complete answer of the property provider.
    ByProvider(ProviderAnswer),
    /// What the built-in method counts. Other properties keep their values.
    BuiltIn {
        properties: BTreeMap<String, PropertyValue>,
        usage: ResourceUsage,
    },
    ProviderTimedOut,
    TooManyCalls,
    /// The built-in method could not list nodes or pods.
    Failed {
        error: String,
    },
}

/// How properties are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Provider,
    BuiltIn,
}

/// The built-in method replaces a provider that is missing or did not start.
pub fn collection_method(provider: Option<&PropertyProviderStarted>) -> Method {
    match provider {
        Some(started) if started.status() == ConditionStatus::True => Method::Provider,
        Some(_) | None => Method::BuiltIn,
    }
}
