//! Conditions of policy snapshots (ClusterSchedulingPolicySnapshot, SchedulingPolicySnapshot).

use super::state::condition;

condition! {
    /// Whether the scheduler found the clusters that the policy asks for.
    PolicySnapshotScheduled, PolicySnapshotScheduledReason: "Scheduled" {
        True "SchedulingPolicyFulfilled" => Fulfilled {
            Fulfilled { clusters: usize }:
                "found all cluster needed as specified by the scheduling policy, found {clusters} cluster(s)";
            /// Some members report values that are not usable numbers.
            FulfilledIgnoring { clusters: usize, ignored: String }:
                "found all cluster needed as specified by the scheduling policy, found {clusters} cluster(s); ignored because their values are not usable quantities: {ignored}";
        }
        False "SchedulingPolicyUnfulfilled" => Unfulfilled {
            Unfulfilled { clusters: usize }:
                "could not find all clusters needed as specified by the scheduling policy, found {clusters} cluster(s) instead";
            UnfulfilledIgnoring { clusters: usize, ignored: String }:
                "could not find all clusters needed as specified by the scheduling policy, found {clusters} cluster(s) instead; ignored because their values are not usable quantities: {ignored}";
        }
    }
}
