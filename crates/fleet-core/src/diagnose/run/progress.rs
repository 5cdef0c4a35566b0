//! Rules about runs that are progressing or have succeeded (UR-44, UR-62, UR-80), and the summary of any run.

use fleet_api::conditions::ConditionStatus;
use fleet_api::conditions::update_run::{
    ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing, UpdateRunProgressingReason, UpdateRunSucceeded,
};
use fleet_api::time::go_duration;
use fleet_api::types::StageUpdatingStatus;
use fleet_api::well_known::finalizers;
use jiff::SignedDuration;
use serde_json::json;

use super::super::commands::works_of;
use super::super::finding::Finding;
use super::super::inputs::{Inputs, condition, is_true, is_updating};
use super::super::{members, new_run, placement};
use super::{Run, is_final};

/// Removing a placement from a cluster takes longer only if a finalizer blocks it.
const REMOVAL_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// A stage that has begun starts its first cluster at once.
const START_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

pub(super) fn removal_does_not_finish(run: &Run<'_>) -> Option<Finding> {
    let stage = run.status.deletion_stage_status.as_ref()?;
    let progressing =
        condition::<StageProgressing>(&stage.conditions).filter(|one| one.status == ConditionStatus::True)?;
    let since = progressing.last_transition_time;
    (run.inputs.now.duration_since(since.instant()) > REMOVAL_TIMEOUT && !is_final(run.object)).then_some(())?;
    let clusters: Vec<&str> =
        stage.clusters.iter().filter(|one| is_updating(one)).map(|one| one.cluster_name.as_str()).collect();
    let mut finding = Finding::warning("UR-62", format!("The placement is not removed from {}", clusters.join(", ")))
        .because("The binding is being deleted, but a finalizer remains. The run never reports this stage as stuck.")
        .with_evidence(&run.reference(), "deletionStageStatus.conditions[Progressing]", format!("True since {since}"));
    for cluster in clusters {
        finding = held(run, finding, cluster);
    }
    Some(finding)
}

/// Adds the finalizers that block the deletion of a binding.
fn held(run: &Run<'_>, mut finding: Finding, cluster: &str) -> Finding {
    let bindings = run.inputs.bindings.iter().filter(|one| one.spec.target_cluster == cluster);
    let Some(binding) = bindings.into_iter().find(|binding| binding.is_deleting()) else { return finding };
    let held_by = binding.metadata.finalizers.clone().unwrap_or_default();
    let reference = binding.reference();
    finding = finding.with_evidence(&reference, "metadata.finalizers", held_by.join(", "));
    for work in run.inputs.works_for(cluster) {
        let held_by = work.metadata.finalizers.clone().unwrap_or_default();
        finding = finding.with_evidence(&work.reference(), "metadata.finalizers", held_by.join(", "));
    }
    let ours = [finalizers::SCHEDULER_BINDING, finalizers::WORK];
    let (own, foreign): (Vec<String>, Vec<String>) = held_by.into_iter().partition(|one| ours.contains(&one.as_str()));
    if !foreign.is_empty() {
        finding.title = format!("{} keeps the placement on {cluster}", foreign.join(", "));
        let what = format!("remove the finalizer, if {} no longer needs it", foreign.join(", "));
        let patch = json!({"metadata": {"finalizers": if own.is_empty() { json!(null) } else { json!(own) }}});
        return finding.fix("remove the foreign finalizer", vec![run.inputs.kubectl.patch(what, &reference, patch)]);
    }
    if let Some(problem) = members::problem(run.inputs, cluster) {
        finding.title = problem.title;
        finding.because_of = Some(problem.entry);
        finding.evidence.extend(problem.evidence);
        finding.fixes.extend(problem.fixes);
        return finding;
    }
    let look = run.inputs.kubectl.show("see which Works are left", works_of(cluster).fixed(&["-o", "yaml"]));
    finding.fix("see what the Works and the member's agent wait for", vec![look])
}

pub(super) fn nothing_started(run: &Run<'_>) -> Option<Finding> {
    run.progresses_as(UpdateRunProgressingReason::Progressing)?;
    let stage = run.current_stage()?;
    let progressing =
        condition::<StageProgressing>(&stage.conditions).filter(|one| one.status == ConditionStatus::True)?;
    let since = progressing.last_transition_time;
    let started = stage.clusters.iter().any(|one| is_true::<ClusterUpdateStarted>(&one.conditions));
    let late = run.inputs.now.duration_since(since.instant()) > START_TIMEOUT;
    (late && !started && !stage.clusters.is_empty()).then_some(())?;
    let mut finding =
        Finding::warning("UR-44", format!("Stage {} has begun and none of its clusters was started", stage.stage_name))
            .because(
                "Some releases do not start a binding again that already has the content of the run and has failed.",
            )
            .with_evidence(
                &run.reference(),
                format!("stage {}: conditions[Progressing]", stage.stage_name),
                format!("True since {since}"),
            );
    let root = stage.clusters.iter().find_map(|one| placement::cluster(run.inputs, &one.cluster_name));
    if let Some(root) = root {
        finding.title = root.title;
        finding.because_of = Some(root.entry);
        finding.evidence.extend(root.evidence);
        finding.fixes = root.fixes;
    }
    Some(finding)
}

