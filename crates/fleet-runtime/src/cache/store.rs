//! The rules by which versions of objects replace each other.
//!
//! Decides from revisions alone which version of an object is the newest: what a list, a watch and our own writes bring
//! may arrive in any order, and the highest revision wins. Our own write is seen until the watch has passed it; what we
//! deleted stays deleted until the watch says so too; what cannot be read changes nothing but a mark. Only a list can say
//! that the server was set back to an older state, and then it counts alone. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::kind::Index;
use super::packed::{Packed, Packer};
use super::{Cached, Keep};
use crate::key::{ObjectKey, Revision};

/// Who brought a version of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A list that `begin_list` opened.
    List,
    /// The watch; everything before it has been seen.
    Watch,
    /// The answer to a request of ours.
    Answer,
}

/// What taking in a version led to.
#[derive(Debug)]
pub(crate) enum Change<K> {
    None,
    /// Without either side: an object that could never be read is gone.
    Changed {
        key: ObjectKey,
        old: Option<Arc<K>>,
        new: Option<Arc<K>>,
    },
    /// Another object has its name now: the old one was deleted, though nobody has told.
    Replaced {
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

/// Which version of which object.
#[derive(Debug)]
pub(crate) struct Version {
    key: ObjectKey,
    revision: Revision,
    uid: Option<String>,
}

impl Version {
    /// `None` for something that has no name: it is no object.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        Some(Self {
            key: ObjectKey::of_value(value)?,
            revision: Revision::of_value(value),
            uid: value["metadata"]["uid"].as_str().map(str::to_owned),
        })
    }
}

/// An object that could be read, with all that the store wants to know of it. Made before any lock is taken.
#[derive(Debug)]
pub(crate) struct Readable<K> {
    object: Arc<K>,
    /// For each index, the values that it is found by.
    found_by: Vec<Vec<String>>,
}

impl<K: Cached> Readable<K> {
    pub(crate) fn new(value: &Value, indexes: &[Index<K>]) -> Result<Self, String> {
        let object = K::deserialize(value).map(Arc::new).map_err(|error| error.to_string())?;
        let found_by = indexes.iter().map(|index| (index.keys)(&object)).collect();
        Ok(Self { object, found_by })
    }
}

pub(crate) struct Store<K> {
    entries: BTreeMap<ObjectKey, Entry<K>>,
    indexes: Arc<[Index<K>]>,
    /// For each index, the keys by value.
    found: Vec<BTreeMap<Box<str>, BTreeSet<ObjectKey>>>,
    packer: Option<Packer>,
    /// By uid: what we deleted and the watch still believes in.
    tombstones: BTreeMap<String, Tombstone>,
    broken: BTreeMap<ObjectKey, Broken>,
    /// The watch has told everything up to here.
    seen: Revision,
    listing: Option<Listing>,
    no_name: Arc<str>,
}

struct Entry<K> {
    revision: Revision,
    held: Held<K>,
}

enum Held<K> {
    Parsed(Arc<K>),
    Packed(Packed),
}

struct Tombstone {
    /// The version that we knew when we deleted it.
    revision: Revision,
}

struct Broken {
    revision: Revision,
    problem: String,
}

struct Listing {
    revision: Revision,
    keys: BTreeSet<ObjectKey>,
    /// Objects in the list that we have deleted since.
    buried: BTreeSet<String>,
}

impl<K: Cached> Store<K> {
    pub(crate) fn new(keep: Keep, indexes: Arc<[Index<K>]>) -> Self {
        Self {
            entries: BTreeMap::new(),
            found: indexes.iter().map(|_| BTreeMap::new()).collect(),
            indexes,
            packer: (keep == Keep::Packed).then(Packer::default),
            tombstones: BTreeMap::new(),
            broken: BTreeMap::new(),
            seen: Revision::default(),
            listing: None,
            no_name: Arc::from(""),
        }
    }

    /// Whether this version is worth reading. What it says of the watch and of a list is taken in even if it is not.
    pub(crate) fn is_wanted(&mut self, version: &Version, origin: Origin) -> bool {
        let Version { key, revision, uid } = version;
        if origin == Origin::Watch {
            self.passed(*revision);
        }
        if let (Origin::List, Some(listing)) = (origin, &mut self.listing) {
            listing.keys.insert(key.clone());
        }
        let is_buried = uid.as_ref().is_some_and(|uid| self.is_buried(uid, origin));
        !is_buried && self.is_news(key, *revision, origin)
    }

