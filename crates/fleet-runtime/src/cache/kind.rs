//! The declaration of a cache: which objects of a kind, in which format.
//!
//! A value, not a trait, so that controllers can declare foreign types (Namespace) and generic ones (`Obj<Family, Scope>`).

use std::fmt;
use std::marker::PhantomData;

use serde_json::Value;

use super::{CacheFormat, Cached};
use crate::key::ObjectKey;
use crate::kind::KindId;
use crate::write::ClusterId;

/// Declares a cache; `Runtime::cache` creates it.
pub struct Kind<K> {
    pub(crate) id: KindId,
    pub(crate) cluster: ClusterId,
    pub(crate) selection: Selection,
    pub(crate) format: CacheFormat,
    pub(crate) slim: Option<fn(&mut Value)>,
    pub(crate) ignored: Option<fn(&Value) -> bool>,
    pub(crate) object: PhantomData<fn() -> K>,
}

/// Which objects of a kind are watched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selection {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// Requests only the metadata of objects.
    pub(crate) metadata_only: bool,
}

impl Selection {
    /// Whether an object that we wrote is part of the selection. False if there is a selector, which only the server evaluates.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.labels.is_none()
            && self.fields.is_none()
            && self.namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
    }
}

impl<K> fmt::Debug for Kind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind")
            .field("id", &self.id)
            .field("selection", &self.selection)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl<K: Cached + kube::Resource<DynamicType = ()>> Kind<K> {
    /// All objects of the kind on the main server.
    pub fn new() -> Self {
        Self::with_id(KindId::of::<K>())
    }
}

impl<K: Cached + kube::Resource<DynamicType = ()>> Default for Kind<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Cached> Kind<K> {
    /// For types whose kind is not known at compile time, or another version of it.
    pub fn with_id(id: KindId) -> Self {
        Self {
            id,
            cluster: ClusterId::MAIN,
            selection: Selection::default(),
            format: CacheFormat::Parsed,
            slim: None,
            ignored: None,
            object: PhantomData,
        }
    }

    /// On another server than the main one.
    #[must_use]
    pub fn on(mut self, cluster: ClusterId) -> Self {
        self.cluster = cluster;
        self
    }

    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.selection.namespace = Some(namespace.into());
        self
    }

    /// Only objects that match this label selector. Our own writes then appear only when the watch delivers them.
    #[must_use]
    pub fn labelled(mut self, selector: impl Into<String>) -> Self {
        self.selection.labels = Some(selector.into());
        self
    }

    /// Only objects that match this field selector. Our own writes then appear only when the watch delivers them.
    #[must_use]
    pub fn with_fields(mut self, selector: impl Into<String>) -> Self {
        self.selection.fields = Some(selector.into());
        self
    }

    /// Stored as compact bytes, see `CacheFormat::Packed`.
    #[must_use]
    pub fn packed(mut self) -> Self {
        self.format = CacheFormat::Packed;
        self
    }

    /// Removes fields that no controller reads before an object is parsed and stored. managedFields are always removed. The
    /// remaining object must still parse, and no controller may write a removed field.
    #[must_use]
    pub fn slim(mut self, slim: fn(&mut Value)) -> Self {
        self.slim = Some(slim);
        self
    }

    /// Objects for which this returns true are not cached; a warning names them. The result for an object may change from true to
    /// false, but not back.
    #[must_use]
    pub fn ignoring(mut self, ignored: fn(&Value) -> bool) -> Self {
        self.ignored = Some(ignored);
        self
    }

    #[must_use]
    pub(crate) fn metadata_only(mut self) -> Self {
        self.selection.metadata_only = true;
        self
    }
}
