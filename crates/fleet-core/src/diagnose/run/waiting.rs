//! Rules about runs that wait for an approval or for a timed wait (UR-50 to UR-55).

use fleet_api::conditions::approval::{ApprovalAccepted, Approved};
use fleet_api::conditions::update_run::{
    StageProgressing, TaskApprovalRequestApproved, TaskWaitTimeElapsed, UpdateRunProgressingReason,
};
use fleet_api::conditions::{ConditionState, ConditionStatus, put};
use fleet_api::kinds::Approval;
use fleet_api::names::{ApprovalRequestName, GatePosition, RunName, StageName};
use fleet_api::time::go_duration;
use fleet_api::types::{StageTaskStatus, StageTaskType, StageUpdatingStatus, UpdateRunState};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::super::finding::{Finding, ObjectRef, Step};
use super::super::inputs::{ObservedObject, condition, is_true, quote};
use super::Run;

/// A task that is not completed.
struct Pending<'r> {
    stage: &'r StageUpdatingStatus,
    task: &'r StageTaskStatus,
    position: GatePosition,
}

fn pending<'r>(run: &'r Run<'_>) -> Option<Vec<Pending<'r>>> {
    run.progresses_as(UpdateRunProgressingReason::Waiting)?;
    let stage = run.current_stage()?;
    let open = |tasks: &'r [StageTaskStatus], position| -> Vec<Pending<'r>> {
        let is_pending = |task: &&StageTaskStatus| match task.type_ {
            StageTaskType::Approval => !is_true::<TaskApprovalRequestApproved>(&task.conditions),
            StageTaskType::TimedWait => !is_true::<TaskWaitTimeElapsed>(&task.conditions),
        };
        tasks.iter().filter(is_pending).map(|task| Pending { stage, task, position }).collect()
    };
    let before = open(&stage.before_stage_task_status, GatePosition::Before);
    Some(if before.is_empty() { open(&stage.after_stage_task_status, GatePosition::After) } else { before })
}

fn pending_approval<'r>(run: &'r Run<'_>) -> Option<Pending<'r>> {
    pending(run)?.into_iter().find(|one| one.task.type_ == StageTaskType::Approval)
}

/// The name of the request; derived if an older status does not have it.
fn request_name(run: &Run<'_>, pending: &Pending<'_>) -> Option<String> {
    let recorded = &pending.task.approval_request_name;
    if !recorded.is_empty() {
        return Some(recorded.clone());
    }
    let (run, stage) = (RunName::parse(run.object.name()).ok()?, StageName::parse(&pending.stage.stage_name).ok()?);
    Some(ApprovalRequestName { run, position: pending.position, stage }.to_string())
}

fn request<'r>(run: &'r Run<'_>, pending: &Pending<'_>) -> Option<&'r ObservedObject<Approval>> {
    let name = request_name(run, pending)?;
    run.inputs.approvals.iter().find(|request| request.name() == name)
}

/// Adds the run's and the stage's condition as evidence.
fn waits(run: &Run<'_>, finding: Finding, pending: &Pending<'_>) -> Finding {
    let finding = match run.progressing() {
        Some((_, condition)) => run.quoting(finding, condition),
        None => finding,
    };
    match condition::<StageProgressing>(&pending.stage.conditions) {
        Some(stage) => finding.with_evidence(
            &run.reference(),
            format!("stage {}: conditions[Progressing]", pending.stage.stage_name),
            quote(stage),
        ),
        None => finding,
    }
}

fn conditions(request: &ObservedObject<Approval>) -> &[fleet_api::conditions::Condition] {
    request.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default()
}

pub(super) fn approved_for_another_generation(run: &Run<'_>) -> Option<Finding> {
    let pending = pending_approval(run)?;
    let request = request(run, &pending)?;
    let approved = condition::<Approved>(conditions(request))?;
    let wrong = approved.status == ConditionStatus::True && approved.observed_generation != request.generation();
    wrong.then_some(())?;
    let (given, wanted) = (approved.observed_generation, request.generation());
    let finding = Finding::error("UR-51", format!("The approval of {} is for generation {given}, not {wanted}: it does not count", request.name()))
        .because("An approval counts only if its observedGeneration equals the generation of the request, so that an approval never covers a later change.");
    let finding = waits(run, finding, &pending)
        .with_evidence(&request.reference(), "metadata.generation", wanted.to_string())
        .with_evidence(&request.reference(), "status.conditions[Approved].observedGeneration", given.to_string());
    Some(finding.fix("approve again, for the right generation", vec![approve(run, request)]))
}

