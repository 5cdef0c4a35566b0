//! The one reconcile pattern: watch → indexed cache → queue → fetch → plan → ordered writes → wake-up.
//!
//! Decides how controllers run; of all that they are made of, the only place that spawns tasks, reads a clock or calls an API
//! server. Never decides what should happen: it knows nothing of what fleets mean.
//!
//! A controller declares its kinds (`Kind`, `Runtime::cache`), says which change wakes which key (`Triggers`) and turns a
//! key into `Actions` (`Controller::plan`). Everything else is here.

mod cache;
mod clock;
mod controller;
mod counters;
pub mod diff;
mod discovery;
mod error;
mod events;
mod flag;
mod hands;
mod key;
mod kind;
pub mod leader;
mod metadata;
mod metrics;
mod ownership;
pub mod queue;
mod reader;
mod runtime;
mod tally;
mod triggers;
mod watch;
mod worker;
mod write;
mod writer;

pub use cache::{Cache, Cached, Event, Keep, Kind};
pub use clock::{Clock, Hand, Seeds};
pub use controller::{Actions, Controller, KubeEvent, Look, Moment, Next, Outcome, Regarding};
pub use counters::{CounterName, Counters};
pub use discovery::{Discovered, DiscoveredKind, Discovery, GroupVersion, discover};
pub use error::Error;
pub use hands::Hands;
pub use key::{ObjectKey, Revision};
pub use kind::KindId;
pub use leader::{Election, Timing};
pub use metadata::{MetadataCaches, MetadataObject};
pub use metrics::{Ending, Finish, Metrics, Spectator};
pub use ownership::{Grant, Overlap, Ownership};
pub use queue::Retry;
pub use reader::{Answer, Reader};
pub use runtime::{Broken, Options, Progress, Runtime};
pub use tally::Tally;
pub use triggers::{Marks, Triggers};
pub use worker::SHUTDOWN_GRACE;
pub use write::{PatchFormat, Propagation, Side, Writable, Write};
