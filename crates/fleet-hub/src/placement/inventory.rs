//! What selectors choose from: metadata from the caches, and the content of what was read.
//!
//! Decides how an object of which only metadata is known looks to selection. Once read, an object is what was read, or gone,
//! and a list is what was listed. Remembers what was asked for, so that it can be read. Never reads from a server.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_core::placement::{GroupVersion, Inventory, Kind, LiveObject};
use fleet_runtime::{KindId, MetadataCaches, MetadataObject, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::frozen::Frozen;
use super::kinds::Kinds;
use super::tokens::Tokens;

/// An object on the hub.
pub(super) type Reference = (KindId, ObjectKey);

/// All objects of a kind, in one namespace or everywhere.
pub(super) type Range = (KindId, Option<String>);

/// What was read for one reconcile.
#[derive(Debug, Default)]
pub(super) struct Contents {
    objects: BTreeMap<Reference, Option<Arc<Value>>>,
    /// By their metadata.
    lists: BTreeMap<Range, Vec<Arc<MetadataObject>>>,
}

impl Contents {
    /// Takes in what a read gave; `None` for an object that is gone.
    pub(super) fn put(&mut self, reference: Reference, found: Option<Value>) {
        self.objects.insert(reference, found.map(Arc::new));
    }

    /// What is not said by then to be there is gone.
    pub(super) fn put_gone_unless_there(&mut self, reference: Reference) {
        if let Entry::Vacant(vacant) = self.objects.entry(reference) {
            vacant.insert(None);
        }
    }

    /// Takes in what a list gave.
    pub(super) fn put_list(&mut self, range: Range, found: Vec<MetadataObject>) {
        self.lists.insert(range, found.into_iter().map(Arc::new).collect());
    }

    pub(super) fn has(&self, reference: &Reference) -> bool {
        self.objects.contains_key(reference)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

/// What selection asked for and nobody has read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    pub(super) objects: BTreeSet<Reference>,
    pub(super) lists: BTreeSet<Range>,
}

impl Unread {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.lists.is_empty()
    }
}

/// An object as selection sees it.
#[derive(Debug)]
enum Held {
    Metadata(Value),
    Content(Arc<Value>),
}

impl Held {
    fn live(&self) -> LiveObject<'_> {
        match self {
            Held::Metadata(value) => LiveObject(value),
            Held::Content(value) => LiveObject(value),
        }
    }
}

/// The inventory of one reconcile: what was looked up once stays the same.
#[derive(Debug)]
pub(super) struct Live<'c> {
    kinds: Arc<Kinds>,
    metadata: MetadataCaches,
    tokens: Arc<Tokens>,
    contents: Option<&'c Contents>,
    lists: Frozen<Range, Vec<Held>>,
    objects: Frozen<Reference, Option<Held>>,
}

impl<'c> Live<'c> {
    pub(super) fn new(
        kinds: Arc<Kinds>,
        metadata: MetadataCaches,
        tokens: Arc<Tokens>,
        contents: Option<&'c Contents>,
    ) -> Self {
        Self { kinds, metadata, tokens, contents, lists: Frozen::default(), objects: Frozen::default() }
    }

    pub(super) fn id(&self, kind: &Kind) -> Option<&KindId> {
        self.kinds.find(&kind.group, &kind.version, &kind.kind).map(|(_, id)| id)
    }

    pub(super) fn kind_of(&self, id: &KindId) -> Option<&Kind> {
        self.kinds.find(&id.group, &id.version, &id.kind).map(|(kind, _)| kind)
    }

    /// What was asked for so far and comes from caches alone.
    pub(super) fn unread(&self) -> Unread {
        let is_read = |reference: &Reference| self.contents.is_some_and(|contents| contents.has(reference));
        let is_listed = |range: &Range| self.contents.is_some_and(|contents| contents.lists.contains_key(range));
        Unread {
            objects: self.objects.keys().into_iter().filter(|one| !is_read(one)).cloned().collect(),
            lists: self.lists.keys().into_iter().filter(|one| !is_listed(one)).cloned().collect(),
        }
    }

