//! Executes stages in order: before-stage tasks, clusters, after-stage tasks. The delete stage comes last.

use fleet_api::conditions::run_fault::{RunFailure, RunFault};
use fleet_api::conditions::update_run::{StageProgressing, StageSucceeded, StuckClusters, UpdateRunProgressing};
use fleet_api::types::{StageConfig, StageUpdatingStatus};

use super::context::PlanContext;
use super::prerequisites::Targets;
use super::report::RunOutcome;
use super::{clusters, gates, remove, stages};

/// Result of planning one stage.
enum Step {
    Complete,
    Halted(RunOutcome),
}

/// Continues from stage `first`. If `first` is the number of stages, only the delete stage is left.
pub(super) fn run(
    context: &mut PlanContext<'_>,
    targets: &Targets<'_>,
    first: usize,
) -> Result<RunOutcome, RunFailure> {
    for index in first..context.status.stages_status.len() {
        // Taken out so that the context can be borrowed mutably meanwhile.
        let mut stage = std::mem::take(&mut context.status.stages_status[index]);
        let step = config_of(context, index).and_then(|config| execute_stage(context, targets, &mut stage, &config));
        if let Err(cause) = &step {
            context.writer.fail_stage(&mut stage, cause);
        }
        context.status.stages_status[index] = stage;
        if let Step::Halted(outcome) = step? {
            return Ok(outcome);
        }
    }
    remove::delete_stage(context, targets)
}

pub(super) fn config_of(context: &PlanContext<'_>, index: usize) -> Result<StageConfig, RunFailure> {
    let recorded = context.status.staged_update_strategy_snapshot.as_ref();
    let config = recorded.and_then(|strategy| strategy.stages.get(index)).cloned();
    config.ok_or_else(|| RunFault::NoStrategyRecorded.into())
}

fn execute_stage(
    context: &mut PlanContext<'_>,
    targets: &Targets<'_>,
    stage: &mut StageUpdatingStatus,
    config: &StageConfig,
) -> Result<Step, RunFailure> {
    let name = stage.stage_name.clone();
    if stage.clusters.is_empty() {
        skip(context, stage);
        return Ok(Step::Complete);
    }
    if !gates::before(context, stage)? {
        context.writer.put(&mut stage.conditions, &StageProgressing::WaitingBeforeStage);
        context.set_condition(&UpdateRunProgressing::WaitingBeforeStage { stage: name });
        return Ok(Step::Halted(RunOutcome::Waiting));
    }
    let limit = stages::concurrency(config, stage.clusters.len())?;
    let progress = clusters::update(context, targets, stage, limit)?;
    if progress.unfinished > 0 {
        return Ok(Step::Halted(report_progress(context, name, progress.stuck)));
    }
    if !gates::after(context, stage, config)? {
        context.set_condition(&UpdateRunProgressing::WaitingAfterStage { stage: name });
        return Ok(Step::Halted(RunOutcome::Waiting));
    }
    context.writer.complete_stage(stage);
    Ok(Step::Complete)
}

fn skip(context: &mut PlanContext<'_>, stage: &mut StageUpdatingStatus) {
    let writer = context.writer;
    stage.start_time.get_or_insert(writer.time());
    stage.end_time = Some(writer.time());
    writer.put(&mut stage.conditions, &StageProgressing::SkippedNoClusters);
    writer.put(&mut stage.conditions, &StageSucceeded::SkippedNoClusters);
}

fn report_progress(context: &mut PlanContext<'_>, stage: String, stuck: Vec<String>) -> RunOutcome {
    if stuck.is_empty() {
        context.set_condition(&UpdateRunProgressing::Progressing);
        return RunOutcome::Progressing;
    }
    context.set_condition(&UpdateRunProgressing::Stuck { clusters: StuckClusters(stuck), stage });
    RunOutcome::Stuck
}
