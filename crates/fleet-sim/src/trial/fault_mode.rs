//! Whether a run has faults, and how long the fleet gets to settle: the sum of everything that controllers may have to
//! wait for.

use std::time::Duration;

use fleet_core::placement::SnapshotIntervals;
use jiff::SignedDuration;

use super::profile::FaultProfile;
use crate::invariants::Lag;
use crate::network::FaultRates;
use crate::scenario::{Scenario, ScenarioKind};

/// Largest clock skew of an agent, fast or slow: enough to reorder timestamps, too little to lose heartbeats.
pub(super) const CLOCK_JUMP: Duration = Duration::from_secs(20);
/// Largest clock skew of the `Clocks` profile: longer than leases and heartbeats last.
pub(super) const WIDEST_CLOCK_JUMP: Duration = Duration::from_hours(2);
/// Time to settle after faults: a request that hangs (1 min), the longest backoff of a write (1 min) and of a watch (30
/// s).
const SETTLE: Duration = Duration::from_secs(150);
/// Time to settle without faults: the agent of a new member may have to wait for its RBAC rules once or twice.
const SETTLE_WITHOUT_FAULTS: Duration = Duration::from_secs(40);
/// Time to settle without faults where rollouts go from cluster to cluster and runs wait between stages.
const SETTLE_ROLLOUTS: Duration = Duration::from_mins(2);
/// A run reports that it is stuck after five minutes, by clocks that may be wrong.
const RUNS_GET_STUCK: Duration = Duration::from_secs(300 + 3 * CLOCK_JUMP.as_secs());
/// How long an agent may act on outdated objects: an event is late or lost, or a watch hangs until its timeout.
const STALE: Duration = Duration::from_secs(90);
/// Clusters that a rollout may have to update one after the other, waiting for each.
const CLUSTERS_IN_A_ROW: u32 = 5;

/// Whether a run has faults, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultMode {
    WithoutFaults,
    WithFaults(FaultProfile),
}

impl FaultMode {
    /// How far behind agents may be. Timestamps of objects have whole seconds.
    pub(super) fn lag(self) -> Lag {
        let (skew, stale) = match self {
            Self::WithoutFaults => (Duration::from_secs(1), STALE),
            Self::WithFaults(FaultProfile::Clocks) => (WIDEST_CLOCK_JUMP.saturating_mul(2), STALE),
            Self::WithFaults(profile) => {
                (CLOCK_JUMP.saturating_mul(2), STALE.saturating_add(profile.extra_staleness()))
            }
        };
        Lag { skew: SignedDuration::try_from(skew).unwrap_or(SignedDuration::MAX), stale }
    }

    pub(super) fn rates(self) -> FaultRates {
        match self {
            Self::WithoutFaults => FaultRates::none(),
            Self::WithFaults(profile) => profile.fault_rates(),
        }
    }

    /// How long the fleet takes to settle after the last fault.
    pub(super) fn settling(self, scenario: &Scenario) -> Duration {
        let without_faults =
            if scenario.kind == ScenarioKind::Placing { SETTLE_WITHOUT_FAULTS } else { SETTLE_ROLLOUTS };
        let skew = if self == Self::WithoutFaults { Duration::ZERO } else { CLOCK_JUMP.saturating_mul(2) };
        let waits = waits(scenario, skew);
        match self {
            Self::WithoutFaults => without_faults.saturating_add(waits),
            Self::WithFaults(profile) => SETTLE.saturating_add(profile.extra_settling_time()).saturating_add(waits),
        }
    }
}

/// Additional time to settle after the last action.
pub(super) fn final_wait(scenario: &Scenario) -> Duration {
    let stuck = if scenario.kind == ScenarioKind::Staging { RUNS_GET_STUCK } else { Duration::ZERO };
    stuck.saturating_add(waits(scenario, Duration::ZERO))
}

/// Time that controllers wait by the clock.
fn waits(scenario: &Scenario, skew: Duration) -> Duration {
    let SnapshotIntervals { minimum_interval, collection } = scenario.snapshot_intervals;
    let duration = |span: SignedDuration| Duration::try_from(span).unwrap_or_default();
    let snapshot = duration(minimum_interval).saturating_add(duration(collection));
    let snapshot = if snapshot.is_zero() { snapshot } else { snapshot.saturating_add(skew) };
    let untracked = scenario
        .untracked_for
        .map_or(Duration::ZERO, |period| period.saturating_add(skew).saturating_mul(CLUSTERS_IN_A_ROW));
    snapshot.saturating_add(untracked)
}
