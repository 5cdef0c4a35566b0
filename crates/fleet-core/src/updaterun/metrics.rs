//! Metric values of a run: its status, approval latencies and stage durations, derived from statuses.

use fleet_api::conditions::run_fault::RunFailure;
use fleet_api::conditions::update_run::{
    ClusterUpdateSucceeded, StageProgressing, StageProgressingReason, TaskApprovalRequestApproved,
    TaskApprovalRequestCreated, UpdateRunInitialized, UpdateRunInitializedReason, UpdateRunProgressing,
    UpdateRunProgressingReason, UpdateRunSucceeded, UpdateRunSucceededReason,
};
use fleet_api::conditions::{Condition, ConditionState, ConditionStatus, Reason, decode_ignoring_generation};
use fleet_api::names::GatePosition;
use fleet_api::types::{ClusterUpdatingStatus, StageTaskStatus, StageUpdatingStatus, UpdateRunStatus};
use jiff::{SignedDuration, Timestamp};

/// Labels of the status gauge of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusSeries {
    pub condition: String,
    pub status: ConditionStatus,
    pub reason: String,
    pub failure_type: FailureType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureType {
    None,
    User,
    Internal,
}

impl FailureType {
    /// The label's value.
    pub fn word(self) -> &'static str {
        match self {
            FailureType::None => "none",
            FailureType::User => "user_error",
            FailureType::Internal => "internal_error",
        }
    }
}

/// The most significant condition: Succeeded, else Progressing, else Initialized.
pub fn status_series(status: &UpdateRunStatus) -> Option<StatusSeries> {
    let condition = any::<UpdateRunSucceeded>(&status.conditions)
        .or_else(|| any::<UpdateRunProgressing>(&status.conditions))
        .or_else(|| any::<UpdateRunInitialized>(&status.conditions))?;
    Some(StatusSeries {
        condition: condition.type_.clone(),
        status: condition.status,
        reason: condition.reason.clone(),
        failure_type: failure_type(condition),
    })
}

fn failure_type(condition: &Condition) -> FailureType {
    let failed = [UpdateRunSucceededReason::Failed.word(), UpdateRunInitializedReason::Failed.word()];
    let reason = condition.reason.as_str();
    if condition.status != ConditionStatus::False {
        FailureType::None
    } else if reason == UpdateRunProgressingReason::Stuck.word() {
        FailureType::Internal
    } else if failed.contains(&reason) {
        if RunFailure::blames_user(&condition.message) { FailureType::User } else { FailureType::Internal }
    } else {
        FailureType::None
    }
}

/// How long an approval took, from the request to the run's acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalLatency {
    pub position: GatePosition,
    pub latency: SignedDuration,
}

/// The approvals that were accepted between two statuses.
pub fn approval_latencies(before: Option<&UpdateRunStatus>, after: &UpdateRunStatus) -> Vec<ApprovalLatency> {
    let mut latencies = Vec::new();
    for (index, stage) in after.stages_status.iter().enumerate() {
        let old = before.and_then(|status| status.stages_status.get(index));
        let gates = [
            (GatePosition::Before, &stage.before_stage_task_status, old.map(|old| &old.before_stage_task_status)),
            (GatePosition::After, &stage.after_stage_task_status, old.map(|old| &old.after_stage_task_status)),
        ];
        for (position, tasks, olds) in gates {
            for (place, task) in tasks.iter().enumerate() {
                let old = olds.and_then(|olds| olds.get(place));
                let latency = latency(task).filter(|_| old.and_then(latency).is_none());
                latencies.extend(latency.map(|latency| ApprovalLatency { position, latency }));
            }
        }
    }
    latencies
}

fn latency(task: &StageTaskStatus) -> Option<SignedDuration> {
    let created = any::<TaskApprovalRequestCreated>(&task.conditions)?.last_transition_time.instant();
    let approved = any::<TaskApprovalRequestApproved>(&task.conditions)?.last_transition_time.instant();
    Some(approved.duration_since(created))
}

/// For each stage whose last cluster finished between the two statuses, the time since the stage started.
pub fn stage_durations(
    before: Option<&UpdateRunStatus>,
    after: &UpdateRunStatus,
    now: Timestamp,
) -> Vec<SignedDuration> {
    let mut durations = Vec::new();
    for (index, stage) in after.stages_status.iter().enumerate() {
        let old = before.and_then(|status| status.stages_status.get(index));
        let was_updating = old.is_none_or(|old| !is_complete(old) && is_updating(old));
        if let Some(start) = stage.start_time.filter(|_| was_updating && is_complete(stage)) {
            durations.push(now.duration_since(start.instant()));
        }
    }
    durations
}

fn is_updating(stage: &StageUpdatingStatus) -> bool {
    let reason = decode_ignoring_generation::<StageProgressing>(&stage.conditions).reason();
    matches!(reason, None | Some(StageProgressingReason::Started))
}

fn is_complete(stage: &StageUpdatingStatus) -> bool {
    let is_done = |cluster: &ClusterUpdatingStatus| {
        decode_ignoring_generation::<ClusterUpdateSucceeded>(&cluster.conditions).is_true()
    };
    !stage.clusters.is_empty() && stage.clusters.iter().all(is_done)
}

fn any<T: ConditionState<Scope = ()>>(conditions: &[Condition]) -> Option<&Condition> {
    decode_ignoring_generation::<T>(conditions).current()
}
