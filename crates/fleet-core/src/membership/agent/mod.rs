//! How a member's agent joins, stays heard of, and leaves.
//!
//! Decides from the mailbox on the hub, the Works beside it and what the agent itself remembers: when to look at the
//! cluster again, what the report to the hub says, and when to stop. Heartbeats are instants to wake at. Never talks to
//! anyone: whoever carries out `TakeSounding` asks the cluster and puts the answer into the agent's memory, from which the
//! next plan makes the report. Looking is the one write whose result no plan can know beforehand.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts, what is remembered among them |
//! | `beat` | when to look again |
//! | `status` | what the report says |
//! | `report` | what was found out, as values |

mod beat;
mod observed;
mod report;
mod status;

use fleet_api::conditions::member::AgentJoined;
use fleet_api::types::{ClusterState, InternalMemberClusterStatus};
use jiff::Timestamp;

pub use beat::{FIRST_RETRY_AFTER, next_beat};
pub use observed::{
    Collected, MailboxFacts, Memory, Method, Observed, Order, Probe, Setback, Sounding, WorkFacts, collection_method,
};
pub use report::{Outcome, Report};

use crate::plan::{self, ObjectWrite, Wake};

/// The property provider has this long to start, once per agent process; without it the built-in method is used.
pub const PROVIDER_START_DEADLINE: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);
/// The property provider has this long to answer, so that it cannot hold up a heartbeat.
pub const COLLECTION_DEADLINE: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);
/// So many calls to the provider may be without an answer; more would only pile up behind one that hangs.
pub const OUTSTANDING_COLLECTIONS_MAX: usize = 3;

pub type Plan = plan::Plan<Write, InternalMemberClusterStatus, Report>;

/// One act of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// From now on Works are applied.
    StartApplier,
    /// From now on Works are left alone.
    StopApplier,
    /// Asks the API server for its health and collects properties.
    TakeSounding,
    /// Takes the agent's finalizer from a Work, so that what it placed stays when it goes.
    ReleaseWork { work: String },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::StartApplier | Write::StopApplier => ("applier", ""),
            Write::TakeSounding => ("sounding", ""),
            Write::ReleaseWork { work } => ("work", work),
        }
    }

    fn is_deletion(&self) -> bool {
        false
    }
}

/// What to do so that the agent is where the hub wants it and the hub knows how the cluster is.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = match observed.mailbox.as_ref().map(|mailbox| (mailbox, mailbox.state)) {
        None => Plan::nothing(Report::of(Outcome::NoMailbox)),
        Some((mailbox, ClusterState::Join)) => join(observed, mailbox, now),
        Some((mailbox, ClusterState::Leave)) => leave(observed, mailbox, now),
        Some((_, ClusterState::Other(word))) => Plan::nothing(Report::of(Outcome::UnknownState(word.clone()))),
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn join(observed: &Observed<'_>, mailbox: &MailboxFacts<'_>, now: Timestamp) -> Plan {
    let memory = observed.memory;
    let start = (!memory.applier_running).then_some(Write::StartApplier);
    if let Some((setback, retry_at)) = beat::setback(memory, mailbox, now).filter(|_| start.is_some()) {
        let failed = AgentJoined::FailedToJoin { error: setback.error.clone() };
        return await_retry(mailbox, setback, retry_at, &failed, now);
    }
    let mut plan = Plan::nothing(Report::of(Outcome::SoundingDue));
    plan.writes.extend(start);
    match memory.sounding.as_ref().and_then(|sounding| beat::valid_until(sounding, mailbox, observed.seed, now)) {
        None => plan.writes.push(Write::TakeSounding),
        Some((sounding, next_beat)) => {
            plan.status = status::heartbeat(mailbox, sounding, now).publish(mailbox, &mut plan.report);
            plan.report.outcome = Outcome::Joined { healthy: sounding.probe.is_healthy(), next_beat };
            plan.wake = Wake::At(next_beat);
        }
    }
    plan
}

fn leave(observed: &Observed<'_>, mailbox: &MailboxFacts<'_>, now: Timestamp) -> Plan {
    let memory = observed.memory;
    let mut works: Vec<_> = observed.works.iter().filter(|work| work.held).map(|work| work.name).collect();
    works.sort_unstable();
    let stop = memory.applier_running.then_some(Write::StopApplier);
    let release = works.into_iter().map(|work| Write::ReleaseWork { work: work.to_owned() });
    let writes: Vec<_> = stop.into_iter().chain(release).collect();
    if let Some((setback, retry_at)) = beat::setback(memory, mailbox, now).filter(|_| !writes.is_empty()) {
        let failed = AgentJoined::FailedToLeave { error: setback.error.clone() };
        return await_retry(mailbox, setback, retry_at, &failed, now);
    }
    let mut plan = Plan::nothing(Report::of(Outcome::Left));
    plan.writes = writes;
    plan.status = status::joined(mailbox, &AgentJoined::Left, now).publish(mailbox, &mut plan.report);
    plan
}

/// Says what went wrong, and waits until it is time to try again.
fn await_retry(
    mailbox: &MailboxFacts<'_>,
    setback: &Setback,
    retry_at: Timestamp,
    failed: &AgentJoined,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::nothing(Report::of(Outcome::SetBack { error: setback.error.clone(), retry_at }));
    plan.status = status::joined(mailbox, failed, now).publish(mailbox, &mut plan.report);
    plan.wake = Wake::At(retry_at);
    plan
}
