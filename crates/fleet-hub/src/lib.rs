//! The hub's controllers: which change wakes which key, what is observed, how a plan is carried out.
//!
//! Decides nothing about the fleet: that is `fleet-core`. Never spawns, reads a clock or calls a server itself: that is
//! `fleet-runtime`. Twin kinds have one controller that is generic over the scope and started twice.
//!
//! | file | what |
//! |---|---|
//! | `options` | what the agent's flags set |
//! | `caches` | which kinds are held, how, and by what they are found |
//! | `ownership` | which controller writes which field |
//! | `keys` | from objects to the placements that they belong to |
//! | `scheduler` | the shell of `fleet_core::scheduler` |
//! | `placement/` | the shell of `fleet_core::placement` |
//! | `membership` | the shell of `fleet_core::membership::hub` |
//! | `cluster_profile` | the shell of `fleet_core::membership::profile` |

mod caches;
mod cluster_profile;
pub mod keys;
mod membership;
mod names;
mod options;
mod ownership;

pub use caches::{Belongings, Caches, PlacementCaches, by};
pub use options::HubOptions;
pub use ownership::ownership;

use fleet_runtime::{Counters, Runtime};

/// What is installed: handles for probes, tests and simulations.
#[derive(Debug, Clone)]
pub struct Hub {
    pub caches: Caches,
    /// How many members have joined and left.
    pub joins: Counters,
}

/// Adds all of the hub's caches and controllers to a runtime.
pub fn install(runtime: &mut Runtime, options: &HubOptions) -> Hub {
    let caches = Caches::new(runtime, options);
    let joins = membership::start(runtime, options, &caches);
    cluster_profile::start(runtime, options, &caches);
    Hub { caches, joins }
}
