//! The status of a ClusterProfile: version, access and health from the member's reports.
//!
//! Properties and conditions of other writers stay.

use fleet_api::conditions::member::{AgentHealthy, ControlPlaneHealthy, PropertyCollectionSucceeded};
use fleet_api::conditions::{ConditionState, ConditionStatus, decode, decode_ignoring_generation, put};
use fleet_api::time::Time;
use fleet_api::types::{
    AccessCluster, AccessProvider, AgentType, Base64, ClusterProfileStatus, ClusterVersion, MemberClusterStatus,
};
use fleet_api::well_known::{label_values, properties};
use jiff::{SignedDuration, Timestamp};

use super::observed::{MemberFacts, Settings};
use crate::membership::after;

/// Maximum age of a heartbeat, unless the hub agent is configured otherwise.
const UNHEALTHY_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// Minimum for that age in heartbeat periods, unless configured otherwise: the next heartbeat is due after one period
/// and may be a little late.
const PERIODS_MIN: i32 = 2;

pub(super) fn update(
    before: Option<&ClusterProfileStatus>,
    member: &MemberFacts<'_>,
    health: &ControlPlaneHealthy,
    generation: i64,
    now: Timestamp,
) -> ClusterProfileStatus {
    let mut status = before.cloned().unwrap_or_default();
    let collected = decode::<PropertyCollectionSucceeded>(member.conditions(), member.generation).is_true();
    let version = member.status.and_then(|reported| reported.observed.properties.get(properties::KUBERNETES_VERSION));
    // Without a property provider there is no collection condition, but the agent still reports the version.
    let has_provider = decode_ignoring_generation::<PropertyCollectionSucceeded>(member.conditions()).any().is_some();
    if collected || (!has_provider && version.is_some()) {
        status.version = version.map(|property| ClusterVersion { kubernetes: property.value.clone() });
    }
    if let Some(reported) = member.status.filter(|_| collected) {
        status.access_providers = vec![access(reported)];
    }
    put(&mut status.conditions, health.finding(generation), now);
    status
}

fn access(reported: &MemberClusterStatus) -> AccessProvider {
    let property = |name| reported.observed.properties.get(name).map(|property| property.value.as_str());
    let authority = property(properties::CERTIFICATE_AUTHORITY).filter(|text| !text.is_empty());
    AccessProvider {
        name: label_values::CLUSTER_MANAGER.to_owned(),
        cluster: Some(AccessCluster {
            server: property(properties::ENTRYPOINT).unwrap_or_default().to_owned(),
            certificate_authority_data: authority.map(|text| Base64(text.as_bytes().to_vec())),
            ..AccessCluster::default()
        }),
    }
}

/// The health of the member's API server, and when it changes if no heartbeat arrives.
pub(super) fn health(
    member: &MemberFacts<'_>,
    settings: Settings,
    now: Timestamp,
) -> (ControlPlaneHealthy, Option<Timestamp>) {
    let mut agents = member.status.iter().flat_map(|status| &status.observed.agent_status);
    let Some(agent) = agents.find(|agent| agent.type_ == AgentType::MemberAgent) else {
        return (ControlPlaneHealthy::NoStatus, None);
    };
    let Some(health) = decode_ignoring_generation::<AgentHealthy>(&agent.conditions).any() else {
        return (ControlPlaneHealthy::HealthMissing, None);
    };
    let lost_at = agent.last_received_heartbeat.map(Time::instant);
    let lost_at = lost_at.map(|heartbeat| after(heartbeat, lost_after(member, settings)));
    if lost_at.is_none_or(|lost_at| now >= lost_at) {
        return (ControlPlaneHealthy::HeartbeatLost, None);
    }
    let verdict = match health.status {
        ConditionStatus::Unknown => ControlPlaneHealthy::HealthUnknown,
        ConditionStatus::False => ControlPlaneHealthy::Unhealthy,
        ConditionStatus::True => ControlPlaneHealthy::Healthy,
    };
    (verdict, lost_at)
}

/// A configured limit is used as it is, even if every heartbeat that is a second late then counts as lost.
fn lost_after(member: &MemberFacts<'_>, settings: Settings) -> SignedDuration {
    settings.unhealthy_after.unwrap_or_else(|| UNHEALTHY_AFTER.max(member.heartbeat_period.saturating_mul(PERIODS_MIN)))
}
