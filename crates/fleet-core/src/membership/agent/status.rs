//! The agent's part of the status of the InternalMemberCluster, and the events that follow from a change.
//!
//! The entries of other agents in the same object stay as they are.

use fleet_api::conditions::events::AgentEvent;
use fleet_api::conditions::member::{
    AgentHealthy, AgentJoined, AgentJoinedReason, PropertyCollectionSucceeded, PropertyCollectionSucceededReason,
    PropertyProviderStarted,
};
use fleet_api::conditions::{Condition, ConditionState, ConditionStatus, Reason, decode_ignoring_generation, put};
use fleet_api::time::Time;
use fleet_api::types::{AgentStatus, AgentType, InternalMemberClusterStatus};
use jiff::Timestamp;

use super::observed::{Collected, Heartbeat, InternalMemberClusterFacts};
use super::report::Report;
use crate::membership::Counter;

/// A new status.
#[derive(Debug)]
pub(super) struct StatusUpdate<'s> {
    status: InternalMemberClusterStatus,
    started: Option<&'s PropertyProviderStarted>,
}

/// Changes only the Joined condition.
pub(super) fn joined(
    internal_member_cluster: &InternalMemberClusterFacts<'_>,
    joined: &AgentJoined,
    now: Timestamp,
) -> StatusUpdate<'static> {
    let mut status = internal_member_cluster.status.cloned().unwrap_or_default();
    put(&mut own_entry(&mut status).conditions, joined.finding(internal_member_cluster.generation), now);
    StatusUpdate { status, started: None }
}

/// The status after a heartbeat.
pub(super) fn heartbeat<'s>(
    internal_member_cluster: &InternalMemberClusterFacts<'_>,
    heartbeat: &'s Heartbeat,
    now: Timestamp,
) -> StatusUpdate<'s> {
    let generation = internal_member_cluster.generation;
    let mut status = internal_member_cluster.status.cloned().unwrap_or_default();
    let entry = own_entry(&mut status);
    entry.last_received_heartbeat = Some(Time::new(heartbeat.collected_at));
    let health = if heartbeat.probe.is_healthy() {
        AgentHealthy::Healthy
    } else {
        AgentHealthy::ProbeFailed { status_code: heartbeat.probe.status_code() }
    };
    put(&mut entry.conditions, health.finding(generation), heartbeat.collected_at);
    put(&mut entry.conditions, AgentJoined::Joined.finding(generation), now);
    if let Some(started) = &heartbeat.provider {
        put(&mut status.conditions, started.finding(generation), heartbeat.collected_at);
    }
    properties(&mut status, heartbeat, generation);
    StatusUpdate { status, started: heartbeat.provider.as_ref() }
}

fn own_entry(status: &mut InternalMemberClusterStatus) -> &mut AgentStatus {
    let agents = &mut status.observed.agent_status;
    let position = agents.iter().position(|agent| agent.type_ == AgentType::MemberAgent).unwrap_or_else(|| {
        agents.push(AgentStatus {
            type_: AgentType::MemberAgent,
            conditions: Vec::new(),
            last_received_heartbeat: None,
        });
        agents.len() - 1
    });
    &mut agents[position]
}

/// Collected values replace the previous ones; values that could not be collected stay. The condition of the
/// collection comes before the provider's own conditions, as in KubeFleet's agents.
fn properties(status: &mut InternalMemberClusterStatus, heartbeat: &Heartbeat, generation: i64) {
    let observed = &mut status.observed;
    let (verdict, findings) = match &heartbeat.collected {
        Collected::ByProvider(answer) => {
            observed.properties.clone_from(&answer.properties);
            observed.resource_usage = Some(answer.usage.clone());
            observed.namespaces.clone_from(&answer.namespaces);
            (Some(PropertyCollectionSucceeded::Collected), answer.findings(generation))
        }
        Collected::BuiltIn { properties, usage } => {
            observed.properties.extend(properties.clone());
            observed.resource_usage = Some(usage.clone());
            (None, Vec::new())
        }
        Collected::ProviderTimedOut => (Some(PropertyCollectionSucceeded::TimedOut), Vec::new()),
        Collected::TooManyCalls => (Some(PropertyCollectionSucceeded::TooManyCalls), Vec::new()),
        Collected::Failed { .. } => (None, Vec::new()),
    };
    for finding in verdict.map(|verdict| verdict.finding(generation)).into_iter().chain(findings) {
        put(&mut status.conditions, finding, heartbeat.collected_at);
    }
}

