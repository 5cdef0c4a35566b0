//! Reads the whole content of resource snapshots once for all controllers of a scope: rolling a version out to a thousand
//! clusters reads it once. The content that was used last is kept, up to a limit in bytes. Snapshots are immutable, so it never
//! becomes outdated.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use fleet_api::kinds::{Obj, Scope, Snapshot};
use fleet_api::names::{NamespaceName, PlacementKey};
use fleet_api::well_known::{annotations, labels};
use fleet_runtime::{Error, ObjectKey, Reader};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::caches::{PlacementCaches, SnapshotGroup};
use crate::keys::parent_of;

/// Content that is kept per scope, as JSON. A snapshot has at most 1.5 MiB, and most have some kilobytes.
const MAX_BYTES: usize = 8 * 1024 * 1024;

type Parts<S> = OnceCell<Vec<Obj<Snapshot, S>>>;

/// Identifies a group of snapshots: key, uid and generation of each, in order. A user who edits a snapshot changes its generation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupId(Vec<(ObjectKey, Option<String>, Option<i64>)>);

impl GroupId {
    pub(crate) fn of<'a, S: Scope>(group: impl IntoIterator<Item = &'a Obj<Snapshot, S>>) -> Self {
        let part = |one: &'a Obj<Snapshot, S>| (ObjectKey::of(one), one.metadata.uid.clone(), one.metadata.generation);
        Self(group.into_iter().map(part).collect())
    }
}

/// The content of a group.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotContent<S: Scope>(Arc<Parts<S>>);

impl<S: Scope> SnapshotContent<S> {
    pub(crate) fn snapshots(&self) -> &[Obj<Snapshot, S>] {
        self.0.get().map(Vec::as_slice).unwrap_or_default()
    }
}

/// The contents that are in use, and those that were used last. Clones share them.
#[derive(Debug)]
pub(crate) struct SnapshotContentCache<S: Scope>(Arc<Mutex<Contents<S>>>);

impl<S: Scope> Default for SnapshotContentCache<S> {
    fn default() -> Self {
        let (in_use, recent) = (BTreeMap::new(), Recent::new(MAX_BYTES));
        Self(Arc::new(Mutex::new(Contents { in_use, recent })))
    }
}

impl<S: Scope> Clone for SnapshotContentCache<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct Contents<S: Scope> {
    in_use: BTreeMap<GroupId, Weak<Parts<S>>>,
    recent: Recent<GroupId, Arc<Parts<S>>>,
}

impl<S: Scope> SnapshotContentCache<S> {
    /// Reads a group, unless its content is known or another reader is reading it. Fails if a snapshot of the group is gone.
    pub(crate) async fn read(&self, group: GroupId, reader: &Reader) -> Result<SnapshotContent<S>, Error> {
        let parts = self.share(&group);
        let snapshots = parts.get_or_try_init(|| read_all(&group, reader)).await?;
        let bytes = || snapshots.iter().map(size).fold(0, usize::saturating_add);
        self.0.lock().recent.used(&group, || (parts.clone(), bytes()));
        Ok(SnapshotContent(parts))
    }

    fn share(&self, group: &GroupId) -> Arc<Parts<S>> {
        let contents = &mut *self.0.lock();
        contents.in_use.retain(|_, parts| parts.strong_count() > 0);
        if let Some(parts) = contents.in_use.get(group).and_then(Weak::upgrade) {
            return parts;
        }
        let parts = Arc::default();
        contents.in_use.insert(group.clone(), Arc::downgrade(&parts));
        parts
    }
}

/// The number of bytes of a snapshot's content as JSON.
fn size<S: Scope>(snapshot: &Obj<Snapshot, S>) -> usize {
    serde_json::to_string(&snapshot.spec.selected_resources).map_or(usize::MAX, |text| text.len())
}

/// The values that were used last, up to a limit in bytes.
#[derive(Debug)]
struct Recent<Key, Value> {
    limit: usize,
    bytes: usize,
    /// With its size and its place in `order`.
    values: BTreeMap<Key, (Value, usize, u64)>,
    /// Least recently used first.
    order: BTreeMap<u64, Key>,
    next: u64,
}

impl<Key: Ord + Clone, Value> Recent<Key, Value> {
    fn new(limit: usize) -> Self {
        Self { limit, bytes: 0, values: BTreeMap::new(), order: BTreeMap::new(), next: 0 }
    }

