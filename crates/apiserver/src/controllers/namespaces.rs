//! Creates the namespaces that every cluster has, and empties those that are being deleted.
//!
//! A namespace is removed only if it is empty at the revision of the removal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use serde_json::{Value, json};

use super::act::{self, AttemptResult};
use super::{StoreEvent, Wake};
use crate::registry::{Origin, ResourceInfo, StorageKey};
use crate::rest::meta::printed_time;
use crate::server::Cluster;
use crate::store::{ChangeKind, Entry, Guard};

/// Objects deleted at once: with a durable store their writes share fsyncs.
const AT_ONCE: usize = 32;

fn namespaces() -> StorageKey {
    StorageKey::new("", "namespaces")
}

#[derive(Debug, Default)]
pub(super) struct Namespaces {
    terminating: BTreeSet<Box<str>>,
    dirty: BTreeSet<Box<str>>,
}

/// The remaining content of a terminating namespace.
#[derive(Debug, Default)]
struct Left {
    /// Objects per resource.
    content: BTreeMap<String, usize>,
    /// Objects per finalizer.
    finalizers: BTreeMap<String, usize>,
}

impl Namespaces {
    pub(super) fn observe(&mut self, event: &StoreEvent) {
        match event {
            StoreEvent::Changed(resource, event) if resource.as_str() == "namespaces" => {
                self.note(&event.entry, event.kind == ChangeKind::Put);
            }
            StoreEvent::Relisted(resource, entries) if resource.as_str() == "namespaces" => {
                for entry in entries {
                    self.note(entry, true);
                }
            }
            StoreEvent::Changed(_, event) => {
                let (namespace, _) = event.entry.namespace_and_name();
                if let Some(name) = self.terminating.get(namespace) {
                    self.dirty.insert(name.clone());
                }
            }
            StoreEvent::Relisted(..) => self.dirty.extend(self.terminating.iter().cloned()),
        }
    }

    fn note(&mut self, entry: &Entry, present: bool) {
        if present && entry.index.deleting {
            self.terminating.insert(entry.key.clone());
            self.dirty.insert(entry.key.clone());
        } else {
            self.terminating.remove(&entry.key);
        }
    }

    pub(super) async fn work(&mut self, cluster: &Arc<Cluster>) -> Wake {
        let mut wake = Wake::OnChange;
        for name in std::mem::take(&mut self.dirty) {
            if empty(cluster, &name).await == AttemptResult::Failed {
                self.dirty.insert(name);
                wake = Wake::retry();
            }
        }
        wake
    }
}

/// Deletes what can be deleted; the namespace itself if nothing is left.
async fn empty(cluster: &Arc<Cluster>, name: &str) -> AttemptResult {
    let Some(namespace) = cluster.store().peek(&namespaces(), name) else { return AttemptResult::Done };
    if !namespace.index.deleting {
        return AttemptResult::Done;
    }
    let failed = futures::stream::iter(content(cluster, name))
        .filter(|(_, entry)| std::future::ready(!entry.index.deleting))
        .map(|(info, entry)| async move { act::delete(cluster, &info, &entry, "Background").await })
        .buffer_unordered(AT_ONCE)
        .any(|outcome| std::future::ready(outcome == AttemptResult::Failed))
        .await;
    let left = left(cluster, name);
    if left.content.is_empty() && !failed {
        let guards = [Guard::NamespaceEmpty(name.to_owned())];
        return act::edit(cluster, &namespaces(), &namespace, &guards, finish).await;
    }
    let now = printed_time(cluster.now());
    let outcome =
        act::edit(cluster, &namespaces(), &namespace, &[], |object| set_conditions(object, &left, &now)).await;
    if failed { AttemptResult::Failed } else { outcome }
}

fn content(cluster: &Cluster, namespace: &str) -> Vec<(Arc<ResourceInfo>, Arc<Entry>)> {
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    for info in cluster.registry().all() {
        if !info.namespaced || info.origin == Origin::Synthetic || !seen.insert(info.storage.key.clone()) {
            continue;
        }
        if let Ok(listing) = cluster.store().peek_list(&info.storage.key, Some(namespace), None, usize::MAX, None) {
            out.extend(listing.entries.into_iter().map(|entry| (info.clone(), entry)));
        }
    }
    out
}

fn left(cluster: &Cluster, namespace: &str) -> Left {
    let mut out = Left::default();
    for (info, entry) in content(cluster, namespace) {
        let resource =
            if info.group.is_empty() { format!("{}.", info.plural) } else { info.storage.key.as_str().to_owned() };
        *out.content.entry(resource).or_default() += 1;
        for finalizer in &entry.index.finalizers {
            *out.finalizers.entry(finalizer.to_string()).or_default() += 1;
        }
    }
    out
}

fn finish(object: &mut Value) {
    if let Some(finalizers) = object["spec"]["finalizers"].as_array_mut() {
        finalizers.retain(|f| f != "kubernetes");
    }
}

/// Writes down what the namespace waits for.
fn set_conditions(object: &mut Value, left: &Left, now: &str) {
    let listed = |counts: &BTreeMap<String, usize>, verb: &str| {
        let texts: Vec<String> =
            counts.iter().map(|(what, n)| format!("{what} {verb} {n} resource instances")).collect();
        texts.join(", ")
    };
    let content = format!("Some resources are remaining: {}", listed(&left.content, "has"));
    let finalizers =
        format!("Some content in the namespace has finalizers remaining: {}", listed(&left.finalizers, "in"));
    let conditions = [
        ("NamespaceDeletionDiscoveryFailure", false, "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            false,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", true, "SomeResourcesRemain", content.as_str()),
        if left.finalizers.is_empty() {
            (
                "NamespaceFinalizersRemaining",
                false,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            )
        } else {
            ("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", finalizers.as_str())
        },
    ];
    for (kind, status, reason, message) in conditions {
        put_condition(object, kind, status, reason, message, now);
    }
}

/// Sets a condition; its time changes with its status only.
pub(super) fn put_condition(object: &mut Value, kind: &str, status: bool, reason: &str, message: &str, now: &str) {
    let status = if status { "True" } else { "False" };
    let slot = &mut object["status"]["conditions"];
    if !slot.is_array() {
        *slot = json!([]);
    }
    let Some(conditions) = slot.as_array_mut() else { return };
    let fresh = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
    });
    match conditions.iter_mut().find(|c| c["type"] == kind) {
        None => conditions.push(fresh),
        Some(present) => {
            let since = if present["status"] == status { present["lastTransitionTime"].clone() } else { now.into() };
            *present = fresh;
            present["lastTransitionTime"] = since;
        }
    }
}
