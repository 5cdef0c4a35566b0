//! The delete stage, which removes bindings that the policy no longer selects, and the deletion of the run itself.
//!
//! Never deletes a binding that the run has not listed.

use fleet_api::conditions::run_fault::{RunFailure, RunFault};
use fleet_api::conditions::update_run::{
    ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing, UpdateRunProgressing,
};
use fleet_api::types::StageUpdatingStatus;

use super::clusters::{is_done, is_started};
use super::context::PlanContext;
use super::observed::Observed;
use super::prerequisites::Targets;
use super::report::{Blocker, Cause, Report, RunOutcome};
use super::{Plan, Write};

/// Deletes the listed bindings. The run succeeds when the last of them is gone.
pub(super) fn delete_stage(context: &mut PlanContext<'_>, targets: &Targets<'_>) -> Result<RunOutcome, RunFailure> {
    let mut stage = take(context)?;
    let writer = context.writer;
    stage.start_time.get_or_insert(writer.time());
    let checked = check(context, targets, &stage, |cluster| RunFault::NotInDeletingStage { cluster });
    if let Err(cause) = checked {
        writer.fail_stage(&mut stage, &cause);
        context.status.deletion_stage_status = Some(stage);
        return Err(cause);
    }
    if targets.to_remove.is_empty() {
        mark_gone_as_done(context, targets, &mut stage, true);
        writer.complete_stage(&mut stage);
        context.status.deletion_stage_status = Some(stage);
        context.succeed();
        return Ok(RunOutcome::Succeeded);
    }
    writer.put(&mut stage.conditions, &StageProgressing::Started);
    for cluster in &mut stage.clusters {
        let Some(binding) = targets.to_remove.get(cluster.cluster_name.as_str()) else { continue };
        if !is_started(writer, cluster) && !binding.deleting {
            context.writes.push(Write::DeleteBinding { binding: binding.name.to_owned() });
        }
        writer.put(&mut cluster.conditions, &ClusterUpdateStarted::Started);
    }
    mark_gone_as_done(context, targets, &mut stage, true);
    report_pending_deletions(context, targets, &stage);
    context.status.deletion_stage_status = Some(stage);
    context.set_condition(&UpdateRunProgressing::Progressing);
    Ok(RunOutcome::Progressing)
}

/// Starts no further deletion; started ones may finish.
pub(super) fn stop_delete_stage(
    context: &mut PlanContext<'_>,
    targets: &Targets<'_>,
) -> Result<RunOutcome, RunFailure> {
    let mut stage = take(context)?;
    let writer = context.writer;
    if let Err(cause) = check(context, targets, &stage, |cluster| RunFault::NotInDeletingStageWhileStopping { cluster })
    {
        writer.fail_stage(&mut stage, &cause);
        context.status.deletion_stage_status = Some(stage);
        return Err(cause);
    }
    mark_gone_as_done(context, targets, &mut stage, false);
    report_pending_deletions(context, targets, &stage);
    let half_deleted = stage.clusters.iter().any(|cluster| is_started(writer, cluster) && !is_done(writer, cluster));
    super::stop::set_stage_stopping(context, &mut stage, half_deleted);
    context.status.deletion_stage_status = Some(stage);
    Ok(super::stop::set_run_stopping(context, half_deleted))
}

fn take(context: &mut PlanContext<'_>) -> Result<StageUpdatingStatus, RunFailure> {
    context.status.deletion_stage_status.take().ok_or_else(|| RunFault::NoDeleteStageRecorded.into())
}

/// Compares the existing bindings with the recorded stage.
fn check(
    context: &PlanContext<'_>,
    targets: &Targets<'_>,
    stage: &StageUpdatingStatus,
    not_listed: impl Fn(String) -> RunFault,
) -> Result<(), RunFailure> {
    let writer = context.writer;
    for (name, binding) in &targets.to_remove {
        let cluster = || (*name).to_owned();
        let Some(entry) = stage.clusters.iter().find(|entry| entry.cluster_name == *name) else {
            return Err(not_listed(cluster()).into());
        };
        if is_done(writer, entry) {
            return Err(RunFault::DeletedStillBound { cluster: cluster() }.into());
        }
        if is_started(writer, entry) && !binding.deleting {
            return Err(RunFault::DeletingStillBound { cluster: cluster() }.into());
        }
    }
    Ok(())
}

/// Marks listed clusters without a binding as done: `all` of them, or only those whose deletion was started.
fn mark_gone_as_done(context: &PlanContext<'_>, targets: &Targets<'_>, stage: &mut StageUpdatingStatus, all: bool) {
    let writer = context.writer;
    for cluster in &mut stage.clusters {
        let gone = !targets.to_remove.contains_key(cluster.cluster_name.as_str());
        if gone && (all || is_started(writer, cluster)) {
            writer.put(&mut cluster.conditions, &ClusterUpdateStarted::Started);
            writer.put(&mut cluster.conditions, &ClusterUpdateSucceeded::Succeeded);
        }
    }
}

fn report_pending_deletions(context: &mut PlanContext<'_>, targets: &Targets<'_>, stage: &StageUpdatingStatus) {
    let writer = context.writer;
    for cluster in stage.clusters.iter().filter(|cluster| is_started(writer, cluster) && !is_done(writer, cluster)) {
        let Some(binding) = targets.to_remove.get(cluster.cluster_name.as_str()) else { continue };
        let binding = context.observed.run.reference_to(binding.name);
        context
            .blockers
            .push(Blocker::about_cluster(Cause::Removing { cluster: cluster.cluster_name.clone(), binding }));
    }
}

/// A run that is being deleted: deletes the approval requests with its label, then removes the finalizer. Bindings,
/// snapshots and workloads stay.
pub(super) fn delete_run(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report::of(RunOutcome::Releasing));
    if !observed.run.has_finalizer {
        return plan;
    }
    let ours = observed.approvals.iter().filter(|one| one.labelled_with == Some(observed.run.name.as_str()));
    let mut requests: Vec<_> = ours.filter(|one| !one.deleting).map(|one| one.name.to_owned()).collect();
    requests.sort_unstable();
    plan.writes.extend(requests.into_iter().map(|request| Write::DeleteRequest { request }));
    plan.writes.push(Write::RemoveFinalizer);
    plan
}
