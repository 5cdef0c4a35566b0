//! How a cluster joins the fleet, reports and leaves.
//!
//! | module | plans for |
//! |---|---|
//! | `hub` | the hub: one MemberCluster |
//! | `agent` | the member agent: its InternalMemberCluster |
//! | `profile` | the hub: one ClusterProfile |
//! | `properties` | no plan; computes properties from a member's nodes, pods and namespaces |

pub mod agent;
pub mod hub;
pub mod profile;
pub mod properties;

#[cfg(test)]
mod tests;

use fleet_api::well_known::metrics;
use jiff::{SignedDuration, Timestamp};

/// Counters of joins and leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    Joined,
    Left,
}

impl Counter {
    pub fn name(self) -> &'static str {
        match self {
            Counter::Joined => metrics::JOIN_RESULT,
            Counter::Left => metrics::LEAVE_RESULT,
        }
    }
}

/// Adds without overflow.
fn after(instant: Timestamp, duration: SignedDuration) -> Timestamp {
    instant.checked_add(duration).unwrap_or(Timestamp::MAX)
}
