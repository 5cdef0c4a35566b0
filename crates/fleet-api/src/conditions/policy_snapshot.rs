//! Conditions of policy snapshots (ClusterSchedulingPolicySnapshot, SchedulingPolicySnapshot).
//!
//! Decides the words of the scheduler's verdict. Never says why a single cluster was or was not picked.

use super::state::condition;

condition! {
    /// Whether the scheduler found the clusters that the policy asks for.
    PolicySnapshotScheduled, PolicySnapshotScheduledReason: "Scheduled" {
        True "SchedulingPolicyFulfilled" => Fulfilled {
            Fulfilled { clusters: usize }:
                "found all cluster needed as specified by the scheduling policy, found {clusters} cluster(s)";
        }
        False "SchedulingPolicyUnfulfilled" => Unfulfilled {
            Unfulfilled { clusters: usize }:
                "could not find all clusters needed as specified by the scheduling policy, found {clusters} cluster(s) instead";
        }
    }
}
