//! What a run's plan found out, as values: how far the run is, and for everything that makes it fail or wait the cause,
//! the object it is about and what a person can do.
//!
//! Decides the vocabulary; condition messages, events, `diagnose` and metric labels render from the same values. Never
//! decides which value holds.

use std::fmt;

use fleet_api::conditions::events::RunEvent;
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::run_fault::{RunFailure, RunFault};
use jiff::Timestamp;
use serde::Serialize;

use super::evidence::Progress;
use super::remedy::Remedy;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: Outcome,
    /// Everything that is waited for or went wrong, in stage order.
    pub blockers: Vec<Blocker>,
    /// The stages in order, the one that removes what is no longer wanted last.
    pub stages: Vec<StageReport>,
    /// What would end a run that rests (not started, or stopped) as soon as it went on.
    pub ahead: Option<RunFailure>,
    /// What happened with this plan, in the order in which it did.
    pub events: Vec<RunEvent>,
}

impl Report {
    pub(super) fn of(outcome: Outcome) -> Self {
        Self { outcome, blockers: Vec::new(), stages: Vec::new(), ahead: None, events: Vec::new() }
    }
}

/// How far the run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It is being deleted; its approval requests go.
    Releasing,
    /// It cannot be initialized or looked at yet.
    Retrying,
    InitializationFailed,
    /// Initialized, and not asked to run.
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

impl Outcome {
    /// Whether nothing can change it any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::InitializationFailed | Self::Failed | Self::Succeeded)
    }
}

/// One thing that a run waits for or failed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    pub cause: Cause,
    pub object: Object,
    pub remedy: Remedy,
}

impl Blocker {
    pub(super) fn about_cluster(cause: Cause) -> Self {
        let object = match &cause {
            Cause::Updating { cluster, .. } | Cause::Removing { cluster, .. } => Object::Cluster(cluster.clone()),
            _ => Object::Run,
        };
        let remedy = Remedy::of(&cause);
        Self { cause, object, remedy }
    }

    pub(super) fn about_binding(cause: Cause, binding: String) -> Self {
        let remedy = Remedy::of(&cause);
        Self { cause, object: Object::Binding(binding), remedy }
    }

    pub(super) fn about_request(cause: Cause, request: &str) -> Self {
        let remedy = Remedy::of(&cause);
        Self { cause, object: Object::ApprovalRequest(request.to_owned()), remedy }
    }

    pub(super) fn about_stage(cause: Cause, stage: &str) -> Self {
        let remedy = Remedy::of(&cause);
        Self { cause, object: Object::Stage(stage.to_owned()), remedy }
    }

    pub(super) fn about_run(cause: Cause) -> Self {
        let remedy = Remedy::of(&cause);
        Self { cause, object: Object::Run, remedy }
    }

    pub(super) fn of_fault(fault: &RunFault) -> Self {
        let cause = Cause::Fault(fault.clone());
        let remedy = Remedy::of(&cause);
        Self { cause, object: Object::of_fault(fault), remedy }
    }
}

/// Why a run waits or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A message of the catalogue: the run ended, or the look at it is repeated.
    Fault(RunFault),
    /// The state is Initialize.
    NotAskedToRun,
    /// The state is Stop and everything has come to rest.
    AskedToStop,
    /// Not everything that was true when the run was made is known yet.
    FactsBehind,
    /// Not all objects of this resource are known yet, so the current content cannot be captured.
    ContentUnknown {
        resource: String,
    },
    /// An override that concerns the run has no snapshot yet, so what clusters get of it cannot be fixed. `name` has its
    /// namespace before a slash, if it has one.
    OverrideNotFrozen {
        name: String,
    },
    ApprovalPending {
        stage: String,
        generation: i64,
    },
    /// Somebody approved, but not what stands there now.
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
    /// The binding is being deleted by others before its turn came.
    BindingGoing {
        cluster: String,
    },
    /// Another run has moved the binding and has not stored that it did.
    MoveNotRecorded {
        cluster: String,
        run: String,
    },
    /// The binding was deleted by the run and has not gone yet.
    Removing {
        cluster: String,
        binding: String,
    },
}

impl Cause {
    /// The entry of the troubleshooting catalogue that explains it in a run that got so far, if there is one.
    pub fn entry(&self, outcome: Outcome) -> Option<&'static str> {
        Some(match self {
            Cause::Fault(fault) => {
                let late = if outcome == Outcome::Failed { late_fault_entry(fault) } else { None };
                late.or_else(|| fault_entry(fault))?
            }
            Cause::NotAskedToRun => "UR-02",
            Cause::AskedToStop => "UR-60",
            Cause::FactsBehind | Cause::ContentUnknown { .. } | Cause::OverrideNotFrozen { .. } => "UR-16",
            Cause::ApprovalPending { .. } => "UR-50",
            Cause::ApprovalOfOtherGeneration { .. } => "UR-51",
            Cause::TimedWait { .. } => "UR-55",
            Cause::Updating { stuck: true, progress: Progress::Failing { step, .. }, .. } => match step {
                RolloutStep::Available => "UR-40",
                RolloutStep::DiffReported => "UR-43",
                _ => "UR-41",
            },
            Cause::Updating { stuck: true, .. } => "UR-40",
            Cause::Updating { .. } | Cause::BindingGoing { .. } | Cause::MoveNotRecorded { .. } => return None,
            Cause::Removing { .. } => "UR-62",
        })
    }
}

/// What fails a run that was initialized has entries of its own: something has changed since then.
fn late_fault_entry(fault: &RunFault) -> Option<&'static str> {
    Some(match fault.id() {
        "I-01" => "UR-20",
        "I-11" => "UR-21",
        "I-12" | "I-13" => "UR-22",
        "I-15" => "UR-23",
        "I-03" | "I-04" | "I-07" => "UR-25",
        "I-09" | "I-10" => "UR-26",
        "I-16" | "I-17" => "UR-27",
        _ => return None,
    })
}

fn fault_entry(fault: &RunFault) -> Option<&'static str> {
    Some(match fault.id() {
        "I-19" => "UR-04",
        "I-01" => "UR-05",
        "I-02" => "UR-06",
        "I-11" => "UR-07",
        "I-12" | "I-13" => "UR-08",
        "I-15" => "UR-09",
        "I-17" => "UR-10",
        "I-16" => "UR-11",
        "I-18" => "UR-12",
        "I-03" | "I-04" | "I-07" => "UR-13",
        "I-09" | "I-10" => "UR-14",
        "I-14" => "UR-15",
        "I-08" => "UR-16",
        "E-04" => "UR-24",
        "V-02" => "UR-25",
        "V-03" => "UR-26",
        "V-08" | "V-09" | "V-19" => "UR-27",
        "V-01" => "UR-28",
        "E-06" => "UR-29",
        "-" => return None,
        _ => "UR-30",
    })
}

/// What a cause is about; names are those of the run's own namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Run,
    Placement,
    Strategy,
    Stage(String),
    Cluster(String),
    /// With its namespace before a slash, if it has one.
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
    /// Its gate before the first cluster is closed.
    AwaitingStart,
    Updating,
    /// Its clusters are done, its gates after them are not all open.
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
