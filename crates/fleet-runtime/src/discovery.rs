//! The kinds that an API server serves, kept up to date without polling.
//!
//! Discovery runs again when a CustomResourceDefinition or an APIService changes, and with growing delays while it fails or is
//! incomplete. `merge` combines a response with what was known before.

mod merge;

pub use merge::{Discovered, DiscoveredKind, GroupVersion};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::client::APIGroupDiscovery;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::Notify;

use crate::cache::{AnyCache, Cache, Kind};
use crate::flag::Flag;
use crate::kind::KindId;
use crate::metadata::MetadataObject;
use crate::metrics::Metrics;
use crate::queue::Reason;
use crate::write::ClusterId;
use merge::{Expected, Merged, merge, missing};

/// Delays while discovery is incomplete; the last one repeats. A server needs a moment to publish a new definition, but an
/// aggregated API may be unavailable for hours.
const RETRY_DELAYS: [Duration; 7] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_mins(2),
];
/// Delay of one more attempt after a complete response: it may still show an older version of a changed definition.
const FINAL_CHECK: Duration = Duration::from_secs(2);
/// Timeout of one attempt.
const LONGEST_READ: Duration = Duration::from_mins(1);
/// How long the first attempt waits for the list of APIServices. A server may not serve that kind.
const LONGEST_WAIT_FOR_SERVICES: Duration = Duration::from_secs(10);

type Subscriber = Box<dyn Fn(Reason) + Send + Sync>;

/// The kinds of a server. Clones share the state.
#[derive(Clone)]
pub struct Discovery {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: ClusterId,
    definitions: Cache<MetadataObject>,
    services: Cache<MetadataObject>,
    discovered: RwLock<Arc<Discovered>>,
    subscribers: RwLock<Vec<Subscriber>>,
    known: Flag,
}

impl fmt::Debug for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discovery").field("kinds", &self.discovered().kinds.len()).finish_non_exhaustive()
    }
}

impl Discovery {
    pub(crate) fn new(cluster: ClusterId, metrics: &Metrics) -> Self {
        let metadata_of = |group: &str, kind: &str, plural: &str| {
            let declared = Kind::with_id(KindId::new(group, "v1", kind, plural)).on(cluster).metadata_only();
            Cache::new(declared, metrics.clone())
        };
        let shared = Shared {
            cluster,
            definitions: metadata_of("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions"),
            services: metadata_of("apiregistration.k8s.io", "APIService", "apiservices"),
            discovered: RwLock::default(),
            subscribers: RwLock::default(),
            known: Flag::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The current state.
    pub fn discovered(&self) -> Arc<Discovered> {
        self.shared.discovered.read().clone()
    }

    /// The kind of this group, version and name.
    pub fn find(&self, group: &str, version: &str, kind: &str) -> Option<DiscoveredKind> {
        let is = |id: &KindId| *id.group == *group && *id.version == *version && *id.kind == *kind;
        self.discovered().kinds.iter().find(|found| is(&found.id)).cloned()
    }

    /// The kind of this group and name in the version that the server prefers.
    pub fn preferred(&self, group: &str, kind: &str) -> Option<DiscoveredKind> {
        let is = |id: &KindId| *id.group == *group && *id.kind == *kind;
        self.discovered().kinds.iter().find(|found| found.preferred && is(&found.id)).cloned()
    }

    /// Whether this group version exists but has never listed its kinds.
    pub fn is_undiscoverable(&self, group: &str, version: &str) -> bool {
        self.discovered().undiscoverable.iter().any(|part| *part.group == *group && *part.version == *version)
    }

    /// Whether the first discovery has succeeded.
    pub fn is_known(&self) -> bool {
        self.shared.known.is_set()
    }

    pub(crate) fn known(&self) -> Flag {
        self.shared.known.clone()
    }

    pub(crate) fn cluster(&self) -> ClusterId {
        self.shared.cluster
    }

    /// The caches whose changes trigger discovery.
    pub(crate) fn caches(&self) -> [Arc<dyn AnyCache>; 2] {
        [Arc::new(self.shared.definitions.clone()), Arc::new(self.shared.services.clone())]
    }

    pub(crate) fn subscribe(&self, subscriber: Subscriber) {
        self.shared.subscribers.write().push(subscriber);
    }

    /// Drops all subscribers.
    pub(crate) fn unsubscribe_all(&self) {
        self.shared.subscribers.write().clear();
        self.shared.definitions.unsubscribe_all();
        self.shared.services.unsubscribe_all();
    }

    /// Keeps the kinds up to date for as long as it is polled.
    pub(crate) async fn run(self, client: kube::Client) {
        let changed = Arc::new(Notify::new());
        for cache in [&self.shared.definitions, &self.shared.services] {
            let changed = changed.clone();
            cache.subscribe(Box::new(move |_, _| changed.notify_one()));
        }
        self.shared.definitions.synced().becomes(true).await;
        let _ = tokio::time::timeout(LONGEST_WAIT_FOR_SERVICES, self.shared.services.synced().becomes(true)).await;
        let mut attempts = 0;
        loop {
            let is_complete = match tokio::time::timeout(LONGEST_READ, self.attempt(&client)).await {
                Ok(Ok(merged)) => self.publish(merged),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "discovery failed; retrying");
                    false
                }
                Err(_) => {
                    tracing::warn!("discovery timed out; retrying");
                    false
                }
            };
            let delay = delay_after(attempts, is_complete);
            tokio::select! {
                biased;
                () = changed.notified() => attempts = 0,
                () = tokio::time::sleep(delay.unwrap_or_default()), if delay.is_some() => attempts += 1,
            }
        }
    }

