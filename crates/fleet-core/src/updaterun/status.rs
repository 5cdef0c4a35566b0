//! Compares a run's status before and after a plan: the events, and whether the status write may be deferred. Also
//! summarizes the stages of a status.

use std::time::Duration;

use fleet_api::conditions::approval::Approved;
use fleet_api::conditions::events::RunEvent;
use fleet_api::conditions::run_fault::RunFailure;
use fleet_api::conditions::update_run::{
    ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing, StageProgressingReason, StageSucceeded,
    StageSucceededReason, StuckClusters, TaskApprovalRequestApproved, TaskApprovalRequestCreated, TaskWaitTimeElapsed,
    UpdateRunInitialized, UpdateRunProgressing, UpdateRunProgressingReason, UpdateRunSucceeded,
};
use fleet_api::conditions::{Condition, ConditionState, ConditionStatus, decode_ignoring_generation};
use fleet_api::types::{ClusterUpdatingStatus, StageTaskStatus, StageUpdatingStatus, UpdateRunStatus};
use jiff::Timestamp;

use super::Write;
use super::binding::Progress;
use super::context::PlanContext;
use super::report::{Cause, ClusterStep, StageReport, StageStep};

/// The status of a run with at most this many starts and ends of clusters is small: every step is written at once.
const STEPS_OF_A_SMALL_RUN: usize = 16;

/// A status may always be deferred this long, so that fast clusters share a write.
const DEFER_MIN: Duration = Duration::from_secs(1);

/// A status may be deferred by the age of the run divided by this, so that a slow run also writes rarely.
const DEFER_AGE_DIVISOR: u32 = 2;

/// Upper limit of the deferral: users see a finished cluster within a minute, and a crash loses no more than that.
pub(super) const DEFER_MAX: Duration = Duration::from_mins(1);

/// How long the status write may be deferred: the run was progressing and still is, only clusters took a step since the stored
/// status, and the status is large. Nobody waits for a single cluster of many.
pub(super) fn defer(stored: Option<&UpdateRunStatus>, new: &UpdateRunStatus, now: Timestamp) -> Option<Duration> {
    let stored = stored?;
    let progressing_since = progressing_since(stored, new)?;
    let is_small = 2 * clusters(new).count() <= STEPS_OF_A_SMALL_RUN;
    if is_small && steps(new) > steps(stored) || has_stage_news(stored, new) {
        return None;
    }
    let age = Duration::try_from(now.duration_since(progressing_since)).unwrap_or_default();
    let delay = age.checked_div(DEFER_AGE_DIVISOR).unwrap_or_default();
    Some(delay.clamp(DEFER_MIN, DEFER_MAX))
}

/// When the run was initialized, if both statuses are progressing and of the same generation.
pub(super) fn progressing_since(stored: &UpdateRunStatus, new: &UpdateRunStatus) -> Option<Timestamp> {
    let is_progressing = |status: &UpdateRunStatus| {
        progressing(status) == Some(UpdateRunProgressingReason::Progressing)
            && decode_ignoring_generation::<UpdateRunSucceeded>(&status.conditions).current().is_none()
    };
    let initialized = decode_ignoring_generation::<UpdateRunInitialized>(&stored.conditions).current()?;
    let same_generation =
        new.conditions.first().is_some_and(|one| one.observed_generation == initialized.observed_generation);
    (is_progressing(stored) && is_progressing(new) && same_generation)
        .then(|| initialized.last_transition_time.instant())
}

fn clusters(status: &UpdateRunStatus) -> impl Iterator<Item = &ClusterUpdatingStatus> {
    stages(status).flat_map(|stage| &stage.clusters)
}

fn stages(status: &UpdateRunStatus) -> impl Iterator<Item = &StageUpdatingStatus> {
    status.stages_status.iter().chain(&status.deletion_stage_status)
}

/// Whether a stage began or ended, or one of its approvals or waits did.
fn has_stage_news(stored: &UpdateRunStatus, new: &UpdateRunStatus) -> bool {
    fn tasks(stage: &StageUpdatingStatus) -> impl Iterator<Item = (&str, ConditionStatus)> {
        let tasks = stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status);
        tasks.flat_map(|task| &task.conditions).map(|one| (one.type_.as_str(), one.status))
    }
    let is_same = |(stored, new): (&StageUpdatingStatus, &StageUpdatingStatus)| {
        stage_step(stored) == stage_step(new) && tasks(stored).eq(tasks(new))
    };
    !stages(stored).zip(stages(new)).all(is_same)
}

/// Number of starts and ends of clusters so far.
fn steps(status: &UpdateRunStatus) -> usize {
    let steps = clusters(status).map(|cluster| {
        usize::from(is_true::<ClusterUpdateStarted>(&cluster.conditions))
            + usize::from(is_true::<ClusterUpdateSucceeded>(&cluster.conditions))
    });
    steps.sum()
}

