//! The clusters of one stage: which are done, preempted or stuck, and which may start now.
//!
//! Never updates more clusters at once than the stage allows, and counts a cluster as done only by conditions of this
//! content.

use std::time::Duration;

use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::conditions::run_fault::{Preemption, RunFailure, RunFault};
use fleet_api::conditions::update_run::{ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing};
use fleet_api::conditions::{decode, decode_ignoring_generation};
use fleet_api::time::Time;
use fleet_api::types::{ClusterUpdatingStatus, StageUpdatingStatus};
use jiff::{SignedDuration, Timestamp};

use super::binding::{MovedBy, Progress, RunContent, has_rollout_started, is_bound};
use super::context::{ConditionWriter, PlanContext};
use super::observed::{BindingFacts, ConcurrentRunFacts};
use super::prerequisites::Targets;
use super::report::{Blocker, Cause};
use super::status::DEFER_MAX;
use super::{BindingChange, Write};

/// Progress of the clusters of one stage.
#[derive(Debug, Default)]
pub(super) struct StageProgress {
    /// Number of clusters that are not done.
    pub unfinished: usize,
    /// In stage order.
    pub stuck: Vec<String>,
}

/// Checks the clusters that are being updated, then starts others up to `limit`, in the recorded order.
pub(super) fn update(
    context: &mut PlanContext<'_>,
    targets: &Targets<'_>,
    stage: &mut StageUpdatingStatus,
    limit: usize,
) -> Result<StageProgress, RunFailure> {
    let content = RunContent::of(context)?;
    check_started(context, targets, stage, &content, FaultTexts::EXECUTION)?;
    let mut updating = 0;
    for index in 0..stage.clusters.len() {
        if updating >= limit {
            break;
        }
        let cluster = &stage.clusters[index];
        if is_done(context.writer, cluster) {
            continue;
        }
        if !is_started(context.writer, cluster) {
            start(context, targets, stage, index, &content)?;
        }
        updating += usize::from(!is_done(context.writer, &stage.clusters[index]));
    }
    Ok(summarize(context, targets, stage))
}

/// Checks the started clusters without starting others. If a crash lost the record of a start, the annotation of the
/// binding shows that this run updated it.
pub(super) fn finish_started(
    context: &mut PlanContext<'_>,
    targets: &Targets<'_>,
    stage: &mut StageUpdatingStatus,
) -> Result<StageProgress, RunFailure> {
    let content = RunContent::of(context)?;
    let run = context.observed.run;
    for cluster in &mut stage.clusters {
        let binding = targets.selected.get(cluster.cluster_name.as_str());
        let moved_by_us = |binding: &&&BindingFacts<'_>| {
            is_bound(binding)
                && content.is_in(binding, cluster)
                && binding.moved_by.as_ref().is_some_and(|moved_by| moved_by.is_of(run.name.as_str(), run.uid))
        };
        if !is_started(context.writer, cluster) && binding.as_ref().is_some_and(moved_by_us) {
            context.writer.put(&mut cluster.conditions, &ClusterUpdateStarted::Started);
            stage.start_time.get_or_insert(context.writer.time());
        }
    }
    check_started(context, targets, stage, &content, FaultTexts::STOPPING)?;
    let writer = context.writer;
    let mut progress = summarize(context, targets, stage);
    progress.unfinished = stage.clusters.iter().filter(|one| is_started(writer, one) && !is_done(writer, one)).count();
    Ok(progress)
}

/// Faults whose message differs between executing and stopping.
struct FaultTexts {
    missing: fn(String, String) -> RunFault,
}

impl FaultTexts {
    const EXECUTION: Self = Self { missing: |cluster, stage| RunFault::BindingMissing { cluster, stage } };
    const STOPPING: Self = Self { missing: |cluster, stage| RunFault::BindingMissingWhileStopping { cluster, stage } };
}

