//! What a property provider is: something that makes properties of what an agent sees of its cluster.
//!
//! Decides what providers are shown and what they may ask to be shown. One is built in, under the names that Azure's clusters
//! have; others are plugged in by whoever builds an agent. Never asks a cluster or a cloud anything: that is `look`, and a
//! provider that needs more brings it along.

use std::fmt;
use std::future::ready;
use std::pin::Pin;

use fleet_core::membership::properties::{AzureFacts, NamespaceFacts, NodeFacts, PodFacts, ProviderAnswer, azure};
use jiff::Timestamp;

use crate::options::ProviderOptions;

/// What a provider is shown of the cluster, each time the agent tells the hub about it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub nodes: &'a [NodeFacts<'a>],
    /// Pods that take something from a node; `None` unless `Wants::pods`.
    pub pods: Option<&'a [PodFacts]>,
    /// `None` unless `Wants::namespaces`.
    pub namespaces: Option<&'a [NamespaceFacts<'a>]>,
    /// The API server's version, if it could be had.
    pub version: Option<&'a str>,
}

/// What a provider wants to be shown beside nodes and version. Long lists are asked for only where they are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wants {
    pub pods: bool,
    pub namespaces: bool,
}

/// What a provider does in its own time.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A source of properties. It may wait for others, and is not waited for longer than the agent's deadlines; but it runs on the
/// agent's own threads and must not block them.
pub trait PropertyProvider: fmt::Debug + Send + Sync {
    fn wants(&self) -> Wants;

    /// Gets ready, once in the life of an agent, before it is asked for the first time. One that fails or takes too long is
    /// never asked; the built-in method then takes its place. The default has nothing to prepare.
    fn start(&self) -> Pending<'_, Result<(), String>> {
        Box::pin(ready(Ok(())))
    }

    /// Tells of the cluster, once a heartbeat. An answer that comes too late is dropped.
    fn tell<'a>(&'a self, cluster: Seen<'a>, now: Timestamp) -> Pending<'a, ProviderAnswer>;
}

/// The names of Azure's provider, without asking Azure: there are no prices, hence no costs.
impl PropertyProvider for ProviderOptions {
    fn wants(&self) -> Wants {
        Wants { pods: self.available_resources, namespaces: self.namespaces }
    }

    fn tell<'a>(&'a self, cluster: Seen<'a>, now: Timestamp) -> Pending<'a, ProviderAnswer> {
        let facts = AzureFacts {
            nodes: cluster.nodes,
            pods: cluster.pods,
            namespaces: cluster.namespaces,
            version: cluster.version,
            certificate_authority: self.certificate_authority.as_deref(),
            prices: None,
        };
        Box::pin(ready(azure(&facts, now)))
    }
}
