//! Where the objects of a cluster live: one revision counter, ordered entries, recent history, optional durability.
//!
//! A write is checked against the revision it expects, gets the next revision, is handed to the log and becomes visible
//! to readers and watchers once the log has it. Knows nothing of kinds, users or schemas.

mod bell;
pub mod encode;
pub mod entry;
pub mod file_log;
mod lock;
pub mod log;
mod record;
mod resource;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;
pub mod watch;

pub use encode::Encoded;
pub use entry::{ChangeKind, Entry, Event, Index, Owner, key_of, split_key};
pub use log::{Image, Log, MemoryLog};
pub use resource::{HistoryLimits, Page};
pub use state::{Action, Change, Expect, Guard, Listing, Store, StoreError};
pub use watch::{Cursor, EveryChange};
