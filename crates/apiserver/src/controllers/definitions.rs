//! CustomResourceDefinitions: accepts their names, serves their kinds, and removes their objects.
//!
//! A definition whose names were once accepted stays served. Schemas are validated when the definition is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use serde_json::{Value, json};

use super::act::{self, AttemptResult, remove_finalizer};
use super::namespaces::put_condition;
use super::{StoreEvent, Wake};
use crate::registry::definition::{CLEANUP_FINALIZER, NameConflict, is_established, name_conflict};
use crate::registry::{Definition, Origin, Registry, ResourceInfo, StorageKey};
use crate::rest::meta::printed_time;
use crate::server::Cluster;
use crate::store::{ChangeKind, Entry};

/// Number of objects deleted concurrently when their definition is deleted.
const AT_ONCE: usize = 32;

fn definitions() -> StorageKey {
    StorageKey::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Serves the resources of established definitions from the first request on.
pub(super) fn load(cluster: &Cluster) {
    let Ok(listing) = cluster.store().peek_list(&definitions(), None, None, usize::MAX, None) else { return };
    for entry in &listing.entries {
        if let Some(definition) = read(cluster, entry).filter(|definition| definition.established) {
            install(cluster, definition.info);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Definitions {
    dirty: BTreeSet<Box<str>>,
    /// Definitions that wait for the end of their objects, by the resource of these.
    emptying: BTreeMap<StorageKey, Box<str>>,
    installed: BTreeMap<Box<str>, Arc<ResourceInfo>>,
}

impl Definitions {
    /// Knows what is served already, so that a definition that was deleted meanwhile is withdrawn.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let served = cluster.registry().all().into_iter().filter_map(|info| match &info.origin {
            Origin::Custom { definition } => Some((definition.as_str().into(), info.clone())),
            Origin::BuiltIn | Origin::Synthetic => None,
        });
        Self { installed: served.collect(), ..Self::default() }
    }

    pub(super) fn observe(&mut self, event: &StoreEvent) {
        match event {
            StoreEvent::Changed(resource, event) => {
                if *resource == definitions() {
                    self.dirty.insert(event.entry.key.clone());
                    if event.kind == ChangeKind::Delete {
                        // A name may be free now for one that was refused.
                        self.dirty.extend(self.installed.keys().cloned());
                    }
                }
                self.dirty.extend(self.emptying.get(resource).cloned());
            }
            StoreEvent::Relisted(resource, entries) => {
                if *resource == definitions() {
                    self.dirty.extend(entries.iter().map(|e| e.key.clone()));
                    self.dirty.extend(self.installed.keys().cloned());
                }
                self.dirty.extend(self.emptying.get(resource).cloned());
            }
        }
    }

    pub(super) async fn work(&mut self, cluster: &Arc<Cluster>) -> Wake {
        let mut wake = Wake::OnChange;
        for name in std::mem::take(&mut self.dirty) {
            if self.settle(cluster, &name).await == AttemptResult::Failed {
                self.dirty.insert(name);
                wake = Wake::retry();
            }
        }
        wake
    }

    async fn settle(&mut self, cluster: &Arc<Cluster>, name: &str) -> AttemptResult {
        let Some(entry) = cluster.store().peek(&definitions(), name) else {
            self.withdraw(cluster, name);
            return AttemptResult::Done;
        };
        let Some(Definition { info, established }) = read(cluster, &entry) else { return AttemptResult::Done };
        if entry.index.deleting && entry.index.has_finalizer(CLEANUP_FINALIZER) {
            self.serve(cluster, name, &info);
            self.emptying.insert(info.storage.key.clone(), name.into());
            return clean_up(cluster, &entry, &info).await;
        }
        let others: Vec<Arc<ResourceInfo>> = others(cluster.registry(), &info, name);
        let conflict = name_conflict(&info, &others);
        let now = printed_time(cluster.now());
        let outcome =
            act::edit(cluster, &definitions(), &entry, &[], |o| set_conditions(o, conflict.as_ref(), &now)).await;
        if outcome == AttemptResult::Done && (conflict.is_none() || established) {
            self.serve(cluster, name, &info);
        }
        outcome
    }

    fn serve(&mut self, cluster: &Cluster, name: &str, info: &Arc<ResourceInfo>) {
        if self.installed.get(name).is_none_or(|installed| !Arc::ptr_eq(installed, info)) {
            install(cluster, info.clone());
            self.installed.insert(name.into(), info.clone());
        }
    }

    fn withdraw(&mut self, cluster: &Cluster, name: &str) {
        self.emptying.retain(|_, definition| **definition != *name);
        if let Some(info) = self.installed.remove(name) {
            cluster.registry().remove(&info.group, &info.plural);
        }
    }
}

/// Reads a stored definition; `None` if it cannot be served.
fn read(cluster: &Cluster, entry: &Entry) -> Option<Definition> {
    let read = cluster.definitions().read(&entry.bytes);
    read.inspect_err(|findings| tracing::warn!(name = &*entry.key, ?findings, "a stored definition cannot be served"))
        .ok()
}

/// Serves a definition. If it is already served unchanged, its resource and watches stay.
fn install(cluster: &Cluster, info: Arc<ResourceInfo>) {
    let served = cluster.registry().find_storage(&info.storage.key);
    if served.is_none_or(|served| !Arc::ptr_eq(&served, &info)) {
        cluster.registry().install(info);
    }
}

/// The other resources of the group, whose names are not available.
fn others(registry: &Registry, info: &ResourceInfo, name: &str) -> Vec<Arc<ResourceInfo>> {
    let is_other = |other: &ResourceInfo| match &other.origin {
        Origin::Custom { definition } => *definition != *name,
        Origin::BuiltIn | Origin::Synthetic => true,
    };
    registry.all().into_iter().filter(|other| other.group == info.group && is_other(other)).collect()
}

/// Deletes all objects; removes the finalizer of the definition when none is left.
async fn clean_up(cluster: &Arc<Cluster>, entry: &Entry, info: &ResourceInfo) -> AttemptResult {
    let key = &info.storage.key;
    let list = || cluster.store().peek_list(key, None, None, usize::MAX, None).map(|l| l.entries).unwrap_or_default();
    let failed = futures::stream::iter(list())
        .filter(|entry| std::future::ready(!entry.index.deleting))
        .map(|entry| async move { act::delete(cluster, info, &entry, "Background").await })
        .buffer_unordered(AT_ONCE)
        .any(|outcome| std::future::ready(outcome == AttemptResult::Failed))
        .await;
    if failed {
        return AttemptResult::Failed;
    }
    if list().is_empty() {
        return act::edit(cluster, &definitions(), entry, &[], |o| remove_finalizer(o, CLEANUP_FINALIZER)).await;
    }
    let now = printed_time(cluster.now());
    act::edit(cluster, &definitions(), entry, &[], |object| {
        let text = "CustomResource deletion is in progress";
        put_condition(object, "Terminating", true, "InstanceDeletionInProgress", text, &now);
    })
    .await
}

/// Writes down whether the names are accepted and which versions may be stored.
fn set_conditions(object: &mut Value, conflict: Option<&NameConflict>, now: &str) {
    let established = is_established(object);
    match conflict {
        None => {
            put_condition(object, "NamesAccepted", true, "NoConflicts", "no conflicts found", now);
            if !established {
                let text = "the initial names have been accepted";
                put_condition(object, "Established", true, "InitialNamesAccepted", text, now);
            }
            object["status"]["acceptedNames"] = object["spec"]["names"].clone();
        }
        Some(conflict) => {
            put_condition(object, "NamesAccepted", false, conflict.reason, &conflict.message, now);
            if !established {
                put_condition(object, "Established", false, "NotAccepted", "not all names are accepted", now);
            }
            if !object["status"]["acceptedNames"].is_object() {
                object["status"]["acceptedNames"] = json!({"plural": "", "kind": ""});
            }
        }
    }
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    let storage = versions.filter(|v| v["storage"] == true).map(|v| v["name"].clone()).next();
    let stored = &mut object["status"]["storedVersions"];
    if !stored.is_array() {
        *stored = json!([]);
    }
    if let (Some(list), Some(storage)) = (stored.as_array_mut(), storage)
        && !list.contains(&storage)
    {
        list.push(storage);
    }
}
