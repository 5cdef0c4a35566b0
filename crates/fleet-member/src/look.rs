//! One look at the member's cluster: is its API server ready, and what does it have.
//!
//! Decides what is asked and how long an answer may take. What cannot be had is part of the look, never an error: the hub
//! is to hear of it. Never decides what the answers amount to: that is `fleet_core::membership::properties`, or a provider.

use std::time::Duration;

use fleet_api::conditions::member::PropertyProviderStarted;
use fleet_core::membership::agent::{COLLECTION_DEADLINE, Collected, Method, Probe, collection_method};
use fleet_core::membership::properties::{NamespaceFacts, NodeFacts, PODS_MAX, PodFacts, ProviderAnswer, built_in};
use fleet_runtime::{Error, Hands, Reader, Side};
use futures::future::join;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::asking::Asking;
use crate::provider::{PropertyProvider, Seen, Wants};

/// The API server's own word on whether it is ready.
const READINESS: &str = "/readyz";
/// An API server that takes longer to say whether it is ready is not.
const PROBE_DEADLINE: Duration = Duration::from_secs(10);
/// Objects per page of a list; what client-go asks for.
const PAGE_SIZE: usize = 500;
/// Only pods that take something from a node.
const RUNNING_PODS: &str =
    "/api/v1/pods?fieldSelector=spec.nodeName!%3D,status.phase!%3DSucceeded,status.phase!%3DFailed";

/// What came of a look.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) probe: Probe,
    /// How the start of the property provider went; `None` where there is none.
    pub(crate) provider: Option<PropertyProviderStarted>,
    pub(crate) collected: Collected,
}

/// What the cluster has.
#[derive(Debug)]
struct Inventory {
    nodes: Vec<Node>,
    /// `None` where they are not asked for.
    pods: Option<Vec<PodFacts>>,
    /// `None` where they are not asked for.
    namespaces: Option<Vec<Namespace>>,
    /// `None` if it could not be had.
    version: Option<String>,
}

impl Look {
    /// Asks the member's API server, and the provider if there is one.
    pub(crate) async fn take(hands: &Hands<'_>, member: Side, provider: Option<&Asking>) -> Self {
        let reader = hands.reader().on(member);
        let (probe, (provider, collected)) = join(probe(&reader), collect(hands, &reader, provider)).await;
        Self { probe, provider, collected }
    }
}

async fn collect(
    hands: &Hands<'_>,
    member: &Reader,
    asking: Option<&Asking>,
) -> (Option<PropertyProviderStarted>, Collected) {
    let started = match asking {
        Some(asking) => Some(asking.started().await),
        None => None,
    };
    let asking = asking.filter(|_| collection_method(started.as_ref()) == Method::Provider);
    let wants = asking.map(|asking| asking.provider.wants());
    let collected = match (timeout(COLLECTION_DEADLINE.unsigned_abs(), take_inventory(member, wants)).await, asking) {
        (Ok(Ok(inventory)), None) => inventory.built_in(hands.moment().now),
        (Ok(Ok(inventory)), Some(asking)) => {
            let (provider, now) = (asking.provider.clone(), hands.moment().now);
            asking.ask(Box::pin(async move { inventory.by_provider(&*provider, now).await })).await
        }
        (Ok(Err(error)), _) => Collected::Failed { error: error.with_causes() },
        (Err(_), Some(_)) => Collected::ProviderTimedOut,
        (Err(_), None) => Collected::Failed { error: "the cluster did not answer in time".to_owned() },
    };
    (started, collected)
}

async fn probe(member: &Reader) -> Probe {
    match timeout(PROBE_DEADLINE, member.ask(READINESS)).await {
        Ok(Ok(answer)) => Probe::Answered { status_code: answer.status_code },
        Ok(Err(_)) | Err(_) => Probe::Unreachable,
    }
}

/// `wants` is what a provider wants to be shown; without one the built-in method is content with little.
async fn take_inventory(member: &Reader, wants: Option<Wants>) -> Result<Inventory, Error> {
    let nodes = all(member, "/api/v1/nodes", usize::MAX, |node: Node| node).await?;
    let (pods, namespaces) = match wants {
        None => (Some(("/api/v1/pods", PODS_MAX)), false),
        Some(wants) => (wants.pods.then_some((RUNNING_PODS, usize::MAX)), wants.namespaces),
    };
    let pods = match pods {
        Some((path, at_most)) => Some(all(member, path, at_most, |pod: Pod| PodFacts::of(&pod)).await?),
        None => None,
    };
    let namespaces = if namespaces {
        Some(all(member, "/api/v1/namespaces", usize::MAX, |namespace: Namespace| namespace).await?)
    } else {
        None
    };
    Ok(Inventory { nodes, pods, namespaces, version: version(member).await })
}

impl Inventory {
    fn built_in(&self, now: Timestamp) -> Collected {
        let pods = self.pods.as_deref().unwrap_or_default();
        built_in(&self.node_facts(), pods, self.version.as_deref(), now)
    }

    async fn by_provider(&self, provider: &dyn PropertyProvider, now: Timestamp) -> ProviderAnswer {
        let namespaces: Option<Vec<_>> =
            self.namespaces.as_ref().map(|all| all.iter().map(NamespaceFacts::of).collect());
        let nodes = self.node_facts();
        let seen = Seen {
            nodes: &nodes,
            pods: self.pods.as_deref(),
            namespaces: namespaces.as_deref(),
            version: self.version.as_deref(),
        };
        provider.tell(seen, now).await
    }

    fn node_facts(&self) -> Vec<NodeFacts<'_>> {
        self.nodes.iter().map(NodeFacts::of).collect()
    }
}

/// What `/version` says, as far as it is told.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

async fn version(member: &Reader) -> Option<String> {
    let answer = member.ask("/version").await.ok().filter(|answer| answer.status_code == 200)?;
    serde_json::from_slice::<Version>(&answer.body).ok().map(|version| version.git_version)
}

#[derive(Deserialize)]
struct Page<K> {
    items: Vec<K>,
    #[serde(default)]
    metadata: PageMetadata,
}

#[derive(Deserialize, Default)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    more: Option<String>,
}

/// What the objects of a list amount to, up to so many. Page by page, so that a large cluster is never held as a whole.
async fn all<K: DeserializeOwned, T>(
    member: &Reader,
    path: &str,
    at_most: usize,
    keep: impl Fn(K) -> T,
) -> Result<Vec<T>, Error> {
    let start = format!("{path}{}limit={}", if path.contains('?') { "&" } else { "?" }, PAGE_SIZE.min(at_most));
    let mut kept = Vec::new();
    let mut request = start.clone();
    loop {
        let answer = member.ask(&request).await?;
        if answer.status_code != 200 {
            return Err(Error::Other(format!("{path} answers {}", answer.status_code)));
        }
        let page: Page<K> = serde_json::from_slice(&answer.body)
            .map_err(|error| Error::Other(format!("{path} cannot be read: {error}")))?;
        kept.extend(page.items.into_iter().map(&keep));
        match page.metadata.more.filter(|token| !token.is_empty() && kept.len() < at_most) {
            Some(token) => request = format!("{start}&continue={}", escaped(&token)),
            None => return Ok(kept),
        }
    }
}

/// A token as part of a query: everything but letters and digits by its number.
fn escaped(token: &str) -> String {
    let escape = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    token.bytes().map(escape).collect()
}
