//! The clusters of one stage: who is done, who is taken away, who may start now.
//!
//! Decides, in the recorded order, which bindings get the run's content so that no more than the stage allows are being
//! updated at once. A cluster is done only on evidence of this content. Never skips a gate: those are passed before and after.

use fleet_api::conditions::run_fault::{Preemption, RunFailure, RunFault};
use fleet_api::conditions::update_run::{ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing};
use fleet_api::time::Time;
use fleet_api::types::{ClusterUpdatingStatus, StageUpdatingStatus};
use jiff::{SignedDuration, Timestamp};

use super::evidence::{Progress, Wanted, has_rollout_started, is_bound};
use super::ground::Targets;
use super::note::Note;
use super::observed::BindingFacts;
use super::pass::{Pass, Pen};
use super::report::{Blocker, Cause};
use super::{BindingChange, Write, rivals};

/// What a look at a stage's clusters gave.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Clusters that are not done.
    pub unfinished: usize,
    /// In stage order.
    pub stuck: Vec<String>,
}

/// Looks at clusters that are being updated, then starts others where there is room.
pub(super) fn update(
    pass: &mut Pass<'_>,
    targets: &Targets<'_>,
    stage: &mut StageUpdatingStatus,
    limit: usize,
) -> Result<Round, RunFailure> {
    let wanted = Wanted::of(pass)?;
    look(pass, targets, stage, &wanted, RunFaultOf::EXECUTION)?;
    let mut updating = 0;
    for place in 0..stage.clusters.len() {
        if updating >= limit {
            break;
        }
        let cluster = &stage.clusters[place];
        if is_done(pass.pen, cluster) {
            continue;
        }
        if !is_started(pass.pen, cluster) {
            start(pass, targets, stage, place, &wanted)?;
        }
        updating += usize::from(!is_done(pass.pen, &stage.clusters[place]));
    }
    Ok(sum_up(pass, targets, stage))
}

/// Only looks; what runs may finish. A cluster whose start could not be recorded any more is recognised by the note on
/// its binding.
pub(super) fn let_finish(
    pass: &mut Pass<'_>,
    targets: &Targets<'_>,
    stage: &mut StageUpdatingStatus,
) -> Result<Round, RunFailure> {
    let wanted = Wanted::of(pass)?;
    let run = pass.observed.run;
    for cluster in &mut stage.clusters {
        let binding = targets.selected.get(cluster.cluster_name.as_str());
        let moved_by_us = |binding: &&&BindingFacts<'_>| {
            is_bound(binding)
                && wanted.is_in(binding, cluster)
                && binding.note.as_ref().is_some_and(|note| note.is_of(run.name.as_str(), run.uid))
        };
        if !is_started(pass.pen, cluster) && binding.as_ref().is_some_and(moved_by_us) {
            pass.pen.put(&mut cluster.conditions, &ClusterUpdateStarted::Started);
            stage.start_time.get_or_insert(pass.pen.time());
        }
    }
    look(pass, targets, stage, &wanted, RunFaultOf::STOPPING)?;
    let pen = pass.pen;
    let mut round = sum_up(pass, targets, stage);
    round.unfinished = stage.clusters.iter().filter(|one| is_started(pen, one) && !is_done(pen, one)).count();
    Ok(round)
}

/// The faults that have one sentence while executing and another while stopping.
struct RunFaultOf {
    missing: fn(String, String) -> RunFault,
}

impl RunFaultOf {
    const EXECUTION: Self = Self { missing: |cluster, stage| RunFault::BindingMissing { cluster, stage } };
    const STOPPING: Self = Self { missing: |cluster, stage| RunFault::BindingMissingWhileStopping { cluster, stage } };
}

