//! What a plan changes in a run's status: which events that makes, and whether the write can wait.
//!
//! Decides from the status before and after. Never changes a status.

use fleet_api::conditions::approval::Approved;
use fleet_api::conditions::events::RunEvent;
use fleet_api::conditions::run_fault::RunFailure;
use fleet_api::conditions::update_run::{
    ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing, StageSucceeded, StageSucceededReason,
    StuckClusters, TaskApprovalRequestApproved, TaskApprovalRequestCreated, TaskWaitTimeElapsed, UpdateRunInitialized,
    UpdateRunProgressing, UpdateRunProgressingReason, UpdateRunSucceeded,
};
use fleet_api::conditions::{Condition, ConditionState, decode_ignoring_generation};
use fleet_api::types::{ClusterUpdatingStatus, StageTaskStatus, StageUpdatingStatus, UpdateRunStatus};
use jiff::{SignedDuration, Timestamp};

use super::Write;
use super::evidence::Progress;
use super::pass::Pass;
use super::report::Cause;

/// About so many statuses are written because clusters took steps, however many there are; the first and the last one,
/// those at gates and those whose time has come are on top.
const WRITES_FOR_CLUSTERS: usize = 16;

/// However young a run is, a status may wait this long: clusters that are quick share a write.
const HELD_AT_LEAST: SignedDuration = SignedDuration::from_secs(1);

/// The longer a run takes, the longer a status may wait, by this part of the run's age: a slow run writes few, too.
const HELD_PART_OF_AGE: i32 = 2;

/// However old a run is: whoever looks at it sees a cluster that is done as done within a minute, and a process that dies
/// forgets no more than that.
pub(super) const HELD_AT_MOST: SignedDuration = SignedDuration::from_mins(1);

/// Until when a status may be held back because more is sure to follow by itself: the run was going and goes on, and few
/// clusters took a step since the status that is stored.
pub(super) fn held_until(stored: Option<&UpdateRunStatus>, new: &UpdateRunStatus, now: Timestamp) -> Option<Timestamp> {
    let stored = stored?;
    let going_since = going_since(stored, new)?;
    let all = 2 * clusters(new).count();
    if steps(new).saturating_sub(steps(stored)) >= all.div_ceil(WRITES_FOR_CLUSTERS) {
        return None;
    }
    let age = now.duration_since(going_since);
    now.checked_add((age / HELD_PART_OF_AGE).clamp(HELD_AT_LEAST, HELD_AT_MOST)).ok()
}

/// Since when the run is initialized, if both statuses are of one that goes on and nobody has edited it in between.
pub(super) fn going_since(stored: &UpdateRunStatus, new: &UpdateRunStatus) -> Option<Timestamp> {
    let is_going = |status: &UpdateRunStatus| {
        progressing(status) == Some(UpdateRunProgressingReason::Progressing)
            && decode_ignoring_generation::<UpdateRunSucceeded>(&status.conditions).current().is_none()
    };
    let initialized = decode_ignoring_generation::<UpdateRunInitialized>(&stored.conditions).current()?;
    let same_generation =
        new.conditions.first().is_some_and(|one| one.observed_generation == initialized.observed_generation);
    (is_going(stored) && is_going(new) && same_generation).then(|| initialized.last_transition_time.instant())
}

fn clusters(status: &UpdateRunStatus) -> impl Iterator<Item = &ClusterUpdatingStatus> {
    stages(status).flat_map(|stage| &stage.clusters)
}

fn stages(status: &UpdateRunStatus) -> impl Iterator<Item = &StageUpdatingStatus> {
    status.stages_status.iter().chain(&status.deletion_stage_status)
}

/// Starts and ends of clusters so far.
fn steps(status: &UpdateRunStatus) -> usize {
    let steps = clusters(status).map(|cluster| {
        usize::from(holds::<ClusterUpdateStarted>(&cluster.conditions))
            + usize::from(holds::<ClusterUpdateSucceeded>(&cluster.conditions))
    });
    steps.sum()
}

