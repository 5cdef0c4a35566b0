//! How a member leaves.
//!
//! The placed objects stay on the cluster: the Works lose their finalizers before they are deleted, so that no agent
//! cleans up after them. Never removes the finalizer of the MemberCluster before its namespace is gone.

use fleet_api::conditions::events::MemberClusterEvent;
use fleet_api::conditions::member::MemberJoined;
use fleet_api::names::MemberNamespace;
use fleet_api::time::Time;
use fleet_api::types::ClusterState;
use jiff::{SignedDuration, Timestamp};

use super::observed::{InternalMemberClusterFacts, NamespaceFacts, Observed, WorkFacts};
use super::report::{Leaving, MemberOutcome, RemovalReason, Report};
use super::resources::WantedInternalMemberCluster;
use super::{Plan, Write, status};
use crate::membership::after;
use crate::plan::Wake;

/// A namespace without finalizers of its own terminates within seconds. After this time a person must look at it.
pub const NAMESPACE_STUCK_AFTER: SignedDuration = SignedDuration::from_mins(15);

pub(super) fn plan(observed: &Observed<'_>, leaving_since: Timestamp, now: Timestamp) -> Plan {
    if !observed.member.has_finalizer {
        return abandoned(&observed.namespace, &observed.works);
    }
    // A name that cannot have a namespace has none to wait for.
    let Ok(namespace) = MemberNamespace::of(observed.member.name) else { return release() };
    match (observed.namespace, observed.internal_member_cluster) {
        (NamespaceFacts::Missing, _) => release(),
        (NamespaceFacts::Terminating { since, .. }, _) => await_namespace(observed, since, now),
        (NamespaceFacts::Present { .. }, None) => {
            let mut plan = at(Leaving::Removing(RemovalReason::NoInternalMemberCluster));
            plan.writes = clear(observed, &namespace);
            plan
        }
        (NamespaceFacts::Present { .. }, Some(internal_member_cluster)) => {
            await_agent(observed, &namespace, internal_member_cluster, leaving_since, now)
        }
    }
}

/// What to do for a namespace whose MemberCluster is gone or no longer has our finalizer. No agent handles its Works
/// any more, so their finalizers would block the namespace for ever. Removing the finalizer of a Work deletes nothing
/// on the member.
pub(super) fn abandoned(namespace: &NamespaceFacts, works: &[WorkFacts<'_>]) -> Plan {
    let NamespaceFacts::Terminating { since, .. } = *namespace else { return at(Leaving::NoFinalizer) };
    let mut plan = at(Leaving::AbandonedNamespace { since });
    plan.writes = release_works(works);
    plan
}

fn at(leaving: Leaving) -> Plan {
    Plan::nothing(Report::of(MemberOutcome::Leaving(leaving)))
}

fn release() -> Plan {
    let mut plan = at(Leaving::Released);
    plan.writes.push(Write::RemoveMemberFinalizer);
    plan
}

/// Works that appear while the namespace terminates must not block it either.
fn await_namespace(observed: &Observed<'_>, since: Timestamp, now: Timestamp) -> Plan {
    let stuck_at = after(since, NAMESPACE_STUCK_AFTER);
    let stuck = now >= stuck_at;
    let mut plan = at(Leaving::AwaitingNamespace { since, stuck });
    plan.writes = release_works(&observed.works);
    if observed.internal_member_cluster.is_some() {
        plan.status = status::update(observed, None, now).publish(observed, &mut plan.report);
    }
    plan.wake = if stuck { Wake::OnChange } else { Wake::At(stuck_at) };
    plan
}

fn await_agent(
    observed: &Observed<'_>,
    namespace: &MemberNamespace,
    internal_member_cluster: InternalMemberClusterFacts<'_>,
    leaving_since: Timestamp,
    now: Timestamp,
) -> Plan {
    let update = status::update(observed, None, now);
    let leave_requested_at = leave_requested_at(internal_member_cluster, leaving_since);
    // If the leave request is not recorded on the object yet, the force-delete timer starts no earlier than now.
    let from_now = Time::new(now).instant().max(leaving_since);
    let forced_at = after(leave_requested_at.unwrap_or(from_now), observed.settings.force_delete_after);
    let clearance = match update.joined {
        MemberJoined::Left => Some(RemovalReason::AgentsLeft),
        _ => (leave_requested_at.is_some() && now >= forced_at).then_some(RemovalReason::Forced),
    };
    let mut plan = at(clearance.map_or(Leaving::AwaitingAgent { forced_at }, Leaving::Removing));
    match clearance {
        Some(_) => plan.writes = clear(observed, namespace),
        None => plan.wake = Wake::At(forced_at),
    }
    if clearance.is_none() && leave_requested_at.is_none() {
        let wanted =
            WantedInternalMemberCluster::to_leave(&observed.member, namespace, internal_member_cluster.spec, now);
        plan.writes.push(Write::UpdateInternalMemberCluster(wanted));
        plan.report.events.push(MemberClusterEvent::InternalMemberClusterSpecUpdated);
    }
    plan.status = update.publish(observed, &mut plan.report);
    plan
}

/// When the agent was asked to leave. A member is never force-deleted without a leave request: a healthy agent that
/// does not know of it would delete the placed objects when its Works are deleted, for example after the hub was
/// down.
fn leave_requested_at(
    internal_member_cluster: InternalMemberClusterFacts<'_>,
    leaving_since: Timestamp,
) -> Option<Timestamp> {
    let noted = internal_member_cluster.leave_requested_at.unwrap_or(leaving_since);
    (internal_member_cluster.spec.state == ClusterState::Leave).then_some(noted.max(leaving_since))
}

fn clear(observed: &Observed<'_>, namespace: &MemberNamespace) -> Vec<Write> {
    let mut writes = release_works(&observed.works);
    writes.push(Write::DeleteNamespace { namespace: namespace.clone() });
    writes
}

pub(super) fn release_works(works: &[WorkFacts<'_>]) -> Vec<Write> {
    let mut held: Vec<_> = works.iter().filter(|work| work.has_finalizer).map(|work| work.name).collect();
    held.sort_unstable();
    held.into_iter().map(|work| Write::RemoveWorkFinalizer { work: work.to_owned() }).collect()
}
