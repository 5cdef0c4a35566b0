//! What a user can do about a run that waits or failed: one remedy per cause.

use std::fmt;

use fleet_api::conditions::run_fault::RunFault;

use super::binding::Progress;
use super::report::Cause;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
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

impl Remedy {
    pub(super) fn of(cause: &Cause) -> Self {
        match cause {
            Cause::Fault(fault) => Self::of_fault(fault),
            Cause::NotAskedToRun | Cause::AskedToStop => Remedy::SetStateRun,
            Cause::ObservationStale
            | Cause::ContentUnknown { .. }
            | Cause::OverrideNotSnapshotted { .. }
            | Cause::MoveNotRecorded { .. }
            | Cause::TimedWait { .. }
            | Cause::BindingDeleting { .. }
            | Cause::Updating { stuck: false, progress: Progress::Done | Progress::InProgress(_), .. } => Remedy::Wait,
            Cause::ApprovalPending { generation, .. } | Cause::ApprovalOfOtherGeneration { generation, .. } => {
                Remedy::Approve { generation: *generation }
            }
            Cause::Updating { .. } => Remedy::CheckPlacementStatus,
            Cause::Removing { .. } => Remedy::CheckWorksOfCluster,
        }
    }

    fn of_fault(fault: &RunFault) -> Self {
        match fault.id() {
            "I-01" => Remedy::CreatePlacement,
            "I-02" => Remedy::MakePlacementExternal,
            "I-03" | "I-04" | "I-07" | "I-09" | "I-10" => Remedy::WaitForScheduling,
            "I-08" | "-" => Remedy::Wait,
            "I-11" => Remedy::CreateStrategy,
            "I-12" | "I-13" | "I-14" | "V-10" => Remedy::FixStrategy,
            "I-15" | "I-16" | "I-17" => Remedy::FixClusterLabels,
            "I-18" | "I-19" | "I-21" => Remedy::UseOtherSnapshotIndex,
            "I-20" | "I-22" => Remedy::FixSelectors,
            "V-01" | "V-02" | "V-03" | "V-06" | "V-07" | "V-08" | "V-09" | "V-19" => Remedy::NewRun,
            "E-04" => Remedy::LetOtherRunFinish,
            "E-06" => Remedy::DeleteForeignRequest,
            _ => Remedy::ReportBug,
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Remedy::Wait => "nothing to do: it resolves by itself",
            Remedy::SetStateRun => "set spec.state of the run to Run",
            Remedy::Approve { generation } => {
                return write!(f, "approve the request with observedGeneration {generation}");
            }
            Remedy::CheckPlacementStatus => "see what the placement's status says about the cluster",
            Remedy::CheckWorksOfCluster => "see whether the member agent is healthy and what its Works wait for",
            Remedy::CreatePlacement => "create the placement, then a new run",
            Remedy::MakePlacementExternal => "set the placement's strategy type to External, then create a new run",
            Remedy::CreateStrategy => "create the strategy, then a new run",
            Remedy::FixStrategy => "fix the strategy, then create a new run",
            Remedy::FixClusterLabels => {
                "make each selected cluster match one stage and carry the sorting label, then create a new run"
            }
            Remedy::FixSelectors => "fix the placement's selectors or the overrides, then create a new run",
            Remedy::WaitForScheduling => "wait until the placement is scheduled, then create a new run",
            Remedy::UseOtherSnapshotIndex => "create a new run with an index that exists, or without one",
            Remedy::LetOtherRunFinish => "let the other run finish, or stop it and create a new one",
            Remedy::DeleteForeignRequest => "delete the approval request, then create a new run",
            Remedy::NewRun => "create a new run",
            Remedy::ReportBug => "create a new run, and report this as a bug",
        })
    }
}
