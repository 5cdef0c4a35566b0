//! Plans and statuses as short texts, for inline expectations.

use std::fmt::Write as _;

use fleet_api::conditions::Condition;
use fleet_api::conditions::events::FleetEvent;
use fleet_api::types::{AgentStatus, ObservedCluster};

use super::fixture::Fixture;
use crate::membership::{Counter, agent, hub, profile};
use crate::plan::Wake;

fn text<W>(
    writes: &[W],
    word: impl Fn(&W) -> String,
    events: &[impl FleetEvent],
    counted: Option<Counter>,
    wake: Wake,
    outcome: impl std::fmt::Debug,
) -> String {
    let mut text = String::new();
    for write in writes {
        writeln!(text, "{}", word(write)).unwrap();
    }
    for event in events {
        writeln!(text, "event {} {}: {event}", event.event_type(), event.reason_word()).unwrap();
    }
    if let Some(counted) = counted {
        writeln!(text, "count {}", counted.name()).unwrap();
    }
    if let Wake::At(instant) = wake {
        writeln!(text, "wake at {instant}").unwrap();
    }
    write!(text, "{outcome:?}").unwrap();
    text
}

pub(crate) fn hub_text(plan: &hub::Plan) -> String {
    let report = &plan.report;
    let text = text(&plan.writes, hub_write_text, &report.events, report.counted, plan.wake, &report.outcome);
    let is_deferrable = plan.status.as_ref().is_some_and(|new| new.defer.is_some());
    if is_deferrable { format!("status (deferrable)\n{text}") } else { text }
}

pub(crate) fn hub_write_text(write: &hub::Write) -> String {
    match write {
        hub::Write::AddMemberFinalizer => "hold member".to_owned(),
        hub::Write::RemoveMemberFinalizer => "release member".to_owned(),
        hub::Write::CreateNamespace(new) => format!("create namespace {}", new.name),
        hub::Write::LabelNamespace(new) => format!("mark namespace {}", new.name),
        hub::Write::DeleteNamespace { namespace } => format!("delete namespace {namespace}"),
        hub::Write::CreateRole(role) => format!("create role {}", role.name),
        hub::Write::UpdateRole(role) => format!("update role {}", role.name),
        hub::Write::CreateRoleBinding(binding) => {
            format!("create role binding {} for {} {}", binding.name, binding.subject.kind, binding.subject.name)
        }
        hub::Write::UpdateRoleBinding(binding) => format!("update role binding {}", binding.name),
        hub::Write::ReplaceRoleBinding(binding) => format!("replace role binding {}", binding.name),
        hub::Write::CreateInternalMemberCluster(internal_member_cluster) => {
            format!(
                "create InternalMemberCluster {} {} {}s",
                internal_member_cluster.name,
                internal_member_cluster.spec.state,
                internal_member_cluster.spec.heartbeat_period_seconds()
            )
        }
        hub::Write::UpdateInternalMemberCluster(internal_member_cluster) => {
            format!(
                "update InternalMemberCluster {} {} {}s",
                internal_member_cluster.name,
                internal_member_cluster.spec.state,
                internal_member_cluster.spec.heartbeat_period_seconds()
            )
        }
        hub::Write::RemoveWorkFinalizer { work } => format!("release work {work}"),
    }
}

pub(crate) fn agent_text(plan: &agent::Plan) -> String {
    let report = &plan.report;
    text(&plan.writes, agent_write_text, &report.events, report.counted, plan.wake, &report.outcome)
}

fn agent_write_text(write: &agent::Write) -> String {
    match write {
        agent::Write::StartApplier => "start applier".to_owned(),
        agent::Write::StopApplier => "stop applier".to_owned(),
        agent::Write::CollectHeartbeat => "collect heartbeat".to_owned(),
        agent::Write::RemoveWorkFinalizer { work } => format!("release work {work}"),
    }
}

pub(crate) fn profile_text(plan: &profile::Plan) -> String {
    let reverted = if plan.report.reverted { " (reverted)" } else { "" };
    let none: &[fleet_api::conditions::events::AgentEvent] = &[];
    let text = text(&plan.writes, profile_write_text, none, None, plan.wake, &plan.report.outcome);
    format!("{text}{reverted}")
}

fn profile_write_text(write: &profile::Write) -> String {
    match write {
        profile::Write::AddMemberFinalizer => "hold member".to_owned(),
        profile::Write::RemoveMemberFinalizer => "release member".to_owned(),
        profile::Write::CreateProfile(wanted) => format!("create profile {}", wanted.cluster),
        profile::Write::UpdateProfile(wanted) => format!("update profile {}", wanted.cluster),
        profile::Write::DeleteProfile { profile } => format!("delete profile {profile}"),
    }
}

/// Without transition times.
pub(crate) fn conditions_text(conditions: &[Condition]) -> String {
    let lines = conditions.iter().map(|one| {
        let Condition { type_, status, observed_generation, reason, message, .. } = one;
        format!("{type_}={status}@{observed_generation} {reason}: {message}").trim_end_matches(": ").to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn agents_text(agents: &[AgentStatus]) -> String {
    let lines = agents.iter().map(|agent| {
        let heartbeat = agent.last_received_heartbeat.map_or("never".to_owned(), |time| time.to_string());
        let words =
            agent.conditions.iter().map(|one| format!("{}={}@{}", one.type_, one.status, one.observed_generation));
        format!("{} {heartbeat} {}", agent.type_, words.collect::<Vec<_>>().join(" ")).trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Properties, usage and namespaces, one per line, without observation times.
pub(crate) fn observed_text(observed: &ObservedCluster) -> String {
    let mut lines: Vec<_> = observed.properties.iter().map(|(name, one)| format!("{name}={}", one.value)).collect();
    if let Some(usage) = &observed.resource_usage {
        for (what, list) in
            [("capacity", &usage.capacity), ("allocatable", &usage.allocatable), ("available", &usage.available)]
        {
            if list.is_empty() {
                continue;
            }
            let amounts: Vec<_> = list.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
            lines.push(format!("{what} {}", amounts.join(" ")));
        }
    }
    lines.extend(observed.namespaces.iter().map(|(name, owner)| format!("namespace {name} of {owner:?}")));
    lines.join("\n")
}

/// The member's own status.
pub(crate) fn status_text(fixture: &Fixture) -> String {
    let status = fixture.status();
    format!("{}\n{}", conditions_text(&status.conditions), agents_text(&status.observed.agent_status))
}
