//! What the Azure provider tells of a cluster.
//!
//! Decides the properties from what it is given: nodes, pods, namespaces, version, certificate authority and prices, each
//! of the last four only where it is collected. Never calls a cloud.

use fleet_api::conditions::member::CostCollectionSucceeded;
use fleet_api::time::Time;
use fleet_api::well_known::properties::{
    AZURE_CPU_COST, AZURE_MEMORY_COST, CERTIFICATE_AUTHORITY, KUBERNETES_VERSION, NODE_COUNT, azure_vm_size_count,
};
use jiff::{SignedDuration, Timestamp};

use super::costs::{PriceList, costs, nodes_by_size};
use super::namespaces::{NamespaceFacts, namespaces};
use super::usage::{NodeFacts, PodFacts, usage};
use super::{ProviderAnswer, property};

/// The version of the API server need not be asked for more often: it changes with an upgrade.
pub const VERSION_CACHED_FOR: SignedDuration = SignedDuration::from_mins(15);

/// What the provider is given.
#[derive(Debug, Clone, Copy)]
pub struct AzureFacts<'a> {
    pub nodes: &'a [NodeFacts<'a>],
    /// `None`: what is free is not told.
    pub pods: Option<&'a [PodFacts]>,
    /// `None`: namespaces are not told.
    pub namespaces: Option<&'a [NamespaceFacts<'a>]>,
    pub version: Option<&'a str>,
    /// As text, from whatever the agent trusts its cluster by.
    pub certificate_authority: Option<&'a str>,
    /// `None`: costs are not told.
    pub prices: Option<&'a PriceList>,
}

pub fn azure(facts: &AzureFacts<'_>, now: Timestamp) -> ProviderAnswer {
    let at = Time::new(now);
    let mut answer =
        ProviderAnswer { usage: usage(facts.nodes, facts.pods.map(<[_]>::iter)), ..ProviderAnswer::default() };
    let properties = &mut answer.properties;
    properties.extend([property(NODE_COUNT, facts.nodes.len(), at)]);
    properties.extend(facts.version.map(|version| property(KUBERNETES_VERSION, version, at)));
    properties.extend(facts.certificate_authority.map(|text| property(CERTIFICATE_AUTHORITY, text, at)));
    for (size, count) in nodes_by_size(facts.nodes) {
        properties.extend([property(&azure_vm_size_count(size), count, at)]);
    }
    if let Some(prices) = facts.prices {
        answer.cost_collection = Some(match costs(facts.nodes, prices, now) {
            Ok(costs) => {
                properties.extend([property(AZURE_CPU_COST, format!("{:.3}", costs.per_core), at)]);
                properties.extend([property(AZURE_MEMORY_COST, format!("{:.3}", costs.per_gigabyte), at)]);
                let warnings = costs.warnings.join(" ");
                if warnings.is_empty() {
                    CostCollectionSucceeded::Calculated
                } else {
                    CostCollectionSucceeded::Degraded { warnings }
                }
            }
            Err(error) => CostCollectionSucceeded::Failed { error: error.to_string() },
        });
    }
    if let Some(all) = facts.namespaces {
        let (told, verdict) = namespaces(all);
        answer.namespaces = told;
        answer.namespace_collection = Some(verdict);
    }
    answer
}

/// The region whose prices count: the one that is configured, else that of the first node that has one. Costs cannot be
/// told without.
pub fn region<'a>(configured: &'a str, nodes: &[NodeFacts<'a>]) -> Option<&'a str> {
    if configured.is_empty() { nodes.iter().find_map(|node| node.region) } else { Some(configured) }
}