    /// An object as it was read, or else as it is `known`.
    fn read_or(&self, id: &KindId, key: &ObjectKey, known: impl FnOnce() -> Option<Held>) -> Option<Held> {
        if let Some(found) = self.contents.and_then(|contents| contents.objects.get(&(id.clone(), key.clone()))) {
            return found.clone().map(Held::Content);
        }
        known()
    }

    fn held(&self, id: &KindId, object: &MetadataObject) -> Option<Held> {
        self.read_or(id, &ObjectKey::of(object), || Some(Held::Metadata(value_of(id, &object.metadata, &self.tokens))))
    }

    fn listed(&self, range: &Range) -> Vec<Arc<MetadataObject>> {
        if let Some(read) = self.contents.and_then(|contents| contents.lists.get(range)) {
            return read.clone();
        }
        match range {
            (id, Some(namespace)) => self.metadata.in_namespace(id, namespace),
            (id, None) => self.metadata.list(id),
        }
    }
}

impl Inventory for Live<'_> {
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        self.kinds.find(group, version, kind).map(|(kind, _)| kind)
    }

    fn namespaced_kinds(&self) -> Vec<&Kind> {
        self.kinds.namespaced().map(|(kind, _)| kind).collect()
    }

    fn silent(&self) -> Vec<GroupVersion> {
        self.kinds.silent().to_vec()
    }

    fn is_complete(&self, kind: &Kind) -> bool {
        self.id(kind).is_some_and(|id| self.metadata.is_complete(id))
    }

    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<LiveObject<'_>> {
        let Some(id) = self.id(kind) else { return Vec::new() };
        let list = self.lists.get((id.clone(), namespace.map(str::to_owned)), |range| {
            self.listed(range).iter().filter_map(|object| self.held(id, object)).collect()
        });
        list.iter().map(Held::live).collect()
    }

    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<LiveObject<'_>> {
        let id = self.id(kind)?;
        let found = self.objects.get((id.clone(), ObjectKey::new(Some(namespace), name)), |(_, key)| {
            self.read_or(id, key, || self.held(id, &*self.metadata.get(id, key)?))
        });
        found.as_ref().map(Held::live)
    }
}

/// What selection needs to know of an object of which only the metadata is at hand.
pub(super) fn value_of(kind: &KindId, metadata: &ObjectMeta, tokens: &Tokens) -> Value {
    let mut kept = Map::new();
    let texts = [
        ("name", &metadata.name),
        ("namespace", &metadata.namespace),
        ("uid", &metadata.uid),
        ("resourceVersion", &metadata.resource_version),
    ];
    for (field, text) in texts {
        kept.extend(text.as_ref().map(|text| (field.to_owned(), json!(text))));
    }
    kept.extend(metadata.labels.as_ref().map(|labels| ("labels".to_owned(), json!(labels))));
    kept.extend(metadata.deletion_timestamp.as_ref().map(|at| ("deletionTimestamp".to_owned(), json!(at))));
    let owners = metadata.owner_references.as_ref().filter(|owners| !owners.is_empty());
    kept.extend(owners.map(|owners| ("ownerReferences".to_owned(), json!(owners))));
    let mut object = json!({"metadata": kept});
    if let Some(type_) = tokens.type_of(kind, metadata.uid.as_deref()) {
        object["type"] = json!(type_);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection_sees_what_it_asks_for_and_no_more() {
        let metadata: ObjectMeta = serde_json::from_value(json!({
            "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"},
            "annotations": {"large": "…"}, "ownerReferences": [], "generation": 3,
        }))
        .unwrap();
        let kind = KindId::new("", "v1", "ConfigMap", "configmaps");
        assert_eq!(
            value_of(&kind, &metadata, &Tokens::default()),
            json!({"metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}}})
        );
    }
}
