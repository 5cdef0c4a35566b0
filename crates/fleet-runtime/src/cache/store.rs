//! The rules by which versions of cached objects replace each other.
//!
//! Versions from lists, the watch and our own writes may arrive in any order; the highest revision wins. An object that we
//! deleted stays deleted (a tombstone) until the watch delivers the deletion. A version that cannot be decoded keeps the last good
//! one. Only a list can show that the server was restored to an older state; then the list replaces everything.
//!
//! An entry may have a deferred status, which readers see before the server has it. It is kept while the stored status that it
//! was computed from is unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::deferred::{Deferred, DeferredStatus, NotDeferred, Owner, PendingStatus, status_of};
use super::index::IndexValues;
use super::packed::{Packed, Packer};
use super::{CacheFormat, Cached};
use crate::key::{ObjectKey, Revision};

/// Where a version of an object comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A list, after `begin_list`.
    List,
    /// The watch: all earlier revisions have been delivered.
    Watch,
    /// The response to our own request.
    Response,
}

/// The effect of storing a version.
#[derive(Debug)]
pub(crate) enum Change<K> {
    None,
    /// Without `old` and `new`: an object was deleted that could never be decoded.
    Changed {
        key: ObjectKey,
        old: Option<Arc<K>>,
        new: Option<Arc<K>>,
    },
    /// An object with another uid has the name now. The deletion of the old one was not delivered.
    Replaced {
        key: ObjectKey,
        old: Arc<K>,
        new: Arc<K>,
    },
    /// The server was restored and has another version than the one that was cached.
    Reverted {
        key: ObjectKey,
        old: Arc<K>,
        new: Arc<K>,
    },
    Unreadable {
        key: ObjectKey,
        revision: Revision,
        problem: String,
    },
}

/// Identifies a version of an object.
#[derive(Debug)]
pub(crate) struct Version {
    key: ObjectKey,
    revision: Revision,
    uid: Option<String>,
}

impl Version {
    /// `None` for a value without a name, which is not an object.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        Some(Self {
            key: ObjectKey::of_value(value)?,
            revision: Revision::of_value(value),
            uid: value["metadata"]["uid"].as_str().map(str::to_owned),
        })
    }

    pub(crate) fn key(&self) -> &ObjectKey {
        &self.key
    }
}

/// A decoded object with its index values. Created before the store is locked.
#[derive(Debug)]
pub(crate) struct Readable<K> {
    object: Arc<K>,
    /// Its values in each index.
    index_values: Vec<Vec<String>>,
}

impl<K: Cached> Readable<K> {
    pub(crate) fn new(value: &Value, indexes: &[IndexValues<K>]) -> Result<Self, String> {
        let object = K::deserialize(value).map(Arc::new).map_err(|error| error.to_string())?;
        let index_values = indexes.iter().map(|values| values(&object)).collect();
        Ok(Self { object, index_values })
    }
}

/// The revision of an object at some time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownRevision {
    object: Option<Revision>,
    /// The watch had delivered everything up to here.
    seen: Revision,
}

impl KnownRevision {
    pub(crate) fn object(self) -> Option<Revision> {
        self.object
    }

    /// Whether a later response with this revision is older than what was known: the server was restored.
    pub(crate) fn is_after(self, response: Revision) -> bool {
        // An unknown object cannot have existed before the revision that the watch had reached.
        response != Revision::default() && response < self.object.unwrap_or(self.seen)
    }
}

type KeysByValue = BTreeMap<Box<str>, BTreeSet<ObjectKey>>;

pub(crate) struct Store<K> {
    entries: BTreeMap<ObjectKey, Entry<K>>,
    indexes: Arc<[IndexValues<K>]>,
    /// For each index, the keys by value.
    keys_by_value: Vec<KeysByValue>,
    packer: Option<Packer>,
    /// By uid: objects that we deleted and whose deletion the watch has not delivered.
    tombstones: BTreeMap<String, Tombstone>,
    unreadable: BTreeMap<ObjectKey, Unreadable>,
    /// The watch has delivered everything up to here.
    seen: Revision,
    /// The highest revision of an object so far, from any origin.
    newest: Revision,
    /// `newest` when the list was requested.
    newest_before_list: Revision,
    listing: Option<Listing>,
    empty_name: Arc<str>,
    /// The owners of deferred statuses that were dropped because another client changed the stored status.
    dropped: Vec<Owner>,
}

