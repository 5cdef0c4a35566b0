//! How a kind is declared to the runtime: which objects, held how, found by what.
//!
//! A value, not a trait: controllers declare foreign types (Namespace) and generic ones (`Obj<Family, Scope>`) alike.

use std::fmt;

use serde_json::Value;

use super::{Cached, Keep};
use crate::key::ObjectKey;
use crate::kind::KindId;
use crate::write::Side;

type IndexKeys<K> = Box<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// Declares a cache; `Runtime::cache` makes it.
pub struct Kind<K> {
    pub(crate) id: KindId,
    pub(crate) side: Side,
    pub(crate) selection: Selection,
    pub(crate) keep: Keep,
    pub(crate) slim: Option<fn(&mut Value)>,
    pub(crate) indexes: Vec<Index<K>>,
}

/// Objects found by a value of theirs.
pub(crate) struct Index<K> {
    pub(crate) name: &'static str,
    pub(crate) keys: IndexKeys<K>,
}

/// Which objects of a kind are watched at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selection {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// Only metadata is asked for.
    pub(crate) metadata_only: bool,
}

impl Selection {
    /// Whether an object that we wrote belongs here. What a selector says about it only the server knows.
    pub(crate) fn takes_in(&self, key: &ObjectKey) -> bool {
        self.labels.is_none()
            && self.fields.is_none()
            && self.namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
    }
}

impl<K> fmt::Debug for Kind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indexes: Vec<&str> = self.indexes.iter().map(|index| index.name).collect();
        f.debug_struct("Kind")
            .field("id", &self.id)
            .field("selection", &self.selection)
            .field("keep", &self.keep)
            .field("indexes", &indexes)
            .finish_non_exhaustive()
    }
}

impl<K: Cached + kube::Resource<DynamicType = ()>> Kind<K> {
    /// All objects of the kind, on the main server, held parsed.
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
    /// For types that do not know their kind, or know another version of it.
    pub fn with_id(id: KindId) -> Self {
        Self {
            id,
            side: Side::MAIN,
            selection: Selection::default(),
            keep: Keep::Parsed,
            slim: None,
            indexes: Vec::new(),
        }
    }

    /// On another server than the main one.
    #[must_use]
    pub fn on(mut self, side: Side) -> Self {
        self.side = side;
        self
    }

    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.selection.namespace = Some(namespace.into());
        self
    }

    /// Only objects that this label selector matches. Our own writes are then seen when the watch brings them.
    #[must_use]
    pub fn labelled(mut self, selector: impl Into<String>) -> Self {
        self.selection.labels = Some(selector.into());
        self
    }

    /// Only objects that this field selector matches. Our own writes are then seen when the watch brings them.
    #[must_use]
    pub fn with_fields(mut self, selector: impl Into<String>) -> Self {
        self.selection.fields = Some(selector.into());
        self
    }

    /// Held as compact bytes, see `Keep::Packed`.
    #[must_use]
    pub fn packed(mut self) -> Self {
        self.keep = Keep::Packed;
        self
    }

    /// Drops what no controller reads before an object is parsed and held. managedFields are always dropped. What is left
    /// must still parse, and no controller may change a dropped field.
    #[must_use]
    pub fn slim(mut self, slim: fn(&mut Value)) -> Self {
        self.slim = Some(slim);
        self
    }

    /// Lets objects be found by `Cache::by(name, value)` under each value that `keys` gives.
    #[must_use]
    pub fn index(mut self, name: &'static str, keys: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.indexes.push(Index { name, keys: Box::new(keys) });
        self
    }

    #[must_use]
    pub(crate) fn metadata_only(mut self) -> Self {
        self.selection.metadata_only = true;
        self
    }
}
