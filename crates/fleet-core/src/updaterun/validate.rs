//! Checks before every plan after the first that the recorded status still matches the objects: stages are computed
//! again from the recorded strategy and the current labels and bindings, and compared. Checks run in the order in which
//! faults are reported.

use fleet_api::conditions::run_fault::RunFault;
use fleet_api::conditions::update_run::{ClusterUpdateSucceeded, StageProgressing, StageSucceeded};
use fleet_api::types::{ApplyStrategy, ClusterUpdatingStatus, StageUpdatingStatus, UpdateRunStatus};

use super::clusters::{is_done, is_started};
use super::context::{ConditionWriter, PlanContext, StepError};
use super::observed::Observed;
use super::prerequisites::{self, Policy, Targets};
use super::stages;

/// Where the run continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// In this stage; the number of stages means the delete stage.
    At(usize),
    Finished,
}

pub(super) fn validate<'a>(context: &PlanContext<'a>) -> Result<(Targets<'a>, Position), StepError> {
    let (observed, status) = (context.observed, &context.status);
    check_apply_strategy(observed, status)?;
    let policy = prerequisites::latest_policy(observed)?;
    let wanted = check_policy(observed, status, policy)?;
    let targets = Targets::of(observed, policy)?;
    if !is_removal_done(context, &targets) {
        targets.check_any(observed, policy)?;
    }
    targets.check_count(wanted)?;
    check_live_strategy(observed)?;
    let progress = check_stages(context, &targets)?;
    let position = check_delete_stage(context, &targets, progress)?;
    Ok((targets, position))
}

fn check_apply_strategy(observed: &Observed<'_>, status: &UpdateRunStatus) -> Result<(), RunFault> {
    let latest = prerequisites::apply_strategy(observed)?;
    if status.apply_strategy.as_ref() == Some(&latest) {
        return Ok(());
    }
    let recorded = dump(status.apply_strategy.as_ref());
    Err(RunFault::ApplyStrategyOutdated { latest: dump(Some(&latest)), recorded })
}

/// For messages: readers only compare the two texts.
fn dump(strategy: Option<&ApplyStrategy>) -> String {
    serde_json::to_string(&strategy).unwrap_or_default()
}

/// Checks the index before the schedule, so that a changed policy is reported as changed even while it is not scheduled
/// yet.
fn check_policy(
    observed: &Observed<'_>,
    status: &UpdateRunStatus,
    policy: Policy<'_>,
) -> Result<Option<i64>, RunFault> {
    let recorded = &status.policy_snapshot_index_used;
    if policy.index != recorded {
        return Err(RunFault::PolicyIndexOutdated { latest: policy.index.to_owned(), recorded: recorded.clone() });
    }
    let wanted = policy.cluster_count(observed)?;
    let recorded = status.policy_observed_cluster_count.unwrap_or(0);
    if let Some(latest) = wanted.filter(|latest| *latest != recorded) {
        return Err(RunFault::ClusterCountOutdated { latest, recorded });
    }
    policy.check_scheduled()?;
    Ok(wanted)
}

/// A run that only removes bindings has no bindings left once it is done, which is not a fault.
fn is_removal_done(context: &PlanContext<'_>, targets: &Targets<'_>) -> bool {
    let removal = context.status.deletion_stage_status.as_ref();
    let begun = removal.is_some_and(|stage| context.writer.read::<StageProgressing>(&stage.conditions).any().is_some());
    begun && targets.to_remove.is_empty() && context.status.stages_status.iter().all(|stage| stage.clusters.is_empty())
}

/// The recorded copy is used, but a deleted or invalid strategy still ends the run.
fn check_live_strategy(observed: &Observed<'_>) -> Result<(), RunFault> {
    if observed.settings.tolerate_strategy_changes {
        return Ok(());
    }
    let strategy = observed.run.key_of(&observed.run.spec.staged_update_strategy_name);
    match observed.strategy {
        Some(spec) => prerequisites::check_all_tasks(&strategy, spec),
        None => Err(RunFault::StrategyNotFound { strategy }),
    }
}

/// Progress of all stages as recorded, with -1 for none, as in messages.
#[derive(Debug, Clone, Copy)]
struct RecordedProgress {
    last_finished: i64,
    updating: Option<usize>,
}

fn check_stages(context: &PlanContext<'_>, targets: &Targets<'_>) -> Result<RecordedProgress, RunFault> {
    let status = &context.status;
    let strategy = status.staged_update_strategy_snapshot.as_ref().ok_or(RunFault::NoStrategyRecorded)?;
    let computed = stages::compute(context.observed, strategy, targets)?;
    stages::check_all_placed(&computed, targets)?;
    let (new, existing) = (computed.len(), status.stages_status.len());
    if existing == 0 && new > 0 {
        return Err(RunFault::NoStagesRecorded);
    }
    if new != existing {
        return Err(RunFault::StageCountChanged { new, existing });
    }
    let mut progress = RecordedProgress { last_finished: -1, updating: None };
    for (index, (new, existing)) in computed.iter().zip(&status.stages_status).enumerate() {
        check_members(index, new, existing)?;
        let config = strategy.stages.get(index).ok_or(RunFault::NoStrategyRecorded)?;
        let limit = stages::concurrency(config, existing.clusters.len())?;
        check_order(context.writer, index, existing, limit, &mut progress)?;
    }
    Ok(progress)
}