struct Entry<K> {
    revision: Revision,
    /// With the deferred status, if there is one.
    content: Content<K>,
    deferred: Option<Box<Deferred<K>>>,
}

/// An entry that was removed from the store.
struct Taken<K> {
    object: Arc<K>,
    deferred: Option<Box<Deferred<K>>>,
}

enum Content<K> {
    Parsed(Arc<K>),
    Packed(Packed),
}

struct Tombstone {
    /// The newest known version at the time of the deletion.
    revision: Revision,
}

struct Unreadable {
    revision: Revision,
    problem: String,
}

struct Listing {
    revision: Revision,
    keys: BTreeSet<ObjectKey>,
    /// The uids of objects in the list that have a tombstone.
    with_tombstone: BTreeSet<String>,
}

impl<K: Cached> Store<K> {
    pub(crate) fn new(format: CacheFormat) -> Self {
        Self {
            entries: BTreeMap::new(),
            keys_by_value: Vec::new(),
            indexes: Arc::from([]),
            packer: (format == CacheFormat::Packed).then(Packer::default),
            tombstones: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            seen: Revision::default(),
            newest: Revision::default(),
            newest_before_list: Revision::default(),
            listing: None,
            empty_name: Arc::from(""),
            dropped: Vec::new(),
        }
    }

    /// Adds an index, with the objects that are already there. Returns its place.
    pub(crate) fn add_index(&mut self, values: IndexValues<K>) -> usize {
        let mut keys_by_value = KeysByValue::new();
        for (key, entry) in &self.entries {
            let object = open(self.packer.as_ref(), &entry.content);
            for value in object.iter().flat_map(|object| values(object)) {
                keys_by_value.entry(value.into()).or_default().insert(key.clone());
            }
        }
        self.keys_by_value.push(keys_by_value);
        self.indexes = self.indexes.iter().cloned().chain([values]).collect();
        self.indexes.len().saturating_sub(1)
    }

    pub(crate) fn indexes(&self) -> Arc<[IndexValues<K>]> {
        self.indexes.clone()
    }

    /// Whether this version must be decoded and stored. Records the progress of the watch or list in any case.
    pub(crate) fn is_wanted(&mut self, version: &Version, origin: Origin) -> bool {
        let Version { key, revision, uid } = version;
        if origin == Origin::Watch {
            self.advance_to(*revision);
        }
        if let (Origin::List, Some(listing)) = (origin, &mut self.listing) {
            listing.keys.insert(key.clone());
        }
        let has_tombstone = uid.as_ref().is_some_and(|uid| self.has_tombstone(uid, origin));
        !has_tombstone && self.is_newer(key, *revision, origin)
    }

    /// Stores a version, unless a newer one was stored while it was decoded.
    pub(crate) fn put(
        &mut self,
        version: Version,
        value: &Value,
        read: Result<Readable<K>, String>,
        origin: Origin,
    ) -> Change<K> {
        if !self.is_wanted(&version, origin) {
            return Change::None;
        }
        let Version { key, revision, uid } = version;
        match read {
            Ok(read) => {
                self.unreadable.remove(&key);
                let is_lost = self.is_lost(&key, revision, origin);
                let (old, deferred) = self.take(&key).map(|taken| (taken.object, taken.deferred)).unzip();
                let is_replaced = old.as_ref().is_some_and(|old| old.meta().uid != uid);
                let deferred = deferred.flatten().filter(|_| !is_replaced);
                let new = match deferred.and_then(|deferred| self.rebase(deferred, &read.object, value)) {
                    Some((deferred, value, overlaid)) => {
                        self.insert(key.clone(), revision, overlaid, &value, Some(deferred))
                    }
                    None => self.insert(key.clone(), revision, read, value, None),
                };
                match old {
                    Some(old) if is_replaced => Change::Replaced { key, old, new },
                    Some(old) if is_lost && old.meta().resource_version != new.meta().resource_version => {
                        Change::Reverted { key, old, new }
                    }
                    old => Change::Changed { key, old, new: Some(new) },
                }
            }
            Err(problem) => {
                let known = self.unreadable.get(&key).is_some_and(|unreadable| unreadable.revision == revision);
                self.unreadable.insert(key.clone(), Unreadable { revision, problem: problem.clone() });
                if known { Change::None } else { Change::Unreadable { key, revision, problem } }
            }
        }
    }