/// What happened between the status before and the one of this pass.
pub(super) fn events(pass: &Pass<'_>, failure: Option<&RunFailure>) -> Vec<RunEvent> {
    let nothing = UpdateRunStatus::default();
    let before = pass.observed.run.status.unwrap_or(&nothing);
    let mut events = Vec::new();
    events.extend(initialized(before, &pass.status, failure));
    let no_stage = StageUpdatingStatus::default();
    let olds = before.stages_status.iter().chain(&before.deletion_stage_status);
    let mut olds = olds.map(Some).chain(std::iter::repeat(None));
    for new in stages(&pass.status) {
        let old = olds.next().flatten().filter(|old| old.stage_name == new.stage_name).unwrap_or(&no_stage);
        stage_events(pass, old, new, &mut events);
    }
    events.extend(run_event(before, pass, failure));
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

fn stage_events(pass: &Pass<'_>, old: &StageUpdatingStatus, new: &StageUpdatingStatus, events: &mut Vec<RunEvent>) {
    let stage = || new.stage_name.clone();
    let skipped = decode_ignoring_generation::<StageSucceeded>(&new.conditions).reason()
        == Some(StageSucceededReason::SkippedNoClusters);
    task_events(pass, &old.before_stage_task_status, &new.before_stage_task_status, new, events);
    if old.start_time.is_none() && new.start_time.is_some() && !new.clusters.is_empty() {
        events.push(RunEvent::StageStarted { stage: stage(), clusters: new.clusters.len() });
    }
    task_events(pass, &old.after_stage_task_status, &new.after_stage_task_status, new, events);
    let moved = |conditions: &[Condition]| {
        decode_ignoring_generation::<StageProgressing>(conditions).current().map(|one| one.message.clone())
    };
    if moved(&old.conditions) != moved(&new.conditions) {
        let waits = pass.blockers.iter().filter_map(|blocker| match &blocker.cause {
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
    pass: &Pass<'_>,
    olds: &[StageTaskStatus],
    news: &[StageTaskStatus],
    stage: &StageUpdatingStatus,
    events: &mut Vec<RunEvent>,
) {
    for (index, new) in news.iter().enumerate() {
        let old = olds.get(index).map_or(&[][..], |task| &task.conditions);
        let (stage, request) = (stage.stage_name.clone(), new.approval_request_name.clone());
        if became::<TaskApprovalRequestApproved>(old, &new.conditions) {
            let note = words_of_approval(pass, &request);
            events.push(RunEvent::Approved { stage, request, note });
        } else if became::<TaskApprovalRequestCreated>(old, &new.conditions) || is_requested(pass, &request) {
            events.push(RunEvent::WaitingForApproval { stage, request });
        } else if became::<TaskWaitTimeElapsed>(old, &new.conditions) {
            events.push(RunEvent::WaitElapsed { stage });
        }
    }
}

/// Whether the request is made now: for the first time, or again because somebody has deleted it.
fn is_requested(pass: &Pass<'_>, request: &str) -> bool {
    pass.writes.iter().any(|write| matches!(write, Write::RequestApproval(new) if new.name == request))
}

/// Whoever approves may say who they are in the message.
fn words_of_approval(pass: &Pass<'_>, request: &str) -> String {
    let request = pass.observed.approvals.iter().find(|one| one.name == request);
    let approved = request.and_then(|one| decode_ignoring_generation::<Approved>(one.conditions).current());
    approved.map(|condition| condition.message.clone()).unwrap_or_default()
}

fn run_event(before: &UpdateRunStatus, pass: &Pass<'_>, failure: Option<&RunFailure>) -> Option<RunEvent> {
    use UpdateRunProgressingReason as Is;
    let (was, is) = (progressing(before), progressing(&pass.status)?);
    if is == Is::Stuck {
        return stuck(before, pass);
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

/// That the run is stuck is told when it begins, and whenever a cluster is named that was not named before.
fn stuck(before: &UpdateRunStatus, pass: &Pass<'_>) -> Option<RunEvent> {
    let stuck = pass.blockers.iter().filter_map(|blocker| match &blocker.cause {
        Cause::Updating { cluster, stage, progress, stuck: true } => Some((cluster, stage, progress)),
        _ => None,
    });
    let stuck: Vec<_> = stuck.collect();
    let clusters = StuckClusters(stuck.iter().map(|(cluster, ..)| (*cluster).clone()).collect());
    let said = decode_ignoring_generation::<UpdateRunProgressing>(&before.conditions).current();
    let named = said.map_or_else(Vec::new, |condition| StuckClusters::shown_in(&condition.message));
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
        Progress::Underway(step) => step.type_word().to_owned(),
        Progress::Arrived => String::new(),
    }
}

fn progressing(status: &UpdateRunStatus) -> Option<UpdateRunProgressingReason> {
    decode_ignoring_generation::<UpdateRunProgressing>(&status.conditions).reason()
}

fn holds<T: ConditionState<Scope = ()>>(conditions: &[Condition]) -> bool {
    decode_ignoring_generation::<T>(conditions).is_true()
}

fn became<T: ConditionState<Scope = ()>>(old: &[Condition], new: &[Condition]) -> bool {
    holds::<T>(new) && !holds::<T>(old)
}
