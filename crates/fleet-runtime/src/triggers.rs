//! Connects caches to the work queue of a controller: which change enqueues which keys.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cache::{Cache, Cached, Event, Signal};
use crate::clock::{Clock, later};
use crate::deferral::Deferrals;
use crate::discovery::Discovery;
use crate::flag::Flag;
use crate::kind::KindId;
use crate::metadata::{MetadataCaches, MetadataObject};
use crate::queue::{FIRST_RANK, Queue, Rank, Reason, Retry};

/// The queue of one controller, shared by its triggers and its workers.
pub(crate) struct WorkQueue<Key> {
    pub(crate) queue: Mutex<Queue<Key>>,
    /// Notified after every enqueue and every request to flush.
    pub(crate) enqueued: Notify,
    pub(crate) deferrals: Mutex<Deferrals<Key>>,
    pub(crate) clock: Clock,
}

impl<Key: Ord + Clone> WorkQueue<Key> {
    pub(crate) fn new(clock: Clock, retry: Retry) -> Self {
        let (queue, deferrals) = (Mutex::new(Queue::new(retry)), Mutex::default());
        Self { queue, enqueued: Notify::new(), deferrals, clock }
    }

    /// Handles a signal to the owner of a deferred status.
    pub(crate) fn on_deferred(&self, key: &Key, signal: Signal) {
        match signal {
            Signal::Dropped => self.enqueue([key.clone()], Reason::Change),
            Signal::Flush => {
                self.deferrals.lock().request_flush(key);
                self.enqueued.notify_one();
            }
        }
    }

    pub(crate) fn enqueue(&self, keys: impl IntoIterator<Item = Key>, reason: Reason) {
        self.enqueue_ranked(keys.into_iter().map(|key| (key, FIRST_RANK)), reason);
    }

    /// Reconciles each key once for all its changes within `window`. Keys of the first list do not wait.
    pub(crate) fn enqueue_batched(&self, keys: impl IntoIterator<Item = Key>, reason: Reason, window: Duration) {
        if reason == Reason::Initial {
            return self.enqueue(keys, reason);
        }
        let mut keys = keys.into_iter().peekable();
        if keys.peek().is_none() {
            return;
        }
        let due = later(self.clock.now(), window);
        let mut queue = self.queue.lock();
        for key in keys {
            queue.enqueue_by(key, due);
        }
        drop(queue);
        self.enqueued.notify_one();
    }

    pub(crate) fn enqueue_ranked(&self, keys: impl IntoIterator<Item = (Key, Rank)>, reason: Reason) {
        let mut keys = keys.into_iter().peekable();
        if keys.peek().is_none() {
            return;
        }
        let now = self.clock.now();
        let mut queue = self.queue.lock();
        for (key, rank) in keys {
            queue.enqueue_ranked(key, reason, rank, now);
        }
        drop(queue);
        self.enqueued.notify_one();
    }
}

/// Enqueues keys of a controller from outside of its triggers.
pub struct Enqueuer<Key>(pub(crate) Arc<WorkQueue<Key>>);

impl<Key> Clone for Enqueuer<Key> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Key> fmt::Debug for Enqueuer<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Enqueuer")
    }
}

impl<Key: Ord + Clone> Enqueuer<Key> {
    /// Enqueues this key with the priority of a change.
    pub fn enqueue(&self, key: Key) {
        self.0.enqueue([key], Reason::Change);
    }
}

type Attach<Key> = Box<dyn FnOnce(&Arc<WorkQueue<Key>>) + Send>;

/// The changes that wake a controller, and the caches that it reads. Its first reconcile waits until all of these caches are
/// synced.
pub struct Triggers<Key> {
    pub(crate) attach: Vec<Attach<Key>>,
    pub(crate) gates: Vec<Flag>,
}

impl<Key> fmt::Debug for Triggers<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Triggers").field("count", &self.attach.len()).finish_non_exhaustive()
    }
}

impl<Key> Default for Triggers<Key> {
    fn default() -> Self {
        Self { attach: Vec::new(), gates: Vec::new() }
    }
}

