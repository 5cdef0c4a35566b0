//! The store of a cluster: one revision counter, ordered entries, recent history, optional durability.
//!
//! A write is checked against the revision that it expects, gets the next revision, is handed to the log, and becomes
//! visible to readers and watchers once the log has it.

#[cfg(feature = "durable")]
mod disk;
pub(crate) mod encode;
pub(crate) mod entry;
#[cfg(feature = "durable")]
pub(crate) mod file_log;
#[cfg(feature = "durable")]
mod format;
#[cfg(feature = "durable")]
mod lock;
pub(crate) mod log;
pub(crate) mod notifier;
#[cfg(feature = "durable")]
mod record;
#[cfg(feature = "durable")]
pub(crate) mod recovery;
pub(crate) mod resource;
#[cfg(feature = "durable")]
mod set_aside;
#[cfg(feature = "durable")]
mod snapshot;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

pub(crate) use encode::{Encoded, MAX_DEPTH, depth};
pub(crate) use entry::{ChangeKind, Entry, Event, Index, Owner, key_of, split_key};
pub(crate) use log::{Image, Log, MemoryLog};
pub(crate) use resource::HistoryLimits;
pub(crate) use state::{Action, Change, CommitObserver, Expect, Guard, Store, StoreError};
pub(crate) use watch::Cursor;