    /// The watch delivered the deletion of this object; its revision is that of the deletion.
    pub(crate) fn remove(&mut self, object: &Value) -> Change<K> {
        let Some(key) = ObjectKey::of_value(object) else { return Change::None };
        let (revision, uid) = (Revision::of_value(object), object["metadata"]["uid"].as_str());
        self.advance_to(revision);
        if let Some(uid) = uid {
            self.tombstones.remove(uid);
        }
        let was_unreadable = self.unreadable.get(&key).is_some_and(|unreadable| unreadable.revision <= revision);
        if was_unreadable {
            self.unreadable.remove(&key);
        }
        let is_removed = match self.entries.get(&key) {
            Some(entry) => entry.revision <= revision || self.uid_of(&key).as_deref() == uid,
            None => was_unreadable,
        };
        if is_removed { self.gone(key) } else { Change::None }
    }

    /// We deleted the object with this uid. Versions of it that the watch still delivers are ignored.
    pub(crate) fn deleted_by_us(&mut self, key: &ObjectKey, uid: Option<&str>) -> Change<K> {
        let (Some(entry), Some(uid)) = (self.entries.get(key), uid) else { return Change::None };
        let revision = entry.revision;
        if self.uid_of(key).as_deref() != Some(uid) {
            return Change::None;
        }
        self.tombstones.insert(uid.to_owned(), Tombstone { revision });
        self.gone(key.clone())
    }

    fn gone(&mut self, key: ObjectKey) -> Change<K> {
        Change::Changed { old: self.take(&key).map(|taken| taken.object), new: None, key }
    }

    /// Shows `new` to readers as the status of an object until it is written. `version` is the stored version that it was computed
    /// from.
    pub(crate) fn defer(
        &mut self,
        key: &ObjectKey,
        version: Option<&str>,
        new: DeferredStatus,
    ) -> Result<Change<K>, NotDeferred> {
        let stored = self.stored(key).ok_or(NotDeferred::NotCached)?;
        if stored.meta().resource_version.as_deref() != version {
            return Err(NotDeferred::Outdated);
        }
        let base = status_of(&*stored).map_err(|_| NotDeferred::NotCached)?;
        if base == new.status {
            return Ok(self.drop_deferred(key));
        }
        let mut value = serde_json::to_value(&*stored).map_err(|_| NotDeferred::NotCached)?;
        value["status"] = new.status.clone();
        let read = Readable::new(&value, &self.indexes).map_err(|_| NotDeferred::NotCached)?;
        let revision = self.entries.get(key).map(|entry| entry.revision).unwrap_or_default();
        let old = self.take(key).map(|taken| taken.object);
        let deferred = Deferred { stored, base, new };
        let new = self.insert(key.clone(), revision, read, &value, Some(Box::new(deferred)));
        Ok(Change::Changed { key: key.clone(), old, new: Some(new) })
    }

    /// Shows the stored status again.
    pub(crate) fn drop_deferred(&mut self, key: &ObjectKey) -> Change<K> {
        let Some(revision) = self.entries.get(key).filter(|entry| entry.deferred.is_some()).map(|entry| entry.revision)
        else {
            return Change::None;
        };
        let Some(Taken { object, deferred: Some(deferred) }) = self.take(key) else { return Change::None };
        let Ok(value) = serde_json::to_value(&*deferred.stored) else { return Change::None };
        let index_values = self.indexes.iter().map(|values| values(&deferred.stored)).collect();
        let read = Readable { object: deferred.stored, index_values };
        let new = self.insert(key.clone(), revision, read, &value, None);
        Change::Changed { key: key.clone(), old: Some(object), new: Some(new) }
    }

    /// The deferred status of an object, unless the newest version of the object cannot be decoded.
    pub(crate) fn pending_status(&self, key: &ObjectKey) -> Option<PendingStatus> {
        let deferred = self.entries.get(key)?.deferred.as_ref().filter(|_| !self.is_unreadable(key))?;
        let version = deferred.stored.meta().resource_version.clone();
        Some(PendingStatus { old: deferred.base.clone(), new: deferred.new.clone(), version })
    }