pub(super) fn request_missing(run: &Run<'_>) -> Option<Finding> {
    let pending = pending_approval(run)?;
    let unread = run.inputs.unread.iter().any(|unread| unread.what.contains("approval"));
    (request(run, &pending).is_none() && !unread).then_some(())?;
    let name = request_name(run, &pending)?;
    let reference = ObjectRef::of::<Approval>(run.inputs.namespace.as_deref(), &name);
    let finding = Finding::warning("UR-54", format!("The approval request {name} does not exist"))
        .because("It was deleted. A run in state Run recreates it at once, not approved. If it stays missing, the hub agent is not running.");
    let finding = waits(run, finding, &pending).with_evidence(&reference, "metadata.name", "not found");
    let steps = match run.object.spec.state() {
        UpdateRunState::Run => vec![run.inputs.kubectl.get("see whether it was recreated", &reference)],
        _ => vec![run.set_state_run()],
    };
    Some(finding.fix("wait until it is recreated, then approve it", steps))
}

pub(super) fn timed_wait(run: &Run<'_>) -> Option<Finding> {
    let pending = pending(run)?;
    let [wait] = &pending[..] else { return None };
    (wait.task.type_ == StageTaskType::TimedWait).then_some(())?;
    let until = wait_ends(run, wait.stage);
    let stage = &wait.stage.stage_name;
    let title = match until {
        Some(until) => {
            format!("Stage {stage} waits until {until}: {} to go", in_words(until.duration_since(run.inputs.now)))
        }
        None => format!("Stage {stage} waits for its wait time to elapse"),
    };
    let finding = Finding::information("UR-55", title).because(
        "The wait began when the last cluster of the stage was done. Stopping and resuming the run restarts the wait.",
    );
    Some(waits(run, finding, wait))
}

fn wait_ends(run: &Run<'_>, stage: &StageUpdatingStatus) -> Option<Timestamp> {
    let since = condition::<StageProgressing>(&stage.conditions)?.last_transition_time.instant();
    let config = run.stages()?.stages.iter().find(|one| one.name == stage.stage_name)?;
    let wait = config.after_stage_tasks.iter().find(|task| task.type_ == StageTaskType::TimedWait)?;
    since.checked_add(wait.wait()?).ok()
}

/// Whole seconds, as `1h2m3s`.
fn in_words(duration: SignedDuration) -> String {
    go_duration(SignedDuration::from_secs(duration.as_secs().max(0))).to_string()
}

pub(super) fn not_approved(run: &Run<'_>) -> Option<Finding> {
    let pending = pending_approval(run)?;
    let request = request(run, &pending)?;
    let answer = condition::<Approved>(conditions(request));
    let stage = &pending.stage.stage_name;
    let (entry, title) = match answer.map(|answer| answer.status) {
        Some(ConditionStatus::True) => return None,
        Some(_) => ("UR-53", format!("The approval of {} was withdrawn before the run accepted it", request.name())),
        None => ("UR-50", format!("Stage {stage} waits for the approval of {}", request.name())),
    };
    let mut finding = waits(run, Finding::information(entry, title), &pending)
        .because("The run continues as soon as the request is approved. An accepted approval cannot be withdrawn.");
    finding = match answer {
        Some(answer) => finding.with_evidence(&request.reference(), "status.conditions[Approved]", quote(answer)),
        None => finding.with_evidence(&request.reference(), "status.conditions[Approved]", "none"),
    };
    Some(finding.fix("approve", vec![approve(run, request)]))
}

/// A step that approves the current generation of the request.
pub(super) fn approve(run: &Run<'_>, request: &ObservedObject<Approval>) -> Step {
    let answer =
        if run.inputs.namespace.is_some() { Approved::RequestApproved } else { Approved::ClusterRequestApproved };
    let mut conditions = conditions(request).to_vec();
    conditions.retain(|condition| condition.type_ != Approved::type_word(()));
    put(&mut conditions, answer.finding(request.generation()), run.inputs.now);
    let patch = json!({"status": {"conditions": conditions}});
    run.inputs.kubectl.patch_status(format!("approve {}", request.name()), &request.reference(), patch)
}

/// A correctly approved request that the run has not accepted.
pub(super) fn approved_and_not_accepted<'r>(run: &'r Run<'_>) -> Option<&'r ObservedObject<Approval>> {
    run.inputs.approvals.iter().find(|request| {
        let given = condition::<Approved>(conditions(request)).is_some_and(|approved| {
            approved.status == ConditionStatus::True && approved.observed_generation == request.generation()
        });
        request.spec.parent_stage_rollout == run.object.name()
            && given
            && !is_true::<ApprovalAccepted>(conditions(request))
    })
}
