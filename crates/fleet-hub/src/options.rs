//! Options that the hub agent's flags set, with their defaults, and the number of workers of each controller.

use std::time::Duration;

use fleet_core::placement::{Propagation, SnapshotIntervals};
use fleet_core::scheduler::EligibilityLimits;

/// How long the agent of a leaving member has to finalize its Works before they are deleted without it.
pub const DEFAULT_FORCE_DELETE_WAIT: Duration = Duration::from_mins(15);
/// Longer than a healthy Deployment takes to pull its images, and short enough for a user who waits.
pub const DEFAULT_STUCK_AFTER: Duration = Duration::from_mins(5);
/// Number of members that a hub is sized for.
pub const DEFAULT_FLEET_SIZE: usize = 100;
/// Number of placements that change at the same time; sizes worker pools.
pub const DEFAULT_CONCURRENT_PLACEMENTS: usize = 100;

/// Options of the hub's controllers.
#[derive(Debug, Clone)]
pub struct HubOptions {
    /// `--resource-snapshot-creation-minimum-interval`, `--resource-changes-collection-duration`.
    pub snapshot_intervals: SnapshotIntervals,
    /// Not configurable for users; tests and simulations shorten them.
    pub eligibility: EligibilityLimits,
    /// `--skipped-propagating-apis`, `--allowed-propagating-apis`, `--skipped-propagating-namespaces`,
    /// `--enable-workload`.
    pub propagation: Propagation,
    /// `--force-delete-wait-time`.
    pub force_delete_wait: Duration,
    /// `--cluster-unhealthy-threshold`, if it is given.
    pub unhealthy_after: Option<Duration>,
    /// `--enable-cluster-inventory-apis`.
    pub cluster_inventory: bool,
    /// `--enable-resource-placement`.
    pub resource_placements: bool,
    /// `--enable-staged-update-run-apis`. Those of namespaced placements need `resource_placements` too.
    pub staged_runs: bool,
    /// `--stuck-after`: how long a cluster of a staged run may take before the run reports it as stuck.
    pub stuck_after: Duration,
    /// `--tolerate-strategy-changes`: whether a staged run continues when its strategy is deleted, or changed to
    /// something invalid.
    pub tolerate_strategy_changes: bool,
    /// `--enable-eviction-apis`.
    pub evictions: bool,
    /// `--networking-agents-enabled`.
    pub networking_agents: bool,
    /// `--max-fleet-size`.
    pub fleet_size: usize,
    /// `--max-concurrent-cluster-placement`.
    pub concurrent_placements: usize,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            snapshot_intervals: SnapshotIntervals::default(),
            eligibility: EligibilityLimits::default(),
            propagation: Propagation::default(),
            force_delete_wait: DEFAULT_FORCE_DELETE_WAIT,
            unhealthy_after: None,
            cluster_inventory: true,
            resource_placements: true,
            staged_runs: true,
            stuck_after: DEFAULT_STUCK_AFTER,
            tolerate_strategy_changes: false,
            evictions: true,
            networking_agents: false,
            fleet_size: DEFAULT_FLEET_SIZE,
            concurrent_placements: DEFAULT_CONCURRENT_PLACEMENTS,
        }
    }
}

impl HubOptions {
    /// A MemberCluster needs little work: one worker per hundred.
    pub fn member_workers(&self) -> usize {
        self.fleet_size.div_ceil(100).max(1)
    }

    /// One worker per ten placements that change at the same time.
    pub fn placement_workers(&self) -> usize {
        self.concurrent_placements.div_ceil(10).max(1)
    }

    /// Staged runs are few, and one plan writes many bindings.
    pub fn run_workers(&self) -> usize {
        self.concurrent_placements.div_ceil(10).max(1)
    }

    /// In a larger fleet, a placement takes longer to write its bindings.
    pub fn scheduler_workers(&self) -> usize {
        (self.fleet_size.div_ceil(50) * self.concurrent_placements.div_ceil(10)).max(1)
    }

    /// A rollout changes bindings one after the other.
    pub fn rollout_workers(&self) -> usize {
        (self.fleet_size.div_ceil(30) * self.concurrent_placements.div_ceil(10)).max(1)
    }

    /// There is one key per placement and cluster, and each writes Works that may be large.
    pub fn work_generator_workers(&self) -> usize {
        (self.fleet_size.div_ceil(10) * self.concurrent_placements.div_ceil(10)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_grow_with_the_fleet_and_are_never_empty() {
        let pools = |options: HubOptions| {
            let of_placements = [options.placement_workers(), options.scheduler_workers(), options.rollout_workers()];
            (options.member_workers(), of_placements, options.work_generator_workers())
        };
        assert_eq!(pools(HubOptions::default()), (1, [10, 20, 40], 100));
        let large = HubOptions { fleet_size: 200, concurrent_placements: 200, ..HubOptions::default() };
        assert_eq!(pools(large), (2, [20, 80, 140], 400));
        let none = HubOptions { fleet_size: 0, concurrent_placements: 0, ..HubOptions::default() };
        assert_eq!(pools(none), (1, [1, 1, 1], 1));
    }
}
