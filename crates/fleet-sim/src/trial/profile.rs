//! Fault profiles: the faults that a seed has in addition to the usual ones, their rates on the network, and how much
//! longer a fleet with them takes to settle.

use std::time::Duration;

use crate::Random;
use crate::network::FaultRates;

/// Faults in addition to lost, late, refused and repeated requests and agents that crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultProfile {
    /// No other faults.
    Requests,
    /// Watches that stall: they send no more events and do not end.
    StalledWatches,
    /// 401, 403, 413, exceeded quotas, refusals and failures of third-party admission webhooks.
    Refusals,
    /// Stale lists and incomplete discovery answers.
    StaleReads,
    /// The hub's API server restarts without its history of watch events.
    ServerRestart,
    /// The hub's API server is restored from a backup under running agents, and users repeat the requests that are lost.
    ServerRestore,
    /// An agent does not reach the hub's API server for hours.
    Partition,
    /// A CustomResourceDefinition changes, and its kind is not served for a while.
    CrdChanges,
    /// The clock of an agent is wrong by more than the duration of leases and heartbeats.
    Clocks,
    /// An intruder with the credentials of a member's agent writes garbage into statuses.
    ForgedStatuses,
}

impl FaultProfile {
    /// All profiles with their weights.
    const ALL: [(Self, u64); 10] = [
        (Self::Requests, 10),
        (Self::StalledWatches, 18),
        (Self::Refusals, 12),
        (Self::StaleReads, 12),
        (Self::ServerRestart, 8),
        (Self::ServerRestore, 10),
        (Self::Partition, 8),
        (Self::CrdChanges, 8),
        (Self::Clocks, 8),
        (Self::ForgedStatuses, 8),
    ];

    pub(super) fn of(seed: u64) -> Self {
        let total = Self::ALL.iter().map(|(_, weight)| weight).sum();
        let mut drawn = Random::new(seed.rotate_left(32)).below(total);
        for (profile, weight) in Self::ALL {
            if drawn < weight {
                return profile;
            }
            drawn -= weight;
        }
        Self::Requests
    }

    /// The fault rates of the network after each action.
    pub(super) fn fault_rates(self) -> FaultRates {
        match self {
            Self::StalledWatches => FaultRates::with_stalled_watches(),
            Self::Refusals => FaultRates::with_refusals(),
            Self::StaleReads => FaultRates::with_stale_reads(),
            _ => FaultRates::usual(),
        }
    }

    /// How much longer than usual the fleet takes to settle after the last fault.
    pub(super) fn extra_settling_time(self) -> Duration {
        match self {
            // An agent gives a stalled watch up shortly after its timeout.
            Self::StalledWatches => WATCH_IS_GIVEN_UP,
            Self::ServerRestart | Self::ServerRestore | Self::Partition | Self::CrdChanges => LONGEST_PAUSES,
            // Writes that were refused for a lasting reason are retried after minutes.
            Self::Refusals | Self::ForgedStatuses => REFUSED_WRITES_ARE_REPEATED,
            Self::StaleReads => DISCOVERY_IS_REPEATED,
            Self::Requests | Self::Clocks => Duration::ZERO,
        }
    }

    /// How much longer than usual an agent may act on outdated objects.
    pub(super) fn extra_staleness(self) -> Duration {
        match self {
            Self::StalledWatches => WATCH_IS_GIVEN_UP,
            Self::Partition => LONGEST_PARTITION,
            Self::ServerRestart | Self::ServerRestore | Self::CrdChanges => LONGEST_PAUSES,
            Self::StaleReads => DISCOVERY_IS_REPEATED,
            _ => Duration::ZERO,
        }
    }

    /// Whether the hub may receive heartbeats late, or lose them, although the member's agent sends them.
    pub(super) fn delays_heartbeats(self) -> bool {
        matches!(self, Self::StalledWatches | Self::ServerRestore)
    }
}

/// A watch request has a timeout of less than five minutes.
const WATCH_IS_GIVEN_UP: Duration = Duration::from_mins(5);
/// The longest backoff of a watch plus that of a write.
const LONGEST_PAUSES: Duration = Duration::from_mins(2);
/// The longest backoff of a write that the server refused.
const REFUSED_WRITES_ARE_REPEATED: Duration = Duration::from_mins(16);
/// The longest pause until an incomplete discovery answer is requested again.
const DISCOVERY_IS_REPEATED: Duration = Duration::from_mins(3);
pub(super) const LONGEST_PARTITION: Duration = Duration::from_hours(6);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_20_every_profile_is_drawn_and_one_seed_has_one() {
        let drawn: Vec<FaultProfile> = (0..200).map(FaultProfile::of).collect();
        for (profile, _) in FaultProfile::ALL {
            assert!(drawn.contains(&profile), "{profile:?} is not among the first 200 seeds");
        }
        assert!((0..200).all(|seed| FaultProfile::of(seed) == drawn[usize::try_from(seed).unwrap()]));
    }
}
