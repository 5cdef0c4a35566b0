//! The cache of a kind: an indexed, reduced copy of the server's objects, updated by the watch and by our own writes.
//!
//! `store` has the rules by which versions replace each other, `deferred` the statuses that are written later, `packed` the compact
//! format, `kind` the declaration of a cache, `index` finds objects by values.

mod deferred;
mod index;
mod kind;
mod packed;
mod store;

pub(crate) use deferred::{DeferredStatus, NotDeferred, Owner, PendingStatus, Signal};
pub use index::CacheIndex;
pub use kind::Kind;
pub(crate) use kind::Selection;
pub(crate) use store::{Change, KnownRevision, Origin};

use std::fmt;
use std::fmt::Debug;
use std::panic;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::error::panic_text;
use crate::flag::Flag;
use crate::key::{ObjectKey, Revision};
use crate::kind::KindId;
use crate::metrics::Metrics;
use crate::queue::Reason;
use crate::write::ClusterId;
use store::{Readable, Store, Version};

/// An object that can be held in a cache.
pub trait Cached: kube::Resource + DeserializeOwned + Serialize + Clone + Debug + Send + Sync + 'static {}
impl<K: kube::Resource + DeserializeOwned + Serialize + Clone + Debug + Send + Sync + 'static> Cached for K {}

/// The format of cached objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheFormat {
    /// As typed objects. For kinds that are read in bulk.
    #[default]
    Parsed,
    /// As compact bytes with shared strings, decoded at every read. For kinds with very many objects.
    Packed,
}

/// A change of one object, as passed to triggers. An object that was replaced by one with another uid gives two events, a deletion
/// and a creation. Both `old` and `new` are `None` if an object was deleted that could never be decoded. Events from different
/// threads may arrive out of order; the cache has the current state.
#[derive(Debug)]
pub struct Event<'a, K> {
    key: &'a ObjectKey,
    pub old: Option<&'a K>,
    pub new: Option<&'a K>,
}

impl<K> Clone for Event<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Event<'_, K> {}

impl<'a, K> Event<'a, K> {
    pub fn new(key: &'a ObjectKey, old: Option<&'a K>, new: Option<&'a K>) -> Self {
        Self { key, old, new }
    }

    /// The key of the object that changed.
    pub fn key(&self) -> ObjectKey {
        self.key.clone()
    }

    /// The old and the new version, so that an object that moved triggers both of its parents.
    pub fn versions(&self) -> impl Iterator<Item = &'a K> + use<'a, K> {
        self.old.into_iter().chain(self.new)
    }

    /// Whether an object was deleted that could never be decoded. Only its key is known.
    pub fn is_of_unreadable(&self) -> bool {
        self.old.is_none() && self.new.is_none()
    }

    /// Whether a property differs between both versions, or one is missing.
    pub fn changed<T: PartialEq>(&self, property: impl Fn(&'a K) -> T) -> bool {
        match (self.old, self.new) {
            (Some(old), Some(new)) => property(old) != property(new),
            _ => true,
        }
    }
}

type Subscriber<K> = Box<dyn Fn(Event<'_, K>, Reason) + Send + Sync>;

/// A handle to all objects of one kind. Clones are the same cache.
pub struct Cache<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    kind: KindId,
    cluster: ClusterId,
    selection: Selection,
    slim: Option<fn(&mut Value)>,
    ignored: Option<fn(&Value) -> bool>,
    store: RwLock<Store<K>>,
    subscribers: RwLock<Vec<Subscriber<K>>>,
    synced: Flag,
    /// Notified after every change and every progress of the watch.
    changed: Notify,
    metrics: Metrics,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("kind", &self.shared.kind.to_string()).finish_non_exhaustive()
    }
}

impl<K: Cached> Cache<K> {
    pub(crate) fn new(kind: Kind<K>, metrics: Metrics) -> Self {
        let store = Store::new(kind.format);
        let shared = Shared {
            kind: kind.id,
            cluster: kind.cluster,
            selection: kind.selection,
            slim: kind.slim,
            ignored: kind.ignored,
            store: RwLock::new(store),
            subscribers: RwLock::default(),
            synced: Flag::default(),
            changed: Notify::new(),
            metrics,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The newest known version, including our own writes.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.shared.store.read().get(key)
    }

    /// The newest version that the server is known to have. `get` differs from it while a status write is deferred.
    pub fn stored(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.shared.store.read().stored(key)
    }

    /// All objects, ordered by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.store.read().list()
    }

