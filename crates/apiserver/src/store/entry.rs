//! One stored object with its indexed fields, and one change of it. Label selectors, the garbage collector and deletion
//! use the indexed fields without parsing.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::encode::with_other_revision;

/// A stored object. Immutable: a write makes a new one.
#[derive(Debug)]
pub struct Entry {
    /// `namespace/name`, or `name` of a cluster-scoped object.
    pub(crate) key: Box<str>,
    /// The revision of the last change; of a deleted entry, the revision of the deletion.
    pub(crate) revision: u64,
    /// The object as JSON in the storage version, with its resource version.
    pub(crate) bytes: Bytes,
    /// Where the digits of the resource version start.
    pub(crate) revision_at: u32,
    /// Under which schema the object was written; 0 if that is not known.
    pub(crate) shape: u64,
    pub(crate) index: Index,
}

/// The indexed fields of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) uid: Box<str>,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    pub(crate) owners: Box<[Owner]>,
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
    pub(crate) finalizers: Box<[Box<str>]>,
}

/// An owner reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub block_deletion: bool,
}

/// One change. The bytes of a deletion are those of the object's last state with the revision of the deletion.
#[derive(Debug)]
pub struct Event {
    pub(crate) kind: ChangeKind,
    pub(crate) entry: Arc<Entry>,
    /// The old object of the change.
    pub(crate) previous: Option<Arc<Entry>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Put,
    Delete,
}

impl Event {
    pub(crate) fn revision(&self) -> u64 {
        self.entry.revision
    }
}

impl Event {
    /// The object after the change, or the last state of a deleted one.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The object before the change.
    pub fn previous(&self) -> Option<&Entry> {
        self.previous.as_deref()
    }
}

impl Entry {
    /// `namespace/name`, or `name` of a cluster-scoped object.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The owner references.
    pub fn owners(&self) -> &[Owner] {
        &self.index.owners
    }

    /// Namespace (empty for a cluster-scoped object) and name.
    pub fn namespace_and_name(&self) -> (&str, &str) {
        split_key(&self.key)
    }

    /// The same object as if it had been written at another revision.
    #[must_use]
    pub(crate) fn at_revision(&self, revision: u64) -> Self {
        let (bytes, revision_at) = with_other_revision(&self.bytes, self.revision_at, revision);
        Self { key: self.key.clone(), revision, bytes, revision_at, shape: self.shape, index: self.index.clone() }
    }

    /// The object. `Null` only if the stored bytes are damaged, which the log's checksums exclude.
    pub fn parse(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}

/// The key of an object in the store.
pub fn key_of(namespace: Option<&str>, name: &str) -> Box<str> {
    match namespace {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}").into(),
        _ => name.into(),
    }
}

/// Namespace (empty for a cluster-scoped object) and name of a key.
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

impl Index {
    pub(crate) fn of(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| -> Box<str> { value.as_str().unwrap_or("").into() };
        let labels = metadata["labels"].as_object().map(|labels| {
            labels.iter().map(|(key, value)| (Box::from(key.as_str()), text(value))).collect::<Box<[_]>>()
        });
        let owners = metadata["ownerReferences"].as_array().map(|owners| {
            let owner = |o: &Value| Owner {
                api_version: text(&o["apiVersion"]),
                kind: text(&o["kind"]),
                name: text(&o["name"]),
                uid: text(&o["uid"]),
                block_deletion: o["blockOwnerDeletion"].as_bool().unwrap_or(false),
            };
            owners.iter().map(owner).collect::<Box<[_]>>()
        });
        let finalizers = metadata["finalizers"].as_array().map(|list| list.iter().map(text).collect::<Box<[_]>>());
        Self {
            uid: text(&metadata["uid"]),
            labels: labels.unwrap_or_default(),
            owners: owners.unwrap_or_default(),
            deleting: metadata["deletionTimestamp"].is_string(),
            finalizers: finalizers.unwrap_or_default(),
        }
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| &**k == key).map(|(_, value)| &**value)
    }

    pub(crate) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|f| &**f == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_index_has_the_fields_of_selectors_and_the_garbage_collector() {
        let index = Index::of(&json!({"metadata": {
            "uid": "u1", "labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u0", "blockOwnerDeletion": true}],
        }}));
        assert_eq!((&*index.uid, index.label("app"), index.label("b")), ("u1", Some("web"), None));
        assert!(index.deleting && index.has_finalizer("x/y") && !index.has_finalizer("x"));
        assert_eq!((&*index.owners[0].uid, index.owners[0].block_deletion), ("u0", true));
        assert_eq!(Index::of(&json!({})), Index::default());
    }

    #[test]
    fn keys_join_and_split() {
        assert_eq!(&*key_of(Some("ns"), "a"), "ns/a");
        assert_eq!(&*key_of(None, "a"), "a");
        assert_eq!(&*key_of(Some(""), "a"), "a");
        assert_eq!((split_key("ns/a"), split_key("a")), (("ns", "a"), ("", "a")));
    }
}
