//! Runs that were initialized and ended before they were through (UR-20 to UR-30).
//!
//! Decides from the message of `Succeeded` and from what it names. An ended run stays so: every fix ends with a new one, but
//! where another run has taken over.

use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::conditions::run_message::{RunMessage, run_that_moved};
use fleet_api::kinds::{Binding, UpdateStrategy};
use fleet_api::types::BindingState;
use serde_json::json;

use super::super::finding::{Finding, ObjectRef};
use super::super::picture::{condition, quote};
use super::super::{mend, new_run, stages};
use super::{Run, initialization, is_final, progress};

fn message(run: &Run<'_>) -> Option<RunMessage> {
    run.failure().map(|(message, _)| message)
}

fn ended(run: &Run<'_>, entry: &'static str, title: impl Into<String>) -> Option<Finding> {
    let (_, condition) = run.failure()?;
    Some(run.quoting(Finding::error(entry, title), "Succeeded", condition))
}

pub(super) fn preempted(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::Preempted { cluster, stage, binding } = message(run)? else { return None };
    let picture = run.picture;
    let named = binding.as_deref().map(|reference| reference.rsplit('/').next().unwrap_or(reference).to_owned());
    let found = named
        .as_deref()
        .and_then(|name| picture.bindings.iter().find(|binding| binding.name() == name))
        .or_else(|| picture.binding_to(&cluster));
    let started = found
        .and_then(|binding| binding.status.as_ref())
        .and_then(|status| condition::<BindingRolloutStarted>(&status.conditions));
    let winner = started.and_then(|started| run_that_moved(&started.message)).filter(|name| *name != run.object.name());
    let winner = winner.and_then(|name| picture.runs.iter().find(|other| other.name() == name)).or_else(|| {
        // The one that moved it last may not have been told yet: another run that is newer and still goes.
        let others = picture.runs_of(&run.object.spec.placement_name).into_iter();
        others.filter(|other| other.name() != run.object.name()).find(|other| other.created() >= run.object.created())
    });
    let by = winner.map_or("another run".to_owned(), |winner| format!("run {}", winner.name()));
    let mut finding = ended(run, "UR-24", format!("Cluster {cluster} of stage {stage} was taken over by {by}"))?
        .because("Two runs of one placement brought different versions to the same cluster. The last one to do so wins; the other one ends.");
    if let Some(binding) = found {
        let reference = binding.reference();
        finding = finding.seen(&reference, "spec.resourceSnapshotName", &binding.spec.resource_snapshot_name);
        if let Some(started) = started {
            finding = finding.seen(&reference, "status.conditions[RolloutStarted]", quote(started));
        }
    } else if let Some(name) = named {
        finding = finding.seen(
            &ObjectRef::of::<Binding>(picture.namespace.as_deref(), &name),
            "metadata.name",
            "not there any more",
        );
    }
    let Some(winner) = winner else {
        return Some(finding.fix("run again", vec![run.again()]));
    };
    let stands = progress::summary(&picture.about_run(winner.name())).unwrap_or_default();
    finding = finding.seen(&winner.reference(), "status", stands);
    if is_final(winner) {
        let brought = winner.status.as_ref().is_some_and(|status| !status.resource_snapshot_index_used.is_empty());
        let what = if brought { "if the other version is not wanted, run again" } else { "run again" };
        return Some(finding.fix(what, vec![run.again()]));
    }
    let look = picture.kubectl.show("watch it finish", &format!("get {} --watch", target(&winner.reference())));
    let stop = picture.kubectl.patch(
        format!("stop {}", winner.name()),
        &winner.reference(),
        json!({"spec": {"state": "Stop"}}),
    );
    Some(
        finding
            .fix(format!("let {} finish: it brings the newer version", winner.name()), vec![look])
            .fix(format!("if {} is not wanted, stop it and run again", winner.name()), vec![stop, run.again()]),
    )
}

fn target(reference: &ObjectRef) -> String {
    let namespace = reference.namespace.as_deref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("{} {}{namespace}", reference.kind.to_lowercase(), reference.name)
}

pub(super) fn placement_deleted(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::PlacementNotFound = message(run)? else { return None };
    let name = &run.object.spec.placement_name;
    let finding = ended(run, "UR-20", format!("Placement {name} was deleted while the run was under way"))?
        .because("A run looks at its placement before every step and ends when it is gone. It cannot be revived.");
    if run.picture.placement.is_some() {
        let reference = run.picture.placement_reference(name);
        return Some(
            finding
                .seen(&reference, "metadata.name", "it exists again")
                .fix("the placement exists again: run again", vec![run.again()]),
        );
    }
    Some(
        finding.fix(
            "create the placement again, then a new run",
            vec![initialization::create_placement(run), run.again()],
        ),
    )
}

