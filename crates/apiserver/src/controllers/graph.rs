//! The owner graph by uid, updated from the changes of the store.
//!
//! Holds only objects with owners, and owners that wait for their dependents: a cluster without owner references costs
//! nothing here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::registry::StorageKey;
use crate::rest::delete::{FOREGROUND, ORPHAN};
use crate::store::watch::StoreEvent;
use crate::store::{ChangeKind, Entry};

/// An object by its place in the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) resource: StorageKey,
    pub(super) key: Box<str>,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Uids of the owners of each object that has any.
    owners: BTreeMap<Place, Vec<Box<str>>>,
    dependents: HashMap<Box<str>, BTreeSet<Place>>,
    /// Objects in foreground deletion, by uid.
    waiting: HashMap<Box<str>, Place>,
    /// Objects to look at.
    pub(super) dirty: BTreeSet<Place>,
    listed: BTreeSet<StorageKey>,
}

impl Graph {
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Place> {
        self.dependents.get(uid).into_iter().flatten()
    }

    pub(super) fn observe(&mut self, event: &StoreEvent) {
        match event {
            StoreEvent::Changed(resource, event) => {
                let place = Place { resource: resource.clone(), key: event.entry.key.clone() };
                match event.kind {
                    ChangeKind::Put => self.put(place, &event.entry),
                    ChangeKind::Delete => self.gone(&place, Some(&event.entry.index.uid)),
                }
            }
            StoreEvent::Relisted(resource, entries) => self.relisted(resource, entries.iter().map(AsRef::as_ref)),
        }
    }

    fn relisted<'e>(&mut self, resource: &StorageKey, entries: impl Iterator<Item = &'e Entry>) {
        let known: Vec<Place> = self.owners.keys().filter(|p| p.resource == *resource).cloned().collect();
        let mut present = BTreeSet::new();
        for entry in entries {
            let place = Place { resource: resource.clone(), key: entry.key.clone() };
            present.insert(place.key.clone());
            self.put(place, entry);
        }
        for place in known.iter().filter(|p| !present.contains(&p.key)) {
            self.gone(place, None);
        }
        if !self.listed.insert(resource.clone()) {
            // Owners may have gone unseen.
            self.dirty.extend(self.owners.keys().cloned());
        }
    }

    fn put(&mut self, place: Place, entry: &Entry) {
        let uids: Vec<Box<str>> = entry.index.owners.iter().map(|o| o.uid.clone()).collect();
        self.set_owners(&place, &uids);
        // Whoever does not block its owner may have done so before.
        let unblocked = entry.index.owners.iter().filter(|owner| !owner.block_deletion);
        self.dirty.extend(unblocked.filter_map(|owner| self.waiting.get(&owner.uid)).cloned());
        let waits = entry.index.deleting && entry.index.has_finalizer(FOREGROUND);
        if waits {
            self.waiting.insert(entry.index.uid.clone(), place.clone());
            self.dirty.extend(self.dependents.get(&entry.index.uid).into_iter().flatten().cloned());
        } else {
            self.waiting.remove(&entry.index.uid);
        }
        if waits || !entry.index.owners.is_empty() || (entry.index.deleting && entry.index.has_finalizer(ORPHAN)) {
            self.dirty.insert(place);
        }
    }

    fn gone(&mut self, place: &Place, uid: Option<&str>) {
        self.set_owners(place, &[]);
        if let Some(uid) = uid {
            self.waiting.remove(uid);
            self.dirty.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        }
    }

    fn set_owners(&mut self, place: &Place, uids: &[Box<str>]) {
        let before = if uids.is_empty() {
            self.owners.remove(place)
        } else {
            for uid in uids {
                self.dependents.entry(uid.clone()).or_default().insert(place.clone());
            }
            self.owners.insert(place.clone(), uids.to_vec())
        };
        for uid in before.into_iter().flatten().filter(|uid| !uids.contains(uid)) {
            if let Some(set) = self.dependents.get_mut(&uid) {
                set.remove(place);
                if set.is_empty() {
                    self.dependents.remove(&uid);
                }
            }
            // An owner that waits has one dependent less.
            self.dirty.extend(self.waiting.get(&uid).cloned());
        }
    }
}
