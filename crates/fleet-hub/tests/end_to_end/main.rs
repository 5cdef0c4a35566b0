//! The hub's controllers on an API server in this process, with paused time: what only the shells can show. Decisions are
//! tested where they are made, in `fleet-core`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod budget;
mod content;
mod crashing;
#[path = "../staged_runs/deaf.rs"]
#[allow(dead_code, reason = "shared with tests that open the ears again")]
mod deaf;
mod draining;
mod evicting;
mod leaving;
mod members;
#[path = "../staged_runs/mortal.rs"]
mod mortal;
mod overriding;
mod placing;
mod refusals;
mod refusing;
mod reserved;
mod restarting;
mod rolling;
mod scheduling;
mod served;
mod silence;
mod status;
mod works;
mod world;
