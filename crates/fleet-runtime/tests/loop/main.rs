//! The whole loop on an API server in this process, with paused time: what a controller may rely on.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod basics;
mod dynamic;
mod ending;
mod faults;
mod leader;
mod meddler;
mod restart;
mod toy;
