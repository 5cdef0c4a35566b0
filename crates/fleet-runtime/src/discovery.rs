//! Which kinds a server has, kept up to date without polling.
//!
//! Decides when to ask again: when a CustomResourceDefinition or an APIService changed, and a few times more where the
//! answer does not show the change yet. A group that cannot answer keeps the kinds it had. Never decides which kinds are
//! of interest.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::client::{APIGroupDiscovery, APIVersionDiscovery};
use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::cache::{Cache, Kind, Sink};
use crate::flag::Flag;
use crate::kind::KindId;
use crate::metadata::MetadataObject;
use crate::metrics::Metrics;
use crate::queue::Reason;
use crate::write::Side;

/// Pauses between looks while the answer does not show a change that we know of. A server needs a moment to publish a new
/// definition; one that is refused for good is not worth more looks than these.
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

/// A kind that the server has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiscoveredKind {
    pub id: KindId,
    pub namespaced: bool,
    /// `get`, `list`, `watch`, `create`, …
    pub verbs: Vec<String>,
    /// Whether this is the version that the server prefers, of those that have this kind.
    pub preferred: bool,
}

impl DiscoveredKind {
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|has| has == verb)
    }
}

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
    kinds: RwLock<Arc<Vec<DiscoveredKind>>>,
    subscribers: RwLock<Vec<Subscriber>>,
    known: Flag,
}

impl fmt::Debug for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discovery").field("kinds", &self.kinds().len()).finish_non_exhaustive()
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
            kinds: RwLock::default(),
            subscribers: RwLock::default(),
            known: Flag::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// All kinds in all served versions, ordered.
    pub fn kinds(&self) -> Arc<Vec<DiscoveredKind>> {
        self.shared.kinds.read().clone()
    }

    /// The kind of this group, version and name.
    pub fn find(&self, group: &str, version: &str, kind: &str) -> Option<DiscoveredKind> {
        let is = |id: &KindId| *id.group == *group && *id.version == *version && *id.kind == *kind;
        self.kinds().iter().find(|found| is(&found.id)).cloned()
    }

    /// The kind of this group and name in the version that the server prefers.
    pub fn preferred(&self, group: &str, kind: &str) -> Option<DiscoveredKind> {
        let is = |id: &KindId| *id.group == *group && *id.kind == *kind;
        self.kinds().iter().find(|found| found.preferred && is(&found.id)).cloned()
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
        let mut looks = 0;
        loop {
            let settled = match tokio::time::timeout(LONGEST_READ, ask(&client)).await {
                Ok(Ok(groups)) => self.learn(&groups),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the kinds of the server cannot be read; trying again");
                    false
                }
                Err(_) => false,
            };
            let pause = if settled && looks > 0 { None } else { pause_after(looks, settled, self.is_known()) };
            tokio::select! {
                biased;
                () = changed.notified() => looks = 0,
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => looks += 1,
            }
        }
    }

    /// Takes in an answer; says whether it shows all that we know of.
    fn learn(&self, groups: &[APIGroupDiscovery]) -> bool {
        let before = self.kinds();
        let kinds = kinds_of(groups, &before);
        let names: BTreeSet<String> = kinds.iter().map(|kind| kind.id.to_string()).collect();
        let definitions: BTreeSet<String> =
            self.shared.definitions.keys().into_iter().map(|key| key.name().to_owned()).collect();
        let settled = self.shared.definitions.is_synced() && definitions.is_subset(&names);
        let first = !self.is_known();
        if kinds != **before || first {
            tracing::debug!(kinds = kinds.len(), "the kinds of the server changed");
            *self.shared.kinds.write() = Arc::new(kinds);
            self.shared.known.set(true);
            let reason = if first { Reason::Initial } else { Reason::Change };
            for subscriber in self.shared.subscribers.read().iter() {
                subscriber(reason);
            }
        }
        settled
    }
}

/// All kinds that a server has at this moment, asked once: for those who do not stay.
pub async fn discover(client: &kube::Client) -> Result<Vec<DiscoveredKind>, kube::Error> {
    Ok(kinds_of(&ask(client).await?, &[]))
}

/// How long to wait for the next look if nothing changes; `None` if no look is worth it.
fn pause_after(looks: usize, settled: bool, known: bool) -> Option<Duration> {
    match LOOK_AGAIN.get(looks) {
        _ if settled => Some(LAST_LOOK),
        Some(pause) => Some(*pause),
        // Without any answer there is nothing to work with: never give up.
        None if !known => LOOK_AGAIN.last().copied(),
        None => None,
    }
}

async fn ask(client: &kube::Client) -> Result<Vec<APIGroupDiscovery>, kube::Error> {
    let mut groups = client.list_core_api_versions_aggregated().await?.items;
    groups.extend(client.list_api_groups_aggregated().await?.items);
    Ok(groups)
}

fn kinds_of(groups: &[APIGroupDiscovery], before: &[DiscoveredKind]) -> Vec<DiscoveredKind> {
    let mut kinds = Vec::new();
    for group in groups {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default();
        // The server lists the versions that it prefers first.
        let mut with_version = BTreeSet::new();
        for version in &group.versions {
            for mut kind in kinds_of_version(name, version, before) {
                kind.preferred = with_version.insert(kind.id.plural.clone());
                kinds.push(kind);
            }
        }
    }
    kinds.sort();
    kinds
}

fn kinds_of_version(group: &str, discovered: &APIVersionDiscovery, before: &[DiscoveredKind]) -> Vec<DiscoveredKind> {
    let version = discovered.version.as_deref().unwrap_or_default();
    if discovered.resources.is_empty() && discovered.freshness.as_deref() == Some("Stale") {
        let same = |kind: &&DiscoveredKind| *kind.id.group == *group && *kind.id.version == *version;
        return before.iter().filter(same).cloned().collect();
    }
    let kind_of = |resource: &kube::client::APIResourceDiscovery| {
        let kind = resource.response_kind.as_ref()?.kind.as_deref()?;
        Some(DiscoveredKind {
            id: KindId::new(group, version, kind, resource.resource.as_deref()?),
            namespaced: resource.scope.as_deref() == Some("Namespaced"),
            verbs: resource.verbs.clone(),
            preferred: false,
        })
    };
    discovered.resources.iter().filter_map(kind_of).collect()
}
