//! Conditions of ClusterResourcePlacementEvictions.

use super::state::condition;

condition! {
    /// Whether the eviction refers to something that can be evicted.
    EvictionValid, EvictionValidReason: "Valid" {
        True "ClusterResourcePlacementEvictionValid" => Valid {
            Valid: "Eviction is valid";
        }
        False "ClusterResourcePlacementEvictionInvalid" => Invalid {
            PlacementNotFound: "Failed to find ClusterResourcePlacement targeted by eviction";
            PlacementDeleting: "Found deleting ClusterResourcePlacement targeted by eviction";
            PlacementPicksFixedClusters:
                "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction";
            SeveralBindings:
                "Found more than one scheduler decision for placement in cluster targeted by eviction";
            NoBinding: "Failed to find scheduler decision for placement in cluster targeted by eviction";
        }
    }
}

condition! {
    /// Whether the placement was removed from the cluster.
    EvictionExecuted, EvictionExecutedReason: "Executed" {
        True "ClusterResourcePlacementEvictionExecuted" => Executed {
            AlreadyBeingRemoved:
                "Eviction is allowed, resources propagated by placement is currently being removed from cluster targeted by eviction";
            PlacementFailed: "Eviction is allowed, placement has failed";
            NoBudget: "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified";
            AllowedByBudget { available: usize, total: usize }:
                "Eviction is allowed by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: {available}, totalPlacements: {total}";
        }
        False "ClusterResourcePlacementEvictionNotExecuted" => NotExecuted {
            NothingPlacedYet: "Eviction is blocked, placement has not propagated resources to target cluster yet";
            MisconfiguredBudget:
                "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement";
            BlockedByBudget { available: usize, total: usize }:
                "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: {available}, totalPlacements: {total}";
        }
    }
}
