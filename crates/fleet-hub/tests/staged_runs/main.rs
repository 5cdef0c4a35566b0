//! Staged update runs on an API server in this process, with paused time and simulated members, in both scopes: what a user
//! of the guides does and sees. Decisions are tested where they are made, in `fleet-core`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod barred;
mod checklist_beginning;
mod checklist_going;
mod crash;
mod deaf;
mod fleet;
mod interplay;
mod kubectl;
mod leaders;
mod members;
mod mortal;
mod telling;
mod timelines;
mod ur_execution;
mod ur_initialization;
mod ur_waiting;