    /// A value is in use now. `value` returns it with its size, if it is not known yet. A value above the limit is not kept.
    fn used(&mut self, key: &Key, value: impl FnOnce() -> (Value, usize)) {
        let place = self.next;
        self.next = self.next.saturating_add(1);
        if let Some((.., known)) = self.values.get_mut(key) {
            self.order.remove(&std::mem::replace(known, place));
        } else {
            let (value, bytes) = value();
            if bytes > self.limit {
                return;
            }
            self.bytes = self.bytes.saturating_add(bytes);
            self.values.insert(key.clone(), (value, bytes, place));
        }
        self.order.insert(place, key.clone());
        while self.bytes > self.limit
            && let Some((_, oldest)) = self.order.pop_first()
            && let Some((_, bytes, _)) = self.values.remove(&oldest)
        {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}

async fn read_all<S: Scope>(group: &GroupId, reader: &Reader) -> Result<Vec<Obj<Snapshot, S>>, Error> {
    let mut parts = Vec::new();
    for (key, uid, _) in &group.0 {
        let found = reader.get_as::<Obj<Snapshot, S>>(key).await?.filter(|found| found.metadata.uid == *uid);
        parts.push(found.ok_or_else(|| Error::Other(format!("resource snapshot {key} is gone")))?);
    }
    Ok(parts)
}

/// The snapshots of the group with this master, master first; empty if the master is missing.
pub(crate) fn group_of<'a, S: Scope>(
    snapshots: &'a [Arc<Obj<Snapshot, S>>],
    master: &str,
) -> Vec<&'a Obj<Snapshot, S>> {
    let Some(master) = snapshots.iter().find(|one| one.name() == master) else { return Vec::new() };
    let index = |one: &Obj<Snapshot, S>| one.metadata.labels.as_ref()?.get(labels::RESOURCE_INDEX).cloned();
    let is_part =
        |one: &&Obj<Snapshot, S>| index(one).is_some() && index(one) == index(master) && one.name() != master.name();
    let parts = snapshots.iter().map(Arc::as_ref).filter(is_part);
    std::iter::once(&**master).chain(parts).collect()
}

/// Like `group_of`, from the cache by index.
pub(crate) fn group_in<S: Scope>(
    caches: &PlacementCaches<S>,
    placement: &PlacementKey,
    master: &str,
) -> Vec<Arc<Obj<Snapshot, S>>> {
    let key = ObjectKey::new(placement.namespace.as_ref().map(NamespaceName::as_str), master);
    let found = caches.resource_snapshots.get(&key).filter(|master| parent_of(&**master).as_ref() == Some(placement));
    let Some(master) = found else { return Vec::new() };
    let group =
        SnapshotGroup::of(&master).map(|group| caches.resource_snapshots_by_group.get(&group)).unwrap_or_default();
    let parts = group.into_iter().filter(|part| part.name() != master.name());
    std::iter::once(master.clone()).chain(parts).collect()
}

/// Whether the group has as many snapshots as the annotation of its master says.
pub(crate) fn is_complete<S: Scope>(group: &[&Obj<Snapshot, S>]) -> bool {
    let count = group.first().and_then(|master| master.annotation(annotations::NUMBER_OF_RESOURCE_SNAPSHOTS));
    count.and_then(|count| count.parse().ok()).is_some_and(|count: usize| group.len() >= count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(recent: &Recent<&'static str, ()>) -> (Vec<&'static str>, usize) {
        (recent.order.values().copied().collect(), recent.bytes)
    }

    #[test]
    fn the_least_recently_used_values_are_dropped_at_the_limit() {
        let mut recent = Recent::new(10);
        recent.used(&"a", || ((), 4));
        recent.used(&"b", || ((), 4));
        recent.used(&"a", || panic!("it is known"));
        assert_eq!(kept(&recent), (vec!["b", "a"], 8));
        recent.used(&"c", || ((), 2));
        assert_eq!(kept(&recent), (vec!["b", "a", "c"], 10));
        recent.used(&"d", || ((), 5));
        assert_eq!(kept(&recent), (vec!["c", "d"], 7), "b and a together make room");
        recent.used(&"e", || ((), 11));
        assert_eq!(kept(&recent), (vec!["c", "d"], 7), "too large for the limit");
        recent.used(&"f", || ((), 10));
        assert_eq!(kept(&recent), (vec!["f"], 10));
    }
}
