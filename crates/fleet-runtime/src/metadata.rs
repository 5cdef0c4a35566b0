//! Metadata caches of kinds that are chosen at run time. Watches start and stop as the set of kinds changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kube::core::{DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::cache::{AnyCache, Cache, Event, Kind};
use crate::clock::Seeds;
use crate::key::ObjectKey;
use crate::kind::KindId;
use crate::metrics::Metrics;
use crate::queue::Reason;
use crate::watch::{WatchedServer, reflect};
use crate::write::ClusterId;

/// An object with metadata only.
pub type MetadataObject = PartialObjectMeta<DynamicObject>;

type OnComplete = Arc<dyn Fn(&KindId) + Send + Sync>;
type Subscriber = Arc<dyn Fn(&KindId, Event<'_, MetadataObject>, Reason) + Send + Sync>;

/// One metadata cache per kind of the current set. Clones share the caches.
#[derive(Clone)]
pub struct MetadataCaches {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: ClusterId,
    metrics: Metrics,
    caches: Mutex<BTreeMap<KindId, Cache<MetadataObject>>>,
    subscribers: Mutex<Vec<Subscriber>>,
    on_complete: Mutex<Vec<OnComplete>>,
    kinds_changed: Notify,
}

impl fmt::Debug for MetadataCaches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataCaches").field("kinds", &self.kinds()).finish()
    }
}

impl MetadataCaches {
    pub(crate) fn new(cluster: ClusterId, metrics: Metrics) -> Self {
        let shared = Shared {
            cluster,
            metrics,
            caches: Mutex::default(),
            subscribers: Mutex::default(),
            on_complete: Mutex::default(),
            kinds_changed: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Watches exactly these kinds from now on. The caches of other kinds are dropped without events; the objects of new kinds
    /// arrive as events.
    pub fn set_kinds(&self, kinds: &BTreeSet<KindId>) {
        let mut caches = self.shared.caches.lock();
        let before = caches.len();
        caches.retain(|kind, _| kinds.contains(kind));
        let mut changed = caches.len() != before;
        for kind in kinds {
            if !caches.contains_key(kind) {
                caches.insert(kind.clone(), self.new_cache(kind));
                changed = true;
            }
        }
        drop(caches);
        if changed {
            self.shared.kinds_changed.notify_one();
        }
    }

    fn new_cache(&self, kind: &KindId) -> Cache<MetadataObject> {
        let declared = Kind::with_id(kind.clone()).on(self.shared.cluster).packed().metadata_only();
        let cache = Cache::new(declared, self.shared.metrics.clone());
        for subscriber in self.shared.subscribers.lock().iter() {
            attach(&cache, kind, subscriber.clone());
        }
        cache
    }

    /// The current set of kinds.
    pub fn kinds(&self) -> Vec<KindId> {
        self.shared.caches.lock().keys().cloned().collect()
    }

    /// Whether the cache of this kind has synced. Until then a missing object says nothing.
    pub fn is_complete(&self, kind: &KindId) -> bool {
        self.cache(kind).is_some_and(|cache| cache.is_synced())
    }

    /// The cache of a kind, if it is in the set.
    pub fn cache(&self, kind: &KindId) -> Option<Cache<MetadataObject>> {
        self.shared.caches.lock().get(kind).cloned()
    }

    pub fn get(&self, kind: &KindId, key: &ObjectKey) -> Option<Arc<MetadataObject>> {
        self.cache(kind)?.get(key)
    }

    /// All objects of a kind, ordered by key; none if the kind is not in the set.
    pub fn list(&self, kind: &KindId) -> Vec<Arc<MetadataObject>> {
        self.cache(kind).map(|cache| cache.list()).unwrap_or_default()
    }

    /// The objects of a kind in one namespace, ordered by name.
    pub fn in_namespace(&self, kind: &KindId, namespace: &str) -> Vec<Arc<MetadataObject>> {
        self.cache(kind).map(|cache| cache.in_namespace(namespace)).unwrap_or_default()
    }

    pub(crate) fn subscribe(&self, subscriber: Subscriber) {
        // Attached without a lock: the subscriber is called for the cached objects, and may read these caches.
        let existing = {
            let caches = self.shared.caches.lock();
            self.shared.subscribers.lock().push(subscriber.clone());
            caches.clone()
        };
        for (kind, cache) in existing {
            attach(&cache, &kind, subscriber.clone());
        }
    }

    /// Calls `f` when the cache of a kind has synced, also again after a restore of the server.
    pub(crate) fn on_complete(&self, f: OnComplete) {
        self.shared.on_complete.lock().push(f);
    }

    /// Drops all subscribers and caches.
    pub(crate) fn unsubscribe_all(&self) {
        self.shared.subscribers.lock().clear();
        self.shared.on_complete.lock().clear();
        for cache in std::mem::take(&mut *self.shared.caches.lock()).into_values() {
            cache.unsubscribe_all();
        }
    }

    async fn watch(self, kind: KindId, cache: Cache<MetadataObject>, server: WatchedServer, seeds: Seeds) {
        let watched: Arc<dyn AnyCache> = Arc::new(cache.clone());
        let synced = cache.synced();
        let complete = synced.each_time_set(|| {
            let subscribers = self.shared.on_complete.lock().clone();
            for on_complete in subscribers {
                on_complete(&kind);
            }
        });
        futures::future::join(reflect(server, watched, seeds, self.shared.metrics.clone()), complete).await;
    }

    /// Starts and stops watches as the set of kinds changes, for as long as it is polled.
    pub(crate) async fn run(self, server: WatchedServer, seeds: Seeds) {
        let mut watches = JoinSet::new();
        let mut running = BTreeMap::new();
        loop {
            let caches = self.shared.caches.lock().clone();
            running.retain(|kind, task: &mut (Cache<MetadataObject>, tokio::task::AbortHandle)| {
                let keep = caches.get(kind).is_some_and(|cache| cache.is_same(&task.0));
                if !keep {
                    task.1.abort();
                }
                keep
            });
            for (kind, cache) in caches {
                running.entry(kind.clone()).or_insert_with(|| {
                    let watch = self.clone().watch(kind, cache.clone(), server.clone(), seeds.clone());
                    (cache, watches.spawn(watch))
                });
            }
            tokio::select! {
                biased;
                Some(ended) = watches.join_next() => resume_panic(ended),
                () = self.shared.kinds_changed.notified() => {}
            }
        }
    }
}

/// Passes a panic of a watch on to the runtime, which then stops.
fn resume_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

fn attach(cache: &Cache<MetadataObject>, kind: &KindId, subscriber: Subscriber) {
    let kind = kind.clone();
    cache.subscribe(Box::new(move |event, reason| subscriber(&kind, event, reason)));
}