pub(super) fn old_content(run: &Run<'_>) -> Option<Finding> {
    is_true::<UpdateRunSucceeded>(run.conditions()).then_some(())?;
    let used: u32 = run.status.resource_snapshot_index_used.parse().ok()?;
    let newest = run.inputs.snapshot_indices().last().copied().filter(|newest| *newest > used)?;
    let placement = &run.object.spec.placement_name;
    let is_last = run.inputs.runs_of(placement).first().is_some_and(|last| last.name() == run.object.name());
    is_last.then_some(())?;
    let pinned = !run.object.spec.resource_snapshot_index().is_empty();
    let finding = if pinned {
        Finding::information(
            "UR-80",
            format!("The run rolled out snapshot {used}, as its spec says; snapshot {newest} is newer"),
        )
        .with_evidence(
            &run.reference(),
            "spec.resourceSnapshotIndex",
            run.object.spec.resource_snapshot_index(),
        )
    } else {
        Finding::warning("UR-80", format!("The run rolled out snapshot {used}, and snapshot {newest} is newer"))
            .because("The content changed after the run had created its snapshot, or the snapshot throttle reused the previous snapshot.")
    };
    let finding =
        finding.with_evidence(&run.reference(), "status.resourceSnapshotIndexUsed", used.to_string()).with_evidence(
            &run.inputs.placement_reference(placement),
            "newest index of its resource snapshots",
            newest.to_string(),
        );
    Some(finding.fix("roll out the newest content with a new run", vec![new_run::like(run.inputs, run.object, None)]))
}

/// The state of the run in one sentence.
pub(in super::super) fn summary(inputs: &Inputs) -> Option<String> {
    let run = Run::of(inputs)?;
    let name = run.object.name();
    let stages = &run.status.stages_status;
    let clusters = || stages.iter().flat_map(|stage| &stage.clusters);
    let done = clusters().filter(|one| is_true::<ClusterUpdateSucceeded>(&one.conditions)).count();
    let updating = clusters().filter(|one| is_updating(one)).count();
    let (total, removed) = (clusters().count(), removed(&run));
    let at = stages.iter().position(|stage| run.current_stage().is_some_and(|current| std::ptr::eq(stage, current)));
    let how_far = format!("{done} of {total} clusters done, {updating} updating");
    if run.conditions().is_empty() {
        return Some(format!("Run {name} has not been initialized yet."));
    }
    if run.initialization().is_some() {
        return Some(format!("Run {name} could not be initialized; nothing was rolled out."));
    }
    if let Some(succeeded) = condition::<UpdateRunSucceeded>(run.conditions()) {
        return Some(match succeeded.status {
            ConditionStatus::True => {
                let lasted = lasted(&run, succeeded.last_transition_time.instant());
                format!("Run {name} has succeeded{lasted}; clusters updated: {done}, left: {removed}.")
            }
            _ => format!("Run {name} has failed: {how_far}."),
        });
    }
    let word = match run.progressing().map(|(reason, _)| reason) {
        None => "is initialized and has not started",
        Some(UpdateRunProgressingReason::Progressing) => "is progressing",
        Some(UpdateRunProgressingReason::Waiting) => "is waiting",
        Some(UpdateRunProgressingReason::Stuck) => "is stuck",
        Some(UpdateRunProgressingReason::Stopping) => "is stopping",
        Some(UpdateRunProgressingReason::Stopped) => "is stopped",
        Some(UpdateRunProgressingReason::Failed | UpdateRunProgressingReason::Succeeded) => "has ended",
    };
    Some(match at.and_then(|at| stages.get(at).map(|stage| (at, stage))) {
        Some((at, StageUpdatingStatus { stage_name, .. })) => {
            format!("Run {name} {word}: stage {} of {} ({stage_name}), {how_far}.", at + 1, stages.len())
        }
        None => format!("Run {name} {word}: {how_far}; the deletion stage is in progress."),
    })
}

fn removed(run: &Run<'_>) -> usize {
    let clusters = run.status.deletion_stage_status.iter().flat_map(|stage| &stage.clusters);
    clusters.filter(|one| is_true::<ClusterUpdateSucceeded>(&one.conditions)).count()
}

fn lasted(run: &Run<'_>, end: jiff::Timestamp) -> String {
    let begin = run.status.stages_status.iter().filter_map(|stage| stage.start_time).min();
    let duration = begin.map(|begin| SignedDuration::from_secs(end.duration_since(begin.instant()).as_secs().max(0)));
    duration.map(|duration| format!(" after {}", go_duration(duration))).unwrap_or_default()
}
