//! What the tests of several crates share: an API server with virtual time, agents at work, requests in JSON, and the
//! kinds around a staged update run. Only development dependencies point here.

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_debug_implementations, reason = "servers and clients have none")]

mod agents;
mod arrangement;
mod client;
mod conditions;
mod kinds;
pub mod scenarios;
mod server;

pub use agents::{Running, pass, runtime_options, until, until_stable};
pub use arrangement::Arrangement;
pub use client::JsonClient;
pub use conditions::{condition, conditions_text, text};
pub use kinds::{
    CLUSTER_API, DEFINITIONS, Kind, MEMBERS, NAMESPACES, PLACEMENT_API, Scope, member_cluster, member_status, object,
    stage,
};
pub use server::{Schemas, TestServer};
