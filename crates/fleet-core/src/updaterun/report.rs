//! The result of a run's plan as values: the outcome, the stages, and for each blocker its cause, object and remedy.
//! Condition messages, events and metric labels are rendered from these values.

use std::fmt;

use fleet_api::conditions::events::RunEvent;
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::run_fault::{RunFailure, RunFault};
use fleet_api::conditions::run_remedy::RunRemedy;
use jiff::Timestamp;
use serde::Serialize;

use super::binding::Progress;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: RunOutcome,
    /// Everything that the run waits for or failed on, in stage order.
    pub blockers: Vec<Blocker>,
    /// The stages in order, the delete stage last.
    pub stages: Vec<StageReport>,
    /// The failure that a run in state Initialize or Stop would have as soon as it is resumed.
    pub failure_preview: Option<RunFailure>,
    /// The events of this plan, in order.
    pub events: Vec<RunEvent>,
}

impl Report {
    pub(super) fn of(outcome: RunOutcome) -> Self {
        Self { outcome, blockers: Vec::new(), stages: Vec::new(), failure_preview: None, events: Vec::new() }
    }
}

/// State of the run after this plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RunOutcome {
    /// The run and its approval requests are being deleted.
    Releasing,
    /// It cannot be initialized or continued yet.
    Retrying,
    InitializationFailed,
    /// Initialized; the state is not Run.
    Idle,
    Progressing,
    /// A gate is closed.
    Waiting,
    Stuck,
    Stopping,
    Stopped,
    Failed,
    Succeeded,
}

impl RunOutcome {
    /// Whether the run is over.
    pub fn is_final(self) -> bool {
        matches!(self, Self::InitializationFailed | Self::Failed | Self::Succeeded)
    }
}

/// One thing that a run waits for or failed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    pub cause: Cause,
    pub object: Object,
    pub remedy: RunRemedy,
}

impl Blocker {
    fn new(cause: Cause, object: Object) -> Self {
        Self { remedy: cause.remedy(), cause, object }
    }

    pub(super) fn about_cluster(cause: Cause) -> Self {
        let object = match &cause {
            Cause::Updating { cluster, .. } | Cause::Removing { cluster, .. } => Object::Cluster(cluster.clone()),
            _ => Object::Run,
        };
        Self::new(cause, object)
    }

    pub(super) fn about_binding(cause: Cause, binding: String) -> Self {
        Self::new(cause, Object::Binding(binding))
    }

    pub(super) fn about_request(cause: Cause, request: &str) -> Self {
        Self::new(cause, Object::ApprovalRequest(request.to_owned()))
    }

    pub(super) fn about_stage(cause: Cause, stage: &str) -> Self {
        Self::new(cause, Object::Stage(stage.to_owned()))
    }

    pub(super) fn about_run(cause: Cause) -> Self {
        Self::new(cause, Object::Run)
    }

    pub(super) fn of_fault(fault: &RunFault) -> Self {
        Self::new(Cause::Fault(fault.clone()), Object::of_fault(fault))
    }
}

/// Why a run waits or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The run failed, or planning is retried, as the fault says.
    Fault(RunFault),
    /// The state is Initialize.
    NotAskedToRun,
    /// The state is Stop and no cluster is being updated.
    AskedToStop,
    /// The caches may be older than the run.
    ObservationStale,
    /// Not all objects of this resource are known yet, so the placement cannot be snapshotted.
    ContentUnknown {
        resource: String,
    },
    /// An override that applies to the run has no snapshot yet. `name` is `namespace/name` for namespaced overrides.
    OverrideNotSnapshotted {
        name: String,
    },
    ApprovalPending {
        stage: String,
        generation: i64,
    },
    /// The request was approved for another generation.
    ApprovalOfOtherGeneration {
        stage: String,
        approved: i64,
        generation: i64,
    },
    TimedWait {
        stage: String,
        until: Timestamp,
    },
    Updating {
        cluster: String,
        stage: String,
        progress: Progress,
        stuck: bool,
    },
    /// The binding is being deleted by another controller before the run reached it.
    BindingDeleting {
        cluster: String,
    },
    /// Another run has updated the binding and has not stored that in its status yet.
    MoveNotRecorded {
        cluster: String,
        run: String,
    },
    /// The run has deleted the binding; it still has finalizers.
    Removing {
        cluster: String,
        binding: String,
    },
}

