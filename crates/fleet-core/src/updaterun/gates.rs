//! Approvals and timed waits before and after a stage.
//!
//! A passed gate stays passed. Until then the current content of the approval request decides.

use std::collections::BTreeMap;

use fleet_api::conditions::approval::{ApprovalAccepted, Approved};
use fleet_api::conditions::run_fault::{AfterStageTasksProblem, RunFault};
use fleet_api::conditions::update_run::{
    StageProgressing, TaskApprovalRequestApproved, TaskApprovalRequestCreated, TaskWaitTimeElapsed,
};
use fleet_api::conditions::{ConditionStatus, decode, decode_ignoring_generation};
use fleet_api::kinds::{Approval, Obj, Scope};
use fleet_api::names::GatePosition;
use fleet_api::types::{
    ApprovalRequestSpec, StageConfig, StageTask, StageTaskStatus, StageTaskType, StageUpdatingStatus,
};
use fleet_api::well_known::{label_values, labels};
use jiff::{SignedDuration, Timestamp};

use super::Write;
use super::context::PlanContext;
use super::observed::ApprovalFacts;
use super::report::{Blocker, Cause};

/// An approval request to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRequest {
    pub name: String,
    pub namespace: Option<String>,
    pub run: String,
    pub stage: String,
    pub position: GatePosition,
}

impl NewRequest {
    pub fn object<S: Scope>(&self) -> Obj<Approval, S> {
        let spec = ApprovalRequestSpec { parent_stage_rollout: self.run.clone(), target_stage: self.stage.clone() };
        let mut object = Obj::named(self.name.clone(), spec);
        object.metadata.namespace.clone_from(&self.namespace);
        let task = match self.position {
            GatePosition::Before => label_values::BEFORE_STAGE,
            GatePosition::After => label_values::AFTER_STAGE,
        };
        let marks = [
            (labels::TARGET_UPDATE_RUN, self.run.as_str()),
            (labels::TARGET_STAGE, self.stage.as_str()),
            (labels::TASK_TYPE, task),
            (labels::IS_LATEST_APPROVAL, label_values::TRUE),
        ];
        let marks = marks.map(|(key, value)| (key.to_owned(), value.to_owned()));
        object.metadata.labels = Some(BTreeMap::from(marks));
        object
    }
}

/// Whether the stage may start.
pub(super) fn before(context: &mut PlanContext<'_>, stage: &mut StageUpdatingStatus) -> Result<bool, RunFault> {
    let mut open = true;
    for task in &mut stage.before_stage_task_status {
        if task.type_ != StageTaskType::Approval {
            return Err(RunFault::UnsupportedBeforeStageTask { task_type: task.type_.to_string() });
        }
        open &= is_approved(context, task, &stage.stage_name, GatePosition::Before)?;
    }
    Ok(open)
}

/// Whether the stage may end. All its clusters are done; its tasks run in parallel.
pub(super) fn after(
    context: &mut PlanContext<'_>,
    stage: &mut StageUpdatingStatus,
    config: &StageConfig,
) -> Result<bool, RunFault> {
    if stage.after_stage_task_status.is_empty() {
        return Ok(true);
    }
    // A timed wait starts at the transition of this condition.
    context.writer.put(&mut stage.conditions, &StageProgressing::WaitingAfterStage);
    let progressing = context.writer.read::<StageProgressing>(&stage.conditions).current();
    let since = progressing.map_or(context.writer.now, |condition| condition.last_transition_time.instant());
    let mut open = true;
    for (index, task) in stage.after_stage_task_status.iter_mut().enumerate() {
        open &= match task.type_ {
            StageTaskType::Approval => is_approved(context, task, &stage.stage_name, GatePosition::After)?,
            StageTaskType::TimedWait => {
                let wait = wait_of(context, config, index)?;
                has_elapsed(context, task, &stage.stage_name, since.checked_add(wait).unwrap_or(Timestamp::MAX))
            }
        };
    }
    Ok(open)
}