    /// Takes in a version that is wanted, unless that has changed while it was read.
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
            Ok(Readable { object, found_by }) => {
                self.broken.remove(&key);
                let old = self.take(&key);
                self.insert(key.clone(), revision, &object, found_by, value);
                match old {
                    Some(old) if old.meta().uid != uid => Change::Replaced { key, old, new: object },
                    old => Change::Changed { key, old, new: Some(object) },
                }
            }
            Err(problem) => {
                let known = self.broken.get(&key).is_some_and(|broken| broken.revision == revision);
                self.broken.insert(key.clone(), Broken { revision, problem: problem.clone() });
                if known { Change::None } else { Change::Unreadable { key, revision, problem } }
            }
        }
    }

    /// The watch says that this object is gone; its revision is that of the deletion.
    pub(crate) fn remove(&mut self, object: &Value) -> Change<K> {
        let Some(key) = ObjectKey::of_value(object) else { return Change::None };
        let (revision, uid) = (Revision::of_value(object), object["metadata"]["uid"].as_str());
        self.passed(revision);
        if let Some(uid) = uid {
            self.tombstones.remove(uid);
        }
        let was_broken = self.broken.get(&key).is_some_and(|broken| broken.revision <= revision);
        if was_broken {
            self.broken.remove(&key);
        }
        let is_meant = match self.entries.get(&key) {
            Some(entry) => entry.revision <= revision || self.uid_of(&key).as_deref() == uid,
            None => was_broken,
        };
        if is_meant { self.gone(key) } else { Change::None }
    }

    /// We deleted the object with this uid. Versions of it that the watch has still to tell are old news.
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
        Change::Changed { old: self.take(&key), new: None, key }
    }

    /// A list of everything begins, as of this revision. Says whether the server was set back: it had told of later ones.
    pub(crate) fn begin_list(&mut self, revision: Revision) -> bool {
        self.listing = Some(Listing { revision, keys: BTreeSet::new(), buried: BTreeSet::new() });
        let is_set_back = revision != Revision::default() && revision < self.seen;
        if is_set_back {
            // What is known is of a future that has not happened. Everything in the list is newer.
            self.seen = Revision::default();
            self.tombstones.clear();
            self.entries.values_mut().for_each(|entry| entry.revision = Revision::default());
            self.broken.values_mut().for_each(|broken| broken.revision = Revision::default());
        }
        is_set_back
    }

    /// The list is complete: what it does not have is gone, unless it is newer than the list.
    pub(crate) fn end_list(&mut self) -> Vec<Change<K>> {
        let Some(listing) = self.listing.take() else { return Vec::new() };
        let is_gone = |key: &ObjectKey, revision: Revision| revision <= listing.revision && !listing.keys.contains(key);
        let entries = self.entries.iter().map(|(key, entry)| (key, entry.revision));
        let broken = self.broken.iter().map(|(key, broken)| (key, broken.revision));
        let gone: BTreeSet<ObjectKey> = entries
            .chain(broken)
            .filter(|(key, revision)| is_gone(key, *revision))
            .map(|(key, _)| key.clone())
            .collect();
        self.broken.retain(|key, broken| !is_gone(key, broken.revision));
        self.tombstones.retain(|uid, tombstone| tombstone.revision > listing.revision || listing.buried.contains(uid));
        self.passed(listing.revision);
        gone.into_iter().map(|key| self.gone(key)).collect()
    }

    pub(crate) fn passed(&mut self, revision: Revision) {
        self.seen = self.seen.max(revision);
    }

    fn is_buried(&mut self, uid: &str, origin: Origin) -> bool {
        let buried = self.tombstones.contains_key(uid);
        if let (true, Origin::List, Some(listing)) = (buried, origin, &mut self.listing) {
            listing.buried.insert(uid.to_owned());
        }
        buried
    }

    fn is_news(&self, key: &ObjectKey, revision: Revision, origin: Origin) -> bool {
        if revision == Revision::default() {
            // A server whose revisions are no numbers: the watch is right, whatever we wrote.
            return origin != Origin::Answer;
        }
        // An answer that the watch has passed says nothing new; its object may even be gone since.
        let passed = origin == Origin::Answer && revision <= self.seen;
        !passed && self.entries.get(key).is_none_or(|entry| entry.revision < revision)
    }

    fn insert(
        &mut self,
        mut key: ObjectKey,
        revision: Revision,
        object: &Arc<K>,
        found_by: Vec<Vec<String>>,
        value: &Value,
    ) {
        self.share_namespace(&mut key);
        for (found, values) in self.found.iter_mut().zip(found_by) {
            for value in values {
                found.entry(value.into()).or_default().insert(key.clone());
            }
        }
        let held = match &mut self.packer {
            Some(packer) => {
                let packed = packer.pack(value);
                debug_assert!(
                    !self.entries.is_empty() || packer.unpack::<K>(&packed).is_ok(),
                    "this type cannot be held packed"
                );
                Held::Packed(packed)
            }
            None => Held::Parsed(object.clone()),
        };
        self.entries.insert(key, Entry { revision, held });
    }

    /// Objects of one namespace share its name: the neighbour has it already.
    fn share_namespace(&self, key: &mut ObjectKey) {
        let Some(namespace) = &key.namespace else { return };
        let first = ObjectKey { namespace: Some(namespace.clone()), name: self.no_name.clone() };
        let neighbour = self.entries.range(first..).next().and_then(|(key, _)| key.namespace.clone());
        if neighbour.as_ref() == Some(namespace) {
            key.namespace = neighbour;
        }
    }

    /// Removes an entry and all that refers to it.
    fn take(&mut self, key: &ObjectKey) -> Option<Arc<K>> {
        let entry = self.entries.remove(key)?;
        let object = open(self.packer.as_ref(), &entry.held)?;
        for (index, found) in self.indexes.iter().zip(&mut self.found) {
            for value in (index.keys)(&object) {
                if let Some(keys) = found.get_mut(value.as_str()) {
                    keys.remove(key);
                    if keys.is_empty() {
                        found.remove(value.as_str());
                    }
                }
            }
        }
        if let (Some(packer), Held::Packed(packed)) = (&mut self.packer, entry.held) {
            packer.release(&packed);
        }
        Some(object)
    }

    fn uid_of(&self, key: &ObjectKey) -> Option<String> {
        self.get(key)?.meta().uid.clone()
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        open(self.packer.as_ref(), &self.entries.get(key)?.held)
    }

    pub(crate) fn list(&self) -> Vec<Arc<K>> {
        self.entries.values().filter_map(|entry| open(self.packer.as_ref(), &entry.held)).collect()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.entries
            .range(ObjectKey::namespaced(namespace, "")..)
            .take_while(|(key, _)| key.namespace() == Some(namespace))
            .filter_map(|(_, entry)| open(self.packer.as_ref(), &entry.held))
            .collect()
    }

    pub(crate) fn by(&self, index: &str, value: &str) -> Vec<Arc<K>> {
        self.found(index, value).filter_map(|key| self.get(key)).collect()
    }

    pub(crate) fn keys_by(&self, index: &str, value: &str) -> Vec<ObjectKey> {
        self.found(index, value).cloned().collect()
    }

    #[allow(
        clippy::panic,
        reason = "a plan on nothing found would act on what is not known; a panic is contained to its key"
    )]
    fn found(&self, name: &str, value: &str) -> impl Iterator<Item = &ObjectKey> {
        let Some(place) = self.indexes.iter().position(|index| index.name == name) else {
            panic!("no index {name} was declared");
        };
        self.found.get(place).and_then(|found| found.get(value)).into_iter().flatten()
    }

    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.entries.keys().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_broken(&self, key: &ObjectKey) -> bool {
        self.broken.contains_key(key)
    }

    pub(crate) fn broken(&self) -> Vec<(ObjectKey, String)> {
        self.broken.iter().map(|(key, broken)| (key.clone(), broken.problem.clone())).collect()
    }
}

fn open<K: Cached>(packer: Option<&Packer>, held: &Held<K>) -> Option<Arc<K>> {
    match held {
        Held::Parsed(object) => Some(object.clone()),
        // What was packed had been parsed before, so this succeeds.
        Held::Packed(packed) => packer?.unpack(packed).ok().map(Arc::new),
    }
}

#[cfg(test)]
mod tests;
