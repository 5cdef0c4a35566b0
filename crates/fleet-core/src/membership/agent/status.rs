//! What the agent's report to the hub says.
//!
//! Decides the agent's own entry, properties, usage, namespaces and conditions, and what of that is news. Reports of other
//! agents in the same object are left alone. Never decides when a report is made.

use fleet_api::conditions::events::AgentEvent;
use fleet_api::conditions::member::{
    AgentHealthy, AgentJoined, AgentJoinedReason, PropertyCollectionSucceeded, PropertyCollectionSucceededReason,
    PropertyProviderStarted,
};
use fleet_api::conditions::{Condition, ConditionState, ConditionStatus, Reason, decode_ignoring_generation, put};
use fleet_api::time::Time;
use fleet_api::types::{AgentStatus, AgentType, InternalMemberClusterStatus};
use jiff::Timestamp;

use super::observed::{Collected, MailboxFacts, Sounding};
use super::report::Report;
use crate::membership::Counter;

/// A report that is ready to be sent.
#[derive(Debug)]
pub(super) struct Told<'s> {
    status: InternalMemberClusterStatus,
    started: Option<&'s PropertyProviderStarted>,
}

/// Only whether the agent has joined changes.
pub(super) fn joined(mailbox: &MailboxFacts<'_>, joined: &AgentJoined, now: Timestamp) -> Told<'static> {
    let mut status = mailbox.status.cloned().unwrap_or_default();
    put(&mut own_entry(&mut status).conditions, joined.finding(mailbox.generation), now);
    Told { status, started: None }
}

/// A heartbeat: the agent is there, and this is how its cluster is.
pub(super) fn heartbeat<'s>(mailbox: &MailboxFacts<'_>, sounding: &'s Sounding, now: Timestamp) -> Told<'s> {
    let generation = mailbox.generation;
    let mut status = mailbox.status.cloned().unwrap_or_default();
    let entry = own_entry(&mut status);
    entry.last_received_heartbeat = Some(Time::new(sounding.taken_at));
    let health = if sounding.probe.is_healthy() {
        AgentHealthy::Healthy
    } else {
        AgentHealthy::ProbeFailed { status_code: sounding.probe.status_code() }
    };
    put(&mut entry.conditions, health.finding(generation), sounding.taken_at);
    put(&mut entry.conditions, AgentJoined::Joined.finding(generation), now);
    if let Some(started) = &sounding.provider {
        put(&mut status.conditions, started.finding(generation), sounding.taken_at);
    }
    properties(&mut status, sounding, generation);
    Told { status, started: sounding.provider.as_ref() }
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

/// What was found replaces what was there; what could not be asked stays as it was last known.
fn properties(status: &mut InternalMemberClusterStatus, sounding: &Sounding, generation: i64) {
    let observed = &mut status.observed;
    let verdict = match &sounding.collected {
        Collected::ByProvider(answer) => {
            observed.properties.clone_from(&answer.properties);
            observed.resource_usage = Some(answer.usage.clone());
            observed.namespaces.clone_from(&answer.namespaces);
            for finding in answer.findings(generation) {
                put(&mut status.conditions, finding, sounding.taken_at);
            }
            Some(PropertyCollectionSucceeded::Collected)
        }
        Collected::BuiltIn { properties, usage } => {
            observed.properties.extend(properties.clone());
            observed.resource_usage = Some(usage.clone());
            None
        }
        Collected::ProviderTimedOut => Some(PropertyCollectionSucceeded::TimedOut),
        Collected::TooManyCalls => Some(PropertyCollectionSucceeded::TooManyCalls),
        Collected::Failed { .. } => None,
    };
    if let Some(verdict) = verdict {
        put(&mut status.conditions, verdict.finding(generation), sounding.taken_at);
    }
}

impl Told<'_> {
    /// Puts what is new into the report and gives the status, if it is not what is there.
    pub(super) fn publish(
        self,
        mailbox: &MailboxFacts<'_>,
        report: &mut Report,
    ) -> Option<InternalMemberClusterStatus> {
        let Told { status, started } = self;
        if mailbox.status == Some(&status) {
            return None;
        }
        let none = InternalMemberClusterStatus::default();
        let before = mailbox.status.unwrap_or(&none);
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

/// Joining and leaving are news again for every order of the hub.
fn new_join_reason(before: &[Condition], after: &[Condition]) -> Option<AgentJoinedReason> {
    let said = |conditions| decode_ignoring_generation::<AgentJoined>(conditions).any();
    let key = |condition: &Condition| (condition.status, condition.reason.clone(), condition.observed_generation);
    let new = said(after).filter(|new| said(before).map(key) != Some(key(new)))?;
    AgentJoinedReason::recognise(new.status, &new.reason)
}

/// How the start of the provider went, if that was not known.
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