    /// All objects of a namespace, ordered by name. Does not scan other namespaces.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.shared.store.read().in_namespace(namespace)
    }

    pub fn keys(&self) -> Vec<ObjectKey> {
        self.shared.store.read().keys()
    }

    pub fn len(&self) -> usize {
        self.shared.store.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a list is complete, since the start and since the last restore of the server.
    pub fn is_synced(&self) -> bool {
        self.shared.synced.is_set()
    }

    /// Whether the newest version of this object could not be decoded. `get` then returns the last good one, if any.
    pub fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.shared.store.read().is_unreadable(key)
    }

    /// The objects whose newest version could not be decoded, each with the reason.
    pub fn unreadable(&self) -> Vec<(ObjectKey, String)> {
        self.shared.store.read().unreadable()
    }

    pub fn kind(&self) -> &KindId {
        &self.shared.kind
    }

    /// Whether both handles refer to the same cache.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Resolves after the next change.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.shared.changed.notified()
    }

    /// The revision of an object that the cache holds, decodable or not.
    pub(crate) fn revision(&self, key: &ObjectKey) -> Option<Revision> {
        self.shared.store.read().known(key).object()
    }

    /// Whether the cache does not hold this object, by `Kind::ignoring`.
    pub(crate) fn is_ignored(&self, object: &Value) -> bool {
        self.shared.ignored.is_some_and(|is_ignored| is_ignored(object))
    }

    pub(crate) fn cluster(&self) -> ClusterId {
        self.shared.cluster
    }

    pub(crate) fn selection(&self) -> &Selection {
        &self.shared.selection
    }

    pub(crate) fn synced(&self) -> Flag {
        self.shared.synced.clone()
    }

    /// Calls `f` once for every cached object, and then for every change.
    pub(crate) fn subscribe(&self, f: Subscriber<K>) {
        // Taken first, so that no change is missed between the list and the subscription.
        let mut subscribers = self.shared.subscribers.write();
        for object in self.list() {
            f(Event::new(&ObjectKey::of(&*object), None, Some(&object)), Reason::Initial);
        }
        subscribers.push(f);
    }

    /// Drops all subscribers. They refer to caches, possibly this one, which would leak both.
    pub(crate) fn unsubscribe_all(&self) {
        self.shared.subscribers.write().clear();
    }

    /// Stores a version of an object. A known version, such as our own write when the watch delivers it, is not decoded again.
    pub(crate) fn put(&self, object: &mut Value, origin: Origin) {
        let Some(version) = Version::of(object) else { return };
        if self.is_ignored(object) {
            let (kind, key) = (&self.shared.kind, version.key());
            tracing::warn!(%kind, %key, "ignoring object: its kind is not served in this namespace");
            return;
        }
        if !self.shared.store.write().is_wanted(&version, origin) {
            return;
        }
        let read = self.decode(object);
        self.update(|store| store.put(version, object, read, origin));
    }

    /// Changes the store, then calls subscribers and the owners of deferred statuses that were dropped. The store must not be
    /// locked for that, because triggers read caches.
    fn update(&self, change: impl FnOnce(&mut Store<K>) -> Change<K>) {
        let (change, dropped) = {
            let mut store = self.shared.store.write();
            let change = change(&mut store);
            (change, store.take_dropped())
        };
        self.publish(change);
        for owner in dropped {
            owner(Signal::Dropped);
        }
        self.shared.changed.notify_waiters();
    }

    /// Shows a status to readers until it is written. `version` is the stored version that it was computed from.
    pub(crate) fn defer(&self, key: &ObjectKey, version: Option<&str>, new: DeferredStatus) -> Result<(), NotDeferred> {
        let change = self.shared.store.write().defer(key, version, new)?;
        self.publish(change);
        Ok(())
    }

    /// Shows the stored status again.
    pub(crate) fn drop_deferred(&self, key: &ObjectKey) {
        self.update(|store| store.drop_deferred(key));
    }

    pub(crate) fn pending_status(&self, key: &ObjectKey) -> Option<PendingStatus> {
        self.shared.store.read().pending_status(key)
    }

    /// Stores that a version could not be decoded; `identity` has its name and version.
    pub(crate) fn put_unreadable(&self, identity: &Value, problem: String, origin: Origin) {
        let Some(version) = Version::of(identity) else { return };
        self.update(|store| store.put(version, identity, Err(problem), origin));
    }

    /// An object that makes our own code panic counts as unreadable; it must not end the watch.
    fn decode(&self, object: &mut Value) -> Result<Readable<K>, String> {
        let indexes = self.shared.store.read().indexes();
        let decode = panic::AssertUnwindSafe(|| {
            self.slim(object);
            Readable::new(object, &indexes)
        });
        panic::catch_unwind(decode).unwrap_or_else(|panicked| {
            self.shared.metrics.panicked("cache");
            Err(format!("reading it panicked: {}", panic_text(&*panicked)))
        })
    }

    fn slim(&self, object: &mut Value) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        if let Some(slim) = self.shared.slim {
            slim(object);
        }
    }

    /// The watch delivered the deletion of this object.
    pub(crate) fn remove(&self, object: &Value) {
        self.update(|store| store.remove(object));
    }

    /// We deleted this object ourselves.
    pub(crate) fn deleted_by_us(&self, key: &ObjectKey, uid: Option<&str>) {
        self.update(|store| store.deleted_by_us(key, uid));
    }

    pub(crate) fn before_list(&self) {
        self.shared.store.write().before_list();
    }

    /// Returns whether the server was restored to an older state.
    pub(crate) fn begin_list(&self, revision: Revision) -> bool {
        let is_restored = self.shared.store.write().begin_list(revision);
        if is_restored {
            tracing::warn!(kind = %self.shared.kind, %revision, "the API server was restored to an older state; listing again");
        }
        is_restored
    }

    /// The known revision of an object, to be compared with the response to a later request.
    pub(crate) fn known(&self, key: &ObjectKey) -> KnownRevision {
        self.shared.store.read().known(key)
    }

    /// Whether the object in a response is older than what was known before the request.
    pub(crate) fn shows_restore(&self, known: KnownRevision, response: &Value) -> bool {
        let is_cached = |key: &ObjectKey| !self.is_ignored(response) && !self.is_unreadable(key);
        known.is_after(Revision::of_value(response)) && ObjectKey::of_value(response).as_ref().is_some_and(is_cached)
    }

    /// With `is_current`, everything in the cache was listed after the last detected restore.
    pub(crate) fn end_list(&self, is_current: bool) {
        let changes = self.shared.store.write().end_list();
        for change in changes {
            self.publish(change);
        }
        self.shared.changed.notify_waiters();
        if is_current {
            self.shared.synced.set(true);
        }
    }

    /// The highest revision that the server has shown of this kind.
    pub(crate) fn latest_revision(&self) -> Revision {
        self.shared.store.read().latest_revision()
    }

    /// The watch has delivered everything up to this revision.
    pub(crate) fn advance_to(&self, revision: Revision) {
        self.shared.store.write().advance_to(revision);
    }

    fn publish(&self, change: Change<K>) {
        match change {
            Change::None => {}
            Change::Unreadable { key, revision, problem } => {
                self.shared.metrics.unreadable(&self.shared.kind);
                tracing::error!(kind = %self.shared.kind, %key, %revision, problem, "cannot decode an object");
            }
            Change::Changed { key, old, new } => {
                self.call_subscribers(Event::new(&key, old.as_deref(), new.as_deref()));
            }
            // Triggers ignore changes that only their own controller makes. This one was made by nobody, so it also counts as new.
            Change::Reverted { key, old, new } => {
                self.call_subscribers(Event::new(&key, Some(&old), Some(&new)));
                self.call_subscribers(Event::new(&key, None, Some(&new)));
            }
            Change::Replaced { key, old, new } => {
                self.call_subscribers(Event::new(&key, Some(&old), None));
                self.call_subscribers(Event::new(&key, None, Some(&new)));
            }
        }
    }

    fn call_subscribers(&self, event: Event<'_, K>) {
        let reason = if self.is_synced() { Reason::Change } else { Reason::Initial };
        for subscriber in self.shared.subscribers.read().iter() {
            // A panic in a trigger must not end the watch.
            let called = panic::catch_unwind(panic::AssertUnwindSafe(|| subscriber(event, reason)));
            if called.is_err() {
                self.shared.metrics.panicked("trigger");
                tracing::error!(kind = %self.shared.kind, "trigger panicked; its keys were not enqueued");
            }
        }
    }
}

