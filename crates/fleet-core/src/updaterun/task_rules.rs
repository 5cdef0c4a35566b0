//! Which tasks may stand before and after a stage.
//!
//! Decides what is wrong with a strategy's tasks, and in which form a strategy is recorded. Never waits for a task.

use fleet_api::conditions::run_fault::{AfterStageTasksProblem, BeforeStageTasksProblem, RunFault};
use fleet_api::types::{StageConfig, StageTask, StageTaskType, UpdateStrategySpec};

use super::duration;

/// Checks the tasks of every stage, in order, and nothing else.
pub(super) fn check_all(strategy: &str, spec: &UpdateStrategySpec) -> Result<(), RunFault> {
    spec.stages.iter().try_for_each(|stage| check(strategy, stage))
}

/// `strategy` is the key under which messages name it.
pub(super) fn check(strategy: &str, stage: &StageConfig) -> Result<(), RunFault> {
    let (strategy, name) = (|| strategy.to_owned(), || stage.name.clone());
    before(&stage.before_stage_tasks).map_err(|problem| RunFault::InvalidBeforeStageTasks {
        strategy: strategy(),
        stage: name(),
        problem,
    })?;
    after(&stage.after_stage_tasks).map_err(|problem| RunFault::InvalidAfterStageTasks {
        strategy: strategy(),
        stage: name(),
        problem,
    })
}

fn before(tasks: &[StageTask]) -> Result<(), BeforeStageTasksProblem> {
    if tasks.len() > 1 {
        return Err(BeforeStageTasksProblem::TooMany);
    }
    for (index, task) in tasks.iter().enumerate() {
        if task.type_ != StageTaskType::Approval {
            return Err(BeforeStageTasksProblem::NotAllowed { index, task_type: task.type_.to_string() });
        }
        if task.wait_time.is_some() {
            return Err(BeforeStageTasksProblem::ApprovalWithWait { index });
        }
    }
    Ok(())
}

fn after(tasks: &[StageTask]) -> Result<(), AfterStageTasksProblem> {
    if let [one, other] = tasks
        && one.type_ == other.type_
    {
        return Err(AfterStageTasksProblem::SameTypeTwice { task_type: one.type_.to_string() });
    }
    for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.type_ == StageTaskType::TimedWait) {
        match task.wait_time.as_deref().and_then(duration::parse) {
            None => return Err(AfterStageTasksProblem::WaitMissing { index }),
            Some(wait) if !wait.is_positive() => return Err(AfterStageTasksProblem::WaitNotPositive { index }),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The copy that a run keeps, with durations in one spelling.
pub(super) fn recorded(spec: &UpdateStrategySpec) -> UpdateStrategySpec {
    let mut copy = spec.clone();
    for task in tasks_mut(&mut copy) {
        if let Some(wait) = task.wait_time.as_deref().and_then(duration::parse) {
            task.wait_time = Some(duration::print(wait));
        }
    }
    copy
}

/// An approval has nothing to wait for by time, whatever an older release recorded.
pub(super) fn drop_waits_of_approvals(spec: &mut UpdateStrategySpec) {
    for task in tasks_mut(spec).filter(|task| task.type_ == StageTaskType::Approval) {
        task.wait_time = None;
    }
}

fn tasks_mut(spec: &mut UpdateStrategySpec) -> impl Iterator<Item = &mut StageTask> {
    spec.stages.iter_mut().flat_map(|stage| stage.before_stage_tasks.iter_mut().chain(&mut stage.after_stage_tasks))
}
