//! What this process knows of a kind: an indexed, slim copy of the server's objects, with our own writes laid over it.
//!
//! Decides what a reader sees and whom a change wakes. `store` holds the rules, `packed` the compact form, `kind` how a
//! kind is declared. Never talks to a server: `watch` and the writer bring the objects.

mod kind;
mod packed;
mod store;

pub use kind::Kind;
pub(crate) use kind::Selection;
pub(crate) use store::{Change, Origin};

use std::fmt;
use std::fmt::Debug;
use std::panic;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::panic_text;
use crate::flag::Flag;
use crate::key::{ObjectKey, Revision};
use crate::kind::KindId;
use crate::metrics::Metrics;
use crate::queue::Reason;
use crate::write::Side;
use kind::Index;
use store::{Readable, Store, Version};

/// An object that can be held in a cache.
pub trait Cached: kube::Resource + DeserializeOwned + Clone + Debug + Send + Sync + 'static {}
impl<K: kube::Resource + DeserializeOwned + Clone + Debug + Send + Sync + 'static> Cached for K {}

/// How objects are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// As they are. For kinds that are read in bulk.
    #[default]
    Parsed,
    /// As compact bytes with shared strings, decoded at every read. For kinds of which there are very many.
    Packed,
}

/// A change of one object, as triggers see it. An object of another uid under the same name is told as a deletion and a
/// creation. Neither side is there if an object that could never be read is gone. Changes that come from different threads
/// may be told in another order than they happened: who keeps count looks at the cache.
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

    /// Both sides, the old one first: what a key function is mapped over so that a moved object wakes both its parents.
    pub fn sides(&self) -> impl Iterator<Item = &'a K> + use<'a, K> {
        self.old.into_iter().chain(self.new)
    }

    /// Whether it is about an object that could never be read and is gone: of that only the key is known.
    pub fn is_of_unreadable(&self) -> bool {
        self.old.is_none() && self.new.is_none()
    }

    /// Whether a property differs between the two sides, or one is missing.
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
    side: Side,
    selection: Selection,
    slim: Option<fn(&mut Value)>,
    indexes: Arc<[Index<K>]>,
    store: RwLock<Store<K>>,
    subscribers: RwLock<Vec<Subscriber<K>>>,
    synced: Flag,
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
        let indexes: Arc<[Index<K>]> = kind.indexes.into();
        let store = Store::new(kind.keep, indexes.clone());
        let shared = Shared {
            indexes,
            kind: kind.id,
            side: kind.side,
            selection: kind.selection,
            slim: kind.slim,
            store: RwLock::new(store),
            subscribers: RwLock::default(),
            synced: Flag::default(),
            metrics,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The newest version that is known, our own writes included.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.shared.store.read().get(key)
    }

    /// All objects, ordered by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.store.read().list()
    }

    /// All objects of a namespace, ordered by name. Looks at nothing else.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.shared.store.read().in_namespace(namespace)
    }

    /// The objects that an index has under a value, ordered by key. Never scans.
    pub fn by(&self, index: &str, value: &str) -> Vec<Arc<K>> {
        self.shared.store.read().by(index, value)
    }

    /// The keys that an index has under a value, in order. Cheaper than `by` for packed kinds.
    pub fn keys_by(&self, index: &str, value: &str) -> Vec<ObjectKey> {
        self.shared.store.read().keys_by(index, value)
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

    /// Whether everything that was there at the start has been seen.
    pub fn is_synced(&self) -> bool {
        self.shared.synced.is_up()
    }

    /// Whether the newest version of this object could not be read; `get` then gives the last good one, if any.
    pub fn is_broken(&self, key: &ObjectKey) -> bool {
        self.shared.store.read().is_broken(key)
    }

    /// The objects whose newest version could not be read, each with the reason.
    pub fn broken(&self) -> Vec<(ObjectKey, String)> {
        self.shared.store.read().broken()
    }

    pub fn kind(&self) -> &KindId {
        &self.shared.kind
    }

    /// Whether two handles are of one cache.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn side(&self) -> Side {
        self.shared.side
    }

    pub(crate) fn selection(&self) -> &Selection {
        &self.shared.selection
    }

    pub(crate) fn synced(&self) -> Flag {
        self.shared.synced.clone()
    }

    /// Calls `f` for every change from now on, and once for every object that is there already.
    pub(crate) fn subscribe(&self, f: Subscriber<K>) {
        // The write lock comes first: no change can fall between the two steps.
        let mut subscribers = self.shared.subscribers.write();
        for object in self.list() {
            f(Event::new(&ObjectKey::of(&*object), None, Some(&object)), Reason::Initial);
        }
        subscribers.push(f);
    }

    /// Lets go of whoever listens: they know caches, this one included, and would keep them alive for ever.
    pub(crate) fn release(&self) {
        self.shared.subscribers.write().clear();
    }

    /// Takes in a version of an object. One that is known already, such as our own write when the watch tells it, costs
    /// nothing.
    pub(crate) fn put(&self, object: &mut Value, origin: Origin) {
        let Some(version) = Version::of(object) else { return };
        if !self.shared.store.write().is_wanted(&version, origin) {
            return;
        }
        let read = self.read(object);
        let change = self.shared.store.write().put(version, object, read, origin);
        self.tell(change);
    }

    /// Whatever is in an object, it ends no watch: what makes our own code panic cannot be read.
    fn read(&self, object: &mut Value) -> Result<Readable<K>, String> {
        let reading = panic::AssertUnwindSafe(|| {
            self.slim(object);
            Readable::new(object, &self.shared.indexes)
        });
        panic::catch_unwind(reading).unwrap_or_else(|panicked| {
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

    /// The server says that this object is gone.
    pub(crate) fn remove(&self, object: &Value) {
        let change = self.shared.store.write().remove(object);
        self.tell(change);
    }

    /// We deleted this object ourselves.
    pub(crate) fn deleted_by_us(&self, key: &ObjectKey, uid: Option<&str>) {
        let change = self.shared.store.write().deleted_by_us(key, uid);
        self.tell(change);
    }

    pub(crate) fn begin_list(&self, revision: Revision) {
        if self.shared.store.write().begin_list(revision) {
            tracing::warn!(kind = %self.shared.kind, %revision, "the server was set back to an older state");
        }
    }

    pub(crate) fn end_list(&self) {
        let changes = self.shared.store.write().end_list();
        for change in changes {
            self.tell(change);
        }
        self.shared.synced.set(true);
    }

    pub(crate) fn passed(&self, revision: Revision) {
        self.shared.store.write().passed(revision);
    }

    /// Called without the store's lock: triggers read caches.
    fn tell(&self, change: Change<K>) {
        match change {
            Change::None => {}
            Change::Unreadable { key, revision, problem } => {
                self.shared.metrics.unreadable(&self.shared.kind);
                tracing::error!(kind = %self.shared.kind, %key, %revision, problem, "an object cannot be read");
            }
            Change::Changed { key, old, new } => self.tell_one(Event::new(&key, old.as_deref(), new.as_deref())),
            Change::Replaced { key, old, new } => {
                self.tell_one(Event::new(&key, Some(&old), None));
                self.tell_one(Event::new(&key, None, Some(&new)));
            }
        }
    }

    fn tell_one(&self, event: Event<'_, K>) {
        let reason = if self.is_synced() { Reason::Change } else { Reason::Initial };
        for subscriber in self.shared.subscribers.read().iter() {
            // A trigger that panics must not end the watch that everybody lives on.
            let told = panic::catch_unwind(panic::AssertUnwindSafe(|| subscriber(event, reason)));
            if told.is_err() {
                self.shared.metrics.panicked("trigger");
                tracing::error!(kind = %self.shared.kind, "a trigger panicked; its keys were not woken");
            }
        }
    }
}

/// A cache without its type, for those that bring objects: the watch and the writer.
pub(crate) trait Sink: Send + Sync {
    fn kind(&self) -> &KindId;
    fn side(&self) -> Side;
    fn selection(&self) -> &Selection;
    /// Takes in a version of an object; what nobody reads is taken out of it first.
    fn put(&self, object: &mut Value, origin: Origin);
    fn remove(&self, object: &Value);
    fn deleted_by_us(&self, key: &ObjectKey, uid: Option<&str>);
    fn begin_list(&self, revision: Revision);
    fn end_list(&self);
    fn passed(&self, revision: Revision);
    fn release(&self);
}

impl<K: Cached> Sink for Cache<K> {
    fn kind(&self) -> &KindId {
        Cache::kind(self)
    }
    fn side(&self) -> Side {
        Cache::side(self)
    }
    fn selection(&self) -> &Selection {
        Cache::selection(self)
    }
    fn put(&self, object: &mut Value, origin: Origin) {
        Cache::put(self, object, origin);
    }
    fn remove(&self, object: &Value) {
        Cache::remove(self, object);
    }
    fn deleted_by_us(&self, key: &ObjectKey, uid: Option<&str>) {
        Cache::deleted_by_us(self, key, uid);
    }
    fn release(&self) {
        Cache::release(self);
    }
    fn begin_list(&self, revision: Revision) {
        Cache::begin_list(self, revision);
    }
    fn end_list(&self) {
        Cache::end_list(self);
    }
    fn passed(&self, revision: Revision) {
        Cache::passed(self, revision);
    }
}
