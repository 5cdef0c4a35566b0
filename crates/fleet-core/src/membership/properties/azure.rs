//! Properties under the names of Azure's provider, computed without a call to Azure.
//!
//! Version, certificate authority, namespaces and prices are optional.

use fleet_api::conditions::member::CostCollectionSucceeded;
use fleet_api::time::Time;
use fleet_api::well_known::properties::{
    AZURE_CPU_COST, AZURE_MEMORY_COST, CERTIFICATE_AUTHORITY, KUBERNETES_VERSION, NODE_COUNT, azure_vm_size_count,
};
use jiff::{SignedDuration, Timestamp};

use super::costs::{Costs, costs, nodes_by_size};
use super::namespaces::{NamespaceFacts, namespaces};
use super::prices::{PriceError, PriceFile};
use super::usage::{NodeFacts, PodFacts, usage};
use super::{ProviderAnswer, property};

/// How long the version of the API server may be cached: it changes only with an upgrade.
pub const VERSION_CACHED_FOR: SignedDuration = SignedDuration::from_mins(15);

/// The input of the provider.
#[derive(Debug, Clone, Copy)]
pub struct AzureFacts<'a> {
    pub nodes: &'a [NodeFacts<'a>],
    /// `None`: available resources are not reported.
    pub pods: Option<&'a [PodFacts]>,
    /// `None`: namespaces are not reported.
    pub namespaces: Option<&'a [NamespaceFacts<'a>]>,
    pub version: Option<&'a str>,
    /// The certificate authority of the member's API server, as text.
    pub certificate_authority: Option<&'a str>,
    /// `None`: costs are not reported. An error is reported as such.
    pub prices: Option<Result<&'a PriceFile, &'a PriceError>>,
    /// The region whose prices are used; empty for the region of the first node that has one.
    pub region: &'a str,
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
        let found = prices.map_err(ToString::to_string).and_then(|prices| costs_of(facts, prices, now));
        answer.cost_collection = Some(match found {
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
            Err(error) => CostCollectionSucceeded::Failed { error },
        });
    }
    if let Some(all) = facts.namespaces {
        let (reported, verdict) = namespaces(all);
        answer.namespaces = reported;
        answer.namespace_collection = Some(verdict);
    }
    answer
}

/// Costs by the prices of the cluster's region. A cluster without nodes needs no prices.
fn costs_of(facts: &AzureFacts<'_>, prices: &PriceFile, now: Timestamp) -> Result<Costs, String> {
    let region = match region(facts.region, facts.nodes) {
        Some(region) => region,
        None if facts.nodes.is_empty() => "",
        None => return Err(PriceError::NoRegion.to_string()),
    };
    costs(facts.nodes, &prices.of_region(region), now).map_err(|error| error.to_string())
}

/// The region whose prices are used: the configured one, or that of the first node that has one. Without a region
/// there are no costs.
pub fn region<'a>(configured: &'a str, nodes: &[NodeFacts<'a>]) -> Option<&'a str> {
    if configured.is_empty() { nodes.iter().find_map(|node| node.region) } else { Some(configured) }
}
