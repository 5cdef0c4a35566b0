//! The interface of property providers, and the built-in provider with the names of Azure's.
//!
//! Never makes a request: the agent lists what a provider needs, and a provider that needs more brings its own
//! client.

use std::future::ready;
use std::pin::Pin;
use std::{fmt, fs};

use fleet_core::membership::properties::{
    AzureFacts, NamespaceFacts, NodeFacts, PRICE_FILE_BYTES_MAX, PodFacts, PriceError, PriceFile, ProviderAnswer, azure,
};
use jiff::Timestamp;

use crate::options::{CostOptions, ProviderOptions};

/// What a provider gets for each heartbeat.
#[derive(Debug, Clone, Copy)]
pub struct ProviderInput<'a> {
    pub nodes: &'a [NodeFacts<'a>],
    /// Pods that use a node; `None` unless `ProviderNeeds::pods` is set.
    pub pods: Option<&'a [PodFacts]>,
    /// `None` unless `ProviderNeeds::namespaces` is set.
    pub namespaces: Option<&'a [NamespaceFacts<'a>]>,
    /// The version of the API server, if it is known.
    pub version: Option<&'a str>,
}

/// What a provider needs besides nodes and version. Other lists are read only if they are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProviderNeeds {
    pub pods: bool,
    pub namespaces: bool,
}

/// An asynchronous result of a provider.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A source of properties. It may wait for other systems, up to the agent's deadlines. It runs on the agent's own
/// threads and must not block them.
pub trait PropertyProvider: fmt::Debug + Send + Sync {
    fn needs(&self) -> ProviderNeeds;

    /// Prepares the provider, once per agent process, before the first collection. A provider that fails or takes too
    /// long is never called; the built-in method replaces it. The default does nothing.
    fn start(&self) -> Pending<'_, Result<(), String>> {
        Box::pin(ready(Ok(())))
    }

    /// Collects properties, once per heartbeat. An answer after the deadline is dropped.
    fn collect<'a>(&'a self, cluster: ProviderInput<'a>, now: Timestamp) -> Pending<'a, ProviderAnswer>;
}

/// The names of Azure's provider, without a call to Azure: prices come from a file.
impl PropertyProvider for ProviderOptions {
    fn needs(&self) -> ProviderNeeds {
        ProviderNeeds { pods: self.available_resources, namespaces: self.namespaces }
    }

    fn collect<'a>(&'a self, cluster: ProviderInput<'a>, now: Timestamp) -> Pending<'a, ProviderAnswer> {
        let prices = self.costs.as_ref().map(CostOptions::prices);
        let facts = AzureFacts {
            nodes: cluster.nodes,
            pods: cluster.pods,
            namespaces: cluster.namespaces,
            version: cluster.version,
            certificate_authority: self.certificate_authority.as_deref(),
            prices: prices.as_ref().map(Result::as_ref),
            region: self.costs.as_ref().map(|costs| costs.region.as_str()).unwrap_or_default(),
        };
        Box::pin(ready(azure(&facts, now)))
    }
}

impl CostOptions {
    /// Reads the price file. It is read for every heartbeat, so that changes count at once; reading a small local
    /// file does not block the agent noticeably.
    fn prices(&self) -> Result<PriceFile, PriceError> {
        let path = self.price_file.as_deref().ok_or(PriceError::NoFile)?;
        let unreadable = |problem: String| PriceError::Unreadable { path: path.display().to_string(), problem };
        let length = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
        if length > PRICE_FILE_BYTES_MAX {
            return Err(unreadable(format!("it has more than {PRICE_FILE_BYTES_MAX} bytes")));
        }
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        PriceFile::parse(&text).map_err(unreadable)
    }
}
