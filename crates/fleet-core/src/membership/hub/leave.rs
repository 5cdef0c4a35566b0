//! How a member leaves.
//!
//! Decides whom to ask, how long to wait, and when what the member has on the hub is taken away. What was placed on the
//! cluster stays there: its Works lose their finalizers before they go, so that nobody cleans up after them. Never lets
//! the MemberCluster go before its namespace is gone.

use fleet_api::conditions::events::MemberClusterEvent;
use fleet_api::conditions::member::MemberJoined;
use fleet_api::names::MemberNamespace;
use fleet_api::time::Time;
use fleet_api::types::ClusterState;
use jiff::{SignedDuration, Timestamp};

use super::belongings::Mailbox;
use super::observed::{MailboxFacts, NamespaceFacts, Observed};
use super::report::{Clearance, Leaving, Outcome, Report};
use super::{Plan, Write, status};
use crate::membership::after;
use crate::plan::Wake;

/// A namespace without finalizers of its own goes within seconds; one that takes this long needs a person.
pub const NAMESPACE_STUCK_AFTER: SignedDuration = SignedDuration::from_mins(15);

pub(super) fn plan(observed: &Observed<'_>, leaving_since: Timestamp, now: Timestamp) -> Plan {
    if !observed.member.held {
        return at(Leaving::NotHeld);
    }
    // A member that can have no namespace has none to wait for.
    let Ok(namespace) = MemberNamespace::of(observed.member.name) else { return release() };
    match (observed.namespace, observed.mailbox) {
        (NamespaceFacts::Missing, _) => release(),
        (NamespaceFacts::Terminating { since }, _) => await_namespace(observed, since, now),
        (NamespaceFacts::Present { .. }, None) => {
            let mut plan = at(Leaving::Clearing(Clearance::NoMailbox));
            plan.writes = clear(observed, &namespace);
            plan
        }
        (NamespaceFacts::Present { .. }, Some(mailbox)) => {
            await_agent(observed, &namespace, mailbox, leaving_since, now)
        }
    }
}

fn at(leaving: Leaving) -> Plan {
    Plan::nothing(Report::of(Outcome::Leaving(leaving)))
}

fn release() -> Plan {
    let mut plan = at(Leaving::Released);
    plan.writes.push(Write::ReleaseMember);
    plan
}

/// Works that come to light only now must not keep the namespace either.
fn await_namespace(observed: &Observed<'_>, since: Timestamp, now: Timestamp) -> Plan {
    let stuck_at = after(since, NAMESPACE_STUCK_AFTER);
    let stuck = now >= stuck_at;
    let mut plan = at(Leaving::AwaitingNamespace { since, stuck });
    plan.writes = release_works(observed);
    if observed.mailbox.is_some() {
        plan.status = status::tell(observed, None, now).publish(observed, &mut plan.report);
    }
    plan.wake = if stuck { Wake::OnChange } else { Wake::At(stuck_at) };
    plan
}

fn await_agent(
    observed: &Observed<'_>,
    namespace: &MemberNamespace,
    mailbox: MailboxFacts<'_>,
    leaving_since: Timestamp,
    now: Timestamp,
) -> Plan {
    let told = status::tell(observed, None, now);
    let asked_at = asked_at(mailbox, leaving_since);
    // What cannot be noted must not be counted from.
    let from_now = Time::new(now).instant().max(leaving_since);
    let forced_at = after(asked_at.unwrap_or(from_now), observed.settings.force_delete_after);
    let clearance = match told.joined {
        MemberJoined::Left => Some(Clearance::AgentsLeft),
        _ => (asked_at.is_some() && now >= forced_at).then_some(Clearance::Forced),
    };
    let mut plan = at(clearance.map_or(Leaving::AwaitingAgent { forced_at }, Leaving::Clearing));
    match clearance {
        Some(_) => plan.writes = clear(observed, namespace),
        None => plan.wake = Wake::At(forced_at),
    }
    if clearance.is_none() && asked_at.is_none() {
        let order = Mailbox::to_leave(&observed.member, namespace, mailbox.spec, now);
        plan.writes.push(Write::UpdateMailbox(order));
        plan.report.events.push(MemberClusterEvent::InternalMemberClusterSpecUpdated);
    }
    plan.status = told.publish(observed, &mut plan.report);
    plan
}

/// Since when the agent knows that it shall leave. Nobody is let go by force who was not asked: a healthy agent that has
/// not heard of it, as after a hub was away, would take what its Works placed off the cluster.
fn asked_at(mailbox: MailboxFacts<'_>, leaving_since: Timestamp) -> Option<Timestamp> {
    let noted = mailbox.asked_to_leave_at.unwrap_or(leaving_since);
    (mailbox.spec.state == ClusterState::Leave).then_some(noted.max(leaving_since))
}

fn clear(observed: &Observed<'_>, namespace: &MemberNamespace) -> Vec<Write> {
    let mut writes = release_works(observed);
    writes.push(Write::DeleteNamespace { namespace: namespace.clone() });
    writes
}

fn release_works(observed: &Observed<'_>) -> Vec<Write> {
    let mut held: Vec<_> = observed.works.iter().filter(|work| work.held).map(|work| work.name).collect();
    held.sort_unstable();
    held.into_iter().map(|work| Write::ReleaseWork { work: work.to_owned() }).collect()
}
