//! Whether a member cluster can receive work: joined, sending heartbeats, healthy, not leaving. Reads only the MemberCluster on the
//! hub.

use fleet_api::conditions::member::{AgentHealthy, MemberJoined};
use fleet_api::conditions::{ConditionStatus, decode_ignoring_generation};
use fleet_api::kinds::Member;
use fleet_api::types::AgentType;
use jiff::SignedDuration;
use serde_json::json;

use super::commands::by_hand;
use super::finding::{Finding, ObjectRef};
use super::inputs::{Inputs, ObservedObject, quote};
use super::suggestions::nearest;

/// A member counts as silent after this many missed heartbeats; a single one may be late.
const SILENT_AFTER_HEARTBEATS: i64 = 3;
/// Minimum silence in seconds, whatever the heartbeat period: the hub may be busy.
const SILENT_AFTER_SECONDS: i64 = 30;

/// What is wrong with the member itself. Returns `None` if members could not be read.
pub(super) fn problem(inputs: &Inputs, cluster: &str) -> Option<Finding> {
    let Some(member) = inputs.member(cluster) else {
        return (!inputs.members.is_empty()).then(|| unknown(inputs, cluster));
    };
    leaving(inputs, member)
        .or_else(|| not_joined(member))
        .or_else(|| silent(inputs, member))
        .or_else(|| unhealthy(member))
}

fn unknown(inputs: &Inputs, cluster: &str) -> Finding {
    let reference = ObjectRef::of::<Member>(None, cluster);
    let finding = Finding::error("PL-S2", format!("There is no member cluster {cluster}")).with_evidence(
        &reference,
        "metadata.name",
        "not found",
    );
    match nearest(cluster, inputs.members.iter().map(ObservedObject::name)) {
        Some(near) => finding.because(format!("Did you mean {near}?")),
        None => finding,
    }
}

fn leaving(inputs: &Inputs, member: &ObservedObject<Member>) -> Option<Finding> {
    let since = member.metadata.deletion_timestamp.as_ref()?;
    let finding = Finding::error("PL-W1", format!("Cluster {} is leaving the fleet", member.name()))
        .because("Its namespace on the hub is being deleted, so no Work can be written there.")
        .with_evidence(&member.reference(), "metadata.deletionTimestamp", since.0.to_string());
    let look = inputs.kubectl.get("see what it waits for", &member.reference());
    Some(finding.fix("wait until it has left; it can join again afterwards", vec![look]))
}

fn not_joined(member: &ObservedObject<Member>) -> Option<Finding> {
    let conditions = member.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    let decoded = decode_ignoring_generation::<MemberJoined>(conditions);
    (!decoded.is_true()).then_some(())?;
    let said = decoded.any().map_or("none".to_owned(), quote);
    let finding = Finding::error("PL-Q2", format!("Cluster {} has not joined the fleet", member.name()))
        .because("Its agent has not registered yet, so nothing that is placed on the cluster is applied.")
        .with_evidence(&member.reference(), "status.conditions[Joined]", said);
    Some(finding.fix("start the member's agent", vec![agent_by_hand(member.name())]))
}

/// The agent that applies Works.
fn agent(member: &ObservedObject<Member>) -> Option<&fleet_api::types::AgentStatus> {
    member.status.as_ref()?.observed.agent_status.iter().find(|agent| agent.type_ == AgentType::MemberAgent)
}

fn silent(inputs: &Inputs, member: &ObservedObject<Member>) -> Option<Finding> {
    let heard = agent(member)?.last_received_heartbeat?;
    let period = i64::from(member.spec.heartbeat_period_seconds());
    let patience = period.saturating_mul(SILENT_AFTER_HEARTBEATS).max(SILENT_AFTER_SECONDS);
    let quiet = inputs.now.duration_since(heard.instant());
    (quiet > SignedDuration::from_secs(patience)).then_some(())?;
    let finding = Finding::error(
        "PL-Q2",
        format!("The agent of cluster {} has sent no heartbeat since {heard}", member.name()),
    )
    .because(
        "The agent is not running or cannot reach the hub. Nothing new is applied there, and the status on the hub is out of date.",
    )
    .with_evidence(
        &member.reference(),
        "status.agentStatus[MemberAgent].lastReceivedHeartbeat",
        format!("{heard}, {} s ago; the heartbeat period is {period} s", quiet.as_secs()),
    );
    Some(finding.fix("start the member's agent", vec![agent_by_hand(member.name())]))
}

fn unhealthy(member: &ObservedObject<Member>) -> Option<Finding> {
    let decoded = decode_ignoring_generation::<AgentHealthy>(&agent(member)?.conditions);
    let said = decoded.any().filter(|said| said.status == ConditionStatus::False)?;
    let finding = Finding::error("PL-Q2", format!("The API server of cluster {} is not healthy", member.name()))
        .because("The member's agent is running, but the API server of its cluster reports that it is not healthy.")
        .with_evidence(&member.reference(), "status.agentStatus[MemberAgent].conditions[Healthy]", quote(said));
    Some(finding.fix(
        "fix the member cluster",
        vec![by_hand(format!("see what is wrong with the API server of {}", member.name()))],
    ))
}

fn agent_by_hand(member: &str) -> super::finding::Step {
    by_hand(format!("see whether the member agent of {member} runs, what it logs and whether it reaches the hub"))
}

/// What keeps placements away from a cluster that is otherwise fine.
pub(super) fn tainted(inputs: &Inputs, member: &ObservedObject<Member>) -> Option<Finding> {
    let taints = &member.spec.taints;
    (!taints.is_empty()).then_some(())?;
    let words: Vec<String> =
        taints.iter().map(|taint| format!("{}={}:{:?}", taint.key, taint.value, taint.effect)).collect();
    let finding = Finding::information(
        "PL-Q1",
        format!("Cluster {} is tainted: only placements that tolerate the taints are scheduled to it", member.name()),
    )
    .with_evidence(&member.reference(), "spec.taints", words.join(", "));
    let patch = json!({"spec": {"taints": []}});
    Some(finding.fix("remove the taints", vec![inputs.kubectl.patch("remove all taints", &member.reference(), patch)]))
}