impl StatusUpdate<'_> {
    /// Adds events to the report and returns the status if it differs from the stored one.
    pub(super) fn publish(
        self,
        internal_member_cluster: &InternalMemberClusterFacts<'_>,
        report: &mut Report,
    ) -> Option<InternalMemberClusterStatus> {
        let StatusUpdate { status, started } = self;
        if internal_member_cluster.status == Some(&status) {
            return None;
        }
        let none = InternalMemberClusterStatus::default();
        let before = internal_member_cluster.status.unwrap_or(&none);
        let (old_entry, new_entry) = (entry_conditions(before), entry_conditions(&status));
        report.events.extend(health_event(old_entry, new_entry));
        report.events.extend(started.and_then(|started| start_event(&before.conditions, started)));
        report.events.extend(timeout_event(&before.conditions, &status.conditions));
        if let Some(reason) = new_join_reason(old_entry, new_entry) {
            let (event, counted) = match reason {
                AgentJoinedReason::Joined => (AgentEvent::Joined, Some(Counter::Joined)),
                AgentJoinedReason::Left => (AgentEvent::Left, Some(Counter::Left)),
                AgentJoinedReason::FailedToJoin => (AgentEvent::FailedToJoin, None),
                AgentJoinedReason::FailedToLeave => (AgentEvent::FailedToLeave, None),
            };
            report.events.push(event);
            report.counted = counted;
        }
        Some(status)
    }
}

fn entry_conditions(status: &InternalMemberClusterStatus) -> &[Condition] {
    let entry = status.observed.agent_status.iter().find(|agent| agent.type_ == AgentType::MemberAgent);
    entry.map_or(&[], |entry| &entry.conditions)
}

fn health_event(before: &[Condition], after: &[Condition]) -> Option<AgentEvent> {
    let health = |conditions| decode_ignoring_generation::<AgentHealthy>(conditions).any().map(|one| one.status);
    let new = health(after).filter(|new| health(before) != Some(*new))?;
    Some(if new == ConditionStatus::True { AgentEvent::Healthy } else { AgentEvent::Unhealthy })
}

/// A join or a leave is reported again for every generation of the InternalMemberCluster.
fn new_join_reason(before: &[Condition], after: &[Condition]) -> Option<AgentJoinedReason> {
    let said = |conditions| decode_ignoring_generation::<AgentJoined>(conditions).any();
    let key = |condition: &Condition| (condition.status, condition.reason.clone(), condition.observed_generation);
    let new = said(after).filter(|new| said(before).map(key) != Some(key(new)))?;
    AgentJoinedReason::recognise(new.status, &new.reason)
}

/// The event for the start of the provider, unless the stored conditions already have it.
fn start_event(before: &[Condition], started: &PropertyProviderStarted) -> Option<AgentEvent> {
    let known = decode_ignoring_generation::<PropertyProviderStarted>(before).any();
    if known.is_some_and(|known| known.status == started.status() && known.message == started.message()) {
        return None;
    }
    Some(match started {
        PropertyProviderStarted::Started => AgentEvent::PropertyProviderStarted,
        PropertyProviderStarted::TimedOut => AgentEvent::PropertyProviderStartTimedOut,
        PropertyProviderStarted::FailedToStart { error } => {
            AgentEvent::PropertyProviderFailedToStart { error: error.clone() }
        }
    })
}

fn timeout_event(before: &[Condition], after: &[Condition]) -> Option<AgentEvent> {
    let timed_out = |conditions| {
        let verdict = decode_ignoring_generation::<PropertyCollectionSucceeded>(conditions);
        verdict.reason() == Some(PropertyCollectionSucceededReason::TimedOut)
    };
    (timed_out(after) && !timed_out(before)).then_some(AgentEvent::PropertyCollectionTimedOut)
}
