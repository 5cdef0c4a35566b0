//! The hub's controllers on an API server in this process, with paused time. Decisions are tested where they are made, in
//! `fleet-core`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod agent;
mod connections;
mod end_to_end;
mod staged_runs;
