//! Which kinds a server has, kept up to date without polling.
//!
//! Decides when to ask again: when a CustomResourceDefinition or an APIService changed, and again and again, ever more
//! slowly, while there is no answer or one that does not show all that exists. `answer` says what follows from an answer.
//! Never decides which kinds are of interest.

mod answer;

pub use answer::{Discovered, DiscoveredKind, GroupVersion};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::client::APIGroupDiscovery;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::Notify;

use crate::cache::{Cache, Kind, Sink};
use crate::flag::Flag;
use crate::kind::KindId;
use crate::metadata::MetadataObject;
use crate::metrics::Metrics;
use crate::queue::Reason;
use crate::write::Side;
use answer::{Expected, Learnt, learn, missing};

/// Pauses between looks while the answer does not show what we know of; then the last one each time. A server needs a moment
/// to publish a new definition, and may be in trouble for hours.
const LOOK_AGAIN: [Duration; 7] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_mins(2),
];
/// One more look after the answer seemed right: a definition may have changed in ways that its name does not show.
const LAST_LOOK: Duration = Duration::from_secs(2);
/// A server that does not answer in this time is asked again.
const LONGEST_READ: Duration = Duration::from_mins(1);
/// How long the first look waits for the list of APIServices: a server may be without that kind.
const LONGEST_WAIT_FOR_SERVICES: Duration = Duration::from_secs(10);

type Subscriber = Box<dyn Fn(Reason) + Send + Sync>;

/// The kinds of a server as last heard. Clones are the same.
#[derive(Clone)]
pub struct Discovery {
    shared: Arc<Shared>,
}

struct Shared {
    side: Side,
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
    pub(crate) fn new(side: Side, metrics: &Metrics) -> Self {
        let metadata_of = |group: &str, kind: &str, plural: &str| {
            let declared = Kind::with_id(KindId::new(group, "v1", kind, plural)).on(side).metadata_only();
            Cache::new(declared, metrics.clone())
        };
        let shared = Shared {
            side,
            definitions: metadata_of("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions"),
            services: metadata_of("apiregistration.k8s.io", "APIService", "apiservices"),
            discovered: RwLock::default(),
            subscribers: RwLock::default(),
            known: Flag::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// What is known now.
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

    /// Whether this part of the API is there and has not said which kinds it has.
    pub fn is_silent(&self, group: &str, version: &str) -> bool {
        self.discovered().silent.iter().any(|part| *part.group == *group && *part.version == *version)
    }

    /// Whether the server has answered at all.
    pub fn is_known(&self) -> bool {
        self.shared.known.is_up()
    }

    pub(crate) fn known(&self) -> Flag {
        self.shared.known.clone()
    }

    pub(crate) fn side(&self) -> Side {
        self.shared.side
    }

    /// What must be followed for this to be kept up to date.
    pub(crate) fn sinks(&self) -> [Arc<dyn Sink>; 2] {
        [Arc::new(self.shared.definitions.clone()), Arc::new(self.shared.services.clone())]
    }

    pub(crate) fn subscribe(&self, subscriber: Subscriber) {
        self.shared.subscribers.write().push(subscriber);
    }

    /// Lets go of whoever listens.
    pub(crate) fn release(&self) {
        self.shared.subscribers.write().clear();
        self.shared.definitions.release();
        self.shared.services.release();
    }

    /// Asks whenever there is reason to, for as long as it is polled.
    pub(crate) async fn run(self, client: kube::Client) {
        let changed = Arc::new(Notify::new());
        for cache in [&self.shared.definitions, &self.shared.services] {
            let changed = changed.clone();
            cache.subscribe(Box::new(move |_, _| changed.notify_one()));
        }
        self.shared.definitions.synced().becomes(true).await;
        let _ = tokio::time::timeout(LONGEST_WAIT_FOR_SERVICES, self.shared.services.synced().becomes(true)).await;
        let mut looks = 0;
        loop {
            let is_settled = match tokio::time::timeout(LONGEST_READ, self.look(&client)).await {
                Ok(Ok(learnt)) => self.publish(learnt),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the kinds of the server cannot be read; trying again");
                    false
                }
                Err(_) => {
                    tracing::warn!("the server does not say which kinds it has; trying again");
                    false
                }
            };
            let pause = pause_after(looks, is_settled);
            tokio::select! {
                biased;
                () = changed.notified() => looks = 0,
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => looks += 1,
            }
        }
    }

    async fn look(&self, client: &kube::Client) -> Result<Learnt, kube::Error> {
        let groups = ask(client).await?;
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
        Ok(learn(&groups, &self.discovered(), &expected))
    }

    /// Takes in what was learnt; says whether it is all.
    fn publish(&self, learnt: Learnt) -> bool {
        let Learnt { discovered, is_settled } = learnt;
        let (before, is_first) = (self.discovered(), !self.is_known());
        if discovered.silent != before.silent {
            tell_of_silence(&discovered);
        }
        if discovered != *before || is_first {
            tracing::debug!(kinds = discovered.kinds.len(), "the kinds of the server changed");
            *self.shared.discovered.write() = Arc::new(discovered);
            self.shared.known.set(true);
            let reason = if is_first { Reason::Initial } else { Reason::Change };
            for subscriber in self.shared.subscribers.read().iter() {
                subscriber(reason);
            }
        }
        is_settled
    }
}

/// Somebody may have to mend it: nothing is concluded from what these parts would have.
fn tell_of_silence(discovered: &Discovered) {
    let parts: Vec<String> = discovered.silent.iter().map(ToString::to_string).collect();
    if parts.is_empty() {
        tracing::info!("all parts of the API say again which kinds they have");
    } else {
        tracing::warn!(parts = parts.join(", "), "parts of the API do not say which kinds they have");
    }
}

/// What a server says of its kinds at this moment, asked once: for those who do not stay.
pub async fn discover(client: &kube::Client) -> Result<Discovered, kube::Error> {
    let groups = ask(client).await?;
    Ok(learn(&groups, &Discovered::default(), &Expected::default()).discovered)
}

/// How long to wait for the next look if nothing changes; `None` if no look is worth it. Without an answer, or with one that
/// does not show everything, there is always another.
fn pause_after(looks: usize, is_settled: bool) -> Option<Duration> {
    match (is_settled, looks) {
        (true, 0) => Some(LAST_LOOK),
        (true, _) => None,
        (false, _) => LOOK_AGAIN.get(looks).or(LOOK_AGAIN.last()).copied(),
    }
}

async fn ask(client: &kube::Client) -> Result<Vec<APIGroupDiscovery>, kube::Error> {
    let mut groups = client.list_core_api_versions_aggregated().await?.items;
    groups.extend(client.list_api_groups_aggregated().await?.items);
    Ok(groups)
}

/// The versions that a definition serves at the moment: none if it is gone, or not accepted (yet), in which case it will
/// change before there can be objects of it.
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
