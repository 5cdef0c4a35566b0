//! Which placements are looked at when something changes.
//!
//! Decides what of a change can matter to a placement: of its own, its spec and its end; of snapshots and bindings, what
//! the status is made from; of other objects, whether they are or were selected. Never plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet_api::kinds::{Binding, ClusterResourcePlacementStatus, Family, Obj, Placement, Scope};
use fleet_api::names::{PlacementKey, PlacementName};
use fleet_core::placement::{Changed, LiveObject, PlacementFacts};
use fleet_runtime::{Cache, Event, KindId, MetadataObject};
use serde_json::Value;

use super::World;
use super::interest::words_of;
use super::inventory::value_of;
use crate::caches::by;
use crate::keys::{key_of, parent_of};
use crate::meta;

pub(super) fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<PlacementKey> {
    let looked_at = |placement: &Obj<Placement, S>| (placement.generation(), meta::is_deleting(placement));
    let placement = event.new.or(event.old)?;
    key_of(placement).filter(|_| event.changed(looked_at))
}

/// Snapshots are ours, but others can change or delete them, and the scheduler writes the status of some.
pub(super) fn on_snapshot<F: Family, S: Scope>(event: Event<'_, Obj<F, S>>) -> BTreeSet<PlacementKey> {
    if !event.changed(|snapshot| (&snapshot.metadata.labels, &snapshot.metadata.annotations, &snapshot.status)) {
        return BTreeSet::new();
    }
    event.sides().filter_map(parent_of).collect()
}

pub(super) fn on_binding<S: Scope>(event: Event<'_, Obj<Binding, S>>) -> BTreeSet<PlacementKey> {
    let same = matches!((event.old, event.new), (Some(old), Some(new)) if old.spec == new.spec
        && old.status == new.status
        && old.generation() == new.generation()
        && meta::is_deleting(old) == meta::is_deleting(new)
        && parent_of(old) == parent_of(new));
    if same {
        return BTreeSet::new();
    }
    event.sides().filter_map(parent_of).collect()
}

/// The copy has the name of its placement.
pub(super) fn on_status_copy(event: Event<'_, ClusterResourcePlacementStatus>) -> Option<PlacementKey> {
    let name = PlacementName::parse(event.key().name()).ok()?;
    event.changed(|copy| &copy.spec).then(|| PlacementKey::cluster_scoped(name))
}

/// Changes of what placements select.
pub(super) struct ObjectChanges<S: Scope> {
    pub(super) world: World,
    pub(super) placements: Cache<Obj<Placement, S>>,
}

impl<S: Scope> ObjectChanges<S> {
    /// An object came, changed or went. What it was counts as much as what it is: it may have been selected.
    pub(super) fn on_object(&self, id: &KindId, event: Event<'_, MetadataObject>) -> BTreeSet<PlacementKey> {
        if event.new.is_none() {
            let uid = event.old.and_then(|old| old.metadata.uid.as_deref());
            self.world.tokens.forget(id, uid);
        }
        if only_status_changed(event) {
            return BTreeSet::new();
        }
        let inventory = self.world.inventory(None);
        let Some(kind) = inventory.kind_of(id) else { return BTreeSet::new() };
        let key = event.key();
        let namespace = key.namespace().unwrap_or_default();
        // Nearly all that happens on a hub concerns no placement, so that is asked before anything is built.
        let candidates = self.candidates(&words_of::<S>(kind, namespace, key.name()));
        if candidates.is_empty() {
            return BTreeSet::new();
        }
        let sides: Vec<Value> = event.sides().map(|side| value_of(id, &side.metadata, &self.world.tokens)).collect();
        let concerned = |placement: &Obj<Placement, S>, key: &PlacementKey| {
            let facts = PlacementFacts::of(key, placement);
            sides.iter().any(|side| {
                let changed = Changed { kind, namespace, name: key_name(side), live: Some(LiveObject(side)) };
                changed.concerns(&facts, &inventory, &self.world.propagation)
            })
        };
        candidates.iter().filter_map(|one| key_of(&**one).filter(|key| concerned(one, key))).collect()
    }

    /// The server has other kinds than before.
    pub(super) fn on_discovery(&self) -> Vec<PlacementKey> {
        self.world.wanted.refresh();
        self.all()
    }

    fn all(&self) -> Vec<PlacementKey> {
        let keys = self.placements.keys().into_iter();
        keys.filter_map(|key| PlacementKey::parse(&key.to_string()).ok()).collect()
    }

    fn candidates(&self, words: &[String]) -> Vec<Arc<Obj<Placement, S>>> {
        let mut keys: Vec<_> = words.iter().flat_map(|word| self.placements.keys_by(by::INTEREST, word)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.iter().filter_map(|key| self.placements.get(key)).collect()
    }
}

fn key_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Servers count changes of what is asked for. Where they do and the count stays, and the metadata too, only the status is
/// another, which is never placed.
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
    fn a_status_is_no_news_where_the_server_counts_the_rest() {
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
