//! How a member agent joins the fleet, sends heartbeats, and leaves.
//!
//! The result of `CollectHeartbeat` is not known when the plan is made. Its executor stores the result in the agent's
//! memory, and the next plan reports it.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts, including the agent's memory |
//! | `heartbeat` | when the next heartbeat is due |
//! | `status` | the status of the InternalMemberCluster |
//! | `report` | the result of a plan as values |

mod heartbeat;
mod observed;
mod report;
mod status;

use fleet_api::conditions::member::AgentJoined;
use fleet_api::types::{ClusterState, InternalMemberClusterStatus};
use jiff::Timestamp;

pub use heartbeat::{FIRST_RETRY_AFTER, next_heartbeat};
pub use observed::{
    Collected, Failure, Heartbeat, InternalMemberClusterFacts, Memory, Method, Observed, Probe, SpecGeneration,
    WorkFacts, collection_method,
};
pub use report::{AgentOutcome, Report};

use crate::plan::{self, ObjectWrite, Wake};

/// Time in which the property provider must start, once per agent process. After that the built-in method is used.
pub const PROVIDER_START_DEADLINE: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);
/// Time in which the property provider must answer, so that it cannot delay a heartbeat.
pub const COLLECTION_DEADLINE: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);
/// Calls to the provider that may be outstanding. More would only pile up behind one that hangs.
pub const OUTSTANDING_COLLECTIONS_MAX: usize = 3;

pub type Plan = plan::Plan<Write, InternalMemberClusterStatus, Report>;

/// One action of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Starts applying Works.
    StartApplier,
    /// Stops applying Works.
    StopApplier,
    /// Probes the health of the API server and collects properties.
    CollectHeartbeat,
    /// Removes the agent's finalizer from a Work, so that the placed objects stay when the Work is deleted.
    RemoveWorkFinalizer { work: String },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::StartApplier | Write::StopApplier => ("applier", ""),
            Write::CollectHeartbeat => ("heartbeat", ""),
            Write::RemoveWorkFinalizer { work } => ("work", work),
        }
    }

    fn is_deletion(&self) -> bool {
        false
    }
}

/// Brings the agent to the state that the hub requests, and reports the state of the cluster to the hub.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = match observed
        .internal_member_cluster
        .as_ref()
        .map(|internal_member_cluster| (internal_member_cluster, internal_member_cluster.state))
    {
        None => Plan::nothing(Report::of(AgentOutcome::NoInternalMemberCluster)),
        Some((internal_member_cluster, ClusterState::Join)) => join(observed, internal_member_cluster, now),
        Some((internal_member_cluster, ClusterState::Leave)) => leave(observed, internal_member_cluster, now),
        Some((_, ClusterState::Other(word))) => Plan::nothing(Report::of(AgentOutcome::UnknownState(word.clone()))),
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn join(observed: &Observed<'_>, internal_member_cluster: &InternalMemberClusterFacts<'_>, now: Timestamp) -> Plan {
    let memory = observed.memory;
    let start = (!memory.applier_running).then_some(Write::StartApplier);
    if let Some((failure, retry_at)) =
        heartbeat::failure(memory, internal_member_cluster, now).filter(|_| start.is_some())
    {
        let failed = AgentJoined::FailedToJoin { error: failure.error.clone() };
        return await_retry(internal_member_cluster, failure, retry_at, &failed, now);
    }
    let mut plan = Plan::nothing(Report::of(AgentOutcome::HeartbeatDue));
    plan.writes.extend(start);
    match memory
        .heartbeat
        .as_ref()
        .and_then(|heartbeat| heartbeat::valid_until(heartbeat, internal_member_cluster, observed.seed, now))
    {
        None => plan.writes.push(Write::CollectHeartbeat),
        Some((heartbeat, next_heartbeat)) => {
            plan.status = status::heartbeat(internal_member_cluster, heartbeat, now)
                .publish(internal_member_cluster, &mut plan.report);
            plan.report.outcome = AgentOutcome::Joined { healthy: heartbeat.probe.is_healthy(), next_heartbeat };
            plan.wake = Wake::At(next_heartbeat);
        }
    }
    plan
}

fn leave(observed: &Observed<'_>, internal_member_cluster: &InternalMemberClusterFacts<'_>, now: Timestamp) -> Plan {
    let memory = observed.memory;
    let mut works: Vec<_> = observed.works.iter().filter(|work| work.has_finalizer).map(|work| work.name).collect();
    works.sort_unstable();
    let stop = memory.applier_running.then_some(Write::StopApplier);
    let release = works.into_iter().map(|work| Write::RemoveWorkFinalizer { work: work.to_owned() });
    let writes: Vec<_> = stop.into_iter().chain(release).collect();
    if let Some((failure, retry_at)) =
        heartbeat::failure(memory, internal_member_cluster, now).filter(|_| !writes.is_empty())
    {
        let failed = AgentJoined::FailedToLeave { error: failure.error.clone() };
        return await_retry(internal_member_cluster, failure, retry_at, &failed, now);
    }
    let mut plan = Plan::nothing(Report::of(AgentOutcome::Left));
    plan.writes = writes;
    plan.status = status::joined(internal_member_cluster, &AgentJoined::Left, now)
        .publish(internal_member_cluster, &mut plan.report);
    plan
}

/// Reports the failure and waits for the next attempt.
fn await_retry(
    internal_member_cluster: &InternalMemberClusterFacts<'_>,
    failure: &Failure,
    retry_at: Timestamp,
    failed: &AgentJoined,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::nothing(Report::of(AgentOutcome::AwaitingRetry { error: failure.error.clone(), retry_at }));
    plan.status =
        status::joined(internal_member_cluster, failed, now).publish(internal_member_cluster, &mut plan.report);
    plan.wake = Wake::At(retry_at);
    plan
}
