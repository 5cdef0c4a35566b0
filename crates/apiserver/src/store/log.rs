//! The interface between a store and its durable log, and the implementation for stores in memory. `file_log` is the
//! durable implementation.

use std::sync::Arc;

use super::entry::Event;
use crate::registry::StorageKey;

/// One atomic write of one cluster, in the order of its revisions.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) cluster: Arc<str>,
    /// How often the store had lost writes when this one was made. A record of an older count was lost with them.
    pub(crate) epoch: usize,
    pub(crate) changes: Vec<(StorageKey, Arc<Event>)>,
}

impl Record {
    /// The revision of the last change.
    pub(crate) fn revision(&self) -> u64 {
        self.changes.last().map_or(0, |(_, event)| event.revision())
    }
}

/// Notified by the log about its progress. Called without any lock of the log held.
pub(crate) trait Member: Send + Sync {
    /// Every change up to this revision is durable.
    fn durable(&self, revision: u64);
    /// Writes that are not durable are lost: the store returns to the durable state.
    fn failed(&self, why: &Arc<str>);
    /// How often the store has lost writes.
    fn epoch(&self) -> usize;
    /// All objects as far as they are durable, and the revision they stand for.
    fn image(&self) -> Image;
}

/// The content of a store at one revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    pub(crate) revision: u64,
    pub(crate) entries: Vec<(StorageKey, Arc<super::entry::Entry>)>,
}

/// The result of appending a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// It is as durable as it will ever be; `Member::durable` is not called.
    Durable,
    /// `Member::durable` or `Member::failed` follows.
    Pending,
}

/// Appends records in order. Called under the lock of the store, so it must not block and must not call back.
pub(crate) trait Log: Send + Sync {
    fn append(&self, record: Record, member: &Arc<dyn Member>) -> Appended;
    /// Makes the store part of snapshots.
    fn attach(&self, cluster: &Arc<str>, member: &Arc<dyn Member>);
    /// Why nothing can be written at the moment.
    fn write_error(&self) -> Option<Arc<str>>;
}

/// No durability: the process is the storage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MemoryLog;

impl Log for MemoryLog {
    fn append(&self, _: Record, _: &Arc<dyn Member>) -> Appended {
        Appended::Durable
    }

    fn attach(&self, _: &Arc<str>, _: &Arc<dyn Member>) {}

    fn write_error(&self) -> Option<Arc<str>> {
        None
    }
}
