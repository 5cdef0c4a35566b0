//! What the agents' reports come to on the MemberCluster.
//!
//! Decides what is copied from the mailbox, whether the member counts as joined, and what of that is news. Never
//! decides what to do about it.

use std::collections::BTreeSet;

use fleet_api::conditions::events::MemberClusterEvent;
use fleet_api::conditions::member::{AgentJoined, MemberJoined, MemberReadyToJoin};
use fleet_api::conditions::{Condition, ConditionState, ConditionStatus, Finding, decode_ignoring_generation, put};
use fleet_api::types::{AgentStatus, AgentType, InternalMemberClusterStatus, MemberClusterStatus};
use jiff::Timestamp;

use super::observed::Observed;
use super::report::Report;
use crate::membership::Counter;

/// What a status shall be and how it got there.
#[derive(Debug)]
pub(super) struct Told {
    pub joined: MemberJoined,
    status: MemberClusterStatus,
}

/// The status after the mailbox was read. `ready` stays as it is where nothing is given.
pub(super) fn tell(observed: &Observed<'_>, ready: Option<MemberReadyToJoin>, now: Timestamp) -> Told {
    let member = &observed.member;
    let generation = member.generation;
    let mut status = member.status.cloned().unwrap_or_default();
    let reported = observed.mailbox.and_then(|mailbox| mailbox.status);
    if let Some(reported) = reported {
        copy(&mut status, reported, generation);
    }
    let joined = judge(observed, &status.observed.agent_status);
    let ready = if joined == MemberJoined::Left { Some(MemberReadyToJoin::NotReady) } else { ready };
    if let Some(ready) = ready {
        put(&mut status.conditions, ready.finding(generation), now);
    }
    put(&mut status.conditions, joined.finding(generation), now);
    for condition in reported.into_iter().flat_map(|reported| &reported.conditions) {
        if !is_ours(&condition.type_) {
            // The transition is the member's, and so is its time.
            let since = condition.last_transition_time.instant();
            put(&mut status.conditions, Finding::repeated(condition, generation), since);
        }
    }
    Told { joined, status }
}

/// Conditions that only the hub may write: a member must not speak for it.
fn is_ours(type_: &str) -> bool {
    [MemberReadyToJoin::type_word(()), MemberJoined::type_word(())].contains(&type_)
}

fn copy(status: &mut MemberClusterStatus, reported: &InternalMemberClusterStatus, generation: i64) {
    let mut observed = reported.observed.clone();
    if observed.agent_status.is_empty() {
        observed.agent_status = std::mem::take(&mut status.observed.agent_status);
    } else {
        let conditions = observed.agent_status.iter_mut().flat_map(|agent| &mut agent.conditions);
        conditions.for_each(|condition| condition.observed_generation = generation);
    }
    status.observed = observed;
}

fn expected_agents(networking: bool) -> &'static [AgentType] {
    const ALL: &[AgentType] =
        &[AgentType::MemberAgent, AgentType::MultiClusterServiceAgent, AgentType::ServiceExportImportAgent];
    if networking { ALL } else { &ALL[..1] }
}

/// What all expected agents together say. Agents that nobody expects have no say.
fn judge(observed: &Observed<'_>, agents: &[AgentStatus]) -> MemberJoined {
    let cluster = observed.member.name.to_string();
    let expected = expected_agents(observed.settings.networking_agents);
    let heard: Vec<_> = agents.iter().filter(|agent| expected.contains(&agent.type_)).collect();
    let reported = heard.iter().map(|agent| &agent.type_).collect::<BTreeSet<_>>().len();
    if reported < expected.len() {
        return MemberJoined::AgentsMissing { cluster, expected: expected.len(), reported };
    }
    let mut words = Vec::new();
    for agent in heard {
        match decode_ignoring_generation::<AgentJoined>(&agent.conditions).any() {
            None => return MemberJoined::AgentSilent { cluster, agent: agent.type_.to_string() },
            Some(condition) => words.push(condition.status),
        }
    }
    if words.iter().all(|word| *word == ConditionStatus::True) {
        MemberJoined::Joined
    } else if words.iter().all(|word| *word == ConditionStatus::False) {
        MemberJoined::Left
    } else {
        MemberJoined::AgentsDisagree
    }
}

impl Told {
    /// Puts what is new into the report and gives the status, if it is not what is there.
    pub(super) fn publish(self, observed: &Observed<'_>, report: &mut Report) -> Option<MemberClusterStatus> {
        let before = observed.member.status;
        if before == Some(&self.status) {
            return None;
        }
        let old = before.map_or(&[][..], |status| &status.conditions);
        let turned = |type_| turned_to(old, &self.status.conditions, type_);
        if turned(MemberReadyToJoin::type_word(())) == Some(ConditionStatus::True) {
            report.events.push(MemberClusterEvent::ReadyToJoin);
        }
        let (event, counted) = match turned(MemberJoined::type_word(())) {
            Some(ConditionStatus::True) => (Some(MemberClusterEvent::Joined), Some(Counter::Joined)),
            Some(ConditionStatus::False) => (Some(MemberClusterEvent::Left), Some(Counter::Left)),
            Some(ConditionStatus::Unknown) => (Some(MemberClusterEvent::JoinStateUnknown), None),
            None => (None, None),
        };
        report.events.extend(event);
        report.counted = counted;
        Some(self.status)
    }
}

/// The new status of a condition, if it is another than before.
fn turned_to(before: &[Condition], after: &[Condition], type_: &str) -> Option<ConditionStatus> {
    let status = |conditions: &[Condition]| conditions.iter().find(|one| one.type_ == type_).map(|one| one.status);
    status(after).filter(|new| status(before) != Some(*new))
}