impl<Key: Ord + Clone + Send + Sync + 'static> Triggers<Key> {
    pub fn new() -> Self {
        Self::default()
    }

    /// Enqueues the keys that `keys` returns for each change in a cache. `keys` may read other caches, which can be incomplete
    /// during the first lists; an object must therefore always enqueue the key that is named after it.
    #[must_use]
    pub fn on<K: Cached, I: IntoIterator<Item = Key>>(
        self,
        cache: &Cache<K>,
        keys: impl Fn(Event<'_, K>) -> I + Send + Sync + 'static,
    ) -> Self {
        self.on_event(cache, move |queue, event, reason| queue.enqueue(keys(event), reason))
    }

    /// As `on`, for changes that come in bursts: a key is reconciled when `window` has passed since the first of them.
    #[must_use]
    pub fn on_batched<K: Cached, I: IntoIterator<Item = Key>>(
        self,
        cache: &Cache<K>,
        window: Duration,
        keys: impl Fn(Event<'_, K>) -> I + Send + Sync + 'static,
    ) -> Self {
        self.on_event(cache, move |queue, event, reason| queue.enqueue_batched(keys(event), reason, window))
    }

    /// As `on`, with a rank per key: of several changed keys, lower ranks are reconciled first.
    #[must_use]
    pub fn on_ranked<K: Cached, I: IntoIterator<Item = (Key, Rank)>>(
        self,
        cache: &Cache<K>,
        keys: impl Fn(Event<'_, K>, Timestamp) -> I + Send + Sync + 'static,
    ) -> Self {
        self.on_event(cache, move |queue, event, reason| {
            queue.enqueue_ranked(keys(event, queue.clock.now()), reason);
        })
    }

    fn on_event<K: Cached>(
        mut self,
        cache: &Cache<K>,
        enqueue: impl Fn(&WorkQueue<Key>, Event<'_, K>, Reason) + Send + Sync + 'static,
    ) -> Self {
        let watched = cache.clone();
        self.gates.push(cache.synced());
        self.attach.push(Box::new(move |queue| {
            let queue = queue.clone();
            watched.subscribe(Box::new(move |event, reason| enqueue(&queue, event, reason)));
        }));
        self
    }

    /// As `on`, for all kinds that `caches` watches, now or later.
    #[must_use]
    pub fn on_metadata<I: IntoIterator<Item = Key>>(
        mut self,
        caches: &MetadataCaches,
        keys: impl Fn(&KindId, Event<'_, MetadataObject>) -> I + Send + Sync + 'static,
    ) -> Self {
        let watched = caches.clone();
        self.attach.push(Box::new(move |queue| {
            let queue = queue.clone();
            watched.subscribe(Arc::new(move |kind, event, reason| queue.enqueue(keys(kind, event), reason)));
        }));
        self
    }

    /// Enqueues keys when the cache of a kind has synced, possibly with no object. Until then a missing object says nothing.
    #[must_use]
    pub fn on_complete<I: IntoIterator<Item = Key>>(
        mut self,
        caches: &MetadataCaches,
        keys: impl Fn(&KindId) -> I + Send + Sync + 'static,
    ) -> Self {
        let watched = caches.clone();
        self.attach.push(Box::new(move |queue| {
            let queue = queue.clone();
            watched.on_complete(Arc::new(move |kind| queue.enqueue(keys(kind), Reason::Change)));
        }));
        self
    }

    /// Enqueues keys whenever the set of kinds that the server serves changes.
    #[must_use]
    pub fn on_discovery<I: IntoIterator<Item = Key>>(
        mut self,
        discovery: &Discovery,
        keys: impl Fn() -> I + Send + Sync + 'static,
    ) -> Self {
        let watched = discovery.clone();
        self.gates.push(discovery.known());
        self.attach.push(Box::new(move |queue| {
            let queue = queue.clone();
            watched.subscribe(Box::new(move |reason| queue.enqueue(keys(), reason)));
        }));
        self
    }

    /// A cache that the controller reads and whose changes enqueue nothing. The first reconcile waits for it too.
    #[must_use]
    pub fn reads<K: Cached>(mut self, cache: &Cache<K>) -> Self {
        self.gates.push(cache.synced());
        self
    }

    /// Enqueues these keys once, at the start. For controllers of a single object that may not exist yet.
    #[must_use]
    pub fn at_start(mut self, keys: impl IntoIterator<Item = Key>) -> Self {
        let keys: Vec<Key> = keys.into_iter().collect();
        self.attach.push(Box::new(move |queue| queue.enqueue(keys, Reason::Initial)));
        self
    }
}
