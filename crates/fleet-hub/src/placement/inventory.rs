//! The objects from which selectors choose: metadata from the caches, and the content that was read.
//!
//! It remembers what selection asked for, so that the caller can read it. Content that was read replaces cached
//! metadata.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_core::placement::{GroupVersion, Inventory, Kind, LiveObject};
use fleet_runtime::{KindId, MetadataCaches, MetadataObject, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::append_only_map::AppendOnlyMap;
use super::token_secrets::TokenSecrets;
use super::watched_kinds::Kinds;

/// An object on the hub.
pub(super) type Reference = (KindId, ObjectKey);

/// All objects of a kind, in one namespace or everywhere.
pub(super) type Range = (KindId, Option<String>);

/// What was read for one reconcile.
#[derive(Debug, Default)]
pub(super) struct Contents {
    objects: BTreeMap<Reference, Option<Arc<Value>>>,
    /// Lists with the metadata of their objects.
    lists: BTreeMap<Range, Vec<Arc<MetadataObject>>>,
}

impl Contents {
    /// Stores the result of a read; `None` for an object that does not exist.
    pub(super) fn put(&mut self, reference: Reference, found: Option<Value>) {
        self.objects.insert(reference, found.map(Arc::new));
    }

    /// Marks an object as missing unless it was read.
    pub(super) fn put_gone_unless_there(&mut self, reference: Reference) {
        if let Entry::Vacant(vacant) = self.objects.entry(reference) {
            vacant.insert(None);
        }
    }

    /// Stores the result of a list.
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

/// What selection asked for and was not read from the server.
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
enum KnownObject {
    Metadata(Value),
    Content(Arc<Value>),
}

impl KnownObject {
    fn live(&self) -> LiveObject<'_> {
        match self {
            KnownObject::Metadata(value) => LiveObject(value),
            KnownObject::Content(value) => LiveObject(value),
        }
    }
}

/// The inventory of one reconcile. Repeated lookups return the same object.
#[derive(Debug)]
pub(super) struct CachedInventory<'c> {
    kinds: Arc<Kinds>,
    metadata: MetadataCaches,
    token_secrets: Arc<TokenSecrets>,
    contents: Option<&'c Contents>,
    lists: AppendOnlyMap<Range, Vec<KnownObject>>,
    objects: AppendOnlyMap<Reference, Option<KnownObject>>,
}

impl<'c> CachedInventory<'c> {
    pub(super) fn new(
        kinds: Arc<Kinds>,
        metadata: MetadataCaches,
        token_secrets: Arc<TokenSecrets>,
        contents: Option<&'c Contents>,
    ) -> Self {
        Self {
            kinds,
            metadata,
            token_secrets,
            contents,
            lists: AppendOnlyMap::default(),
            objects: AppendOnlyMap::default(),
        }
    }

    pub(super) fn id(&self, kind: &Kind) -> Option<&KindId> {
        self.kinds.find(&kind.group, &kind.version, &kind.kind).map(|(_, id)| id)
    }

    pub(super) fn kind_of(&self, id: &KindId) -> Option<&Kind> {
        self.kinds.find(&id.group, &id.version, &id.kind).map(|(kind, _)| kind)
    }

    /// What selection asked for so far and came only from caches.
    pub(super) fn unread(&self) -> Unread {
        let is_read = |reference: &Reference| self.contents.is_some_and(|contents| contents.has(reference));
        let is_listed = |range: &Range| self.contents.is_some_and(|contents| contents.lists.contains_key(range));
        Unread {
            objects: self.objects.keys().into_iter().filter(|one| !is_read(one)).cloned().collect(),
            lists: self.lists.keys().into_iter().filter(|one| !is_listed(one)).cloned().collect(),
        }
    }

    /// The object that was read, or else the `known` one.
    fn read_or(
        &self,
        id: &KindId,
        key: &ObjectKey,
        known: impl FnOnce() -> Option<KnownObject>,
    ) -> Option<KnownObject> {
        if let Some(found) = self.contents.and_then(|contents| contents.objects.get(&(id.clone(), key.clone()))) {
            return found.clone().map(KnownObject::Content);
        }
        known()
    }

    fn known(&self, id: &KindId, object: &MetadataObject) -> Option<KnownObject> {
        self.read_or(id, &ObjectKey::of(object), || {
            Some(KnownObject::Metadata(value_of(id, &object.metadata, &self.token_secrets)))
        })
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

impl Inventory for CachedInventory<'_> {
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        self.kinds.find(group, version, kind).map(|(kind, _)| kind)
    }

    fn namespaced_kinds(&self) -> Vec<&Kind> {
        self.kinds.namespaced().map(|(kind, _)| kind).collect()
    }

    fn undiscovered(&self) -> Vec<GroupVersion> {
        self.kinds.undiscovered().to_vec()
    }

    fn is_complete(&self, kind: &Kind) -> bool {
        self.id(kind).is_some_and(|id| self.metadata.is_complete(id))
    }

    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<LiveObject<'_>> {
        let Some(id) = self.id(kind) else { return Vec::new() };
        let list = self.lists.get((id.clone(), namespace.map(str::to_owned)), |range| {
            self.listed(range).iter().filter_map(|object| self.known(id, object)).collect()
        });
        list.iter().map(KnownObject::live).collect()
    }

    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<LiveObject<'_>> {
        let id = self.id(kind)?;
        let found = self.objects.get((id.clone(), ObjectKey::new(Some(namespace), name)), |(_, key)| {
            self.read_or(id, key, || self.known(id, &*self.metadata.get(id, key)?))
        });
        found.as_ref().map(KnownObject::live)
    }
}

/// The fields of an object that selection needs, from its metadata.
pub(super) fn value_of(kind: &KindId, metadata: &ObjectMeta, token_secrets: &TokenSecrets) -> Value {
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
    if let Some(type_) = token_secrets.type_of(kind, metadata.uid.as_deref()) {
        object["type"] = json!(type_);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inventory_keeps_only_metadata_that_selection_reads() {
        let metadata: ObjectMeta = serde_json::from_value(json!({
            "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"},
            "annotations": {"large": "…"}, "ownerReferences": [], "generation": 3,
        }))
        .unwrap();
        let kind = KindId::new("", "v1", "ConfigMap", "configmaps");
        assert_eq!(
            value_of(&kind, &metadata, &TokenSecrets::default()),
            json!({"metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}}})
        );
    }
}
