//! Which of several processes acts: the holder of a Lease, as client-go's leader election keeps it.
//!
//! Decides from the Lease and from when it was last seen to change whether to take, renew or wait. A standby keeps its
//! caches warm and writes nothing.

use std::time::Duration;

/// How long a holder may be silent before others take over.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a holder tries to renew before it gives up by itself; shorter than the lease, so that two never act at once.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often a holder renews and others look.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Which Lease, and who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Election {
    pub namespace: String,
    pub name: String,
    /// Different for every process: host name and something random.
    pub identity: String,
}