/// A cache without its type, as the watch and the writer update it.
pub(crate) trait AnyCache: Send + Sync {
    fn kind(&self) -> &KindId;
    fn cluster(&self) -> ClusterId;
    fn selection(&self) -> &Selection;
    /// Stores a version of an object, after removing the fields that the cache does not hold.
    fn put(&self, object: &mut Value, origin: Origin);
    /// Stores that a version could not be decoded; `identity` has its name and version.
    fn put_unreadable(&self, identity: &Value, problem: String, origin: Origin);
    fn remove(&self, object: &Value);
    fn deleted_by_us(&self, key: &ObjectKey, uid: Option<&str>);
    fn defer(&self, key: &ObjectKey, version: Option<&str>, new: DeferredStatus) -> Result<(), NotDeferred>;
    fn drop_deferred(&self, key: &ObjectKey);
    fn pending_status(&self, key: &ObjectKey) -> Option<PendingStatus>;
    fn before_list(&self);
    fn begin_list(&self, revision: Revision) -> bool;
    fn known(&self, key: &ObjectKey) -> KnownRevision;
    fn latest_revision(&self) -> Revision;
    fn shows_restore(&self, known: KnownRevision, response: &Value) -> bool;
    fn end_list(&self, is_current: bool);
    fn synced(&self) -> Flag;
    fn advance_to(&self, revision: Revision);
    fn unsubscribe_all(&self);
}

