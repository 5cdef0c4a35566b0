//! A run that goes on: stage after stage, then the removal of what is no longer wanted.
//!
//! Decides the order: gate before, clusters, gates after, next stage at once. What stops at a gate or at unfinished clusters
//! says so in the run's condition. Never looks past the first stage that is not complete.

use fleet_api::conditions::run_fault::{RunFailure, RunFault};
use fleet_api::conditions::update_run::{StageProgressing, StageSucceeded, StuckClusters, UpdateRunProgressing};
use fleet_api::types::{StageConfig, StageUpdatingStatus};

use super::ground::Targets;
use super::pass::Pass;
use super::report::Outcome;
use super::{clusters, concurrency, delete_stage, gates};

/// Where a stage stands after a look at it.
enum Step {
    Complete,
    Halted(Outcome),
}

/// Goes on from stage `first`, which is the number of stages where only the removal is left.
pub(super) fn run(pass: &mut Pass<'_>, targets: &Targets<'_>, first: usize) -> Result<Outcome, RunFailure> {
    for index in first..pass.status.stages_status.len() {
        // Taken out for the time of the look, so that the rest of the pass can be written to.
        let mut stage = std::mem::take(&mut pass.status.stages_status[index]);
        let step = config_of(pass, index).and_then(|config| look_at(pass, targets, &mut stage, &config));
        if let Err(cause) = &step {
            pass.pen.fail_stage(&mut stage, cause);
        }
        pass.status.stages_status[index] = stage;
        if let Step::Halted(outcome) = step? {
            return Ok(outcome);
        }
    }
    delete_stage::run(pass, targets)
}

pub(super) fn config_of(pass: &Pass<'_>, index: usize) -> Result<StageConfig, RunFailure> {
    let recorded = pass.status.staged_update_strategy_snapshot.as_ref();
    let config = recorded.and_then(|strategy| strategy.stages.get(index)).cloned();
    config.ok_or_else(|| RunFault::NoStrategyRecorded.into())
}

fn look_at(
    pass: &mut Pass<'_>,
    targets: &Targets<'_>,
    stage: &mut StageUpdatingStatus,
    config: &StageConfig,
) -> Result<Step, RunFailure> {
    let name = stage.stage_name.clone();
    if stage.clusters.is_empty() {
        skip(pass, stage);
        return Ok(Step::Complete);
    }
    if !gates::before(pass, stage)? {
        pass.pen.put(&mut stage.conditions, &StageProgressing::WaitingBeforeStage);
        pass.say(&UpdateRunProgressing::WaitingBeforeStage { stage: name });
        return Ok(Step::Halted(Outcome::Waiting));
    }
    let limit = concurrency::of_stage(config, stage.clusters.len())?;
    let round = clusters::update(pass, targets, stage, limit)?;
    if round.unfinished > 0 {
        return Ok(Step::Halted(say_how_it_goes(pass, name, round.stuck)));
    }
    if !gates::after(pass, stage, config)? {
        pass.say(&UpdateRunProgressing::WaitingAfterStage { stage: name });
        return Ok(Step::Halted(Outcome::Waiting));
    }
    pass.pen.complete_stage(stage);
    Ok(Step::Complete)
}

fn skip(pass: &mut Pass<'_>, stage: &mut StageUpdatingStatus) {
    let pen = pass.pen;
    stage.start_time.get_or_insert(pen.time());
    stage.end_time = Some(pen.time());
    pen.put(&mut stage.conditions, &StageProgressing::SkippedNoClusters);
    pen.put(&mut stage.conditions, &StageSucceeded::SkippedNoClusters);
}

fn say_how_it_goes(pass: &mut Pass<'_>, stage: String, stuck: Vec<String>) -> Outcome {
    if stuck.is_empty() {
        pass.say(&UpdateRunProgressing::Progressing);
        return Outcome::Progressing;
    }
    pass.say(&UpdateRunProgressing::Stuck { clusters: StuckClusters(stuck), stage });
    Outcome::Stuck
}
