//! A staged update run as a tree: stages, their gates and their clusters.
//!
//! Objects that were read one after the other may be inconsistent. Then the tree shows nothing to wait for, rather
//! than something wrong.

use fleet_api::conditions::update_run::{
    ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing, TaskApprovalRequestApproved,
    TaskApprovalRequestCreated, TaskWaitTimeElapsed, UpdateRunInitialized, UpdateRunProgressing,
    UpdateRunProgressingReason, UpdateRunSucceeded,
};
use fleet_api::conditions::{Condition, ConditionStatus, decode_ignoring_generation};
use fleet_api::time::Time;
use fleet_api::types::{
    ClusterUpdatingStatus, IntOrString, StageConfig, StageTaskStatus, StageTaskType, StageUpdatingStatus,
    UpdateRunState, UpdateRunStatus,
};
use fleet_api::well_known::DELETE_STAGE;
use jiff::Timestamp;
use serde::Serialize;

use super::{index_of, since};
use crate::updaterun::{
    Blocker, Cause, ClusterStep, Object, Observed, Progress, RunOutcome, StageReport, StageStep, outline, plan,
};

/// The overview of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOverview {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub placement: String,
    pub strategy: String,
    /// The state in its spec.
    pub asked: UpdateRunState,
    pub state: RunOutcome,
    /// Since when it is in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The message of the condition that determines the state.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Index of the resources that it rolls out, once that is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// Finished clusters, including removals.
    pub clusters_done: usize,
    pub clusters: usize,
    pub waits: Vec<Wait>,
    pub stages: Vec<StageOverview>,
    /// The error on which it would fail if it continued now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_fail: Option<String>,
}

