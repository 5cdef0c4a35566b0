//! Rules about runs that failed after initialization (UR-20 to UR-30). A failed run cannot be resumed, so most fixes create a new
//! run.

use fleet_api::conditions::binding::BindingRolloutStarted;
use fleet_api::conditions::run_message::{RunMessage, run_that_moved};
use fleet_api::kinds::{Binding, UpdateStrategy};
use fleet_api::types::BindingState;
use serde_json::json;

use super::super::commands::Line;
use super::super::finding::{Finding, ObjectRef};
use super::super::inputs::{condition, quote};
use super::super::{new_run, stages, strategy_fixes};
use super::{Run, initialization, is_final, progress};

fn message(run: &Run<'_>) -> Option<RunMessage> {
    run.failure().map(|(message, _)| message)
}

fn ended(run: &Run<'_>, entry: &'static str, title: impl Into<String>) -> Option<Finding> {
    let (_, condition) = run.failure()?;
    Some(run.quoting(Finding::error(entry, title), condition))
}

pub(super) fn preempted(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::Preempted { cluster, stage, binding } = message(run)? else { return None };
    let inputs = run.inputs;
    let named = binding.as_deref().map(|reference| reference.rsplit('/').next().unwrap_or(reference).to_owned());
    let found = named
        .as_deref()
        .and_then(|name| inputs.bindings.iter().find(|binding| binding.name() == name))
        .or_else(|| inputs.binding_to(&cluster));
    let started = found
        .and_then(|binding| binding.status.as_ref())
        .and_then(|status| condition::<BindingRolloutStarted>(&status.conditions));
    let winner = started.and_then(|started| run_that_moved(&started.message)).filter(|name| *name != run.object.name());
    let winner = winner.and_then(|name| inputs.runs.iter().find(|other| other.name() == name)).or_else(|| {
        // The condition may not be updated yet: take another run that is newer.
        let others = inputs.runs_of(&run.object.spec.placement_name).into_iter();
        others.filter(|other| other.name() != run.object.name()).find(|other| other.created() >= run.object.created())
    });
    let by = winner.map_or("another run".to_owned(), |winner| format!("run {}", winner.name()));
    let mut finding = ended(run, "UR-24", format!("Cluster {cluster} of stage {stage} was taken over by {by}"))?
        .because("Two runs of one placement rolled out different versions to the same cluster. The last one wins; the other one ends.");
    if let Some(binding) = found {
        let reference = binding.reference();
        finding = finding.with_evidence(&reference, "spec.resourceSnapshotName", &binding.spec.resource_snapshot_name);
        if let Some(started) = started {
            finding = finding.with_evidence(&reference, "status.conditions[RolloutStarted]", quote(started));
        }
    } else if let Some(name) = named {
        finding = finding.with_evidence(
            &ObjectRef::of::<Binding>(inputs.namespace.as_deref(), &name),
            "metadata.name",
            "not there any more",
        );
    }
    let Some(winner) = winner else {
        return Some(finding.fix("run again", vec![run.again()]));
    };
    let stands = progress::summary(&inputs.about_run(winner.name())).unwrap_or_default();
    finding = finding.with_evidence(&winner.reference(), "status", stands);
    if is_final(winner) {
        let brought = winner.status.as_ref().is_some_and(|status| !status.resource_snapshot_index_used.is_empty());
        let what = if brought { "if the other version is not wanted, run again" } else { "run again" };
        return Some(finding.fix(what, vec![run.again()]));
    }
    let look =
        inputs.kubectl.show("watch it finish", Line::of(&["get"]).target(&winner.reference()).fixed(&["--watch"]));
    let stop = inputs.kubectl.patch(
        format!("stop {}", winner.name()),
        &winner.reference(),
        json!({"spec": {"state": "Stop"}}),
    );
    Some(
        finding
            .fix(format!("let {} finish: it rolls out the newer version", winner.name()), vec![look])
            .fix(format!("if {} is not wanted, stop it and run again", winner.name()), vec![stop, run.again()]),
    )
}