/// The events between the previous status and the new one.
pub(super) fn events(context: &PlanContext<'_>, failure: Option<&RunFailure>) -> Vec<RunEvent> {
    let nothing = UpdateRunStatus::default();
    let before = context.observed.run.status.unwrap_or(&nothing);
    let mut events = Vec::new();
    events.extend(initialized(before, &context.status, failure));
    let no_stage = StageUpdatingStatus::default();
    let olds = before.stages_status.iter().chain(&before.deletion_stage_status);
    let mut olds = olds.map(Some).chain(std::iter::repeat(None));
    for new in stages(&context.status) {
        let old = olds.next().flatten().filter(|old| old.stage_name == new.stage_name).unwrap_or(&no_stage);
        stage_events(context, old, new, &mut events);
    }
    events.extend(run_event(before, context, failure));
    events
}

fn initialized(before: &UpdateRunStatus, after: &UpdateRunStatus, failure: Option<&RunFailure>) -> Option<RunEvent> {
    let verdict = decode_ignoring_generation::<UpdateRunInitialized>(&after.conditions);
    if decode_ignoring_generation::<UpdateRunInitialized>(&before.conditions).current().is_some() {
        return None;
    }
    if verdict.is_false() {
        return failure.map(|cause| RunEvent::InitializationFailed { cause: cause.clone() });
    }
    let clusters = after.stages_status.iter().map(|stage| stage.clusters.len()).sum();
    let (stages, snapshot_index) = (after.stages_status.len(), after.resource_snapshot_index_used.clone());
    verdict.is_true().then_some(RunEvent::Initialized { clusters, stages, snapshot_index })
}

fn stage_events(
    context: &PlanContext<'_>,
    old: &StageUpdatingStatus,
    new: &StageUpdatingStatus,
    events: &mut Vec<RunEvent>,
) {
    let stage = || new.stage_name.clone();
    let skipped = decode_ignoring_generation::<StageSucceeded>(&new.conditions).reason()
        == Some(StageSucceededReason::SkippedNoClusters);
    task_events(context, &old.before_stage_task_status, &new.before_stage_task_status, new, events);
    if old.start_time.is_none() && new.start_time.is_some() && !new.clusters.is_empty() {
        events.push(RunEvent::StageStarted { stage: stage(), clusters: new.clusters.len() });
    }
    task_events(context, &old.after_stage_task_status, &new.after_stage_task_status, new, events);
    let moved = |conditions: &[Condition]| {
        decode_ignoring_generation::<StageProgressing>(conditions).current().map(|one| one.message.clone())
    };
    if moved(&old.conditions) != moved(&new.conditions) {
        let waits = context.blockers.iter().filter_map(|blocker| match &blocker.cause {
            Cause::TimedWait { stage, until } if *stage == new.stage_name => Some(until),
            _ => None,
        });
        events.extend(waits.map(|until| RunEvent::WaitingForTime { stage: stage(), until: until.to_string() }));
    }
    if skipped && became::<StageSucceeded>(&old.conditions, &new.conditions) {
        events.push(RunEvent::StageSkipped { stage: stage() });
    } else if !new.clusters.is_empty() && became::<StageSucceeded>(&old.conditions, &new.conditions) {
        events.push(RunEvent::StageSucceeded { stage: stage() });
    }
}

fn task_events(
    context: &PlanContext<'_>,
    olds: &[StageTaskStatus],
    news: &[StageTaskStatus],
    stage: &StageUpdatingStatus,
    events: &mut Vec<RunEvent>,
) {
    for (index, new) in news.iter().enumerate() {
        let old = olds.get(index).map_or(&[][..], |task| &task.conditions);
        let (stage, request) = (stage.stage_name.clone(), new.approval_request_name.clone());
        if became::<TaskApprovalRequestApproved>(old, &new.conditions) {
            let note = approval_message(context, &request);
            events.push(RunEvent::Approved { stage, request, note });
        } else if became::<TaskApprovalRequestCreated>(old, &new.conditions) || is_requested(context, &request) {
            events.push(RunEvent::WaitingForApproval { stage, request });
        } else if became::<TaskWaitTimeElapsed>(old, &new.conditions) {
            events.push(RunEvent::WaitElapsed { stage });
        }
    }
}

/// Whether this plan creates the request: for the first time, or again after a deletion.
fn is_requested(context: &PlanContext<'_>, request: &str) -> bool {
    context.writes.iter().any(|write| matches!(write, Write::RequestApproval(new) if new.name == request))
}

/// The message of the approval, in which approvers may name themselves.
fn approval_message(context: &PlanContext<'_>, request: &str) -> String {
    let request = context.observed.approvals.iter().find(|one| one.name == request);
    let approved = request.and_then(|one| decode_ignoring_generation::<Approved>(one.conditions).current());
    approved.map(|condition| condition.message.clone()).unwrap_or_default()
}

