//! Runs that go, and runs that went through: what is odd about them (UR-44, UR-62, UR-80), and how far they are.
//!
//! Decides from times and indices. Says in one sentence how any run stands.

use fleet_api::conditions::ConditionStatus;
use fleet_api::conditions::update_run::{
    ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing, UpdateRunProgressingReason, UpdateRunSucceeded,
};
use fleet_api::types::StageUpdatingStatus;
use fleet_api::well_known::{finalizers, namespaces};
use jiff::SignedDuration;
use serde_json::json;

use super::super::finding::Finding;
use super::super::picture::{Picture, condition, is_true, is_updating};
use super::super::{members, new_run, placement};
use super::{Run, is_final};

/// Taking a placement off a cluster does not last longer, unless something holds it.
const REMOVAL_PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// A stage that has begun starts its first cluster at once.
const START_PATIENCE: SignedDuration = SignedDuration::from_mins(2);

pub(super) fn removal_does_not_finish(run: &Run<'_>) -> Option<Finding> {
    let stage = run.status.deletion_stage_status.as_ref()?;
    let progressing =
        condition::<StageProgressing>(&stage.conditions).filter(|one| one.status == ConditionStatus::True)?;
    let since = progressing.last_transition_time;
    (run.picture.now.duration_since(since.instant()) > REMOVAL_PATIENCE && !is_final(run.object)).then_some(())?;
    let clusters: Vec<&str> =
        stage.clusters.iter().filter(|one| is_updating(one)).map(|one| one.cluster_name.as_str()).collect();
    let mut finding = Finding::warning("UR-62", format!("The placement is not taken off {}", clusters.join(", ")))
        .because("The binding is being deleted and something holds it. This stage is never called stuck.")
        .seen(&run.reference(), "deletionStageStatus.conditions[Progressing]", format!("True since {since}"));
    for cluster in clusters {
        finding = held(run, finding, cluster);
    }
    Some(finding)
}

/// Who holds the binding of a cluster that is to be left.
fn held(run: &Run<'_>, mut finding: Finding, cluster: &str) -> Finding {
    let bindings = run.picture.bindings.iter().filter(|one| one.spec.target_cluster == cluster);
    let Some(binding) = bindings.into_iter().find(|binding| binding.is_going()) else { return finding };
    let held_by = binding.metadata.finalizers.clone().unwrap_or_default();
    let reference = binding.reference();
    finding = finding.seen(&reference, "metadata.finalizers", held_by.join(", "));
    for work in run.picture.works_for(cluster) {
        let held_by = work.metadata.finalizers.clone().unwrap_or_default();
        finding = finding.seen(&work.reference(), "metadata.finalizers", held_by.join(", "));
    }
    let ours = [finalizers::SCHEDULER_BINDING, finalizers::WORK];
    let (own, foreign): (Vec<String>, Vec<String>) = held_by.into_iter().partition(|one| ours.contains(&one.as_str()));
    if !foreign.is_empty() {
        finding.title = format!("{} keeps the placement on {cluster}", foreign.join(", "));
        let what = format!("let go of the binding, if {} has no more to do", foreign.join(", "));
        let patch = json!({"metadata": {"finalizers": if own.is_empty() { json!(null) } else { json!(own) }}});
        return finding
            .fix("take the foreign finalizer away", vec![run.picture.kubectl.patch(what, &reference, patch)]);
    }
    if let Some(trouble) = members::trouble(run.picture, cluster) {
        finding.title = trouble.title;
        finding.because_of = Some(trouble.entry);
        finding.evidence.extend(trouble.evidence);
        finding.fixes.extend(trouble.fixes);
        return finding;
    }
    let arguments = format!("get work -n {}{cluster} -o yaml", namespaces::MEMBER_PREFIX);
    let look = run.picture.kubectl.show("see which Works are left", &arguments);
    finding.fix("see what the Works and the member's agent wait for", vec![look])
}

pub(super) fn nothing_started(run: &Run<'_>) -> Option<Finding> {
    run.progresses_as(UpdateRunProgressingReason::Progressing)?;
    let stage = run.current_stage()?;
    let progressing =
        condition::<StageProgressing>(&stage.conditions).filter(|one| one.status == ConditionStatus::True)?;
    let since = progressing.last_transition_time;
    let started = stage.clusters.iter().any(|one| is_true::<ClusterUpdateStarted>(&one.conditions));
    let late = run.picture.now.duration_since(since.instant()) > START_PATIENCE;
    (late && !started && !stage.clusters.is_empty()).then_some(())?;
    let mut finding = Finding::warning(
        "UR-44",
        format!("Stage {} has begun and none of its clusters was started", stage.stage_name),
    )
    .because("A binding that has the content of the run already and has failed is not started again by some releases.")
    .seen(
        &run.reference(),
        format!("stage {}: conditions[Progressing]", stage.stage_name),
        format!("True since {since}"),
    );
    let root = stage.clusters.iter().find_map(|one| placement::cluster(run.picture, &one.cluster_name));
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
    let newest = run.picture.snapshot_indices().last().copied().filter(|newest| *newest > used)?;
    let placement = &run.object.spec.placement_name;
    let is_last = run.picture.runs_of(placement).first().is_some_and(|last| last.name() == run.object.name());
    is_last.then_some(())?;
    let pinned = !run.object.spec.resource_snapshot_index().is_empty();
    let finding = if pinned {
        Finding::information(
            "UR-80",
            format!("The run brought snapshot {used}, as its spec asks; snapshot {newest} is newer"),
        )
        .seen(&run.reference(), "spec.resourceSnapshotIndex", run.object.spec.resource_snapshot_index())
    } else {
        Finding::warning("UR-80", format!("The run brought snapshot {used}, and snapshot {newest} is newer"))
            .because("The content was changed after the run had captured it, or was captured too soon after the snapshot before.")
    };
    let finding = finding.seen(&run.reference(), "status.resourceSnapshotIndexUsed", used.to_string()).seen(
        &run.picture.placement_reference(placement),
        "newest index of its resource snapshots",
        newest.to_string(),
    );
    Some(finding.fix("bring the newest content by a new run", vec![new_run::like(run.picture, run.object, None)]))
}

/// How the run of the picture stands.
pub(in super::super) fn summary(picture: &Picture) -> Option<String> {
    let run = Run::of(picture)?;
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
        None => "is initialized and has not begun",
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
        None => format!("Run {name} {word}: {how_far}; what is no longer wanted is being removed."),
    })
}

fn removed(run: &Run<'_>) -> usize {
    let clusters = run.status.deletion_stage_status.iter().flat_map(|stage| &stage.clusters);
    clusters.filter(|one| is_true::<ClusterUpdateSucceeded>(&one.conditions)).count()
}

fn lasted(run: &Run<'_>, end: jiff::Timestamp) -> String {
    let begin = run.status.stages_status.iter().filter_map(|stage| stage.start_time).min();
    let duration = begin.map(|begin| SignedDuration::from_secs(end.duration_since(begin.instant()).as_secs().max(0)));
    duration.map(|duration| format!(" after {}", crate::updaterun::duration::print(duration))).unwrap_or_default()
}
