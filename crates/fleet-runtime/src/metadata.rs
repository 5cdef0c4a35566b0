//! Watches that come and go: the metadata of kinds that are known only at run time.
//!
//! Decides which kinds are watched (those that were asked for last) and when one is complete. Content is never held: who
//! needs it reads it. Never decides which kinds are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kube::core::{DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::cache::{Cache, Event, Kind, Sink};
use crate::clock::Seeds;
use crate::key::ObjectKey;
use crate::kind::KindId;
use crate::metrics::Metrics;
use crate::queue::Reason;
use crate::watch::follow;
use crate::write::Side;

/// An object of which only the metadata is known.
pub type MetadataObject = PartialObjectMeta<DynamicObject>;

type OnComplete = Arc<dyn Fn(&KindId) + Send + Sync>;
type Subscriber = Arc<dyn Fn(&KindId, Event<'_, MetadataObject>, Reason) + Send + Sync>;

/// One cache of metadata per kind that is wanted at the moment. Clones are the same.
#[derive(Clone)]
pub struct MetadataCaches {
    shared: Arc<Shared>,
}

struct Shared {
    side: Side,
    metrics: Metrics,
    caches: Mutex<BTreeMap<KindId, Cache<MetadataObject>>>,
    subscribers: Mutex<Vec<Subscriber>>,
    on_complete: Mutex<Vec<OnComplete>>,
    wanted: Notify,
}

impl fmt::Debug for MetadataCaches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataCaches").field("kinds", &self.kinds()).finish()
    }
}

impl MetadataCaches {
    pub(crate) fn new(side: Side, metrics: Metrics) -> Self {
        let shared = Shared {
            side,
            metrics,
            caches: Mutex::default(),
            subscribers: Mutex::default(),
            on_complete: Mutex::default(),
            wanted: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Watches exactly these kinds from now on. What is no longer wanted is forgotten without a word; what is new comes as
    /// changes. Asking for the same again does nothing.
    pub fn want(&self, kinds: &BTreeSet<KindId>) {
        let mut caches = self.shared.caches.lock();
        let before = caches.len();
        caches.retain(|kind, _| kinds.contains(kind));
        let mut changed = caches.len() != before;
        for kind in kinds {
            if !caches.contains_key(kind) {
                caches.insert(kind.clone(), self.make(kind));
                changed = true;
            }
        }
        drop(caches);
        if changed {
            self.shared.wanted.notify_one();
        }
    }

    fn make(&self, kind: &KindId) -> Cache<MetadataObject> {
        let declared = Kind::with_id(kind.clone()).on(self.shared.side).packed().metadata_only();
        let cache = Cache::new(declared, self.shared.metrics.clone());
        for subscriber in self.shared.subscribers.lock().iter() {
            attach(&cache, kind, subscriber.clone());
        }
        cache
    }

    /// The kinds that are wanted.
    pub fn kinds(&self) -> Vec<KindId> {
        self.shared.caches.lock().keys().cloned().collect()
    }

    /// Whether all objects of this kind are known. Until then nothing may be concluded from what is not there.
    pub fn is_complete(&self, kind: &KindId) -> bool {
        self.cache(kind).is_some_and(|cache| cache.is_synced())
    }

    /// The cache of a kind, if it is wanted.
    pub fn cache(&self, kind: &KindId) -> Option<Cache<MetadataObject>> {
        self.shared.caches.lock().get(kind).cloned()
    }

    pub fn get(&self, kind: &KindId, key: &ObjectKey) -> Option<Arc<MetadataObject>> {
        self.cache(kind)?.get(key)
    }

    /// All objects of a kind, ordered by key; none if the kind is not wanted.
    pub fn list(&self, kind: &KindId) -> Vec<Arc<MetadataObject>> {
        self.cache(kind).map(|cache| cache.list()).unwrap_or_default()
    }

    /// The objects of a kind in one namespace, ordered by name.
    pub fn in_namespace(&self, kind: &KindId, namespace: &str) -> Vec<Arc<MetadataObject>> {
        self.cache(kind).map(|cache| cache.in_namespace(namespace)).unwrap_or_default()
    }

    pub(crate) fn subscribe(&self, subscriber: Subscriber) {
        // Attached without a lock: the subscriber hears of what is there already, and may look things up.
        let there = {
            let caches = self.shared.caches.lock();
            self.shared.subscribers.lock().push(subscriber.clone());
            caches.clone()
        };
        for (kind, cache) in there {
            attach(&cache, &kind, subscriber.clone());
        }
    }

    /// Calls `f` when all objects of a kind are known for the first time.
    pub(crate) fn on_complete(&self, f: OnComplete) {
        self.shared.on_complete.lock().push(f);
    }

    /// Lets go of whoever listens, and of what they listen to.
    pub(crate) fn release(&self) {
        self.shared.subscribers.lock().clear();
        self.shared.on_complete.lock().clear();
        for cache in std::mem::take(&mut *self.shared.caches.lock()).into_values() {
            cache.release();
        }
    }

    async fn follow(self, kind: KindId, cache: Cache<MetadataObject>, client: kube::Client, seeds: Seeds) {
        let sink: Arc<dyn Sink> = Arc::new(cache.clone());
        let complete = async {
            cache.synced().becomes(true).await;
            let listeners = self.shared.on_complete.lock().clone();
            for listener in listeners {
                listener(&kind);
            }
        };
        futures::future::join(follow(client, sink, seeds, self.shared.metrics.clone()), complete).await;
    }

    /// Starts and stops watches as kinds are wanted, for as long as it is polled.
    pub(crate) async fn run(self, client: kube::Client, seeds: Seeds) {
        let mut watches = JoinSet::new();
        let mut running = BTreeMap::new();
        loop {
            let wanted = self.shared.caches.lock().clone();
            running.retain(|kind, task: &mut (Cache<MetadataObject>, tokio::task::AbortHandle)| {
                let keep = wanted.get(kind).is_some_and(|cache| cache.is_same(&task.0));
                if !keep {
                    task.1.abort();
                }
                keep
            });
            for (kind, cache) in wanted {
                running.entry(kind.clone()).or_insert_with(|| {
                    let following = self.clone().follow(kind, cache.clone(), client.clone(), seeds.clone());
                    (cache, watches.spawn(following))
                });
            }
            tokio::select! {
                biased;
                Some(ended) = watches.join_next() => pass_on_panic(ended),
                () = self.shared.wanted.notified() => {}
            }
        }
    }
}

/// Whoever watches over us shall know.
fn pass_on_panic(ended: Result<(), tokio::task::JoinError>) {
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
