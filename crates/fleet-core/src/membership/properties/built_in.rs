//! Properties that every agent reports without a property provider. Namespaces are not among them.

use fleet_api::time::Time;
use fleet_api::types::ResourceUsage;
use fleet_api::well_known::properties::{KUBERNETES_VERSION, NODE_COUNT};
use jiff::Timestamp;

use super::property;
use super::usage::{NodeFacts, PodFacts, usage};
use crate::membership::agent::Collected;

/// Number of pods that are counted. Agents without a provider must stay cheap on large clusters, and report too many
/// available resources there. Callers need not list more.
pub const PODS_MAX: usize = 100;

/// `nodes` and `pods` as the cluster lists them; `version` of the API server if it is known.
pub fn built_in(nodes: &[NodeFacts<'_>], pods: &[PodFacts], version: Option<&str>, now: Timestamp) -> Collected {
    let observed_at = Time::new(now);
    let count = property(NODE_COUNT, nodes.len(), observed_at);
    let version = version.map(|version| property(KUBERNETES_VERSION, version, observed_at));
    Collected::BuiltIn {
        properties: [count].into_iter().chain(version).collect(),
        usage: ResourceUsage { observation_time: Some(observed_at), ..usage(nodes, Some(pods.iter().take(PODS_MAX))) },
    }
}
