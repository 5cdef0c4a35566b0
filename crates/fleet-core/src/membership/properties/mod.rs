//! Computes the properties of a member cluster from lists of its nodes, pods and namespaces.
//!
//! Nothing is kept between two collections, so nothing can go stale.
//!
//! | file | what |
//! |---|---|
//! | `usage` | sums over nodes and pods |
//! | `built_in` | properties without a provider |
//! | `namespaces` | which namespaces are reported, with their owners |
//! | `azure`, `costs` | properties of the Azure provider, and costs |
//! | `prices` | the price file |

mod azure;
mod built_in;
mod costs;
mod namespaces;
mod prices;
mod usage;

use std::collections::BTreeMap;

use fleet_api::conditions::member::{CostCollectionSucceeded, NamespaceCollectionSucceeded};
use fleet_api::conditions::{ConditionState, Finding};
use fleet_api::time::Time;
use fleet_api::types::{PropertyValue, ResourceUsage};

pub use azure::{AzureFacts, VERSION_CACHED_FOR, azure, region};
pub use built_in::{PODS_MAX, built_in};
pub use costs::{CostError, Costs, PRICES_STALE_AFTER, PriceList, costs};
pub use namespaces::{NAMESPACES_MAX, NamespaceFacts, namespaces};
pub use prices::{PRICE_FILE_BYTES_MAX, PriceError, PriceFile};
pub use usage::{NodeFacts, PodFacts};

/// The complete answer of a property provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderAnswer {
    pub properties: BTreeMap<String, PropertyValue>,
    pub usage: ResourceUsage,
    pub namespaces: BTreeMap<String, String>,
    /// `None` where namespaces are not collected.
    pub namespace_collection: Option<NamespaceCollectionSucceeded>,
    /// `None` where costs are not collected.
    pub cost_collection: Option<CostCollectionSucceeded>,
}

impl ProviderAnswer {
    /// The provider's own conditions for an object of this generation.
    pub fn findings(&self, generation: i64) -> Vec<Finding> {
        let namespaces = self.namespace_collection.as_ref().map(|state| state.finding(generation));
        let costs = self.cost_collection.as_ref().map(|state| state.finding(generation));
        namespaces.into_iter().chain(costs).collect()
    }
}

fn property(name: &str, value: impl ToString, observed_at: Time) -> (String, PropertyValue) {
    (name.to_owned(), PropertyValue { value: value.to_string(), observation_time: observed_at })
}
