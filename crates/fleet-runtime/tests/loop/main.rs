//! The reconcile loop on an in-process API server with paused time.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod basics;
mod confirm;
mod deep;
mod deferral;
mod dynamic;
mod faults;
mod faulty_client;
mod fixture;
mod leader;
mod restart;
mod restore;