    async fn attempt(&self, client: &kube::Client) -> Result<Merged, kube::Error> {
        let groups = request(client).await?;
        let definitions = &self.shared.definitions;
        let names: Vec<String> = definitions.keys().into_iter().map(|key| key.name().to_owned()).collect();
        let mut expected = Expected::default();
        for name in missing(&groups, names.iter().map(String::as_str)) {
            let versions = served_versions(client, definitions.kind(), name).await?;
            if !versions.is_empty() {
                expected.definitions.insert(name.to_owned(), versions);
            }
        }
        expected.services = self.shared.services.keys().into_iter().map(|key| key.name().to_owned()).collect();
        Ok(merge(&groups, &self.discovered(), &expected))
    }

    /// Stores the kinds and calls subscribers if they changed. Returns whether discovery is complete.
    fn publish(&self, merged: Merged) -> bool {
        let Merged { discovered, is_complete } = merged;
        let (before, is_first) = (self.discovered(), !self.is_known());
        if discovered.undiscoverable != before.undiscoverable {
            log_undiscoverable(&discovered);
        }
        if discovered != *before || is_first {
            tracing::debug!(kinds = discovered.kinds.len(), "the kinds that the server serves have changed");
            *self.shared.discovered.write() = Arc::new(discovered);
            self.shared.known.set(true);
            let reason = if is_first { Reason::Initial } else { Reason::Change };
            for subscriber in self.shared.subscribers.read().iter() {
                subscriber(reason);
            }
        }
        is_complete
    }
}

/// An administrator may have to fix the aggregated APIs. Until then the existence of their kinds is unknown.
fn log_undiscoverable(discovered: &Discovered) {
    let parts: Vec<String> = discovered.undiscoverable.iter().map(ToString::to_string).collect();
    if parts.is_empty() {
        tracing::info!("all API groups are discoverable again");
    } else {
        tracing::warn!(groups = parts.join(", "), "cannot discover the kinds of some API groups");
    }
}

/// Discovers the kinds of a server once. For commands, which do not keep them up to date.
pub async fn discover(client: &kube::Client) -> Result<Discovered, kube::Error> {
    let groups = request(client).await?;
    Ok(merge(&groups, &Discovered::default(), &Expected::default()).discovered)
}

/// The delay before the next attempt if nothing changes; `None` if discovery is complete.
fn delay_after(attempts: usize, is_complete: bool) -> Option<Duration> {
    match (is_complete, attempts) {
        (true, 0) => Some(FINAL_CHECK),
        (true, _) => None,
        (false, _) => RETRY_DELAYS.get(attempts).or(RETRY_DELAYS.last()).copied(),
    }
}

async fn request(client: &kube::Client) -> Result<Vec<APIGroupDiscovery>, kube::Error> {
    let mut groups = client.list_core_api_versions_aggregated().await?.items;
    groups.extend(client.list_api_groups_aggregated().await?.items);
    Ok(groups)
}

/// The versions that a definition serves. None if it is gone or not yet established; it then changes again before objects of it
/// can exist.
async fn served_versions(client: &kube::Client, kind: &KindId, name: &str) -> Result<Vec<String>, kube::Error> {
    let request = http::Request::get(kind.object_path(None, name, None)).body(Vec::new());
    match client.request::<Value>(request.map_err(kube::Error::HttpError)?).await {
        Ok(definition) => Ok(versions_of(&definition)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn versions_of(definition: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let conditions = list(&definition["status"]["conditions"]);
    if !conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True") {
        return Vec::new();
    }
    let served = list(&definition["spec"]["versions"]).into_iter().filter(|version| version["served"] == true);
    served.filter_map(|version| version["name"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
