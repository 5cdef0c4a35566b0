//! A status that readers of a cache see although it is not written to the API server yet.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::write::StatusFormat;

/// Signals the key that deferred a status.
pub(crate) type Owner = Arc<dyn Fn(Signal) + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The status must be written now.
    Flush,
    /// The status was dropped, because the stored status has changed.
    Dropped,
}

/// The status to write later.
#[derive(Clone)]
pub(crate) struct DeferredStatus {
    pub(crate) status: Value,
    pub(crate) format: StatusFormat,
    pub(crate) owner: Owner,
}

impl fmt::Debug for DeferredStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredStatus").field("status", &self.status).finish_non_exhaustive()
    }
}

/// A deferred status in a cache.
pub(crate) struct Deferred<K> {
    /// The object as the server has it.
    pub(super) stored: Arc<K>,
    /// The status of `stored`. The deferred status was computed from it.
    pub(super) base: Value,
    pub(super) new: DeferredStatus,
}

/// A deferred status together with what it changes.
#[derive(Debug)]
pub(crate) struct PendingStatus {
    pub(crate) old: Value,
    pub(crate) new: DeferredStatus,
    /// The resourceVersion of the stored object.
    pub(crate) version: Option<String>,
}

/// Why a status cannot be deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotDeferred {
    /// No cache holds the object.
    NotCached,
    /// The cache holds another version than the one that the status was computed from.
    Outdated,
}

/// The status of an object as JSON; null if it has none.
pub(super) fn status_of<K: Serialize>(object: &K) -> Result<Value, String> {
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    Ok(value.get_mut("status").map(Value::take).unwrap_or_default())
}