/// Updates the conditions of started clusters: done, preempted, or still updating. Collects all faults of the stage.
fn check_started(
    context: &mut PlanContext<'_>,
    targets: &Targets<'_>,
    stage: &mut StageUpdatingStatus,
    content: &RunContent,
    texts: FaultTexts,
) -> Result<(), RunFailure> {
    let writer = context.writer;
    let mut faults = Vec::new();
    for cluster in stage.clusters.iter_mut().filter(|cluster| is_started(writer, cluster) && !is_done(writer, cluster))
    {
        let (name, stage_name) = (cluster.cluster_name.clone(), stage.stage_name.clone());
        if writer.read::<ClusterUpdateSucceeded>(&cluster.conditions).is_false() {
            faults.push(RunFault::ClusterFailed { cluster: name, stage: stage_name });
            continue;
        }
        let Some(binding) = targets.selected.get(name.as_str()) else {
            faults.push((texts.missing)(name, stage_name));
            continue;
        };
        if !is_bound(binding) || !content.is_in(binding, cluster) {
            let binding = context.observed.run.reference_to(binding.name);
            let by_other_run = Preemption { cluster: name, stage: stage_name, binding };
            let state = ClusterUpdateSucceeded::Preempted { by_other_run: by_other_run.clone() };
            writer.put(&mut cluster.conditions, &state);
            faults.push(RunFault::Preempted { by_other_run });
            continue;
        }
        if Progress::of(binding) == Progress::Done {
            writer.put(&mut cluster.conditions, &ClusterUpdateSucceeded::Succeeded);
        } else if !has_rollout_started(binding) {
            renew_moved_by(context, binding);
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(RunFailure(faults)) }
}

/// Starts a cluster: updates its binding, unless the binding already has the content.
fn start(
    context: &mut PlanContext<'_>,
    targets: &Targets<'_>,
    stage: &mut StageUpdatingStatus,
    index: usize,
    content: &RunContent,
) -> Result<(), RunFault> {
    let writer = context.writer;
    let cluster = &mut stage.clusters[index];
    let name = cluster.cluster_name.clone();
    let missing = || RunFault::BindingMissing { cluster: name.clone(), stage: stage.stage_name.clone() };
    let binding = targets.selected.get(name.as_str()).ok_or_else(missing)?;
    let in_place = is_bound(binding) && content.is_in(binding, cluster);
    if !in_place && binding.deleting {
        // Do not update a binding that is being deleted. It disappears, or the scheduler replaces it.
        return Ok(());
    }
    if !in_place && let Some(owner) = unrecorded_owner(context, binding) {
        owner.until.into_iter().for_each(|until| context.wake_at(until));
        return Ok(());
    }
    if !in_place {
        context.writes.push(Write::MoveBinding(Box::new(binding_change(context, binding, cluster, content))));
    } else if !has_rollout_started(binding) {
        renew_moved_by(context, binding);
    }
    writer.put(&mut cluster.conditions, &ClusterUpdateStarted::Started);
    if in_place && Progress::of(binding) == Progress::Done {
        writer.put(&mut cluster.conditions, &ClusterUpdateSucceeded::Succeeded);
    }
    stage.start_time.get_or_insert(writer.time());
    writer.put(&mut stage.conditions, &StageProgressing::Started);
    Ok(())
}

fn binding_change(
    context: &PlanContext<'_>,
    binding: &BindingFacts<'_>,
    cluster: &ClusterUpdatingStatus,
    content: &RunContent,
) -> BindingChange {
    BindingChange {
        binding: binding.name.to_owned(),
        resource_snapshot: content.snapshot.clone(),
        overrides: cluster.resource_override_snapshots.clone(),
        cluster_overrides: cluster.cluster_resource_override_snapshots.clone(),
        apply_strategy: content.apply_strategy.clone(),
        moved_by: moved_by(context, binding.generation + 1),
    }
}

fn moved_by(context: &PlanContext<'_>, generation: i64) -> MovedBy {
    let run = &context.observed.run;
    MovedBy {
        snapshot_index: run.spec.resource_snapshot_index().to_owned(),
        run: run.name.to_string(),
        generation,
        uid: run.uid.map(str::to_owned),
    }
}

/// Makes the work generator set `RolloutStarted`, which it does if the annotation names the binding's current
/// generation. If the scheduler has changed the binding since, the annotation is outdated and must be renewed.
fn renew_moved_by(context: &mut PlanContext<'_>, binding: &BindingFacts<'_>) {
    if binding.moved_by.as_ref().is_some_and(|moved_by| moved_by.generation == binding.generation) {
        return;
    }
    let moved_by = moved_by(context, binding.generation);
    context.writes.push(Write::RenewMovedBy { binding: binding.name.to_owned(), moved_by });
}

/// Counts unfinished clusters, finds stuck ones and reports a blocker for each.
fn summarize(context: &mut PlanContext<'_>, targets: &Targets<'_>, stage: &StageUpdatingStatus) -> StageProgress {
    let writer = context.writer;
    let mut total = StageProgress::default();
    for cluster in stage.clusters.iter().filter(|cluster| !is_done(writer, cluster)) {
        total.unfinished += 1;
        let binding = targets.selected.get(cluster.cluster_name.as_str());
        let Some(since) = started_at(writer, cluster) else {
            if let Some(binding) = binding {
                report_start_blocker(context, binding);
            }
            continue;
        };
        let deadline = stuck_at(since, context);
        let stuck = writer.now >= deadline;
        if stuck {
            total.stuck.push(cluster.cluster_name.clone());
        } else {
            context.wake_at(deadline);
        }
        let progress = binding.map_or(Progress::Done, |binding| Progress::of(binding));
        let (cluster, stage) = (cluster.cluster_name.clone(), stage.stage_name.clone());
        context.blockers.push(Blocker::about_cluster(Cause::Updating { cluster, stage, progress, stuck }));
    }
    total
}

fn report_start_blocker(context: &mut PlanContext<'_>, binding: &BindingFacts<'_>) {
    let cluster = binding.cluster.to_owned();
    let cause = if binding.deleting {
        Cause::BindingDeleting { cluster }
    } else if let Some(owner) = unrecorded_owner(context, binding) {
        Cause::MoveNotRecorded { cluster, run: owner.run.to_owned() }
    } else {
        return;
    };
    context.blockers.push(Blocker::about_binding(cause, context.observed.run.reference_to(binding.name)));
}

/// One second later than the limit, because times in a status have whole seconds.
fn stuck_at(since: Time, context: &PlanContext<'_>) -> Timestamp {
    let limit = context.observed.settings.stuck_after.saturating_add(SignedDuration::from_secs(1));
    since.instant().checked_add(limit).unwrap_or(Timestamp::MAX)
}

pub(super) fn is_started(writer: ConditionWriter, cluster: &ClusterUpdatingStatus) -> bool {
    writer.read::<ClusterUpdateStarted>(&cluster.conditions).is_true()
}

fn started_at(writer: ConditionWriter, cluster: &ClusterUpdatingStatus) -> Option<Time> {
    let started = writer.read::<ClusterUpdateStarted>(&cluster.conditions);
    started.current().filter(|_| started.is_true()).map(|condition| condition.last_transition_time)
}

pub(super) fn is_done(writer: ConditionWriter, cluster: &ClusterUpdatingStatus) -> bool {
    writer.read::<ClusterUpdateSucceeded>(&cluster.conditions).is_true()
}

/// Times in a status have whole seconds.
const ROUNDING: Duration = Duration::from_secs(1);

/// A run that has updated a binding but has not stored that in its status.
#[derive(Debug, Clone, Copy)]
struct UnrecordedOwner<'a> {
    run: &'a str,
    /// The latest time at which the other run writes a deferred status; after it, this run no longer waits. `None`
    /// until the work generator has seen the update.
    until: Option<Timestamp>,
}

