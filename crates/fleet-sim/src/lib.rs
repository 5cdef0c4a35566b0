//! A whole fleet in one process: API servers, the hub agent, simulated members, virtual time and faults, all from one
//! seed.
//!
//! The controllers are those of real agents. They cannot detect that they run in a simulation.

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod admission;
pub mod agents;
pub mod invariants;
pub mod member;
pub mod network;
mod random;
pub mod scenario;
pub mod setup;
pub mod simulation;
pub mod state;
pub mod trial;
pub mod workloads;

pub use random::Random;
