//! Whether a member cluster can take anything: joined, heard of, healthy, not leaving.
//!
//! Decides from the hub's MemberCluster alone. Never asks the member.

use fleet_api::conditions::member::{AgentHealthy, MemberJoined};
use fleet_api::conditions::{ConditionStatus, decode_ignoring_generation};
use fleet_api::kinds::Member;
use fleet_api::types::AgentType;
use jiff::SignedDuration;
use serde_json::json;

use super::commands::by_hand;
use super::finding::{Finding, ObjectRef};
use super::picture::{Picture, Seen, quote};
use super::similar::nearest;

/// A member that has not been heard of for so many heartbeats is silent; one may be late.
const SILENT_AFTER_HEARTBEATS: i64 = 3;
/// However short its heartbeats are, a member may be quiet for so long, in seconds: the hub is busy, too.
const SILENT_AFTER_SECONDS: i64 = 30;

/// What is wrong with the member itself. Says nothing if members could not be read.
pub(super) fn trouble(picture: &Picture, cluster: &str) -> Option<Finding> {
    let Some(member) = picture.member(cluster) else {
        return (!picture.members.is_empty()).then(|| unknown(picture, cluster));
    };
    leaving(picture, member)
        .or_else(|| not_joined(member))
        .or_else(|| silent(picture, member))
        .or_else(|| unhealthy(member))
}

fn unknown(picture: &Picture, cluster: &str) -> Finding {
    let reference = ObjectRef::of::<Member>(None, cluster);
    let finding = Finding::error("PL-S2", format!("There is no member cluster {cluster}")).seen(
        &reference,
        "metadata.name",
        "not found",
    );
    match nearest(cluster, picture.members.iter().map(Seen::name)) {
        Some(near) => finding.because(format!("Perhaps {near} is meant.")),
        None => finding,
    }
}

fn leaving(picture: &Picture, member: &Seen<Member>) -> Option<Finding> {
    let since = member.metadata.deletion_timestamp.as_ref()?;
    let finding = Finding::error("PL-W1", format!("Cluster {} is leaving the fleet", member.name()))
        .because("Its namespace on the hub goes, so no Work can be written there.")
        .seen(&member.reference(), "metadata.deletionTimestamp", since.0.to_string());
    let look = picture.kubectl.look("see what it waits for", &member.reference());
    Some(finding.fix("wait until it is gone, or let it join again afterwards", vec![look]))
}

fn not_joined(member: &Seen<Member>) -> Option<Finding> {
    let conditions = member.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    let decoded = decode_ignoring_generation::<MemberJoined>(conditions);
    (!decoded.is_true()).then_some(())?;
    let said = decoded.any().map_or("none".to_owned(), quote);
    let finding = Finding::error("PL-Q2", format!("Cluster {} has not joined the fleet", member.name()))
        .because("Its agent has not come forward yet, so nothing that is placed on it is applied.")
        .seen(&member.reference(), "status.conditions[Joined]", said);
    Some(finding.fix("start the member's agent", vec![agent_by_hand(member.name())]))
}

/// The one agent that applies Works.
fn agent(member: &Seen<Member>) -> Option<&fleet_api::types::AgentStatus> {
    member.status.as_ref()?.observed.agent_status.iter().find(|agent| agent.type_ == AgentType::MemberAgent)
}

fn silent(picture: &Picture, member: &Seen<Member>) -> Option<Finding> {
    let heard = agent(member)?.last_received_heartbeat?;
    let period = i64::from(member.spec.heartbeat_period_seconds());
    let patience = (period * SILENT_AFTER_HEARTBEATS).max(SILENT_AFTER_SECONDS);
    let quiet = picture.now.duration_since(heard.instant());
    (quiet > SignedDuration::from_secs(patience)).then_some(())?;
    let finding = Finding::error(
        "PL-Q2",
        format!("The agent of cluster {} has not been heard of since {heard}", member.name()),
    )
    .because(
        "It does not run or cannot reach the hub. Nothing new is applied there, and what the hub knows of it is old.",
    )
    .seen(
        &member.reference(),
        "status.agentStatus[MemberAgent].lastReceivedHeartbeat",
        format!("{heard}, {} s ago; every {period} s is usual", quiet.as_secs()),
    );
    Some(finding.fix("start the member's agent", vec![agent_by_hand(member.name())]))
}

fn unhealthy(member: &Seen<Member>) -> Option<Finding> {
    let decoded = decode_ignoring_generation::<AgentHealthy>(&agent(member)?.conditions);
    let said = decoded.any().filter(|said| said.status == ConditionStatus::False)?;
    let finding = Finding::error("PL-Q2", format!("The API server of cluster {} is not healthy", member.name()))
        .because("The member's agent runs, but its cluster does not answer as it should.")
        .seen(&member.reference(), "status.agentStatus[MemberAgent].conditions[Healthy]", quote(said));
    Some(finding.fix(
        "mend the member cluster",
        vec![by_hand(format!("see what is wrong with the API server of {}", member.name()))],
    ))
}

fn agent_by_hand(member: &str) -> super::finding::Step {
    by_hand(format!("see whether the member agent of {member} runs, what it logs and whether it reaches the hub"))
}

/// What keeps placements away from a cluster that is otherwise fine.
pub(super) fn tainted(picture: &Picture, member: &Seen<Member>) -> Option<Finding> {
    let taints = &member.spec.taints;
    (!taints.is_empty()).then_some(())?;
    let words: Vec<String> =
        taints.iter().map(|taint| format!("{}={}:{:?}", taint.key, taint.value, taint.effect)).collect();
    let finding = Finding::information(
        "PL-Q1",
        format!("Cluster {} is tainted: only placements that tolerate it come here", member.name()),
    )
    .seen(&member.reference(), "spec.taints", words.join(", "));
    let patch = json!({"spec": {"taints": []}});
    Some(
        finding.fix(
            "take the taints away",
            vec![picture.kubectl.patch("take all taints away", &member.reference(), patch)],
        ),
    )
}