/// The last run to update a binding owns it, and a run fails if it loses a binding that it has started. So the owner
/// must store its start before another run may take the binding over. Otherwise an owner that crashed in between would
/// take the binding back, and the other run would fail.
fn unrecorded_owner<'a>(context: &PlanContext<'a>, binding: &BindingFacts<'_>) -> Option<UnrecordedOwner<'a>> {
    let moved_by = binding.moved_by.as_ref().filter(|moved_by| moved_by.generation == binding.generation)?;
    let owner = context.observed.concurrent_runs.iter().find(|other| moved_by.is_of(other.name, other.uid))?;
    if has_recorded(owner, binding.cluster) {
        return None;
    }
    let started = decode::<BindingRolloutStarted>(binding.conditions, binding.generation).current();
    let later = |since: Timestamp| since.checked_add(DEFER_MAX.saturating_add(ROUNDING)).unwrap_or(Timestamp::MAX);
    let until = started.map(|condition| later(condition.last_transition_time.instant()));
    let is_over = until.is_some_and(|until| context.writer.now >= until);
    (!is_over).then_some(UnrecordedOwner { run: owner.name, until })
}

fn has_recorded(other: &ConcurrentRunFacts<'_>, cluster: &str) -> bool {
    let clusters = other.status.into_iter().flat_map(|status| &status.stages_status).flat_map(|stage| &stage.clusters);
    let is_started =
        |entry: &ClusterUpdatingStatus| decode_ignoring_generation::<ClusterUpdateStarted>(&entry.conditions).is_true();
    clusters.filter(|entry| entry.cluster_name == cluster).any(is_started)
}
