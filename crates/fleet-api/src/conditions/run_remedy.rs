//! What a user can do about a staged update run that waits or failed.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunRemedy {
    /// Resolves without action.
    Wait,
    SetStateRun,
    Approve {
        /// What `observedGeneration` of the approval must be.
        generation: i64,
    },
    /// See the placement's status for the cluster, then fix the cluster or the manifests.
    CheckPlacementStatus,
    CheckWorksOfCluster,
    CreatePlacement,
    MakePlacementExternal,
    CreateStrategy,
    FixStrategy,
    /// Labels of member clusters and the stages' selectors do not fit.
    FixClusterLabels,
    FixSelectors,
    WaitForScheduling,
    UseOtherSnapshotIndex,
    LetOtherRunFinish,
    DeleteForeignRequest,
    /// The run ended because its inputs changed; a new run uses the current ones.
    NewRun,
    ReportBug,
}

impl fmt::Display for RunRemedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RunRemedy::Wait => "nothing to do: it resolves by itself",
            RunRemedy::SetStateRun => "set spec.state of the run to Run",
            RunRemedy::Approve { generation } => {
                return write!(f, "approve the request with observedGeneration {generation}");
            }
            RunRemedy::CheckPlacementStatus => "see what the placement's status says about the cluster",
            RunRemedy::CheckWorksOfCluster => "see whether the member agent is healthy and what its Works wait for",
            RunRemedy::CreatePlacement => "create the placement, then a new run",
            RunRemedy::MakePlacementExternal => "set the placement's strategy type to External, then create a new run",
            RunRemedy::CreateStrategy => "create the strategy, then a new run",
            RunRemedy::FixStrategy => "fix the strategy, then create a new run",
            RunRemedy::FixClusterLabels => {
                "make each selected cluster match one stage and carry the sorting label, then create a new run"
            }
            RunRemedy::FixSelectors => "fix the placement's selectors or the overrides, then create a new run",
            RunRemedy::WaitForScheduling => "wait until the placement is scheduled, then create a new run",
            RunRemedy::UseOtherSnapshotIndex => "create a new run with an index that exists, or without one",
            RunRemedy::LetOtherRunFinish => "let the other run finish, or stop it and create a new one",
            RunRemedy::DeleteForeignRequest => "delete the approval request, then create a new run",
            RunRemedy::NewRun => "create a new run",
            RunRemedy::ReportBug => "create a new run, and report this as a bug",
        })
    }
}
