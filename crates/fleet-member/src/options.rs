//! What the member agent's flags and environment set.
//!
//! Decides that a cluster without a possible namespace on the hub cannot be a member. Never reads a flag.

use std::sync::Arc;

use fleet_api::names::{ClusterName, MemberNamespace, NameError};

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
}

impl MemberOptions {
    /// An agent with the built-in properties.
    pub fn new(cluster: &str) -> Result<Self, NameError> {
        let cluster = ClusterName::parse(cluster)?;
        let namespace = MemberNamespace::of(&cluster)?;
        Ok(Self { cluster, namespace, properties: Properties::default() })
    }

    #[must_use]
    pub fn telling(mut self, properties: Properties) -> Self {
        self.properties = properties;
        self
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
    pub(crate) fn provider(&self) -> Option<&dyn PropertyProvider> {
        match self {
            Self::BuiltIn => None,
            Self::Provider(provider) => Some(provider),
            Self::PlugIn(provider) => Some(provider.as_ref()),
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