/// Settles clusters that have been started: done, taken away, or still at it. All faults of the stage come together.
fn look(
    pass: &mut Pass<'_>,
    targets: &Targets<'_>,
    stage: &mut StageUpdatingStatus,
    wanted: &Wanted,
    faults_of: RunFaultOf,
) -> Result<(), RunFailure> {
    let pen = pass.pen;
    let mut faults = Vec::new();
    for cluster in stage.clusters.iter_mut().filter(|cluster| is_started(pen, cluster) && !is_done(pen, cluster)) {
        let (name, stage_name) = (cluster.cluster_name.clone(), stage.stage_name.clone());
        if pen.read::<ClusterUpdateSucceeded>(&cluster.conditions).is_false() {
            faults.push(RunFault::ClusterFailed { cluster: name, stage: stage_name });
            continue;
        }
        let Some(binding) = targets.selected.get(name.as_str()) else {
            faults.push((faults_of.missing)(name, stage_name));
            continue;
        };
        if !is_bound(binding) || !wanted.is_in(binding, cluster) {
            let binding = pass.observed.run.reference_to(binding.name);
            let by_other_run = Preemption { cluster: name, stage: stage_name, binding };
            let state = ClusterUpdateSucceeded::Preempted { by_other_run: by_other_run.clone() };
            pen.put(&mut cluster.conditions, &state);
            faults.push(RunFault::Preempted { by_other_run });
            continue;
        }
        if Progress::of(binding) == Progress::Arrived {
            pen.put(&mut cluster.conditions, &ClusterUpdateSucceeded::Succeeded);
        } else if !has_rollout_started(binding) {
            renew_note(pass, binding);
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(RunFailure(faults)) }
}

/// Gives a cluster the content, or recognises that it has it.
fn start(
    pass: &mut Pass<'_>,
    targets: &Targets<'_>,
    stage: &mut StageUpdatingStatus,
    place: usize,
    wanted: &Wanted,
) -> Result<(), RunFault> {
    let pen = pass.pen;
    let cluster = &mut stage.clusters[place];
    let name = cluster.cluster_name.clone();
    let missing = || RunFault::BindingMissing { cluster: name.clone(), stage: stage.stage_name.clone() };
    let binding = targets.selected.get(name.as_str()).ok_or_else(missing)?;
    let in_place = is_bound(binding) && wanted.is_in(binding, cluster);
    if !in_place && binding.deleting {
        // Nothing good comes of moving what is on its way out; it goes, or another one takes its place.
        return Ok(());
    }
    if !in_place && let Some(mover) = rivals::unrecorded_mover(pass, binding) {
        mover.until.into_iter().for_each(|until| pass.wake_at(until));
        return Ok(());
    }
    if !in_place {
        pass.writes.push(Write::MoveBinding(Box::new(change(pass, binding, cluster, wanted))));
    } else if !has_rollout_started(binding) {
        renew_note(pass, binding);
    }
    pen.put(&mut cluster.conditions, &ClusterUpdateStarted::Started);
    if in_place && Progress::of(binding) == Progress::Arrived {
        pen.put(&mut cluster.conditions, &ClusterUpdateSucceeded::Succeeded);
    }
    stage.start_time.get_or_insert(pen.time());
    pen.put(&mut stage.conditions, &StageProgressing::Started);
    Ok(())
}

fn change(
    pass: &Pass<'_>,
    binding: &BindingFacts<'_>,
    cluster: &ClusterUpdatingStatus,
    wanted: &Wanted,
) -> BindingChange {
    BindingChange {
        binding: binding.name.to_owned(),
        resource_snapshot: wanted.snapshot.clone(),
        overrides: cluster.resource_override_snapshots.clone(),
        cluster_overrides: cluster.cluster_resource_override_snapshots.clone(),
        apply_strategy: wanted.apply_strategy.clone(),
        note: note(pass, binding.generation + 1),
    }
}

fn note(pass: &Pass<'_>, generation: i64) -> Note {
    let run = &pass.observed.run;
    Note {
        snapshot_index: run.spec.resource_snapshot_index().to_owned(),
        run: run.name.to_string(),
        generation,
        uid: run.uid.map(str::to_owned),
    }
}

/// Has it said that the rollout has started: the work generator does where a note of the binding's generation asks for
/// it. If the scheduler has touched the binding since it was moved, that takes a new one.
fn renew_note(pass: &mut Pass<'_>, binding: &BindingFacts<'_>) {
    if binding.note.as_ref().is_some_and(|noted| noted.generation == binding.generation) {
        return;
    }
    let note = note(pass, binding.generation);
    pass.writes.push(Write::RenewNote { binding: binding.name.to_owned(), note });
}

/// Counts what is left, finds who takes too long, and says what is waited for.
fn sum_up(pass: &mut Pass<'_>, targets: &Targets<'_>, stage: &StageUpdatingStatus) -> Round {
    let pen = pass.pen;
    let mut round = Round::default();
    for cluster in stage.clusters.iter().filter(|cluster| !is_done(pen, cluster)) {
        round.unfinished += 1;
        let binding = targets.selected.get(cluster.cluster_name.as_str());
        let Some(since) = started_at(pen, cluster) else {
            if let Some(binding) = binding {
                say_why_not_started(pass, binding);
            }
            continue;
        };
        let deadline = stuck_at(since, pass);
        let stuck = pen.now >= deadline;
        if stuck {
            round.stuck.push(cluster.cluster_name.clone());
        } else {
            pass.wake_at(deadline);
        }
        let progress = binding.map_or(Progress::Arrived, |binding| Progress::of(binding));
        let (cluster, stage) = (cluster.cluster_name.clone(), stage.stage_name.clone());
        pass.blockers.push(Blocker::about_cluster(Cause::Updating { cluster, stage, progress, stuck }));
    }
    round
}

fn say_why_not_started(pass: &mut Pass<'_>, binding: &BindingFacts<'_>) {
    let cluster = binding.cluster.to_owned();
    let cause = if binding.deleting {
        Cause::BindingGoing { cluster }
    } else if let Some(mover) = rivals::unrecorded_mover(pass, binding) {
        Cause::MoveNotRecorded { cluster, run: mover.run.to_owned() }
    } else {
        return;
    };
    pass.blockers.push(Blocker::about_binding(cause, pass.observed.run.reference_to(binding.name)));
}

/// Strictly more than the limit, in the whole seconds that a status has.
fn stuck_at(since: Time, pass: &Pass<'_>) -> Timestamp {
    let limit = pass.observed.settings.stuck_after.saturating_add(SignedDuration::from_secs(1));
    since.instant().checked_add(limit).unwrap_or(Timestamp::MAX)
}

pub(super) fn is_started(pen: Pen, cluster: &ClusterUpdatingStatus) -> bool {
    pen.read::<ClusterUpdateStarted>(&cluster.conditions).is_true()
}

fn started_at(pen: Pen, cluster: &ClusterUpdatingStatus) -> Option<Time> {
    let started = pen.read::<ClusterUpdateStarted>(&cluster.conditions);
    started.current().filter(|_| started.is_true()).map(|condition| condition.last_transition_time)
}

pub(super) fn is_done(pen: Pen, cluster: &ClusterUpdatingStatus) -> bool {
    pen.read::<ClusterUpdateSucceeded>(&cluster.conditions).is_true()
}