pub(super) fn placement_deleted(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::PlacementNotFound = message(run)? else { return None };
    let name = &run.object.spec.placement_name;
    let finding = ended(run, "UR-20", format!("Placement {name} was deleted while the run was in progress"))?.because(
        "A run checks its placement before every step and ends when the placement is gone. It cannot be resumed.",
    );
    if run.inputs.placement.is_some() {
        let reference = run.inputs.placement_reference(name);
        return Some(
            finding
                .with_evidence(&reference, "metadata.name", "it exists again")
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
    let finding = ended(run, "UR-21", format!("Strategy {name} was deleted while the run was in progress"))?
        .because("A run ends when its strategy is gone. The run has a copy, from which the strategy can be recreated.");
    if run.inputs.strategy(name).is_some() {
        return Some(finding.fix("the strategy exists again: run again", vec![run.again()]));
    }
    let Some(copy) = &run.status.staged_update_strategy_snapshot else {
        return Some(initialization::strategy_found_again(run, finding));
    };
    let create = new_run::strategy(
        run.inputs,
        format!("create the strategy {name} from the copy in the run"),
        name,
        json!(copy),
    );
    Some(finding.fix("create the strategy again, then a new run", vec![create, run.again()]))
}

pub(super) fn strategy_broken(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::InvalidStageTasks { stage, error } = message(run)? else { return None };
    let name = &run.object.spec.staged_update_strategy_name;
    let reference = ObjectRef::of::<UpdateStrategy>(run.inputs.namespace.as_deref(), name);
    let mut finding =
        ended(run, "UR-22", format!("Strategy {name} was edited and stage {stage} is no longer valid: {error}"))?
            .because(
                "A run keeps the stages that it started with, but ends when the tasks of its strategy become invalid.",
            );
    let Some(strategy) = run.inputs.strategy(name) else {
        return Some(initialization::strategy_found_again(run, finding));
    };
    finding = finding.with_evidence(
        &reference,
        format!("spec.stages[{stage}]"),
        strategy_fixes::task_words(&strategy.spec, &stage),
    );
    if strategy_fixes::tasks(&strategy.spec).1.is_empty() {
        return Some(finding.fix("the strategy has been fixed since: run again", vec![run.again()]));
    }
    if let Some(copy) = &run.status.staged_update_strategy_snapshot {
        let back = run.inputs.kubectl.patch(
            "restore the stages from the copy in the run",
            &reference,
            json!({"spec": {"stages": copy.stages}}),
        );
        finding = finding.fix("restore the strategy, then run again", vec![back, run.again()]);
    }
    let (fixed, changes) = strategy_fixes::tasks(&strategy.spec);
    let fix = run.inputs.kubectl.patch(changes.join("; "), &reference, json!({"spec": {"stages": fixed.stages}}));
    Some(finding.fix("fix the strategy as it is now, then run again", vec![fix, run.again()]))
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
        format!("The scheduling policy of placement {name} was changed while the run was in progress"),
    )?
    .because(
        "A run updates the clusters that the policy selected when the run was initialized. A new policy needs a new run.",
    )
    .with_evidence(&run.reference(), "status.policySnapshotIndexUsed", &run.status.policy_snapshot_index_used);
    if let Some(policy) = run.inputs.latest_policy() {
        finding =
            finding.with_evidence(&policy.reference(), "metadata.name", format!("{} is the newest", policy.name()));
    }
    Some(initialization::scheduled_first(run, finding))
}

pub(super) fn cluster_count_changed(run: &Run<'_>) -> Option<Finding> {
    let (RunMessage::ClusterCountOutdated | RunMessage::BindingsDoNotFit) = message(run)? else { return None };
    let recorded = run.status.policy_observed_cluster_count.unwrap_or_default();
    let name = &run.object.spec.placement_name;
    let finding =
        ended(run, "UR-26", format!("The number of clusters of placement {name} changed while the run was in progress"))?
            .because(
                "A run updates the clusters that were selected when it was initialized. Another set of clusters needs a new run.",
            )
            .with_evidence(&run.reference(), "status.policyObservedClusterCount", recorded.to_string());
    Some(initialization::clusters_chosen_first(run, finding))
}

pub(super) fn stage_membership_changed(run: &Run<'_>) -> Option<Finding> {
    match message(run)? {
        RunMessage::StageMembershipChanged => {
            let finding = with_moves(
                run,
                ended(run, "UR-27", "Clusters have moved to other stages since the run was initialized")?,
            );
            Some(finding.because(MEMBERSHIP).fix("run again with the stages as they are now", vec![run.again()]))
        }
        RunMessage::ClustersInNoStage { shown } => {
            let title = format!("Labels were changed: no stage selects {} any more", shown.join(", "));
            Some(initialization::labelled_into_a_stage(run, ended(run, "UR-27", title)?, &shown))
        }
        RunMessage::InvalidSortingLabel { key, cluster, .. } => {
            let title = format!("Label {key} of cluster {cluster} was changed to something that is not an integer");
            Some(initialization::sorting_label_fixed(run, ended(run, "UR-27", title)?, &key))
        }
        _ => None,
    }
}

const MEMBERSHIP: &str = "A cluster joined or left, or a label that a stage selects or sorts by was changed. Finished stages \
    count too: what a run was initialized with must hold until its end.";

/// Adds the recorded and the current stage of each moved cluster as evidence.
fn with_moves(run: &Run<'_>, mut finding: Finding) -> Finding {
    for (cluster, recorded, now) in moves(run) {
        let reference = ObjectRef::of::<fleet_api::kinds::Member>(None, &cluster);
        finding =
            finding.with_evidence(&reference, "stage", format!("{recorded} when the run was initialized, {now} now"));
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
    // Bindings that are being removed belong to no stage.
    let bound = run.inputs.bindings.iter();
    let bound = bound.filter(|binding| !binding.is_deleting() && binding.spec.state != BindingState::Unscheduled);
    clusters.extend(bound.map(|binding| binding.spec.target_cluster.clone()));
    clusters.sort_unstable();
    clusters.dedup();
    let mut moved = Vec::new();
    for cluster in clusters {
        let Some(member) = run.inputs.member(&cluster) else { continue };
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
    let now = run.inputs.apply_strategy().map_or("none".to_owned(), |strategy| json!(strategy).to_string());
    let finding = ended(
        run,
        "UR-28",
        format!("The apply strategy of placement {name} was changed while the run was in progress"),
    )?
    .because("A run uses one apply strategy. A new apply strategy needs a new run.")
    .with_evidence(&run.inputs.placement_reference(name), "spec.strategy.applyStrategy", now);
    Some(finding.fix("run again", vec![run.again()]))
}

pub(super) fn foreign_request(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::ForeignApprovalRequest { request } = message(run)? else { return None };
    let name = request.rsplit('/').next().unwrap_or(&request);
    let reference = ObjectRef::of::<fleet_api::kinds::Approval>(run.inputs.namespace.as_deref(), name);
    let found = run.inputs.approvals.iter().find(|one| one.name() == name);
    let mut finding = ended(
        run,
        "UR-29",
        format!("The approval request {name} that this run needs belongs to another run"),
    )?
    .because(
        "The name of an approval request consists of run, position and stage. An object with this name already exists.",
    );
    let mut steps = Vec::new();
    if let Some(found) = found {
        let spec = &found.spec;
        finding = finding.with_evidence(
            &reference,
            "spec",
            format!("run {}, stage {}", spec.parent_stage_rollout, spec.target_stage),
        );
        if spec.parent_stage_rollout != run.object.name() {
            steps.push(run.inputs.kubectl.delete("delete the foreign request", &reference));
        }
    }
    steps.push(run.again());
    Some(finding.fix("delete the request, then run again", steps))
}

pub(super) fn other(run: &Run<'_>) -> Option<Finding> {
    let (_, condition) = run.failure()?;
    let finding = ended(run, "UR-30", format!("Run {} ended with an internal error", run.object.name()))?
        .because(format!("The hub agent says: {}", condition.message));
    Some(finding.fix(
        "run again, and report this as a bug with the YAML of the run and the log of the hub agent",
        vec![run.again()],
    ))
}
