//! The options that the member agent's flags and environment set.

use std::path::PathBuf;
use std::sync::Arc;

use fleet_api::names::{ClusterName, MemberNamespace, NameError};
use fleet_core::apply::availability::Tracking;
use fleet_core::apply::budget::Limit;
use fleet_core::apply::finalize::STUCK_AFTER;
use fleet_core::apply::policy::Policy;
use fleet_core::apply::priority::PriorityDecay;
use fleet_core::apply::requeue::RequeueBackoff;
use jiff::SignedDuration;

use crate::provider::PropertyProvider;

/// Options of a member agent.
#[derive(Debug, Clone)]
pub struct MemberOptions {
    /// `MEMBER_CLUSTER_NAME`: the name of its MemberCluster.
    pub cluster: ClusterName,
    /// Its namespace on the hub.
    pub(crate) namespace: MemberNamespace,
    /// `--property-provider`.
    pub properties: Properties,
    pub applier: ApplierOptions,
}

impl MemberOptions {
    /// An agent with the built-in properties.
    pub fn new(cluster: &str) -> Result<Self, NameError> {
        let cluster = ClusterName::parse(cluster)?;
        let namespace = MemberNamespace::of(&cluster)?;
        Ok(Self { cluster, namespace, properties: Properties::default(), applier: ApplierOptions::default() })
    }

    /// An agent that does not apply Works, for callers with an applier of their own.
    #[must_use]
    pub fn without_applier(mut self) -> Self {
        self.applier.enabled = false;
        self
    }

    #[must_use]
    pub fn with_applier(mut self, applier: ApplierOptions) -> Self {
        self.applier = applier;
        self
    }

    #[must_use]
    pub fn with_properties(mut self, properties: Properties) -> Self {
        self.properties = properties;
        self
    }
}

/// Options of the work applier.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplierOptions {
    pub enabled: bool,
    /// Works that are applied at the same time.
    pub works_at_once: usize,
    /// `--work-applier-requeue-rate-limiter-…`: when objects that are not watched are read again.
    pub requeue_backoff: RequeueBackoff,
    /// `--enable-work-applier-priority-queue` with its two factors: healthy Works come after others, older ones
    /// later. `None` is first come, first served.
    pub priority_decay: Option<PriorityDecay>,
    /// `--deletion-wait-time`: after this time, the agent unblocks a deletion that does not end.
    pub stuck_after: SignedDuration,
    /// Maximum number of deletions per minute.
    pub deletions: Limit,
    pub tracking: Tracking,
    /// `--allowed-namespaces` and related flags: what this member accepts from the hub.
    pub policy: Policy,
    /// Maximum number of watched kinds; objects of other kinds are read again after the requeue backoff.
    pub watched_kinds: usize,
}

impl Default for ApplierOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            works_at_once: 5,
            requeue_backoff: RequeueBackoff::default(),
            priority_decay: None,
            stuck_after: STUCK_AFTER,
            deletions: Limit::default(),
            tracking: Tracking::default(),
            policy: Policy::default(),
            watched_kinds: usize::MAX,
        }
    }
}

/// Which properties of the cluster are reported.
#[derive(Debug, Clone, Default)]
pub enum Properties {
    /// Number of nodes, version, CPU and memory; available amounts are computed from the first pods of a list.
    #[default]
    BuiltIn,
    /// The provider that comes with the agent.
    Provider(ProviderOptions),
    /// Another provider.
    PlugIn(Arc<dyn PropertyProvider>),
}

impl Properties {
    pub(crate) fn provider(&self) -> Option<Arc<dyn PropertyProvider>> {
        match self {
            Self::BuiltIn => None,
            Self::Provider(provider) => Some(Arc::new(provider.clone())),
            Self::PlugIn(provider) => Some(provider.clone()),
        }
    }
}

/// What the provider reports besides nodes, machine sizes, version and usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderOptions {
    /// `--use-available-res-properties-in-azure-provider`: available amounts, computed from all pods.
    pub available_resources: bool,
    /// `--enable-namespace-collection-in-property-provider`.
    pub namespaces: bool,
    /// The certificate authority of the member's API server, as text.
    pub certificate_authority: Option<String>,
    /// `--use-cost-properties-in-azure-provider`: costs of a core and a gigabyte; `None` if they are not reported.
    pub costs: Option<CostOptions>,
}

/// Where costs come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CostOptions {
    /// `--price-file`. Without one, the agent reports that there are no prices.
    pub price_file: Option<PathBuf>,
    /// `--region`: the region whose prices are used; empty for the region of the first node that has one.
    pub region: String,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self { available_resources: true, namespaces: false, certificate_authority: None, costs: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_name_that_is_too_long_is_refused() {
        assert_eq!(MemberOptions::new("m1").unwrap().namespace.as_str(), "fleet-member-m1");
        assert!(MemberOptions::new("a.b").is_err(), "no namespace can be called so");
        assert!(MemberOptions::new("").is_err());
    }
}