impl<K: Cached> AnyCache for Cache<K> {
    fn kind(&self) -> &KindId {
        Cache::kind(self)
    }
    fn cluster(&self) -> ClusterId {
        Cache::cluster(self)
    }
    fn selection(&self) -> &Selection {
        Cache::selection(self)
    }
    fn put(&self, object: &mut Value, origin: Origin) {
        Cache::put(self, object, origin);
    }
    fn put_unreadable(&self, identity: &Value, problem: String, origin: Origin) {
        Cache::put_unreadable(self, identity, problem, origin);
    }
    fn remove(&self, object: &Value) {
        Cache::remove(self, object);
    }
    fn deleted_by_us(&self, key: &ObjectKey, uid: Option<&str>) {
        Cache::deleted_by_us(self, key, uid);
    }
    fn defer(&self, key: &ObjectKey, version: Option<&str>, new: DeferredStatus) -> Result<(), NotDeferred> {
        Cache::defer(self, key, version, new)
    }
    fn drop_deferred(&self, key: &ObjectKey) {
        Cache::drop_deferred(self, key);
    }
    fn pending_status(&self, key: &ObjectKey) -> Option<PendingStatus> {
        Cache::pending_status(self, key)
    }
    fn unsubscribe_all(&self) {
        Cache::unsubscribe_all(self);
    }
    fn before_list(&self) {
        Cache::before_list(self);
    }
    fn begin_list(&self, revision: Revision) -> bool {
        Cache::begin_list(self, revision)
    }
    fn known(&self, key: &ObjectKey) -> KnownRevision {
        Cache::known(self, key)
    }
    fn latest_revision(&self) -> Revision {
        Cache::latest_revision(self)
    }
    fn shows_restore(&self, known: KnownRevision, response: &Value) -> bool {
        Cache::shows_restore(self, known, response)
    }
    fn end_list(&self, is_current: bool) {
        Cache::end_list(self, is_current);
    }
    fn synced(&self) -> Flag {
        Cache::synced(self)
    }
    fn advance_to(&self, revision: Revision) {
        Cache::advance_to(self, revision);
    }
}