impl Cause {
    /// The entry of the troubleshooting catalogue for this cause.
    pub fn entry(&self, outcome: RunOutcome) -> Option<&'static str> {
        Some(match self {
            Cause::Fault(fault) if outcome == RunOutcome::Failed => fault.late_entry()?,
            Cause::Fault(fault) => fault.entry()?,
            Cause::NotAskedToRun => "UR-02",
            Cause::AskedToStop => "UR-60",
            Cause::ObservationStale | Cause::ContentUnknown { .. } | Cause::OverrideNotSnapshotted { .. } => "UR-16",
            Cause::ApprovalPending { .. } => "UR-50",
            Cause::ApprovalOfOtherGeneration { .. } => "UR-51",
            Cause::TimedWait { .. } => "UR-55",
            Cause::Updating { stuck: true, progress: Progress::Failing { step, .. }, .. } => match step {
                RolloutStep::Available => "UR-40",
                RolloutStep::DiffReported => "UR-43",
                _ => "UR-41",
            },
            Cause::Updating { stuck: true, .. } => "UR-40",
            Cause::Updating { .. } | Cause::BindingDeleting { .. } | Cause::MoveNotRecorded { .. } => return None,
            Cause::Removing { .. } => "UR-62",
        })
    }

    /// What a user can do about it.
    fn remedy(&self) -> RunRemedy {
        match self {
            Cause::Fault(fault) => fault.remedy(),
            Cause::NotAskedToRun | Cause::AskedToStop => RunRemedy::SetStateRun,
            Cause::ObservationStale
            | Cause::ContentUnknown { .. }
            | Cause::OverrideNotSnapshotted { .. }
            | Cause::MoveNotRecorded { .. }
            | Cause::TimedWait { .. }
            | Cause::BindingDeleting { .. }
            | Cause::Updating { stuck: false, progress: Progress::Done | Progress::InProgress(_), .. } => {
                RunRemedy::Wait
            }
            Cause::ApprovalPending { generation, .. } | Cause::ApprovalOfOtherGeneration { generation, .. } => {
                RunRemedy::Approve { generation: *generation }
            }
            Cause::Updating { .. } => RunRemedy::CheckPlacementStatus,
            Cause::Removing { .. } => RunRemedy::CheckWorksOfCluster,
        }
    }
}

/// The object that a cause is about. Names are in the run's namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Run,
    Placement,
    Strategy,
    Stage(String),
    Cluster(String),
    /// `namespace/name` for namespaced bindings.
    Binding(String),
    PolicySnapshot(String),
    ResourceSnapshot,
    ApprovalRequest(String),
}

impl Object {
    fn of_fault(fault: &RunFault) -> Self {
        match fault {
            RunFault::PlacementNotFound
            | RunFault::StrategyNotExternal { .. }
            | RunFault::NoPolicySnapshot { .. }
            | RunFault::SeveralPolicySnapshots { .. }
            | RunFault::NoBindings { .. }
            | RunFault::BindingCountDiffers { .. }
            | RunFault::ResourcesNotSelectable { .. }
            | RunFault::ApplyStrategyOutdated { .. }
            | RunFault::PolicyIndexOutdated { .. }
            | RunFault::ClusterCountOutdated { .. } => Object::Placement,
            RunFault::NoPolicyIndex { snapshot } | RunFault::NoClusterCount { snapshot, .. } => {
                Object::PolicySnapshot(snapshot.clone())
            }
            RunFault::NotFullyScheduled { snapshot_name } => Object::PolicySnapshot(snapshot_name.clone()),
            RunFault::BindingOfOldPolicy { old_binding, .. } => Object::Binding(old_binding.clone()),
            RunFault::StrategyNotFound { .. }
            | RunFault::InvalidBeforeStageTasks { .. }
            | RunFault::InvalidAfterStageTasks { .. }
            | RunFault::InvalidStageSelector { .. }
            | RunFault::InvalidConcurrency { .. } => Object::Strategy,
            RunFault::ClusterInSeveralStages { cluster }
            | RunFault::InvalidSortingLabel { cluster, .. }
            | RunFault::NotInDeleteStage { cluster }
            | RunFault::ClusterFailed { cluster, .. }
            | RunFault::BindingMissing { cluster, .. }
            | RunFault::BindingMissingWhileStopping { cluster, .. }
            | RunFault::NotInDeletingStage { cluster }
            | RunFault::NotInDeletingStageWhileStopping { cluster }
            | RunFault::DeletedStillBound { cluster }
            | RunFault::DeletingStillBound { cluster }
            | RunFault::StageClusterChanged { new: cluster, .. } => Object::Cluster(cluster.clone()),
            RunFault::ClustersInNoStage { clusters } => match &clusters.0[..] {
                [cluster] => Object::Cluster(cluster.clone()),
                _ => Object::Strategy,
            },
            RunFault::Preempted { by_other_run } => Object::Binding(by_other_run.binding.clone()),
            RunFault::ForeignApprovalRequest { request, .. } => Object::ApprovalRequest(request.clone()),
            RunFault::SnapshotNotFound { .. } | RunFault::NoMasterSnapshot { .. } => Object::ResourceSnapshot,
            RunFault::StageFailed { stage, .. } => Object::Stage(stage.clone()),
            _ => Object::Run,
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Run => f.write_str("run"),
            Object::Placement => f.write_str("placement"),
            Object::Strategy => f.write_str("strategy"),
            Object::ResourceSnapshot => f.write_str("resource snapshots"),
            Object::Stage(name) => write!(f, "stage {name}"),
            Object::Cluster(name) => write!(f, "cluster {name}"),
            Object::Binding(name) => write!(f, "binding {name}"),
            Object::PolicySnapshot(name) => write!(f, "policy snapshot {name}"),
            Object::ApprovalRequest(name) => write!(f, "approval request {name}"),
        }
    }
}

/// One stage and its clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageReport {
    pub name: String,
    pub step: StageStep,
    pub clusters: Vec<(String, ClusterStep)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StageStep {
    NotReached,
    /// Waits for its before-stage task.
    AwaitingStart,
    Updating,
    /// Its clusters are done; it waits for its after-stage tasks.
    AwaitingEnd,
    Stopping,
    Stopped,
    Skipped,
    Succeeded,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ClusterStep {
    Pending,
    Updating,
    Succeeded,
    Failed,
}
