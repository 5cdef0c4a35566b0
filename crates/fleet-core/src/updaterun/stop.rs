//! A run that is asked to stop: what has been started may finish, nothing else is started.
//!
//! Decides when the run has come to rest. Gates are not looked at, no content is moved. Never forgets where it was: the same
//! stage goes on when the run is resumed.

use fleet_api::conditions::run_fault::RunFailure;
use fleet_api::conditions::update_run::{
    StageProgressing, StageProgressingReason, StuckClusters, UpdateRunProgressing,
};
use fleet_api::types::StageUpdatingStatus;

use super::ground::Targets;
use super::pass::Pass;
use super::report::{Blocker, Cause, Outcome};
use super::{clusters, delete_stage};

/// Stops in stage `index`, which is the number of stages where only the removal is left.
pub(super) fn stop(pass: &mut Pass<'_>, targets: &Targets<'_>, index: usize) -> Result<Outcome, RunFailure> {
    if index >= pass.status.stages_status.len() {
        return delete_stage::stop(pass, targets);
    }
    let mut stage = std::mem::take(&mut pass.status.stages_status[index]);
    let round = clusters::let_finish(pass, targets, &mut stage);
    match &round {
        Err(cause) => pass.pen.fail_stage(&mut stage, cause),
        Ok(round) => say_stopping(pass, &mut stage, round.unfinished > 0),
    }
    let name = stage.stage_name.clone();
    pass.status.stages_status[index] = stage;
    let round = round?;
    if round.stuck.is_empty() {
        return Ok(say(pass, round.unfinished > 0));
    }
    pass.say(&UpdateRunProgressing::Stuck { clusters: StuckClusters(round.stuck), stage: name });
    Ok(Outcome::Stuck)
}

/// A stage that comes to rest passes through Stopping even if nothing has to finish: a timed wait starts anew from there.
pub(super) fn say_stopping(pass: &Pass<'_>, stage: &mut StageUpdatingStatus, unfinished: bool) {
    let reason = pass.pen.read::<StageProgressing>(&stage.conditions).reason();
    if reason == Some(StageProgressingReason::Stopped) && !unfinished {
        return;
    }
    pass.pen.put(&mut stage.conditions, &StageProgressing::Stopping);
    if !unfinished {
        pass.pen.put(&mut stage.conditions, &StageProgressing::Stopped);
    }
}

pub(super) fn say(pass: &mut Pass<'_>, unfinished: bool) -> Outcome {
    if unfinished {
        pass.say(&UpdateRunProgressing::Stopping);
        return Outcome::Stopping;
    }
    pass.say(&UpdateRunProgressing::Stopped);
    pass.blockers.push(Blocker::about_run(Cause::AskedToStop));
    Outcome::Stopped
}
