//! Conditions of a whole placement (ClusterResourcePlacement, ResourcePlacement).

use super::state::condition;
use crate::kinds::ScopeKind;
pub use crate::types::PlacementScope;

impl From<ScopeKind> for PlacementScope {
    fn from(kind: ScopeKind) -> Self {
        match kind {
            ScopeKind::Cluster => Self::Cluster,
            ScopeKind::Namespaced => Self::Namespaced,
        }
    }
}

impl PlacementScope {
    /// The kind of the staged runs for such a placement.
    pub fn update_run_kind(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterStagedUpdateRun",
            Self::Namespaced => "StagedUpdateRun",
        }
    }
}

condition! {
    /// Whether the scheduler found the clusters that the policy asks for. Mostly a copy of the policy snapshot's
    /// condition; only reasons that prevent scheduling are defined here.
    PlacementScheduled, PlacementScheduledReason: placement "Scheduled" {
        True "SchedulingPolicyFulfilled" => Fulfilled {}
        False "SchedulingPolicyUnfulfilled" => Unfulfilled {}
        Unknown "SchedulePending" => Pending {
            Pending: "Scheduling has not completed";
        }
        False "InvalidResourceSelectors" => InvalidSelectors {
            /// The error keeps its prefix.
            InvalidSelectors { error: String }: "The resource selectors are invalid: {error}";
            NamespaceChanged { chosen: String, original: String }:
                "namespace resource selector is choosing a different namespace '{chosen}' from what was originally picked '{original}'. This is not allowed for NamespaceAccessible ClusterResourcePlacement";
            NoNamespaceSelected:
                "NamespaceAccessible ClusterResourcePlacement doesn't specify a resource selector which selects a namespace";
        }
    }
}

condition! {
    /// Whether the clusters may use the latest resources.
    PlacementRolloutStarted, PlacementRolloutStartedReason: placement "RolloutStarted" {
        Unknown "RolloutStartedUnknown" => Undecided {
            Undecided { clusters: usize }:
                "There are still {clusters} cluster(s) in the process of deciding whether to roll out the latest resources or not";
        }
        Unknown "RolloutControlledByExternalController" => External {
            DifferentSnapshots:
                "Rollout is controlled by an external controller and different resource snapshot versions are observed across clusters";
            NoSnapshot { scope: PlacementScope }:
                "Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, probably rollout has not started yet. To determine rollout status, check the {kind} resources with spec.placementName matching this placement",
                kind = scope.update_run_kind();
            ClusterUndecided { cluster: String }:
                "Rollout is controlled by an external controller and cluster {cluster} is in RolloutStarted Unknown state";
        }
        False "RolloutNotStartedYet" => NotStartedYet {
            NotStartedYet { clusters: usize }: "The rollout is being blocked by the rollout strategy in {clusters} cluster(s)";
        }
        True "RolloutStarted" => Started {
            Started { clusters: usize }: "All {clusters} cluster(s) start rolling out the latest resource";
        }
    }
}

condition! {
    /// Whether the overrides could be applied to the selected resources.
    PlacementOverridden, PlacementOverriddenReason: placement "Overridden" {
        Unknown "OverriddenPending" => Undecided {
            Undecided { clusters: usize }:
                "There are still {clusters} cluster(s) in the process of overriding the selected resources if there is any override defined";
        }
        True "NoOverrideSpecified" => NoOverride {
            NoOverride: "No override rules are configured for the selected resources";
        }
        False "OverriddenFailed" => Failed {
            Failed { clusters: usize }: "Failed to override resources in {clusters} cluster(s)";
        }
        True "OverriddenSucceeded" => Succeeded {
            Succeeded { clusters: usize }: "The selected resources are successfully overridden in {clusters} cluster(s)";
        }
    }
}

condition! {
    /// Whether the Works in the clusters' namespaces contain the resources.
    PlacementWorkSynchronized, PlacementWorkSynchronizedReason: placement "WorkSynchronized" {
        Unknown "WorkSynchronizedUnknown" => Undecided {
            Undecided { clusters: usize }:
                "There are still {clusters} cluster(s) in the process of creating or updating the work object(s) in the hub cluster";
        }
        False "WorkNotSynchronizedYet" => NotYet {
            NotYet { clusters: usize }:
                "There are {clusters} cluster(s) which have not finished creating or updating work(s) yet";
        }
        True "WorkSynchronized" => Synchronized {
            Synchronized { clusters: usize }:
                "Work(s) are successfully created or updated in {clusters} target cluster(s)' namespaces";
        }
    }
}

condition! {
    /// Whether the members applied the resources.
    PlacementApplied, PlacementAppliedReason: placement "Applied" {
        Unknown "ApplyPending" => Undecided {
            Undecided { clusters: usize }:
                "There are still {clusters} cluster(s) in the process of applying the resources on the member cluster";
        }
        False "ApplyFailed" => Failed {
            Failed { clusters: usize }:
                "Failed to apply resources to {clusters} cluster(s), please check the `failedPlacements` status";
        }
        True "ApplySucceeded" => Succeeded {
            Succeeded { clusters: usize }: "The selected resources are successfully applied to {clusters} cluster(s)";
        }
    }
}

condition! {
    /// Whether the applied resources are available on the members.
    PlacementAvailable, PlacementAvailableReason: placement "Available" {
        Unknown "ResourceAvailableUnknown" => Undecided {
            Undecided { clusters: usize }:
                "There are still {clusters} cluster(s) in the process of checking the availability of the selected resources";
        }
        False "ResourceNotAvailableYet" => NotYet {
            NotYet { clusters: usize }: "The selected resources in {clusters} cluster(s) are still not available yet";
        }
        True "ResourceAvailable" => Available {
            Available { clusters: usize }: "The selected resources in {clusters} cluster(s) are available now";
        }
    }
}

condition! {
    /// Whether the members reported their differences from the hub; replaces Applied and Available if nothing is to
    /// be applied.
    PlacementDiffReported, PlacementDiffReportedReason: placement "DiffReported" {
        Unknown "DiffReportingPending" => Undecided {
            Undecided { clusters: usize }:
                "There are still {clusters} cluster(s) in the process of checking for configuration differences";
        }
        False "DiffReportingIncompleteOrFailed" => IncompleteOrFailed {
            IncompleteOrFailed { clusters: usize }: "Diff reporting in {clusters} clusters is still in progress or has failed";
        }
        True "DiffReportingCompleted" => Completed {
            Completed { clusters: usize }: "Diff reporting in {clusters} cluster(s) has been completed";
        }
    }
}

condition! {
    /// Whether the copy of the status in the selected namespace is current. Only ClusterResourcePlacements have one.
    PlacementStatusSynced, PlacementStatusSyncedReason: "ClusterResourcePlacementStatusSynced" {
        True "StatusSyncSucceeded" => Succeeded {
            Succeeded { namespace: String }:
                "Successfully created or updated ClusterResourcePlacementStatus in namespace '{namespace}'";
        }
        False "StatusSyncFailed" => Failed {
            Failed { error: String }: "Failed to create or update ClusterResourcePlacementStatus: {error}";
        }
    }
}
