//! What an inventory entry says of its cluster.
//!
//! Decides version, way of access and health from what the member reported. Properties and further conditions that others
//! put there stay. Never decides whether there is an entry.

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

/// How old a heartbeat may be unless the hub agent is told otherwise.
const UNHEALTHY_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// So many periods it may be old at least, unless told otherwise: the next one is due only after a period, and may come
/// a little late.
const PERIODS_MIN: i32 = 2;

pub(super) fn tell(
    before: Option<&ClusterProfileStatus>,
    member: &MemberFacts<'_>,
    health: &ControlPlaneHealthy,
    generation: i64,
    now: Timestamp,
) -> ClusterProfileStatus {
    let mut status = before.cloned().unwrap_or_default();
    let collected = decode::<PropertyCollectionSucceeded>(member.conditions(), member.generation).is_true();
    if let Some(reported) = member.status.filter(|_| collected) {
        let property = |name| reported.observed.properties.get(name).map(|property| property.value.clone());
        status.version = property(properties::KUBERNETES_VERSION).map(|kubernetes| ClusterVersion { kubernetes });
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

/// How the member's API server is, as far as the hub can know, and when silence alone changes that.
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

/// What the hub agent is told counts as it stands, also where every heartbeat that comes a second late is then lost.
fn lost_after(member: &MemberFacts<'_>, settings: Settings) -> SignedDuration {
    settings.unhealthy_after.unwrap_or_else(|| UNHEALTHY_AFTER.max(member.heartbeat_period * PERIODS_MIN))
}