fn check_members(index: usize, new: &StageUpdatingStatus, existing: &StageUpdatingStatus) -> Result<(), RunFault> {
    if new.stage_name != existing.stage_name {
        let (new, existing) = (new.stage_name.clone(), existing.stage_name.clone());
        return Err(RunFault::StageNameChanged { index, new, existing });
    }
    let (count, recorded) = (new.clusters.len(), existing.clusters.len());
    if count != recorded {
        return Err(RunFault::StageSizeChanged { index, new: count, existing: recorded });
    }
    for (position, (new, existing)) in new.clusters.iter().zip(&existing.clusters).enumerate() {
        if new.cluster_name != existing.cluster_name {
            let (new, existing) = (new.cluster_name.clone(), existing.cluster_name.clone());
            return Err(RunFault::StageClusterChanged { position, index, new, existing });
        }
    }
    Ok(())
}

fn check_order(
    writer: ConditionWriter,
    index: usize,
    stage: &StageUpdatingStatus,
    limit: usize,
    progress: &mut RecordedProgress,
) -> Result<(), RunFault> {
    let name = || stage.stage_name.clone();
    let place = i64::try_from(index).unwrap_or(i64::MAX);
    let succeeded = writer.read::<StageSucceeded>(&stage.conditions);
    if succeeded.is_true() {
        if let Some(updating) = progress.updating {
            return Err(RunFault::FinishedAfterUpdating { finished: index, updating });
        }
        if let Some(cluster) = stage.clusters.iter().find(|cluster| !is_done(writer, cluster)) {
            return Err(RunFault::FinishedStageUnfinished { cluster: cluster.cluster_name.clone(), stage: name() });
        }
        if place != progress.last_finished + 1 {
            return Err(RunFault::FinishedOutOfOrder { stage: name(), last_finished: progress.last_finished });
        }
        progress.last_finished = place;
        return Ok(());
    }
    if succeeded.is_false() {
        let message = succeeded.current().map(|condition| condition.message.clone()).unwrap_or_default();
        return Err(RunFault::StageFailed { stage: name(), message });
    }
    if writer.read::<StageProgressing>(&stage.conditions).current().is_none() {
        return Ok(());
    }
    if let Some(updating) = progress.updating {
        return Err(RunFault::TwoStagesUpdating { stage: name(), updating });
    }
    if place != progress.last_finished + 1 {
        return Err(RunFault::UpdatingOutOfOrder { stage: name(), last_finished: progress.last_finished });
    }
    progress.updating = Some(index);
    let is_updating = |cluster: &&ClusterUpdatingStatus| {
        is_started(writer, cluster) && !writer.read::<ClusterUpdateSucceeded>(&cluster.conditions).is_true()
    };
    let updating = stage.clusters.iter().filter(is_updating).count();
    if updating > limit {
        return Err(RunFault::TooManyUpdating { updating, stage: name(), concurrency: limit });
    }
    Ok(())
}

fn check_delete_stage(
    context: &PlanContext<'_>,
    targets: &Targets<'_>,
    progress: RecordedProgress,
) -> Result<Position, RunFault> {
    let stage = context.status.deletion_stage_status.as_ref().ok_or(RunFault::NoDeleteStageRecorded)?;
    for cluster in targets.to_remove.keys().copied() {
        if !stage.clusters.iter().any(|entry| entry.cluster_name == cluster) {
            return Err(RunFault::NotInDeleteStage { cluster: cluster.to_owned() });
        }
    }
    let succeeded = context.writer.read::<StageSucceeded>(&stage.conditions);
    let stages = context.status.stages_status.len();
    let finished = usize::try_from(progress.last_finished + 1).unwrap_or(0);
    if finished < stages {
        let active =
            context.writer.read::<StageProgressing>(&stage.conditions).is_true() || succeeded.current().is_some();
        if active {
            let updating = progress.updating.map_or(-1, |index| i64::try_from(index).unwrap_or(i64::MAX));
            return Err(RunFault::DeletingTooEarly { updating, last_finished: progress.last_finished });
        }
        return Ok(Position::At(progress.updating.unwrap_or(finished)));
    }
    if succeeded.is_false() {
        let message = succeeded.current().map(|condition| condition.message.clone()).unwrap_or_default();
        return Err(RunFault::DeleteStageFailed { message });
    }
    Ok(if succeeded.is_true() { Position::Finished } else { Position::At(stages) })
}