fn run_event(before: &UpdateRunStatus, context: &PlanContext<'_>, failure: Option<&RunFailure>) -> Option<RunEvent> {
    use UpdateRunProgressingReason as Is;
    let (was, is) = (progressing(before), progressing(&context.status)?);
    if is == Is::Stuck {
        return stuck(before, context);
    }
    if was == Some(is) {
        return None;
    }
    match (was, is) {
        (_, Is::Failed) => failure.map(|cause| RunEvent::Failed { cause: cause.clone() }),
        (_, Is::Succeeded) => Some(RunEvent::Succeeded),
        (_, Is::Stopping) => Some(RunEvent::Stopping),
        (_, Is::Stopped) => Some(RunEvent::Stopped),
        (Some(Is::Stopping | Is::Stopped | Is::Stuck), Is::Progressing | Is::Waiting) => Some(RunEvent::Resumed),
        (_, Is::Progressing | Is::Waiting | Is::Stuck) => None,
    }
}

/// Emitted when the run becomes stuck, and again whenever the condition names a cluster that it did not name before.
fn stuck(before: &UpdateRunStatus, context: &PlanContext<'_>) -> Option<RunEvent> {
    let stuck = context.blockers.iter().filter_map(|blocker| match &blocker.cause {
        Cause::Updating { cluster, stage, progress, stuck: true } => Some((cluster, stage, progress)),
        _ => None,
    });
    let stuck: Vec<_> = stuck.collect();
    let clusters = StuckClusters(stuck.iter().map(|(cluster, ..)| (*cluster).clone()).collect());
    let reported = decode_ignoring_generation::<UpdateRunProgressing>(&before.conditions).current();
    let named = reported.map_or_else(Vec::new, |condition| StuckClusters::shown_in(&condition.message));
    if clusters.shown().iter().all(|cluster| named.contains(&cluster.as_str())) {
        return None;
    }
    let (_, stage, _) = stuck.first()?;
    let reasons: Vec<_> = stuck.iter().take(StuckClusters::SHOWN).map(|(.., progress)| reason_of(progress)).collect();
    let reason = match reasons.split_first() {
        Some((first, others)) if others.iter().all(|other| other == first) => first.clone(),
        _ => {
            let of_cluster = |((cluster, ..), reason): (&(&String, _, _), &String)| format!("{cluster}: {reason}");
            stuck.iter().zip(&reasons).map(of_cluster).collect::<Vec<_>>().join("; ")
        }
    };
    Some(RunEvent::Stuck { clusters, stage: (*stage).clone(), reason })
}

fn reason_of(progress: &Progress) -> String {
    match progress {
        Progress::Failing { reason, message, .. } => format!("{reason}: {message}"),
        Progress::InProgress(step) => step.type_word().to_owned(),
        Progress::Done => String::new(),
    }
}

fn progressing(status: &UpdateRunStatus) -> Option<UpdateRunProgressingReason> {
    decode_ignoring_generation::<UpdateRunProgressing>(&status.conditions).reason()
}

fn is_true<T: ConditionState<Scope = ()>>(conditions: &[Condition]) -> bool {
    decode_ignoring_generation::<T>(conditions).is_true()
}

fn became<T: ConditionState<Scope = ()>>(old: &[Condition], new: &[Condition]) -> bool {
    is_true::<T>(new) && !is_true::<T>(old)
}

/// The stages in order, the delete stage last.
pub fn outline(status: &UpdateRunStatus) -> Vec<StageReport> {
    status.stages_status.iter().chain(&status.deletion_stage_status).map(stage_report).collect()
}

fn stage_report(stage: &StageUpdatingStatus) -> StageReport {
    let cluster = |cluster: &ClusterUpdatingStatus| (cluster.cluster_name.clone(), cluster_step(cluster));
    StageReport {
        name: stage.stage_name.clone(),
        step: stage_step(stage),
        clusters: stage.clusters.iter().map(cluster).collect(),
    }
}

fn stage_step(stage: &StageUpdatingStatus) -> StageStep {
    use StageProgressingReason as Is;
    match decode_ignoring_generation::<StageSucceeded>(&stage.conditions).reason() {
        Some(StageSucceededReason::Succeeded) => return StageStep::Succeeded,
        Some(StageSucceededReason::SkippedNoClusters) => return StageStep::Skipped,
        Some(StageSucceededReason::Failed) => return StageStep::Failed,
        None => {}
    }
    match decode_ignoring_generation::<StageProgressing>(&stage.conditions).reason() {
        None => StageStep::NotReached,
        Some(Is::Waiting) if stage.start_time.is_none() => StageStep::AwaitingStart,
        Some(Is::Waiting) => StageStep::AwaitingEnd,
        Some(Is::Stopping) => StageStep::Stopping,
        Some(Is::Stopped) => StageStep::Stopped,
        Some(Is::SkippedNoClusters) => StageStep::Skipped,
        Some(Is::Failed) => StageStep::Failed,
        Some(Is::Started | Is::Succeeded) => StageStep::Updating,
    }
}

fn cluster_step(cluster: &ClusterUpdatingStatus) -> ClusterStep {
    let succeeded = decode_ignoring_generation::<ClusterUpdateSucceeded>(&cluster.conditions);
    if succeeded.is_true() {
        ClusterStep::Succeeded
    } else if succeeded.is_false() {
        ClusterStep::Failed
    } else if decode_ignoring_generation::<ClusterUpdateStarted>(&cluster.conditions).is_true() {
        ClusterStep::Updating
    } else {
        ClusterStep::Pending
    }
}
