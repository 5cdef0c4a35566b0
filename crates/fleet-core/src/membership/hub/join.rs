//! The objects that a member needs on the hub: creates the missing ones and reverts changes.
//!
//! Objects are created in the order in which they depend on each other.

use fleet_api::conditions::events::MemberClusterEvent as Event;
use fleet_api::conditions::member::MemberReadyToJoin;
use fleet_api::names::MemberNamespace;
use jiff::Timestamp;

use super::observed::{NamespaceFacts, Observed};
use super::report::{MemberOutcome, Report};
use super::resources::{Comparison, MemberRole, MemberRoleBinding, NewNamespace, WantedInternalMemberCluster};
use super::{Plan, Write, leave, status};

pub(super) fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let member = &observed.member;
    let namespace = match MemberNamespace::of(member.name) {
        Ok(namespace) => namespace,
        Err(error) => return not_ready(observed, MemberOutcome::InvalidName(error), now),
    };
    let hold = (!(member.has_finalizer && member.labelled)).then_some(Write::AddMemberFinalizer);
    if let NamespaceFacts::Terminating { of_former_member, .. } = observed.namespace {
        let mut plan = not_ready(observed, MemberOutcome::NamespaceTerminating, now);
        plan.writes.extend(hold);
        // The agent of the former member does not come back for its Works.
        plan.writes.extend(of_former_member.then(|| leave::release_works(&observed.works)).into_iter().flatten());
        return plan;
    }
    let update = status::update(observed, Some(MemberReadyToJoin::Ready), now);
    let mut plan = Plan::nothing(Report::of(MemberOutcome::Prepared(update.joined.clone())));
    plan.writes.extend(hold);
    // Whoever adds a member knows that it gets objects; only a repair is news.
    let is_new = observed.namespace == NamespaceFacts::Missing && member.status.is_none();
    for (write, event) in prepare(observed, &namespace) {
        plan.writes.push(write);
        plan.report.events.extend((!is_new).then_some(event));
    }
    plan.status = update.publish(observed, &mut plan.report);
    plan
}

fn not_ready(observed: &Observed<'_>, outcome: MemberOutcome, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing(Report::of(outcome));
    plan.status = status::update(observed, Some(MemberReadyToJoin::NotReady), now).publish(observed, &mut plan.report);
    plan
}

fn prepare(observed: &Observed<'_>, namespace: &MemberNamespace) -> Vec<(Write, Event)> {
    let member = &observed.member;
    let mut writes = Vec::new();
    let new = || NewNamespace { name: namespace.clone() };
    match observed.namespace {
        NamespaceFacts::Missing => writes.push((Write::CreateNamespace(new()), Event::NamespaceCreated)),
        NamespaceFacts::Present { marked: false } => {
            writes.push((Write::LabelNamespace(new()), Event::NamespacePatched));
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
    let internal_member_cluster = WantedInternalMemberCluster::to_join(member, namespace);
    match observed.internal_member_cluster {
        None => writes
            .push((Write::CreateInternalMemberCluster(internal_member_cluster), Event::InternalMemberClusterCreated)),
        Some(found) if !internal_member_cluster.is(found.spec) => {
            writes.push((
                Write::UpdateInternalMemberCluster(internal_member_cluster),
                Event::InternalMemberClusterSpecUpdated,
            ));
        }
        Some(_) => {}
    }
    writes
}
