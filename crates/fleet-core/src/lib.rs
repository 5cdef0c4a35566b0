//! What the fleet decides, one module per controller: facts in, a plan out.
//!
//! Decides which objects should be written, what their status should say and what is waited for. Never does I/O, reads a
//! clock, draws a random number or logs: whoever calls brings facts, time and random bits, and carries the plan out.

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod apply;
pub mod diagnose;
pub mod doctor;
mod envelope;
pub mod eviction;
pub mod membership;
pub mod overrides;
pub mod overview;
pub mod placement;
pub mod plan;
pub mod rollout;
#[cfg(test)]
#[path = "../../fleet-testkit/src/scenarios.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests of the hub and of the command line use all of it")]
mod scenarios;
pub mod scheduler;
pub mod updaterun;
pub mod workgen;