pub(super) fn strategy_deleted(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::StrategyNotFound { .. } = message(run)? else { return None };
    let name = &run.object.spec.staged_update_strategy_name;
    let finding = ended(run, "UR-21", format!("Strategy {name} was deleted while the run was under way"))?
        .because("A run ends when its strategy is gone. The run has a copy of it, so it can be made again.");
    if run.picture.strategy(name).is_some() {
        return Some(finding.fix("the strategy exists again: run again", vec![run.again()]));
    }
    let Some(copy) = &run.status.staged_update_strategy_snapshot else {
        return Some(initialization::strategy_found_again(run, finding));
    };
    let create = new_run::strategy(
        run.picture,
        format!("create the strategy {name} as the run remembers it"),
        name,
        json!(copy),
    );
    Some(finding.fix("create the strategy again, then a new run", vec![create, run.again()]))
}

pub(super) fn strategy_broken(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::InvalidStageTasks { stage, error } = message(run)? else { return None };
    let name = &run.object.spec.staged_update_strategy_name;
    let reference = ObjectRef::of::<UpdateStrategy>(run.picture.namespace.as_deref(), name);
    let mut finding = ended(
        run,
        "UR-22",
        format!("Strategy {name} was edited and stage {stage} is not possible any more: {error}"),
    )?
    .because("A run keeps the stages that it started with, but ends when the tasks of its strategy become impossible.");
    let Some(strategy) = run.picture.strategy(name) else {
        return Some(initialization::strategy_found_again(run, finding));
    };
    finding = finding.seen(&reference, format!("spec.stages[{stage}]"), mend::task_words(&strategy.spec, &stage));
    if mend::tasks(&strategy.spec).1.is_empty() {
        return Some(finding.fix("the strategy has been mended since: run again", vec![run.again()]));
    }
    if let Some(copy) = &run.status.staged_update_strategy_snapshot {
        let back = run.picture.kubectl.patch(
            "put the stages back as the run remembers them",
            &reference,
            json!({"spec": {"stages": copy.stages}}),
        );
        finding = finding.fix("put the strategy back, then run again", vec![back, run.again()]);
    }
    let (mended, changes) = mend::tasks(&strategy.spec);
    let mend = run.picture.kubectl.patch(changes.join("; "), &reference, json!({"spec": {"stages": mended.stages}}));
    Some(finding.fix("mend the strategy as it is now, then run again", vec![mend, run.again()]))
}

pub(super) fn cluster_in_several_stages(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::ClusterInSeveralStages { cluster } = message(run)? else { return None };
    let finding = ended(run, "UR-23", format!("Labels were changed: cluster {cluster} is in more than one stage now"))?;
    Some(initialization::moved_out_of_other_stages(run, finding, &cluster))
}

pub(super) fn policy_changed(run: &Run<'_>) -> Option<Finding> {
    let (RunMessage::PolicyOutdated | RunMessage::NotScheduled) = message(run)? else { return None };
    let name = &run.object.spec.placement_name;
    let mut finding = ended(
        run,
        "UR-25",
        format!("The scheduling policy of placement {name} was changed while the run was under way"),
    )?
    .because(
        "A run goes to the clusters that the policy chose when it was initialized. Another policy needs another run.",
    )
    .seen(&run.reference(), "status.policySnapshotIndexUsed", &run.status.policy_snapshot_index_used);
    if let Some(policy) = run.picture.latest_policy() {
        finding = finding.seen(&policy.reference(), "metadata.name", format!("{} is the newest", policy.name()));
    }
    Some(initialization::scheduled_first(run, finding))
}

pub(super) fn cluster_count_changed(run: &Run<'_>) -> Option<Finding> {
    let (RunMessage::ClusterCountOutdated | RunMessage::BindingsDoNotFit) = message(run)? else { return None };
    let recorded = run.status.policy_observed_cluster_count.unwrap_or_default();
    let name = &run.object.spec.placement_name;
    let finding =
        ended(run, "UR-26", format!("The number of clusters of placement {name} changed while the run was under way"))?
            .because(
                "A run goes to the clusters that were chosen when it was initialized. More or fewer need another run.",
            )
            .seen(&run.reference(), "status.policyObservedClusterCount", recorded.to_string());
    Some(initialization::clusters_chosen_first(run, finding))
}

pub(super) fn stage_membership_changed(run: &Run<'_>) -> Option<Finding> {
    match message(run)? {
        RunMessage::StageMembershipChanged => {
            let finding = with_moves(
                run,
                ended(run, "UR-27", "Clusters belong to other stages than when the run was initialized")?,
            );
            Some(finding.because(MEMBERSHIP).fix("run again with the stages as they are now", vec![run.again()]))
        }
        RunMessage::ClustersInNoStage { shown } => {
            let title = format!("Labels were changed: no stage selects {} any more", shown.join(", "));
            Some(initialization::labelled_into_a_stage(run, ended(run, "UR-27", title)?, &shown))
        }
        RunMessage::InvalidSortingLabel { key, cluster, .. } => {
            let title = format!("Label {key} of cluster {cluster} was changed to something that is no whole number");
            Some(initialization::sorting_label_mended(run, ended(run, "UR-27", title)?, &key))
        }
        _ => None,
    }
}

