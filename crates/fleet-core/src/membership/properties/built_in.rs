//! What every agent can tell of its cluster, without a property provider.
//!
//! Decides the properties and the usage from nodes and pods. Never tells namespaces.

use fleet_api::time::Time;
use fleet_api::types::ResourceUsage;
use fleet_api::well_known::properties::{KUBERNETES_VERSION, NODE_COUNT};
use jiff::Timestamp;

use super::property;
use super::usage::{NodeFacts, PodFacts, usage};
use crate::membership::agent::Collected;

/// So many pods of a list are looked at: agents without a provider must stay cheap on large clusters, at the price of
/// telling too much free room there. Whoever lists need not ask for more.
pub const PODS_MAX: usize = 100;

/// Nodes and pods as the cluster lists them, and the version of its API server where it is known.
pub fn built_in(nodes: &[NodeFacts<'_>], pods: &[PodFacts], version: Option<&str>, now: Timestamp) -> Collected {
    let observed_at = Time::new(now);
    let count = property(NODE_COUNT, nodes.len(), observed_at);
    let version = version.map(|version| property(KUBERNETES_VERSION, version, observed_at));
    Collected::BuiltIn {
        properties: [count].into_iter().chain(version).collect(),
        usage: ResourceUsage { observation_time: Some(observed_at), ..usage(nodes, Some(pods.iter().take(PODS_MAX))) },
    }
}