    /// The owners of deferred statuses that were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> Vec<Owner> {
        std::mem::take(&mut self.dropped)
    }

    /// The object that readers see: a new stored version with the deferred status. `None` if the stored status has changed.
    fn rebase(
        &mut self,
        mut deferred: Box<Deferred<K>>,
        stored: &Arc<K>,
        value: &Value,
    ) -> Option<(Box<Deferred<K>>, Value, Readable<K>)> {
        let status = status_of(&**stored).ok()?;
        if status != deferred.base {
            if status != deferred.new.status {
                self.dropped.push(deferred.new.owner);
            }
            return None;
        }
        let mut value = value.clone();
        value["status"] = deferred.new.status.clone();
        let read = Readable::new(&value, &self.indexes).ok()?;
        deferred.stored = stored.clone();
        Some((deferred, value, read))
    }

    /// Called before a list is requested; it will be at least as new as everything that is known now.
    pub(crate) fn before_list(&mut self) {
        self.newest_before_list = self.newest;
    }

    /// A list of all objects at this revision begins. Returns whether the server was restored: it had shown later revisions.
    pub(crate) fn begin_list(&mut self, revision: Revision) -> bool {
        self.listing = Some(Listing { revision, keys: BTreeSet::new(), with_tombstone: BTreeSet::new() });
        let latest = self.seen.max(self.newest_before_list);
        let is_restored = revision != Revision::default() && revision < latest;
        if is_restored {
            // The known revisions are void; everything in the list counts as newer.
            self.seen = Revision::default();
            self.newest = Revision::default();
            self.newest_before_list = Revision::default();
            self.tombstones.clear();
            self.entries.values_mut().for_each(|entry| entry.revision = Revision::default());
            self.unreadable.values_mut().for_each(|unreadable| unreadable.revision = Revision::default());
        }
        is_restored
    }

    /// The list is complete: objects that it does not contain are gone, unless they are newer than the list.
    pub(crate) fn end_list(&mut self) -> Vec<Change<K>> {
        let Some(listing) = self.listing.take() else { return Vec::new() };
        let is_gone = |key: &ObjectKey, revision: Revision| revision <= listing.revision && !listing.keys.contains(key);
        let entries = self.entries.iter().map(|(key, entry)| (key, entry.revision));
        let unreadable = self.unreadable.iter().map(|(key, unreadable)| (key, unreadable.revision));
        let gone: BTreeSet<ObjectKey> = entries
            .chain(unreadable)
            .filter(|(key, revision)| is_gone(key, *revision))
            .map(|(key, _)| key.clone())
            .collect();
        self.unreadable.retain(|key, unreadable| !is_gone(key, unreadable.revision));
        self.tombstones
            .retain(|uid, tombstone| tombstone.revision > listing.revision || listing.with_tombstone.contains(uid));
        self.advance_to(listing.revision);
        gone.into_iter().map(|key| self.gone(key)).collect()
    }

    /// The known revision of an object, to be compared with the response to a later request.
    pub(crate) fn known(&self, key: &ObjectKey) -> KnownRevision {
        KnownRevision { object: self.entries.get(key).map(|entry| entry.revision), seen: self.seen }
    }

    /// The highest revision that the server has shown, by its watch or in a response.
    pub(crate) fn latest_revision(&self) -> Revision {
        self.seen.max(self.newest)
    }

    /// The watch has delivered everything up to this revision.
    pub(crate) fn advance_to(&mut self, revision: Revision) {
        self.seen = self.seen.max(revision);
    }

    fn has_tombstone(&mut self, uid: &str, origin: Origin) -> bool {
        let has_tombstone = self.tombstones.contains_key(uid);
        if let (true, Origin::List, Some(listing)) = (has_tombstone, origin, &mut self.listing) {
            listing.with_tombstone.insert(uid.to_owned());
        }
        has_tombstone
    }

    fn is_newer(&self, key: &ObjectKey, revision: Revision, origin: Origin) -> bool {
        if revision == Revision::default() {
            // The server's revisions are not numbers: trust lists and the watch, and ignore responses.
            return origin != Origin::Response;
        }
        // The watch has already delivered this revision; the object may even be gone by now.
        let is_late = origin == Origin::Response && revision <= self.seen;
        // A list has every version up to its revision. A cached version that it should have and does not was lost in a restore.
        let listed = self.listing.as_ref().filter(|_| origin == Origin::List).map(|listing| listing.revision);
        let is_lost = |known: Revision| known != revision && listed.is_some_and(|listed| known <= listed);
        !is_late && self.entries.get(key).is_none_or(|entry| entry.revision < revision || is_lost(entry.revision))
    }

    /// Whether the cached version of an object in a list was lost in a restore: it is later than that of the list, or its
    /// revision became void.
    fn is_lost(&self, key: &ObjectKey, revision: Revision, origin: Origin) -> bool {
        let known = self.entries.get(key).map(|entry| entry.revision);
        origin == Origin::List && known.is_some_and(|known| known == Revision::default() || revision < known)
    }

    fn insert(
        &mut self,
        mut key: ObjectKey,
        revision: Revision,
        Readable { object, index_values }: Readable<K>,
        value: &Value,
        deferred: Option<Box<Deferred<K>>>,
    ) -> Arc<K> {
        self.share_namespace(&mut key);
        self.newest = self.newest.max(revision);
        // An index may have been added since the object was decoded.
        let missing: Vec<_> = self.indexes.iter().skip(index_values.len()).map(|values| values(&object)).collect();
        for (keys, values) in self.keys_by_value.iter_mut().zip(index_values.into_iter().chain(missing)) {
            for value in values {
                keys.entry(value.into()).or_default().insert(key.clone());
            }
        }
        let content = match &mut self.packer {
            Some(packer) => {
                let packed = packer.pack(value);
                debug_assert!(
                    !self.entries.is_empty() || packer.unpack::<K>(&packed).is_ok(),
                    "this type cannot be packed"
                );
                Content::Packed(packed)
            }
            None => Content::Parsed(object.clone()),
        };
        self.entries.insert(key, Entry { revision, content, deferred });
        object
    }

    /// Shares the string of the namespace with the other objects of that namespace.
    fn share_namespace(&self, key: &mut ObjectKey) {
        let Some(namespace) = &key.namespace else { return };
        let first = ObjectKey { namespace: Some(namespace.clone()), name: self.empty_name.clone() };
        let neighbour = self.entries.range(first..).next().and_then(|(key, _)| key.namespace.clone());
        if neighbour.as_ref() == Some(namespace) {
            key.namespace = neighbour;
        }
    }

    /// Removes an entry and its index entries.
    fn take(&mut self, key: &ObjectKey) -> Option<Taken<K>> {
        let entry = self.entries.remove(key)?;
        let object = open(self.packer.as_ref(), &entry.content)?;
        for (values, keys_by_value) in self.indexes.iter().zip(&mut self.keys_by_value) {
            for value in values(&object) {
                if let Some(keys) = keys_by_value.get_mut(value.as_str()) {
                    keys.remove(key);
                    if keys.is_empty() {
                        keys_by_value.remove(value.as_str());
                    }
                }
            }
        }
        if let (Some(packer), Content::Packed(packed)) = (&mut self.packer, entry.content) {
            packer.release(&packed);
        }
        Some(Taken { object, deferred: entry.deferred })
    }

    fn uid_of(&self, key: &ObjectKey) -> Option<String> {
        self.get(key)?.meta().uid.clone()
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        open(self.packer.as_ref(), &self.entries.get(key)?.content)
    }

    /// The version that the server has, without a deferred status.
    pub(crate) fn stored(&self, key: &ObjectKey) -> Option<Arc<K>> {
        match &self.entries.get(key)?.deferred {
            Some(deferred) => Some(deferred.stored.clone()),
            None => self.get(key),
        }
    }

    pub(crate) fn list(&self) -> Vec<Arc<K>> {
        self.entries.values().filter_map(|entry| open(self.packer.as_ref(), &entry.content)).collect()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.entries
            .range(ObjectKey::namespaced(namespace, "")..)
            .take_while(|(key, _)| key.namespace() == Some(namespace))
            .filter_map(|(_, entry)| open(self.packer.as_ref(), &entry.content))
            .collect()
    }

    pub(crate) fn by(&self, index: usize, value: &str) -> Vec<Arc<K>> {
        self.indexed(index, value).filter_map(|key| self.get(key)).collect()
    }

    pub(crate) fn keys_by(&self, index: usize, value: &str) -> Vec<ObjectKey> {
        self.indexed(index, value).cloned().collect()
    }

    fn indexed(&self, index: usize, value: &str) -> impl Iterator<Item = &ObjectKey> {
        self.keys_by_value.get(index).and_then(|keys| keys.get(value)).into_iter().flatten()
    }

    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.entries.keys().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.unreadable.contains_key(key)
    }

    pub(crate) fn unreadable(&self) -> Vec<(ObjectKey, String)> {
        self.unreadable.iter().map(|(key, unreadable)| (key.clone(), unreadable.problem.clone())).collect()
    }
}

fn open<K: Cached>(packer: Option<&Packer>, content: &Content<K>) -> Option<Arc<K>> {
    match content {
        Content::Parsed(object) => Some(object.clone()),
        // Succeeds, because the object was parsed before it was packed.
        Content::Packed(packed) => packer?.unpack(packed).ok().map(Arc::new),
    }
}

#[cfg(test)]
mod tests;
