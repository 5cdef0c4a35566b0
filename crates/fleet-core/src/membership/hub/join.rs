//! What a member that stays needs on the hub.
//!
//! Decides what is created and what is put right, in an order in which each thing finds what it rests on. Never waits:
//! everything is there after one plan, and what the agents then say comes as a change.

use fleet_api::conditions::events::MemberClusterEvent as Event;
use fleet_api::conditions::member::MemberReadyToJoin;
use fleet_api::names::MemberNamespace;
use jiff::Timestamp;

use super::belongings::{Comparison, Mailbox, MemberRole, MemberRoleBinding, NewNamespace};
use super::observed::{NamespaceFacts, Observed};
use super::report::{Outcome, Report};
use super::{Plan, Write, status};

pub(super) fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let member = &observed.member;
    let namespace = match MemberNamespace::of(member.name) {
        Ok(namespace) => namespace,
        Err(error) => return not_ready(observed, Outcome::Unnameable(error), now),
    };
    let hold = (!(member.held && member.labelled)).then_some(Write::HoldMember);
    if matches!(observed.namespace, NamespaceFacts::Terminating { .. }) {
        let mut plan = not_ready(observed, Outcome::NamespaceGoing, now);
        plan.writes.extend(hold);
        return plan;
    }
    let told = status::tell(observed, Some(MemberReadyToJoin::Ready), now);
    let mut plan = Plan::nothing(Report::of(Outcome::Prepared(told.joined.clone())));
    plan.writes.extend(hold);
    for (write, event) in prepare(observed, &namespace) {
        plan.writes.push(write);
        plan.report.events.push(event);
    }
    plan.status = told.publish(observed, &mut plan.report);
    plan
}

fn not_ready(observed: &Observed<'_>, outcome: Outcome, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing(Report::of(outcome));
    plan.status = status::tell(observed, Some(MemberReadyToJoin::NotReady), now).publish(observed, &mut plan.report);
    plan
}

fn prepare(observed: &Observed<'_>, namespace: &MemberNamespace) -> Vec<(Write, Event)> {
    let member = &observed.member;
    let mut writes = Vec::new();
    let new = || NewNamespace { name: namespace.clone() };
    match observed.namespace {
        NamespaceFacts::Missing => writes.push((Write::CreateNamespace(new()), Event::NamespaceCreated)),
        NamespaceFacts::Present { marked: false } => {
            writes.push((Write::MarkNamespace(new()), Event::NamespacePatched));
        }
        NamespaceFacts::Present { marked: true } | NamespaceFacts::Terminating { .. } => {}
    }
    let role = MemberRole::of(member.name, namespace);
    match observed.role {
        None => writes.push((Write::CreateRole(role), Event::RoleCreated)),
        Some(found) if !role.is(found) => writes.push((Write::UpdateRole(role), Event::RoleUpdated)),
        Some(_) => {}
    }
    let binding = MemberRoleBinding::of(member, namespace);
    match observed.role_binding.map(|found| binding.compare(found)) {
        None => writes.push((Write::CreateRoleBinding(binding), Event::RoleBindingCreated)),
        Some(Comparison::OtherSubjects) => {
            writes.push((Write::UpdateRoleBinding(binding), Event::RoleBindingUpdated));
        }
        Some(Comparison::OtherRole) => writes.push((Write::ReplaceRoleBinding(binding), Event::RoleBindingUpdated)),
        Some(Comparison::Same) => {}
    }
    let mailbox = Mailbox::to_join(member, namespace);
    match observed.mailbox {
        None => writes.push((Write::CreateMailbox(mailbox), Event::InternalMemberClusterCreated)),
        Some(found) if !mailbox.is(found.spec) => {
            writes.push((Write::UpdateMailbox(mailbox), Event::InternalMemberClusterSpecUpdated));
        }
        Some(_) => {}
    }
    writes
}
