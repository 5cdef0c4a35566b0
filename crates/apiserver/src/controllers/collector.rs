//! The garbage collector: deletes objects whose owners are gone, and handles foreground and orphan deletion.
//!
//! An owner of a kind that is not served counts as present. Never delete an object because its owner could not be read.

use std::sync::Arc;

use futures::StreamExt;
use serde_json::Value;

use super::act::{self, AttemptResult, remove_finalizer};
use super::graph::{Graph, Place};
use super::{StoreEvent, Wake};
use crate::registry::ResourceInfo;
use crate::registry::info::split_api_version;
use crate::rest::delete::{FOREGROUND, ORPHAN};
use crate::server::Cluster;
use crate::store::{Entry, Owner, key_of};

/// Objects worked on at once: with a durable store their writes share fsyncs.
const AT_ONCE: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Collector {
    graph: Graph,
}

/// The target of an owner reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    Present,
    Absent,
    /// The owner is deleted as soon as its dependents are gone.
    Waiting,
}

impl Collector {
    pub(super) fn observe(&mut self, event: &StoreEvent) {
        self.graph.observe(event);
    }

    pub(super) async fn work(&mut self, cluster: &Arc<Cluster>) -> Wake {
        let dirty = std::mem::take(&mut self.graph.dirty);
        let graph = &self.graph;
        let examined = futures::stream::iter(dirty)
            .map(|place| async move { (examine(cluster, graph, &place).await, place) })
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        let failed =
            examined.into_iter().filter(|(outcome, _)| *outcome == AttemptResult::Failed).map(|(_, place)| place);
        self.graph.dirty.extend(failed);
        if self.graph.dirty.is_empty() { Wake::OnChange } else { Wake::retry() }
    }
}

async fn examine(cluster: &Arc<Cluster>, graph: &Graph, place: &Place) -> AttemptResult {
    let Some(entry) = cluster.store().peek(&place.resource, &place.key) else { return AttemptResult::Done };
    let Some(info) = cluster.registry().find_storage(&place.resource) else { return AttemptResult::Done };
    if entry.index.deleting && entry.index.has_finalizer(ORPHAN) {
        return orphan_dependents(cluster, graph, place, &entry).await;
    }
    if entry.index.deleting && entry.index.has_finalizer(FOREGROUND) {
        return wait_for_dependents(cluster, graph, place, &entry).await;
    }
    if entry.index.deleting || entry.index.owners.is_empty() {
        return AttemptResult::Done;
    }
    follow_owners(cluster, graph, place, &info, &entry).await
}

/// Removes the reference to this object from all dependents, then removes the orphan finalizer.
async fn orphan_dependents(cluster: &Arc<Cluster>, graph: &Graph, place: &Place, entry: &Entry) -> AttemptResult {
    let uid = &entry.index.uid;
    for dependent in graph.dependents(uid) {
        let Some(found) = cluster.store().peek(&dependent.resource, &dependent.key) else { continue };
        let edited = act::edit(cluster, &dependent.resource, &found, &[], |o| drop_owners(o, |u| u == &**uid)).await;
        if edited != AttemptResult::Done {
            // Looked at again at once: the dependent may have changed in a way that does not wake this object.
            return AttemptResult::Failed;
        }
    }
    act::edit(cluster, &place.resource, entry, &[], |o| remove_finalizer(o, ORPHAN)).await
}

/// Removes the foreground finalizer once no blocking dependent is left.
async fn wait_for_dependents(cluster: &Arc<Cluster>, graph: &Graph, place: &Place, entry: &Entry) -> AttemptResult {
    let uid = &entry.index.uid;
    let blocks = |place: &Place| {
        let found = cluster.store().peek(&place.resource, &place.key);
        found.is_some_and(|e| e.index.owners.iter().any(|o| o.uid == *uid && o.block_deletion))
    };
    if graph.dependents(uid).any(blocks) {
        return AttemptResult::Done;
    }
    act::edit(cluster, &place.resource, entry, &[], |o| remove_finalizer(o, FOREGROUND)).await
}

/// Keeps an object that has a living owner; deletes one that has none left.
async fn follow_owners(
    cluster: &Arc<Cluster>,
    graph: &Graph,
    place: &Place,
    info: &ResourceInfo,
    entry: &Entry,
) -> AttemptResult {
    let states: Vec<(&Owner, OwnerState)> =
        entry.index.owners.iter().map(|owner| (owner, state_of(cluster, info, entry, owner))).collect();
    let count = |state| states.iter().filter(|(_, s)| *s == state).count();
    if count(OwnerState::Present) > 0 {
        let lost = |uid: &str| states.iter().any(|(o, s)| *s != OwnerState::Present && &*o.uid == uid);
        return act::edit(cluster, &place.resource, entry, &[], |o| drop_owners(o, lost)).await;
    }
    let has_dependents = graph.dependents(&entry.index.uid).next().is_some();
    let policy = if entry.index.has_finalizer(ORPHAN) {
        "Orphan"
    } else if entry.index.has_finalizer(FOREGROUND) || (count(OwnerState::Waiting) > 0 && has_dependents) {
        "Foreground"
    } else {
        "Background"
    };
    act::delete(cluster, info, entry, policy).await
}

fn state_of(cluster: &Cluster, info: &ResourceInfo, entry: &Entry, owner: &Owner) -> OwnerState {
    let (group, _) = split_api_version(&owner.api_version);
    let Some(kind) = cluster.registry().find_kind(group, &owner.kind) else { return OwnerState::Present };
    if kind.namespaced && !info.namespaced {
        // The reference cannot be resolved, so it has no effect.
        return OwnerState::Present;
    }
    let (namespace, _) = entry.namespace_and_name();
    let key = key_of(kind.namespaced.then_some(namespace), &owner.name);
    match cluster.store().peek(&kind.storage.key, &key) {
        Some(found) if found.index.uid == owner.uid => {
            let waits = found.index.deleting && found.index.has_finalizer(FOREGROUND);
            if waits { OwnerState::Waiting } else { OwnerState::Present }
        }
        _ => OwnerState::Absent,
    }
}

fn drop_owners(object: &mut Value, drop: impl Fn(&str) -> bool) {
    let metadata = crate::rest::meta::metadata(object);
    if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
        owners.retain(|owner| !drop(owner["uid"].as_str().unwrap_or("")));
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}