fn wait_of(context: &PlanContext<'_>, config: &StageConfig, index: usize) -> Result<SignedDuration, RunFault> {
    config.after_stage_tasks.get(index).and_then(StageTask::wait).ok_or_else(|| RunFault::InvalidAfterStageTasks {
        strategy: context.observed.run.key_of(&context.observed.run.spec.staged_update_strategy_name),
        stage: config.name.clone(),
        problem: AfterStageTasksProblem::WaitMissing { index },
    })
}

fn has_elapsed(context: &mut PlanContext<'_>, task: &mut StageTaskStatus, stage: &str, until: Timestamp) -> bool {
    if context.writer.read::<TaskWaitTimeElapsed>(&task.conditions).is_true() {
        return true;
    }
    if context.writer.now >= until {
        context.writer.put(&mut task.conditions, &TaskWaitTimeElapsed::Elapsed);
        return true;
    }
    context.wake_at(until);
    context.blockers.push(Blocker::about_stage(Cause::TimedWait { stage: stage.to_owned(), until }, stage));
    false
}

fn is_approved(
    context: &mut PlanContext<'_>,
    task: &mut StageTaskStatus,
    stage: &str,
    position: GatePosition,
) -> Result<bool, RunFault> {
    if context.writer.read::<TaskApprovalRequestApproved>(&task.conditions).is_true() {
        return Ok(true);
    }
    let name = task.approval_request_name.as_str();
    let found = context.observed.approvals.iter().find(|request| request.name == name && !request.deleting);
    context.writer.put(&mut task.conditions, &TaskApprovalRequestCreated::Created);
    let Some(request) = found else {
        context.writes.push(Write::RequestApproval(new_request(context, name, stage, position)));
        // A new object has generation 1, and its spec is immutable.
        let cause = Cause::ApprovalPending { stage: stage.to_owned(), generation: 1 };
        context.blockers.push(Blocker::about_request(cause, name));
        return Ok(false);
    };
    check_target(context, request, stage)?;
    let accepted = decode::<ApprovalAccepted>(request.conditions, request.generation).is_true();
    if !accepted && !decode::<Approved>(request.conditions, request.generation).is_true() {
        context.blockers.push(Blocker::about_request(pending(request, stage), name));
        return Ok(false);
    }
    let acceptance = Write::AcceptApproval { request: request.name.to_owned(), generation: request.generation };
    // Two stages with the same name share a request.
    if !accepted && !context.writes.contains(&acceptance) {
        context.writes.push(acceptance);
    }
    context.writer.put(&mut task.conditions, &TaskApprovalRequestApproved::Approved);
    Ok(true)
}

fn new_request(context: &PlanContext<'_>, name: &str, stage: &str, position: GatePosition) -> NewRequest {
    let run = &context.observed.run;
    NewRequest {
        name: name.to_owned(),
        namespace: run.namespace.map(str::to_owned),
        run: run.name.to_string(),
        stage: stage.to_owned(),
        position,
    }
}

/// A request that already existed under this name must be about this stage of this run.
fn check_target(context: &PlanContext<'_>, request: &ApprovalFacts<'_>, stage: &str) -> Result<(), RunFault> {
    let run = &context.observed.run;
    if request.run == run.name.as_str() && request.stage == stage {
        return Ok(());
    }
    Err(RunFault::ForeignApprovalRequest {
        request: run.key_of(request.name),
        found_run: run.key_of(request.run),
        found_stage: request.stage.to_owned(),
        run: run.key_of(run.name.as_str()),
        stage: stage.to_owned(),
    })
}

fn pending(request: &ApprovalFacts<'_>, stage: &str) -> Cause {
    let (stage, generation) = (stage.to_owned(), request.generation);
    let approved = decode_ignoring_generation::<Approved>(request.conditions).current();
    match approved.filter(|condition| condition.status == ConditionStatus::True) {
        Some(condition) => {
            Cause::ApprovalOfOtherGeneration { stage, approved: condition.observed_generation, generation }
        }
        None => Cause::ApprovalPending { stage, generation },
    }
}
