//! A run in state Stop: started clusters may finish, others are not started. The run resumes in the same stage.

use fleet_api::conditions::run_fault::RunFailure;
use fleet_api::conditions::update_run::{
    StageProgressing, StageProgressingReason, StuckClusters, UpdateRunProgressing,
};
use fleet_api::types::StageUpdatingStatus;

use super::context::PlanContext;
use super::prerequisites::Targets;
use super::report::{Blocker, Cause, RunOutcome};
use super::{clusters, remove};

/// Stops in stage `index`. If `index` is the number of stages, only the delete stage is left.
pub(super) fn stop(
    context: &mut PlanContext<'_>,
    targets: &Targets<'_>,
    index: usize,
) -> Result<RunOutcome, RunFailure> {
    if index >= context.status.stages_status.len() {
        return remove::stop_delete_stage(context, targets);
    }
    let mut stage = std::mem::take(&mut context.status.stages_status[index]);
    let progress = clusters::finish_started(context, targets, &mut stage);
    match &progress {
        Err(cause) => context.writer.fail_stage(&mut stage, cause),
        Ok(progress) => set_stage_stopping(context, &mut stage, progress.unfinished > 0),
    }
    let name = stage.stage_name.clone();
    context.status.stages_status[index] = stage;
    let progress = progress?;
    if progress.stuck.is_empty() {
        return Ok(set_run_stopping(context, progress.unfinished > 0));
    }
    context.set_condition(&UpdateRunProgressing::Stuck { clusters: StuckClusters(progress.stuck), stage: name });
    Ok(RunOutcome::Stuck)
}

/// Sets Stopping before Stopped even if no cluster is unfinished: the transition restarts timed waits after a resume.
pub(super) fn set_stage_stopping(context: &PlanContext<'_>, stage: &mut StageUpdatingStatus, unfinished: bool) {
    let reason = context.writer.read::<StageProgressing>(&stage.conditions).reason();
    if reason == Some(StageProgressingReason::Stopped) && !unfinished {
        return;
    }
    context.writer.put(&mut stage.conditions, &StageProgressing::Stopping);
    if !unfinished {
        context.writer.put(&mut stage.conditions, &StageProgressing::Stopped);
    }
}

pub(super) fn set_run_stopping(context: &mut PlanContext<'_>, unfinished: bool) -> RunOutcome {
    if unfinished {
        context.set_condition(&UpdateRunProgressing::Stopping);
        return RunOutcome::Stopping;
    }
    context.set_condition(&UpdateRunProgressing::Stopped);
    context.blockers.push(Blocker::about_run(Cause::AskedToStop));
    RunOutcome::Stopped
}
