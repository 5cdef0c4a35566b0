//! The whole fleet in one process: API servers, hub agent, simulated members, time and faults.
//!
//! Decides how a simulated world is put together and what goes wrong in it, all from one seed. Never decides anything about
//! placements: the controllers are those of real hubs, and they cannot tell the difference.

pub mod admission;
pub mod agents;
pub mod laws;
pub mod member;
pub mod network;
mod random;
pub mod setup;
pub mod state;
pub mod story;
pub mod trial;
pub mod workloads;
pub mod world;

pub use random::Random;
