//! Which changes wake which keys of a controller.
//!
//! Decides nothing by itself: it ties caches to a queue. The functions are the controller's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cache::{Cache, Cached, Event};
use crate::clock::{Clock, later};
use crate::discovery::Discovery;
use crate::flag::Flag;
use crate::kind::KindId;
use crate::metadata::{MetadataCaches, MetadataObject};
use crate::queue::{FIRST_RANK, Queue, Rank, Reason, Retry};

/// The queue of one controller, shared by its triggers and its workers.
pub(crate) struct Lane<Key> {
    pub(crate) queue: Mutex<Queue<Key>>,
    pub(crate) marked: Notify,
    pub(crate) clock: Clock,
}

impl<Key: Ord + Clone> Lane<Key> {
    pub(crate) fn new(clock: Clock, retry: Retry) -> Self {
        Self { queue: Mutex::new(Queue::new(retry)), marked: Notify::new(), clock }
    }

    pub(crate) fn mark(&self, keys: impl IntoIterator<Item = Key>, reason: Reason) {
        self.mark_ranked(keys.into_iter().map(|key| (key, FIRST_RANK)), reason);
    }

    /// Changes are looked at together with all others of the same key within `window`.
    pub(crate) fn mark_gathered(&self, keys: impl IntoIterator<Item = Key>, reason: Reason, window: Duration) {
        if reason == Reason::Initial {
            return self.mark(keys, reason);
        }
        let mut keys = keys.into_iter().peekable();
        if keys.peek().is_none() {
            return;
        }
        let due = later(self.clock.now(), window);
        let mut queue = self.queue.lock();
        for key in keys {
            queue.mark_by(key, due);
        }
        drop(queue);
        self.marked.notify_one();
    }

    pub(crate) fn mark_ranked(&self, keys: impl IntoIterator<Item = (Key, Rank)>, reason: Reason) {
        let mut keys = keys.into_iter().peekable();
        if keys.peek().is_none() {
            return;
        }
        let now = self.clock.now();
        let mut queue = self.queue.lock();
        for (key, rank) in keys {
            queue.mark_ranked(key, reason, rank, now);
        }
        drop(queue);
        self.marked.notify_one();
    }
}

/// Marks keys of a controller from outside of its triggers.
pub struct Marks<Key>(pub(crate) Arc<Lane<Key>>);

impl<Key> Clone for Marks<Key> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Key> fmt::Debug for Marks<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Marks")
    }
}

impl<Key: Ord + Clone> Marks<Key> {
    /// Asks for a look at this key, as if something about it had changed.
    pub fn mark(&self, key: Key) {
        self.0.mark([key], Reason::Change);
    }
}

type Attach<Key> = Box<dyn FnOnce(&Arc<Lane<Key>>) + Send>;

/// The changes that a controller looks at, and the caches it reads. Its first reconcile waits until all are complete.
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

    /// Wakes the keys that `keys` gives for each change in a cache. It may read other caches; while the first lists come
    /// in those may be incomplete, so the object that a key is named after must wake that key itself.
    #[must_use]
    pub fn on<K: Cached, I: IntoIterator<Item = Key>>(
        mut self,
        cache: &Cache<K>,
        keys: impl Fn(Event<'_, K>) -> I + Send + Sync + 'static,
    ) -> Self {
        let followed = cache.clone();
        self.gates.push(cache.synced());
        self.attach.push(Box::new(move |lane| {
            let lane = lane.clone();
            followed.subscribe(Box::new(move |event, reason| lane.mark(keys(event), reason)));
        }));
        self
    }

    /// The same for changes that come in crowds: a key is looked at when `window` has passed since the first of them.
    #[must_use]
    pub fn on_gathered<K: Cached, I: IntoIterator<Item = Key>>(
        mut self,
        cache: &Cache<K>,
        window: Duration,
        keys: impl Fn(Event<'_, K>) -> I + Send + Sync + 'static,
    ) -> Self {
        let followed = cache.clone();
        self.gates.push(cache.synced());
        self.attach.push(Box::new(move |lane| {
            let lane = lane.clone();
            followed.subscribe(Box::new(move |event, reason| lane.mark_gathered(keys(event), reason, window)));
        }));
        self
    }

    /// The same with a rank for each key: of several that changed, lower ones are looked at first.
    #[must_use]
    pub fn on_ranked<K: Cached, I: IntoIterator<Item = (Key, Rank)>>(
        mut self,
        cache: &Cache<K>,
        keys: impl Fn(Event<'_, K>, Timestamp) -> I + Send + Sync + 'static,
    ) -> Self {
        let followed = cache.clone();
        self.gates.push(cache.synced());
        self.attach.push(Box::new(move |lane| {
            let lane = lane.clone();
            followed.subscribe(Box::new(move |event, reason| lane.mark_ranked(keys(event, lane.clock.now()), reason)));
        }));
        self
    }

    /// The same for all kinds that `caches` watches, now or later.
    #[must_use]
    pub fn on_metadata<I: IntoIterator<Item = Key>>(
        mut self,
        caches: &MetadataCaches,
        keys: impl Fn(&KindId, Event<'_, MetadataObject>) -> I + Send + Sync + 'static,
    ) -> Self {
        let followed = caches.clone();
        self.attach.push(Box::new(move |lane| {
            let lane = lane.clone();
            followed.subscribe(Arc::new(move |kind, event, reason| lane.mark(keys(kind, event), reason)));
        }));
        self
    }

    /// Wakes keys when all objects of a kind have become known, which may be none. Until then a plan cannot conclude
    /// anything from what is not there.
    #[must_use]
    pub fn on_complete<I: IntoIterator<Item = Key>>(
        mut self,
        caches: &MetadataCaches,
        keys: impl Fn(&KindId) -> I + Send + Sync + 'static,
    ) -> Self {
        let followed = caches.clone();
        self.attach.push(Box::new(move |lane| {
            let lane = lane.clone();
            followed.on_complete(Arc::new(move |kind| lane.mark(keys(kind), Reason::Change)));
        }));
        self
    }

    /// Wakes keys whenever the set of kinds that the server has changes.
    #[must_use]
    pub fn on_discovery<I: IntoIterator<Item = Key>>(
        mut self,
        discovery: &Discovery,
        keys: impl Fn() -> I + Send + Sync + 'static,
    ) -> Self {
        let followed = discovery.clone();
        self.gates.push(discovery.known());
        self.attach.push(Box::new(move |lane| {
            let lane = lane.clone();
            followed.subscribe(Box::new(move |reason| lane.mark(keys(), reason)));
        }));
        self
    }

    /// A cache that is read and wakes nothing. The first reconcile waits for it too.
    #[must_use]
    pub fn reads<K: Cached>(mut self, cache: &Cache<K>) -> Self {
        self.gates.push(cache.synced());
        self
    }

    /// Wakes these keys once, at the start. For controllers that look after one thing that may not exist yet.
    #[must_use]
    pub fn at_start(mut self, keys: impl IntoIterator<Item = Key>) -> Self {
        let keys: Vec<Key> = keys.into_iter().collect();
        self.attach.push(Box::new(move |lane| lane.mark(keys, Reason::Initial)));
        self
    }
}