const MEMBERSHIP: &str = "A cluster joined or left, or a label that a stage selects or sorts by was changed. Finished stages \
    count too: what a run was initialized with must hold until its end.";

/// Which cluster was in which stage, and where its labels put it now.
fn with_moves(run: &Run<'_>, mut finding: Finding) -> Finding {
    for (cluster, recorded, now) in moves(run) {
        let reference = ObjectRef::of::<fleet_api::kinds::Member>(None, &cluster);
        finding = finding.seen(&reference, "stage", format!("{recorded} when the run was initialized, {now} now"));
    }
    finding
}

/// Clusters whose stage has changed since the run was initialized: name, stage then, stages now.
pub(super) fn moves(run: &Run<'_>) -> Vec<(String, String, String)> {
    let Some(strategy) = &run.status.staged_update_strategy_snapshot else { return Vec::new() };
    let stage_then = |cluster: &str| {
        let stages = run.status.stages_status.iter();
        let found = stages.into_iter().find(|stage| stage.clusters.iter().any(|one| one.cluster_name == cluster));
        found.map(|stage| stage.stage_name.clone())
    };
    let mut clusters: Vec<String> =
        run.status.stages_status.iter().flat_map(|stage| &stage.clusters).map(|one| one.cluster_name.clone()).collect();
    if clusters.is_empty() {
        return Vec::new();
    }
    // What is no longer wanted belongs to no stage, whatever its labels say.
    let bound = run.picture.bindings.iter();
    let bound = bound.filter(|binding| !binding.is_going() && binding.spec.state != BindingState::Unscheduled);
    clusters.extend(bound.map(|binding| binding.spec.target_cluster.clone()));
    clusters.sort_unstable();
    clusters.dedup();
    let mut moved = Vec::new();
    for cluster in clusters {
        let Some(member) = run.picture.member(&cluster) else { continue };
        let now: Vec<&str> =
            stages::matching(strategy, &member.labels()).iter().map(|stage| stage.name.as_str()).collect();
        let now = if now.is_empty() { "none".to_owned() } else { now.join(" and ") };
        let then = stage_then(&cluster).unwrap_or_else(|| "none".to_owned());
        if then != now {
            moved.push((cluster, then, now));
        }
    }
    moved
}

pub(super) fn apply_strategy_changed(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::ApplyStrategyOutdated = message(run)? else { return None };
    let name = &run.object.spec.placement_name;
    let now = run.picture.apply_strategy().map_or("none".to_owned(), |strategy| json!(strategy).to_string());
    let finding =
        ended(run, "UR-28", format!("The apply strategy of placement {name} was changed while the run was under way"))?
            .because("Everything that a run brings is applied in one way. Another way needs another run.")
            .seen(&run.picture.placement_reference(name), "spec.strategy.applyStrategy", now);
    Some(finding.fix("run again", vec![run.again()]))
}

pub(super) fn foreign_request(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::ForeignApprovalRequest { request } = message(run)? else { return None };
    let name = request.rsplit('/').next().unwrap_or(&request);
    let reference = ObjectRef::of::<fleet_api::kinds::Approval>(run.picture.namespace.as_deref(), name);
    let found = run.picture.approvals.iter().find(|one| one.name() == name);
    let mut finding = ended(run, "UR-29", format!("An approval request {name} of another run stands where this run needs one"))?
        .because("The name of an approval request is made from run, position and stage. Somebody else has made one of that name.");
    let mut steps = Vec::new();
    if let Some(found) = found {
        let spec = &found.spec;
        finding =
            finding.seen(&reference, "spec", format!("run {}, stage {}", spec.parent_stage_rollout, spec.target_stage));
        if spec.parent_stage_rollout != run.object.name() {
            steps.push(run.picture.kubectl.delete("delete the foreign request", &reference));
        }
    }
    steps.push(run.again());
    Some(finding.fix("delete the request, then run again", steps))
}

pub(super) fn other(run: &Run<'_>) -> Option<Finding> {
    let (_, condition) = run.failure()?;
    let finding = ended(run, "UR-30", format!("Run {} ended on something that should not happen", run.object.name()))?
        .because(format!("The hub agent says: {}", condition.message));
    Some(finding.fix(
        "run again, and report this as a bug with the YAML of the run and the log of the hub agent",
        vec![run.again()],
    ))
}
