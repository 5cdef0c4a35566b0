//! What the member agent's flags and environment set.
//!
//! Decides that a cluster without a possible namespace on the hub cannot be a member. Never reads a flag.

use std::sync::Arc;

use fleet_api::names::{ClusterName, MemberNamespace, NameError};
use fleet_core::apply::availability::Tracking;
use fleet_core::apply::budget::Limit;
use fleet_core::apply::farewell::STUCK_AFTER;
use fleet_core::apply::priority::Decline;
use fleet_core::apply::requeue::Pace;
use jiff::SignedDuration;

use crate::provider::PropertyProvider;

/// How a member's agent behaves.
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

    /// An agent that leaves Works alone, for those who bring an applier of their own.
    #[must_use]
    pub fn without_applier(mut self) -> Self {
        self.applier.enabled = false;
        self
    }

    #[must_use]
    pub fn applying(mut self, applier: ApplierOptions) -> Self {
        self.applier = applier;
        self
    }

    #[must_use]
    pub fn telling(mut self, properties: Properties) -> Self {
        self.properties = properties;
        self
    }
}

/// How Works are applied.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplierOptions {
    pub enabled: bool,
    /// Works in hand at once.
    pub works_at_once: usize,
    /// `--work-applier-requeue-rate-limiter-…`: when objects that are not watched are looked at again.
    pub pace: Pace,
    /// `--enable-work-applier-priority-queue` with its two factors: Works that were well come after others, the older the later.
    /// `None` is first come, first served.
    pub decline: Option<Decline>,
    /// `--deletion-wait-time`: after which a deletion that does not end is helped.
    pub stuck_after: SignedDuration,
    /// How many objects may be deleted within a minute.
    pub deletions: Limit,
    pub tracking: Tracking,
    /// Kinds of placed objects that are watched at the same time; others are looked at from time to time.
    pub watched_kinds: usize,
}

impl Default for ApplierOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            works_at_once: 5,
            pace: Pace::default(),
            decline: None,
            stuck_after: STUCK_AFTER,
            deletions: Limit::default(),
            tracking: Tracking::default(),
            watched_kinds: usize::MAX,
        }
    }
}

/// What the hub is told of the cluster.
#[derive(Debug, Clone, Default)]
pub enum Properties {
    /// Number of nodes, version, processors and memory, free ones by the first pods of a list.
    #[default]
    BuiltIn,
    /// What the provider that comes with the agent tells.
    Provider(ProviderOptions),
    /// What another provider tells.
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

/// What a property provider tells beside nodes, machine sizes, version and usage. It knows no prices, so no costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderOptions {
    /// `--use-available-res-properties-in-azure-provider`: what is free, by all pods.
    pub available_resources: bool,
    /// `--enable-namespace-collection-in-property-provider`.
    pub namespaces: bool,
    /// By which the member's API server is trusted, as text.
    pub certificate_authority: Option<String>,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self { available_resources: true, namespaces: false, certificate_authority: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_a_possible_namespace_cannot_be_a_member() {
        assert_eq!(MemberOptions::new("m1").unwrap().namespace.as_str(), "fleet-member-m1");
        assert!(MemberOptions::new("a.b").is_err(), "no namespace can be called so");
        assert!(MemberOptions::new("").is_err());
    }
}
