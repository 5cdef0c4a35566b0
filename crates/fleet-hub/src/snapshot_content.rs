//! Reads the whole content of resource snapshots, once for all concurrent readers: a rollout to a hundred clusters
//! reads a snapshot a few times, not a hundred. The content is dropped with its last reader. Snapshots are immutable,
//! so it never becomes outdated.

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

type Parts<S> = OnceCell<Vec<Obj<Snapshot, S>>>;

/// Identifies a group of snapshots: key and uid of each, in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupId(Vec<(ObjectKey, Option<String>)>);

impl GroupId {
    pub(crate) fn of<'a, S: Scope>(group: impl IntoIterator<Item = &'a Obj<Snapshot, S>>) -> Self {
        Self(group.into_iter().map(|one| (ObjectKey::of(one), one.metadata.uid.clone())).collect())
    }
}

/// The content of a group, kept while it is in use.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotContent<S: Scope>(Arc<Parts<S>>);

impl<S: Scope> SnapshotContent<S> {
    pub(crate) fn snapshots(&self) -> &[Obj<Snapshot, S>] {
        self.0.get().map(Vec::as_slice).unwrap_or_default()
    }
}

/// The contents that are in use.
#[derive(Debug)]
pub(crate) struct SnapshotContentCache<S: Scope>(Mutex<BTreeMap<GroupId, Weak<Parts<S>>>>);

impl<S: Scope> Default for SnapshotContentCache<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Scope> SnapshotContentCache<S> {
    /// Reads a group, or shares the content with another reader. Fails if a snapshot of the group is gone.
    pub(crate) async fn read(&self, group: GroupId, reader: &Reader) -> Result<SnapshotContent<S>, Error> {
        let parts = self.share(&group);
        parts.get_or_try_init(|| read_all(&group, reader)).await?;
        Ok(SnapshotContent(parts))
    }

    fn share(&self, group: &GroupId) -> Arc<Parts<S>> {
        let mut shared = self.0.lock();
        shared.retain(|_, parts| parts.strong_count() > 0);
        if let Some(parts) = shared.get(group).and_then(Weak::upgrade) {
            return parts;
        }
        let parts = Arc::default();
        shared.insert(group.clone(), Arc::downgrade(&parts));
        parts
    }
}

async fn read_all<S: Scope>(group: &GroupId, reader: &Reader) -> Result<Vec<Obj<Snapshot, S>>, Error> {
    let mut parts = Vec::new();
    for (key, uid) in &group.0 {
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
