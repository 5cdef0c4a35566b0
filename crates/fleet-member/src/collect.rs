//! Probes the health of the member's API server and lists the objects from which properties are collected.
//!
//! A failed request is part of the result and not an error, because the heartbeat reports it to the hub.

use std::time::Duration;

use fleet_api::conditions::member::PropertyProviderStarted;
use fleet_core::membership::agent::{COLLECTION_DEADLINE, Collected, Method, Probe, collection_method};
use fleet_core::membership::properties::{NamespaceFacts, NodeFacts, PODS_MAX, PodFacts, ProviderAnswer, built_in};
use fleet_runtime::{ClusterId, Error, PAGE_SIZE, PageOf, Pages, Reader, ReconcileContext};
use futures::future::join;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::provider::{PropertyProvider, ProviderInput, ProviderNeeds};
use crate::provider_client::ProviderClient;

const READINESS: &str = "/readyz";
/// An API server that takes longer to answer counts as unreachable.
const PROBE_DEADLINE: Duration = Duration::from_secs(10);
/// Pods that are assigned to a node and have not ended.
const RUNNING_PODS: &str =
    "/api/v1/pods?fieldSelector=spec.nodeName!%3D,status.phase!%3DSucceeded,status.phase!%3DFailed";

/// What one heartbeat reports about the member cluster.
#[derive(Debug)]
pub(crate) struct HealthAndProperties {
    pub(crate) probe: Probe,
    /// The result of starting the property provider; `None` if there is no provider.
    pub(crate) provider: Option<PropertyProviderStarted>,
    pub(crate) collected: Collected,
}

/// The objects of the cluster from which properties are computed.
#[derive(Debug)]
struct ClusterObjects {
    nodes: Vec<Node>,
    /// `None` if the provider does not need them.
    pods: Option<Vec<PodFacts>>,
    /// `None` if the provider does not need them.
    namespaces: Option<Vec<Namespace>>,
    /// `None` if the API server did not report it.
    version: Option<String>,
}

impl HealthAndProperties {
    /// Asks the member's API server, and the property provider if there is one.
    pub(crate) async fn collect(
        context: &ReconcileContext<'_>,
        member: ClusterId,
        provider: Option<&ProviderClient>,
    ) -> Self {
        let reader = context.reader().on(member);
        let (probe, (provider, collected)) = join(probe(&reader), collect(context, &reader, provider)).await;
        Self { probe, provider, collected }
    }
}

async fn collect(
    context: &ReconcileContext<'_>,
    member: &Reader,
    client: Option<&ProviderClient>,
) -> (Option<PropertyProviderStarted>, Collected) {
    let started = match client {
        Some(client) => Some(client.started().await),
        None => None,
    };
    let client = client.filter(|_| collection_method(started.as_ref()) == Method::Provider);
    let needs = client.map(|client| client.provider.needs());
    let collected = match (timeout(COLLECTION_DEADLINE.unsigned_abs(), list_objects(member, needs)).await, client) {
        (Ok(Ok(objects)), None) => objects.built_in(context.plan_input().now),
        (Ok(Ok(objects)), Some(client)) => {
            let (provider, now) = (client.provider.clone(), context.plan_input().now);
            client.collect(Box::pin(async move { objects.by_provider(&*provider, now).await })).await
        }
        (Ok(Err(error)), _) => Collected::Failed { error: error.with_causes() },
        (Err(_), Some(_)) => Collected::ProviderTimedOut,
        (Err(_), None) => Collected::Failed { error: "the cluster did not answer in time".to_owned() },
    };
    (started, collected)
}

async fn probe(member: &Reader) -> Probe {
    match timeout(PROBE_DEADLINE, member.get_raw(READINESS)).await {
        Ok(Ok(answer)) => Probe::Answered { status_code: answer.status_code },
        Ok(Err(_)) | Err(_) => Probe::Unreachable,
    }
}

/// Lists what the provider needs, or what the built-in method needs if there is no provider.
async fn list_objects(member: &Reader, needs: Option<ProviderNeeds>) -> Result<ClusterObjects, Error> {
    let nodes = list(member, "/api/v1/nodes", usize::MAX, |node: Node| node).await?;
    let (pods, namespaces) = match needs {
        None => (Some(("/api/v1/pods", PODS_MAX)), false),
        Some(needs) => (needs.pods.then_some((RUNNING_PODS, usize::MAX)), needs.namespaces),
    };
    let pods = match pods {
        Some((path, at_most)) => Some(list(member, path, at_most, |pod: Pod| PodFacts::of(&pod)).await?),
        None => None,
    };
    let namespaces = if namespaces {
        Some(list(member, "/api/v1/namespaces", usize::MAX, |namespace: Namespace| namespace).await?)
    } else {
        None
    };
    Ok(ClusterObjects { nodes, pods, namespaces, version: version(member).await })
}

impl ClusterObjects {
    fn built_in(&self, now: Timestamp) -> Collected {
        let pods = self.pods.as_deref().unwrap_or_default();
        built_in(&self.node_facts(), pods, self.version.as_deref(), now)
    }

    async fn by_provider(&self, provider: &dyn PropertyProvider, now: Timestamp) -> ProviderAnswer {
        let namespaces: Option<Vec<_>> =
            self.namespaces.as_ref().map(|all| all.iter().map(NamespaceFacts::of).collect());
        let nodes = self.node_facts();
        let input = ProviderInput {
            nodes: &nodes,
            pods: self.pods.as_deref(),
            namespaces: namespaces.as_deref(),
            version: self.version.as_deref(),
        };
        provider.collect(input, now).await
    }

    fn node_facts(&self) -> Vec<NodeFacts<'_>> {
        self.nodes.iter().map(NodeFacts::of).collect()
    }
}

/// The part of the answer of `/version` that is reported.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

async fn version(member: &Reader) -> Option<String> {
    let answer = member.get_raw("/version").await.ok().filter(|answer| answer.status_code == 200)?;
    serde_json::from_slice::<Version>(&answer.body).ok().map(|version| version.git_version)
}

/// Lists up to `at_most` objects page by page and keeps only what `keep` returns, so that memory stays small in a large cluster.
async fn list<K: DeserializeOwned, T>(
    member: &Reader,
    path: &str,
    at_most: usize,
    keep: impl Fn(K) -> T,
) -> Result<Vec<T>, Error> {
    let mut kept = Vec::new();
    let mut pages = Pages::of_size(PAGE_SIZE.min(at_most), path, &[]);
    while let Some(request) = pages.next_path() {
        let answer = member.get_raw(&request).await?;
        if answer.status_code != 200 {
            return Err(Error::Other(format!("{path} answers {}", answer.status_code)));
        }
        let page: PageOf<K> = serde_json::from_slice(&answer.body)
            .map_err(|error| Error::Other(format!("{path} cannot be read: {error}")))?;
        pages.continue_at(page.more().filter(|_| kept.len() + page.items.len() < at_most));
        kept.extend(page.items.into_iter().map(&keep));
    }
    Ok(kept)
}
