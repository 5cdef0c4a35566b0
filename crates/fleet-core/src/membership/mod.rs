//! Who belongs to the fleet: how a cluster joins, reports and leaves.
//!
//! Decides for both ends of the mailbox (InternalMemberCluster) through which hub and member agent speak, and for the
//! inventory entry that other tools read. Never picks a cluster for anything: eligibility is the scheduler's.
//!
//! | module | whose decisions |
//! |---|---|
//! | `hub` | the hub's, about one MemberCluster |
//! | `agent` | the member agent's, about its InternalMemberCluster |
//! | `profile` | the hub's, about one ClusterProfile |
//! | `properties` | what a member's nodes, pods and namespaces amount to |

pub mod agent;
pub mod hub;
pub mod profile;
pub mod properties;

#[cfg(test)]
mod tests;

use fleet_api::well_known::metrics;
use jiff::{SignedDuration, Timestamp};

/// A counter that goes up by one because a member has joined or left.
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

/// So long after an instant, or the end of time.
fn after(instant: Timestamp, duration: SignedDuration) -> Timestamp {
    instant.checked_add(duration).unwrap_or(Timestamp::MAX)
}
