//! The reconcile loop: watch → indexed cache → work queue → fetch → plan → ordered writes → wake-up.
//!
//! A controller declares its kinds (`Kind`, `Runtime::cache`), says which change enqueues which key (`Triggers`) and turns a
//! key into `Actions` (`Controller::plan`). `examples/controller.rs` is a complete one. Only this crate spawns tasks, reads a
//! clock or calls an API server on behalf of controllers. It knows nothing about fleets.

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod cache;
mod clock;
mod confirm;
mod controller;
mod counter_vec;
mod counters;
mod decode;
mod deferral;
pub mod diff;
mod discovery;
mod error;
mod events;
mod flag;
mod key;
mod kind;
pub mod leader;
mod metadata;
mod metrics;
mod ownership;
mod pages;
pub mod queue;
mod reader;
mod reconcile;
mod reconcile_context;
mod restore;
mod runtime;
mod triggers;
mod watch;
mod worker;
mod write;
mod writer;

pub use cache::{Cache, CacheFormat, CacheIndex, Cached, Event, Kind};
pub use clock::{Clock, ClockOffset, Seeds};
pub use confirm::CacheCheck;
pub use controller::{Actions, Controller, KubeEvent, Needs, PlanInput, PlanResult, Regarding, WriteResult};
pub use counter_vec::CounterVec;
pub use counters::{CounterName, Counters};
pub use deferral::LONGEST_DEFERRAL;
pub use discovery::{Discovered, DiscoveredKind, Discovery, GroupVersion, discover};
pub use error::Error;
pub use fleet_api::wake::Wake;
pub use key::{ObjectKey, Revision};
pub use kind::KindId;
pub use leader::{Election, Timing};
pub use metadata::{MetadataCaches, MetadataObject};
pub use metrics::{Metrics, ReconcileObserver, ReconcileResult, ReconcileSummary};
pub use ownership::{Grant, Overlap, Ownership, owned};
pub use pages::{PAGE_SIZE, PageOf, Pages};
pub use queue::Retry;
pub use reader::{Listed, RawResponse, Reader};
pub use reconcile_context::ReconcileContext;
pub use runtime::{Options, Progress, Runtime, TaskPanicked};
pub use triggers::{Enqueuer, Triggers};
pub use worker::SHUTDOWN_GRACE;
pub use write::{ClusterId, PatchFormat, Propagation, Writable, Write};
