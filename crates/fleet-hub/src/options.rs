//! What the hub agent's flags set, with the defaults of the flags.
//!
//! Decides how many keys each controller has in hand at once, from how large the fleet is meant to get. Never parses a
//! flag.

use std::time::Duration;

use fleet_core::placement::{Propagation, SnapshotPace};
use fleet_core::scheduler::EligibilityLimits;

/// How long a leaving member's agent has to take back what it applied, before its Works are let go of without it.
pub const DEFAULT_FORCE_DELETE_WAIT: Duration = Duration::from_mins(15);
/// Longer than a healthy Deployment takes to pull its images, short enough for somebody who waits.
pub const DEFAULT_STUCK_AFTER: Duration = Duration::from_mins(5);
/// Members that a hub is meant for; sizes pools of workers.
pub const DEFAULT_FLEET_SIZE: usize = 100;
/// Placements that change at the same time; sizes pools of workers.
pub const DEFAULT_CONCURRENT_PLACEMENTS: usize = 100;

/// How the hub's controllers behave.
#[derive(Debug, Clone)]
pub struct HubOptions {
    /// `--resource-snapshot-creation-minimum-interval`, `--resource-changes-collection-duration`.
    pub snapshot_pace: SnapshotPace,
    /// Fixed for users; tests and simulations shorten them.
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
    /// `--stuck-after`: how long a cluster of a staged run may take before the run says that it is stuck.
    pub stuck_after: Duration,
    /// `--tolerate-strategy-changes`: whether a staged run goes on when its strategy is deleted, or edited into something
    /// invalid.
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
            snapshot_pace: SnapshotPace::default(),
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
    /// A MemberCluster is little work: one hand per hundred.
    pub fn member_workers(&self) -> usize {
        self.fleet_size.div_ceil(100).max(1)
    }

    /// One hand per ten placements that change together.
    pub fn placement_workers(&self) -> usize {
        self.concurrent_placements.div_ceil(10).max(1)
    }

    /// Staged runs are few, and one plan of theirs writes many bindings.
    pub fn run_workers(&self) -> usize {
        self.concurrent_placements.div_ceil(10).max(1)
    }

    /// The larger the fleet, the longer a placement writes bindings.
    pub fn scheduler_workers(&self) -> usize {
        (self.fleet_size.div_ceil(50) * self.concurrent_placements.div_ceil(10)).max(1)
    }

    /// A rollout moves bindings one after the other.
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
