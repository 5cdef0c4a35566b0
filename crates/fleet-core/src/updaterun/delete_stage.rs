//! The last stage: clusters that the policy no longer selects lose what they have.
//!
//! Decides which bindings are deleted and when the stage is over: when the last of them is gone. Other controllers take the
//! workload back before a binding goes. Never deletes a binding that the run has not listed.

use fleet_api::conditions::run_fault::{RunFailure, RunFault};
use fleet_api::conditions::update_run::{
    ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing, UpdateRunProgressing,
};
use fleet_api::types::StageUpdatingStatus;

use super::Write;
use super::clusters::{is_done, is_started};
use super::ground::Targets;
use super::pass::Pass;
use super::report::{Blocker, Cause, Outcome};

/// Deletes what is to be deleted, and ends the run when nothing is left.
pub(super) fn run(pass: &mut Pass<'_>, targets: &Targets<'_>) -> Result<Outcome, RunFailure> {
    let mut stage = take(pass)?;
    let pen = pass.pen;
    stage.start_time.get_or_insert(pen.time());
    let checked = check(pass, targets, &stage, |cluster| RunFault::NotInDeletingStage { cluster });
    if let Err(cause) = checked {
        pen.fail_stage(&mut stage, &cause);
        pass.status.deletion_stage_status = Some(stage);
        return Err(cause);
    }
    if targets.leaving.is_empty() {
        settle_gone(pass, targets, &mut stage, true);
        pen.complete_stage(&mut stage);
        pass.status.deletion_stage_status = Some(stage);
        pass.succeed();
        return Ok(Outcome::Succeeded);
    }
    pen.put(&mut stage.conditions, &StageProgressing::Started);
    for cluster in &mut stage.clusters {
        let Some(binding) = targets.leaving.get(cluster.cluster_name.as_str()) else { continue };
        if !is_started(pen, cluster) && !binding.deleting {
            pass.writes.push(Write::DeleteBinding { binding: binding.name.to_owned() });
        }
        pen.put(&mut cluster.conditions, &ClusterUpdateStarted::Started);
    }
    settle_gone(pass, targets, &mut stage, true);
    say_what_is_left(pass, targets, &stage);
    pass.status.deletion_stage_status = Some(stage);
    pass.say(&UpdateRunProgressing::Progressing);
    Ok(Outcome::Progressing)
}

/// Starts no deletion; those that were started may finish.
pub(super) fn stop(pass: &mut Pass<'_>, targets: &Targets<'_>) -> Result<Outcome, RunFailure> {
    let mut stage = take(pass)?;
    let pen = pass.pen;
    if let Err(cause) = check(pass, targets, &stage, |cluster| RunFault::NotInDeletingStageWhileStopping { cluster }) {
        pen.fail_stage(&mut stage, &cause);
        pass.status.deletion_stage_status = Some(stage);
        return Err(cause);
    }
    settle_gone(pass, targets, &mut stage, false);
    say_what_is_left(pass, targets, &stage);
    let half_deleted = stage.clusters.iter().any(|cluster| is_started(pen, cluster) && !is_done(pen, cluster));
    super::stop::say_stopping(pass, &mut stage, half_deleted);
    pass.status.deletion_stage_status = Some(stage);
    Ok(super::stop::say(pass, half_deleted))
}

fn take(pass: &mut Pass<'_>) -> Result<StageUpdatingStatus, RunFailure> {
    pass.status.deletion_stage_status.take().ok_or_else(|| RunFault::NoDeleteStageRecorded.into())
}

/// What is there must fit what was recorded.
fn check(
    pass: &Pass<'_>,
    targets: &Targets<'_>,
    stage: &StageUpdatingStatus,
    not_listed: impl Fn(String) -> RunFault,
) -> Result<(), RunFailure> {
    let pen = pass.pen;
    for (name, binding) in &targets.leaving {
        let cluster = || (*name).to_owned();
        let Some(entry) = stage.clusters.iter().find(|entry| entry.cluster_name == *name) else {
            return Err(not_listed(cluster()).into());
        };
        if is_done(pen, entry) {
            return Err(RunFault::DeletedStillBound { cluster: cluster() }.into());
        }
        if is_started(pen, entry) && !binding.deleting {
            return Err(RunFault::DeletingStillBound { cluster: cluster() }.into());
        }
    }
    Ok(())
}

/// Listed clusters without a binding are done; `all` of them, or only those whose deletion was started.
fn settle_gone(pass: &Pass<'_>, targets: &Targets<'_>, stage: &mut StageUpdatingStatus, all: bool) {
    let pen = pass.pen;
    for cluster in &mut stage.clusters {
        let gone = !targets.leaving.contains_key(cluster.cluster_name.as_str());
        if gone && (all || is_started(pen, cluster)) {
            pen.put(&mut cluster.conditions, &ClusterUpdateStarted::Started);
            pen.put(&mut cluster.conditions, &ClusterUpdateSucceeded::Succeeded);
        }
    }
}

fn say_what_is_left(pass: &mut Pass<'_>, targets: &Targets<'_>, stage: &StageUpdatingStatus) {
    let pen = pass.pen;
    for cluster in stage.clusters.iter().filter(|cluster| is_started(pen, cluster) && !is_done(pen, cluster)) {
        let Some(binding) = targets.leaving.get(cluster.cluster_name.as_str()) else { continue };
        let binding = pass.observed.run.reference_to(binding.name);
        pass.blockers.push(Blocker::about_cluster(Cause::Removing { cluster: cluster.cluster_name.clone(), binding }));
    }
}
