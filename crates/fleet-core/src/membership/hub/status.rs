//! The status of the MemberCluster, computed from the reports of its agents, and the events that follow from a
//! change.

use std::collections::BTreeSet;
use std::time::Duration;

use fleet_api::conditions::events::MemberClusterEvent;
use fleet_api::conditions::member::{AgentJoined, MemberJoined, MemberPropertiesUsable, MemberReadyToJoin};
use fleet_api::conditions::{Condition, ConditionState, ConditionStatus, Finding, decode_ignoring_generation, put};
use fleet_api::types::{AgentStatus, AgentType, IntOrString, InternalMemberClusterStatus, MemberClusterStatus};
use fleet_api::well_known::properties;
use jiff::Timestamp;
use k8s_values::Quantity;

use super::observed::Observed;
use super::report::Report;
use crate::membership::Counter;
use crate::plan::StatusWrite;

/// How long the first status may be deferred: an agent that is running joins in this time, and then one write is enough.
const JOIN_WINDOW: Duration = Duration::from_secs(2);

/// A new status, and the Joined condition in it.
#[derive(Debug)]
pub(super) struct StatusUpdate {
    pub joined: MemberJoined,
    status: MemberClusterStatus,
}

/// The status with the reports of the InternalMemberCluster. Keeps the ReadyToJoin condition if `ready` is `None`.
pub(super) fn update(observed: &Observed<'_>, ready: Option<MemberReadyToJoin>, now: Timestamp) -> StatusUpdate {
    let member = &observed.member;
    let generation = member.generation;
    let mut status = member.status.cloned().unwrap_or_default();
    let reported = observed.internal_member_cluster.and_then(|internal_member_cluster| internal_member_cluster.status);
    if let Some(reported) = reported {
        copy(&mut status, reported, generation);
    }
    let joined = judge(observed, &status.observed.agent_status);
    let ready = if joined == MemberJoined::Left { Some(MemberReadyToJoin::NotReady) } else { ready };
    if let Some(ready) = ready {
        put(&mut status.conditions, ready.finding(generation), now);
    }
    put(&mut status.conditions, joined.finding(generation), now);
    if let Some(usable) = judge_properties(&status) {
        put(&mut status.conditions, usable.finding(generation), now);
    }
    for condition in reported.into_iter().flat_map(|reported| &reported.conditions) {
        if !is_ours(&condition.type_) {
            // The condition keeps the transition time that the member reported.
            let since = condition.last_transition_time.instant();
            put(&mut status.conditions, Finding::repeated(condition, generation), since);
        }
    }
    StatusUpdate { joined, status }
}

/// Conditions that only the hub writes; a member's report must not overwrite them.
fn is_ours(type_: &str) -> bool {
    [MemberReadyToJoin::type_word(()), MemberJoined::type_word(()), MemberPropertiesUsable::type_word(())]
        .contains(&type_)
}

/// Maximum number of properties that the condition names; a member may report any number.
const NAMED_PROPERTIES: usize = 5;
/// Properties that are not quantities.
const TEXTS: [&str; 3] = [properties::KUBERNETES_VERSION, properties::ENTRYPOINT, properties::CERTIFICATE_AUTHORITY];

/// Whether the scheduler can use the reported properties. Returns `None` for a member that has always reported
/// quantities.
fn judge_properties(status: &MemberClusterStatus) -> Option<MemberPropertiesUsable> {
    let is_quantity = |text: &str| text.parse::<Quantity>().is_ok();
    let reported = status
        .observed
        .properties
        .iter()
        .filter(|(name, found)| !TEXTS.contains(&name.as_str()) && !is_quantity(&found.value));
    let mut unusable: Vec<String> = reported.map(|(name, _)| format!("{name:?}")).collect();
    if let Some(usage) = &status.observed.resource_usage {
        for (amount, list) in
            [("total", &usage.capacity), ("allocatable", &usage.allocatable), ("available", &usage.available)]
        {
            let texts =
                list.iter().filter(|(_, found)| matches!(found, IntOrString::String(text) if !is_quantity(text)));
            unusable.extend(texts.map(|(name, _)| format!("\"{}/{amount}-{name}\"", properties::RESOURCE_PREFIX)));
        }
    }
    if unusable.is_empty() {
        let type_ = MemberPropertiesUsable::type_word(());
        let was_told = status.conditions.iter().any(|condition| condition.type_ == type_);
        return was_told.then_some(MemberPropertiesUsable::Usable);
    }
    let more = unusable.len().saturating_sub(NAMED_PROPERTIES);
    unusable.truncate(NAMED_PROPERTIES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(MemberPropertiesUsable::NotQuantities { properties: unusable.join(", ") + &more })
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

/// The state that all expected agents together report. Other agents are ignored.
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

impl StatusUpdate {
    /// Adds events to the report and returns the status if it differs from the stored one.
    pub(super) fn publish(
        self,
        observed: &Observed<'_>,
        report: &mut Report,
    ) -> Option<StatusWrite<MemberClusterStatus>> {
        let before = observed.member.status;
        if before == Some(&self.status) {
            return None;
        }
        // A new member is expected to be ready, and to join later.
        let is_first = before.is_none();
        let old = before.map_or(&[][..], |status| &status.conditions);
        let turned = |type_| turned_to(old, &self.status.conditions, type_);
        if !is_first && turned(MemberReadyToJoin::type_word(())) == Some(ConditionStatus::True) {
            report.events.push(MemberClusterEvent::ReadyToJoin);
        }
        let (event, counted) = match turned(MemberJoined::type_word(())) {
            Some(ConditionStatus::True) => (Some(MemberClusterEvent::Joined), Some(Counter::Joined)),
            Some(ConditionStatus::False) => (Some(MemberClusterEvent::Left), Some(Counter::Left)),
            Some(ConditionStatus::Unknown) if !is_first => (Some(MemberClusterEvent::JoinStateUnknown), None),
            Some(ConditionStatus::Unknown) | None => (None, None),
        };
        report.events.extend(event);
        report.counted = counted;
        let defer = (is_first && self.joined != MemberJoined::Joined).then_some(JOIN_WINDOW);
        Some(StatusWrite { status: self.status, defer })
    }
}

/// The new status of a condition, if it has changed.
fn turned_to(before: &[Condition], after: &[Condition], type_: &str) -> Option<ConditionStatus> {
    let status = |conditions: &[Condition]| conditions.iter().find(|one| one.type_ == type_).map(|one| one.status);
    status(after).filter(|new| status(before) != Some(*new))
}
