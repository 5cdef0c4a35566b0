//! The store of a cluster: one revision counter, ordered entries, recent history, optional durability.
//!
//! A write is checked against the revision that it expects, gets the next revision, is handed to the log, and becomes
//! visible to readers and watchers once the log has it.

mod disk;
pub mod encode;
pub mod entry;
pub mod file_log;
mod format;
mod lock;
pub mod log;
pub(crate) mod notifier;
mod record;
mod recovery;
mod resource;
mod set_aside;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;
pub mod watch;

pub use encode::{Encoded, MAX_DEPTH, depth};
pub use entry::{ChangeKind, Entry, Event, Index, Owner, key_of, split_key};
pub use log::{Image, Log, MemoryLog};
pub use resource::{HistoryLimits, Page};
pub use state::{Action, Change, CommitObserver, Expect, Guard, Listing, Store, StoreError};
pub use watch::{Cursor, EveryChange};
