//! Which placements a change enqueues: changes of spec and deletion, of snapshots and bindings, and of selected
//! objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet_api::kinds::{Binding, ClusterResourcePlacementStatus, Family, Obj, Placement, Scope};
use fleet_api::names::{PlacementKey, PlacementName};
use fleet_core::placement::{ChangedObject, LiveObject, PlacementFacts};
use fleet_runtime::{CacheIndex, Event, KindId, MetadataObject};
use serde_json::Value;

use super::ClusterView;
use super::inventory::value_of;
use super::selector_index::index_keys_of;
use crate::keys::{key_of, parent_of};

pub(super) fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<PlacementKey> {
    let looked_at = |placement: &Obj<Placement, S>| (placement.generation(), placement.is_deleting());
    let placement = event.new.or(event.old)?;
    key_of(placement).filter(|_| event.changed(looked_at))
}

/// Other writers can change or delete snapshots, and the scheduler writes the status of some.
pub(super) fn on_snapshot<F: Family, S: Scope>(event: Event<'_, Obj<F, S>>) -> BTreeSet<PlacementKey> {
    if !event.changed(|snapshot| (&snapshot.metadata.labels, &snapshot.metadata.annotations, &snapshot.status)) {
        return BTreeSet::new();
    }
    event.versions().filter_map(parent_of).collect()
}

pub(super) fn on_binding<S: Scope>(event: Event<'_, Obj<Binding, S>>) -> BTreeSet<PlacementKey> {
    let same = matches!((event.old, event.new), (Some(old), Some(new)) if old.spec == new.spec
        && old.status == new.status
        && old.generation() == new.generation()
        && old.is_deleting() == new.is_deleting()
        && parent_of(old) == parent_of(new));
    if same {
        return BTreeSet::new();
    }
    event.versions().filter_map(parent_of).collect()
}

/// The copy has the name of its placement.
pub(super) fn on_status_copy(event: Event<'_, ClusterResourcePlacementStatus>) -> Option<PlacementKey> {
    let name = PlacementName::parse(event.key().name()).ok()?;
    event.changed(|copy| &copy.spec).then(|| PlacementKey::cluster_scoped(name))
}

/// Triggers for objects that placements select.
pub(super) struct ObjectTriggers<S: Scope> {
    pub(super) view: ClusterView,
    /// By what they may select.
    pub(super) placements: CacheIndex<Obj<Placement, S>, String>,
}

impl<S: Scope> ObjectTriggers<S> {
    /// An object was created, changed or deleted. Its old version counts too: it may have been selected.
    pub(super) fn on_object(&self, id: &KindId, event: Event<'_, MetadataObject>) -> BTreeSet<PlacementKey> {
        if event.new.is_none() {
            let uid = event.old.and_then(|old| old.metadata.uid.as_deref());
            self.view.token_secrets.forget(id, uid);
        }
        if only_status_changed(event) {
            return BTreeSet::new();
        }
        let inventory = self.view.inventory(None);
        let Some(kind) = inventory.kind_of(id) else { return BTreeSet::new() };
        let key = event.key();
        let namespace = key.namespace().unwrap_or_default();
        // Most changes on a hub affect no placement, so the index is checked before anything else.
        let candidates = self.candidates(&index_keys_of::<S>(kind, namespace, key.name()));
        if candidates.is_empty() {
            return BTreeSet::new();
        }
        let sides: Vec<Value> =
            event.versions().map(|side| value_of(id, &side.metadata, &self.view.token_secrets)).collect();
        let is_affected = |placement: &Obj<Placement, S>, key: &PlacementKey| {
            let facts = PlacementFacts::of(key, placement);
            sides.iter().any(|side| {
                let changed = ChangedObject { kind, namespace, name: key_name(side), live: Some(LiveObject(side)) };
                changed.affects(&facts, &inventory, &self.view.propagation)
            })
        };
        candidates.iter().filter_map(|one| key_of(&**one).filter(|key| is_affected(one, key))).collect()
    }

    /// The served kinds have changed.
    pub(super) fn on_discovery(&self) -> Vec<PlacementKey> {
        self.view.watched_kinds.refresh();
        self.all()
    }

    fn all(&self) -> Vec<PlacementKey> {
        let keys = self.placements.cache().keys().into_iter();
        keys.filter_map(|key| PlacementKey::parse(&key.to_string()).ok()).collect()
    }

    fn candidates(&self, words: &[String]) -> Vec<Arc<Obj<Placement, S>>> {
        let mut keys: Vec<_> = words.iter().flat_map(|word| self.placements.keys(word)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.iter().filter_map(|key| self.placements.cache().get(key)).collect()
    }
}

fn key_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Whether only the status has changed, which is never placed: the server sets generations, and generation and
/// metadata are the same.
fn only_status_changed(event: Event<'_, MetadataObject>) -> bool {
    let (Some(old), Some(new)) = (event.old, event.new) else { return false };
    let (old, new) = (&old.metadata, &new.metadata);
    old.generation.is_some_and(|generation| generation > 0)
        && old.generation == new.generation
        && old.uid == new.uid
        && old.labels == new.labels
        && old.annotations == new.annotations
        && old.finalizers == new.finalizers
        && old.owner_references == new.owner_references
        && old.deletion_timestamp == new.deletion_timestamp
}

#[cfg(test)]
mod tests {
    use fleet_runtime::ObjectKey;
    use serde_json::json;

    use super::*;

    fn object(metadata: Value) -> MetadataObject {
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "X", "metadata": metadata})).unwrap()
    }

    #[test]
    fn status_changes_of_kinds_with_a_generation_enqueue_nothing() {
        let check = |old: Value, new: Value| {
            let (old, new) = (object(old), object(new));
            only_status_changed(Event::new(&ObjectKey::cluster("a"), Some(&old), Some(&new)))
        };
        let at =
            |version: &str, generation: i64| json!({"name": "a", "resourceVersion": version, "generation": generation});
        assert!(check(at("1", 1), at("2", 1)));
        assert!(!check(at("1", 1), at("2", 2)));
        assert!(!check(json!({"name": "a", "resourceVersion": "1"}), json!({"name": "a", "resourceVersion": "2"})));
        let mut labelled = at("2", 1);
        labelled["labels"] = json!({"a": "b"});
        assert!(!check(at("1", 1), labelled));
        let one = object(at("1", 1));
        assert!(!only_status_changed(Event::new(&ObjectKey::cluster("a"), None, Some(&one))));
    }
}