/// One thing that the run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "for", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Wait {
    Approval {
        stage: String,
        request: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Time>,
        /// The generation that was approved, if that is not the current one of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        approved_generation: Option<i64>,
    },
    Time {
        stage: String,
        until: Time,
    },
    Cluster {
        stage: String,
        cluster: String,
        /// The binding's condition that is not True yet.
        step: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Time>,
        /// The message of that condition, if it reports a problem.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
        stuck: bool,
    },
    Removal {
        cluster: String,
    },
    /// The user: the run is not started, or stopped.
    User,
    /// Something temporary, as a text.
    Moment {
        message: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageOverview {
    pub name: String,
    /// Whether it is the stage that removes unwanted resources.
    pub removes: bool,
    pub state: StageStep,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// The maximum concurrency as the strategy says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<String>,
    pub before: Vec<Gate>,
    pub clusters: Vec<ClusterOverview>,
    pub after: Vec<Gate>,
}

/// A task before or after the clusters of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    #[serde(flatten)]
    pub task: GateTask,
    pub state: GateState,
    /// Since when it is in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When it opens by itself, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum GateTask {
    Approval { request: String },
    TimedWait { wait_time: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GateState {
    NotReached,
    Closed,
    Open,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOverview {
    pub name: String,
    pub state: ClusterStep,
    /// Whether the cluster is stuck.
    pub stuck: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// Index of the resources in its binding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_index: Option<u32>,
    /// The binding's condition that is not True yet, while it is being updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'static str>,
    /// The problem, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The overview of a run. The facts need not be confirmed, because the run is only shown.
pub fn run(observed: &Observed<'_>, created: Option<Timestamp>, now: Timestamp) -> RunOverview {
    let facts = &observed.run;
    let nothing = UpdateRunStatus::default();
    let status = facts.status.unwrap_or(&nothing);
    let standing = RecordedState::of(status, facts.deleting);
    let report = plan(&Observed { confirmed: false, ..observed.clone() }, now).report;
    let mut blockers = if standing.state.is_final() { Vec::new() } else { report.blockers };
    blockers.retain(|blocker| !is_ahead(&blocker.cause, status));
    let stages: Vec<StageOverview> = outline(status)
        .into_iter()
        .zip(status.stages_status.iter().chain(&status.deletion_stage_status))
        .map(|(report, stage)| stage_overview(observed, status, report, stage, &blockers))
        .filter(|stage| !stage.removes || !stage.clusters.is_empty())
        .collect();
    let clusters = || stages.iter().flat_map(|stage| &stage.clusters);
    RunOverview {
        name: facts.name.to_string(),
        namespace: facts.namespace.map(str::to_owned),
        placement: facts.spec.placement_name.clone(),
        strategy: facts.spec.staged_update_strategy_name.clone(),
        asked: facts.spec.state(),
        state: standing.state,
        since: standing.since,
        message: standing.message,
        resource_index: status.resource_snapshot_index_used.parse().ok(),
        created: created.map(Time::new),
        clusters_done: clusters().filter(|cluster| cluster.state == ClusterStep::Succeeded).count(),
        clusters: clusters().count(),
        waits: blockers.iter().filter_map(|blocker| wait(blocker, &stages)).collect(),
        would_fail: report.failure_preview.map(|failure| failure.to_string()),
        stages,
    }
}

/// Whether a plan made now waits for a cluster that the recorded run has not started.
fn is_ahead(cause: &Cause, status: &UpdateRunStatus) -> bool {
    let Cause::Updating { cluster, .. } = cause else { return false };
    let mut clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    clusters.any(|one| {
        one.cluster_name == *cluster
            && decode_ignoring_generation::<ClusterUpdateStarted>(&one.conditions).current().is_none()
    })
}

/// The state of the run from its recorded conditions.
struct RecordedState {
    state: RunOutcome,
    since: Option<Time>,
    message: String,
}

impl RecordedState {
    fn of(status: &UpdateRunStatus, deleting: bool) -> Self {
        use UpdateRunProgressingReason as Is;
        let with_state = |state, condition: Option<&Condition>| Self {
            state,
            since: since(condition),
            message: condition.map(|condition| condition.message.clone()).unwrap_or_default(),
        };
        if deleting {
            return with_state(RunOutcome::Releasing, None);
        }
        let initialized = decode_ignoring_generation::<UpdateRunInitialized>(&status.conditions).current();
        let progressing = decode_ignoring_generation::<UpdateRunProgressing>(&status.conditions);
        let succeeded = decode_ignoring_generation::<UpdateRunSucceeded>(&status.conditions).current();
        let is = |condition: Option<&Condition>, status| condition.is_some_and(|one| one.status == status);
        if is(initialized, ConditionStatus::False) {
            return with_state(RunOutcome::InitializationFailed, initialized);
        }
        if is(succeeded, ConditionStatus::True) {
            return with_state(RunOutcome::Succeeded, succeeded);
        }
        if is(succeeded, ConditionStatus::False) {
            return with_state(RunOutcome::Failed, succeeded);
        }
        if initialized.is_none() {
            return with_state(RunOutcome::Retrying, None);
        }
        let state = match progressing.reason() {
            None if progressing.current().is_some() => RunOutcome::Progressing,
            None => return with_state(RunOutcome::Idle, initialized),
            Some(Is::Progressing | Is::Succeeded) => RunOutcome::Progressing,
            Some(Is::Waiting) => RunOutcome::Waiting,
            Some(Is::Stuck) => RunOutcome::Stuck,
            Some(Is::Stopping) => RunOutcome::Stopping,
            Some(Is::Stopped) => RunOutcome::Stopped,
            Some(Is::Failed) => RunOutcome::Failed,
        };
        with_state(state, progressing.current())
    }
}

fn stage_overview(
    observed: &Observed<'_>,
    status: &UpdateRunStatus,
    report: StageReport,
    stage: &StageUpdatingStatus,
    blockers: &[Blocker],
) -> StageOverview {
    let strategy = status.staged_update_strategy_snapshot.as_ref();
    let config = strategy.and_then(|strategy| strategy.stages.iter().find(|one| one.name == stage.stage_name));
    let progressing = decode_ignoring_generation::<StageProgressing>(&stage.conditions).current();
    let gates = |tasks: &[StageTaskStatus]| {
        let gate = |(index, task)| gate(task, index, config, &report, progressing, blockers);
        tasks.iter().enumerate().map(gate).collect::<Vec<Gate>>()
    };
    StageOverview {
        removes: stage.stage_name == DELETE_STAGE,
        state: report.step,
        since: since(progressing),
        started: stage.start_time,
        ended: stage.end_time,
        max_concurrency: config.and_then(|config| config.max_concurrency.as_ref()).map(|limit| match limit {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(text) => text.clone(),
        }),
        before: gates(&stage.before_stage_task_status),
        after: gates(&stage.after_stage_task_status),
        clusters: stage.clusters.iter().map(|one| cluster_overview(observed, one, &report, blockers)).collect(),
        name: report.name,
    }
}

fn gate(
    task: &StageTaskStatus,
    index: usize,
    config: Option<&StageConfig>,
    stage: &StageReport,
    stage_progressing: Option<&Condition>,
    blockers: &[Blocker],
) -> Gate {
    match task.type_ {
        StageTaskType::Approval => {
            let approved = decode_ignoring_generation::<TaskApprovalRequestApproved>(&task.conditions).current();
            let created = decode_ignoring_generation::<TaskApprovalRequestCreated>(&task.conditions).current();
            let (state, at) = match (approved, created) {
                (Some(approved), _) => (GateState::Open, Some(approved)),
                (None, Some(created)) => (GateState::Closed, Some(created)),
                (None, None) => (GateState::NotReached, None),
            };
            let task = GateTask::Approval { request: task.approval_request_name.clone() };
            Gate { task, state, since: since(at), until: None }
        }
        StageTaskType::TimedWait => {
            let wait_time = config.and_then(|config| config.after_stage_tasks.get(index)?.wait_time.clone());
            let elapsed = decode_ignoring_generation::<TaskWaitTimeElapsed>(&task.conditions).current();
            let until = blockers.iter().find_map(|blocker| match &blocker.cause {
                Cause::TimedWait { stage: of, until } if *of == stage.name => Some(Time::new(*until)),
                _ => None,
            });
            let (state, at) = match elapsed {
                Some(elapsed) => (GateState::Open, Some(elapsed)),
                None if stage.step == StageStep::AwaitingEnd => (GateState::Closed, stage_progressing),
                None => (GateState::NotReached, None),
            };
            let task = GateTask::TimedWait { wait_time: wait_time.unwrap_or_default() };
            Gate { task, state, since: since(at), until: until.filter(|_| state == GateState::Closed) }
        }
    }
}

fn cluster_overview(
    observed: &Observed<'_>,
    cluster: &ClusterUpdatingStatus,
    stage: &StageReport,
    blockers: &[Blocker],
) -> ClusterOverview {
    let name = cluster.cluster_name.as_str();
    let started = decode_ignoring_generation::<ClusterUpdateStarted>(&cluster.conditions).current();
    let succeeded = decode_ignoring_generation::<ClusterUpdateSucceeded>(&cluster.conditions).current();
    let state =
        stage.clusters.iter().find(|(one, _)| one == name).map_or(ClusterStep::Pending, |(_, step)| step.clone());
    let failure = succeeded.filter(|_| state == ClusterStep::Failed).map(|condition| condition.message.clone());
    let (step, problem, stuck) = match blockers.iter().find_map(|blocker| updating(blocker, name)) {
        Some((progress, stuck)) => (step_of(progress), problem_of(progress), stuck),
        None => (None, None, false),
    };
    let binding = observed.bindings.iter().find(|binding| binding.cluster == name);
    ClusterOverview {
        name: name.to_owned(),
        state,
        stuck,
        started: since(started),
        ended: since(succeeded),
        resource_index: binding.and_then(|binding| index_of(binding.resource_snapshot)),
        step,
        problem: failure.or(problem),
    }
}

fn updating<'b>(blocker: &'b Blocker, name: &str) -> Option<(&'b Progress, bool)> {
    match &blocker.cause {
        Cause::Updating { cluster, progress, stuck, .. } if cluster == name => Some((progress, *stuck)),
        _ => None,
    }
}

fn step_of(progress: &Progress) -> Option<&'static str> {
    match progress {
        Progress::Done => None,
        Progress::InProgress(step) | Progress::Failing { step, .. } => Some(step.type_word()),
    }
}

fn problem_of(progress: &Progress) -> Option<String> {
    match progress {
        Progress::Failing { reason, message, .. } if message.is_empty() => Some(reason.clone()),
        Progress::Failing { message, .. } => Some(message.clone()),
        Progress::Done | Progress::InProgress(_) => None,
    }
}

fn wait(blocker: &Blocker, stages: &[StageOverview]) -> Option<Wait> {
    let approval = |stage: &str, approved_generation| {
        let Object::ApprovalRequest(request) = &blocker.object else { return None };
        let gates = stages.iter().flat_map(|stage| stage.before.iter().chain(&stage.after));
        let mut gates = gates.filter(|gate| matches!(&gate.task, GateTask::Approval { request: of } if of == request));
        let (stage, request) = (stage.to_owned(), request.clone());
        Some(Wait::Approval { stage, request, since: gates.next().and_then(|gate| gate.since), approved_generation })
    };
    Some(match &blocker.cause {
        Cause::ApprovalPending { stage, .. } => return approval(stage, None),
        Cause::ApprovalOfOtherGeneration { stage, approved, .. } => return approval(stage, Some(*approved)),
        Cause::TimedWait { stage, until } => Wait::Time { stage: stage.clone(), until: Time::new(*until) },
        Cause::Updating { cluster, stage, progress, stuck } => {
            let entries = stages.iter().flat_map(|stage| &stage.clusters);
            let started = entries.into_iter().find(|one| one.name == *cluster).and_then(|one| one.started);
            Wait::Cluster {
                stage: stage.clone(),
                cluster: cluster.clone(),
                step: step_of(progress)?,
                since: started,
                problem: problem_of(progress),
                stuck: *stuck,
            }
        }
        Cause::Removing { cluster, .. } => Wait::Removal { cluster: cluster.clone() },
        Cause::NotAskedToRun | Cause::AskedToStop => Wait::User,
        Cause::Fault(fault) => Wait::Moment { message: fault.to_string() },
        Cause::BindingDeleting { cluster } => Wait::Moment {
            message: format!("the binding of {cluster} is being deleted; the scheduler makes a new one"),
        },
        Cause::MoveNotRecorded { cluster, run } => {
            Wait::Moment { message: format!("run {run} has not stored yet that it moved {cluster}") }
        }
        Cause::ContentUnknown { resource } => Wait::Moment { message: format!("not all {resource} are known yet") },
        Cause::OverrideNotSnapshotted { name } => {
            Wait::Moment { message: format!("the override {name} has no snapshot yet") }
        }
        Cause::ObservationStale => return None,
    })
}
