//! Rules about runs that could not be initialized (UR-04 to UR-16). Such a run cannot be resumed, so every fix creates a new run.

use fleet_api::conditions::run_message::RunMessage;
use fleet_api::kinds::{Member, Placement, UpdateStrategy};
use fleet_api::types::UpdateStrategySpec;
use jiff::SignedDuration;
use serde_json::json;

use super::super::commands::{by_hand, hub_agent_pods};
use super::super::finding::{Finding, ObjectRef, Step};
use super::super::suggestions::nearest;
use super::super::{new_run, placement, stages, strategy_fixes};
use super::Run;

/// Age up to which a run without conditions is normal: initialization is retried.
const TIMEOUT: SignedDuration = SignedDuration::from_secs(60);
/// Maximum number of clusters in fixes.
const SHOWN_CLUSTERS: usize = 10;

pub(super) fn not_processed(run: &Run<'_>) -> Option<Finding> {
    let age = run.inputs.now.duration_since(run.object.created()?);
    (run.conditions().is_empty() && age > TIMEOUT).then_some(())?;
    let mut finding = Finding::warning(
        "UR-16",
        format!("Run {} has not been initialized and has no conditions", run.object.name()),
    )
    .because(
        "Either the hub agent is not running or staged runs are disabled, or initialization is being retried because bindings still refer to an older policy or the API server cannot be reached.",
    )
    .with_evidence(&run.reference(), "status.conditions", format!("none, {} s after the creation", age.as_secs()));
    if let Some(policy) = run.inputs.latest_policy() {
        for binding in &run.inputs.bindings {
            if binding.spec.scheduling_policy_snapshot_name != policy.name() {
                let found = &binding.spec.scheduling_policy_snapshot_name;
                let value = format!("{found}, the newest is {}", policy.name());
                finding = finding.with_evidence(&binding.reference(), "spec.schedulingPolicySnapshotName", value);
            }
        }
    }
    let without_snapshot = run.inputs.overrides_without_snapshot(&run.object.spec.placement_name);
    if !without_snapshot.is_empty() {
        let names: Vec<String> = without_snapshot.iter().map(ToString::to_string).collect();
        finding.title = format!("Run {} waits for a snapshot of {}", run.object.name(), names.join(", "));
        "A run uses snapshots of overrides, which the hub agent creates. The run starts once each of its overrides has a snapshot."
            .clone_into(&mut finding.explanation);
    }
    for override_ in without_snapshot {
        finding = finding.with_evidence(&override_, "latest snapshot", "none");
    }
    let look = run.inputs.kubectl.show("see whether the hub agent is running and what it logs", hub_agent_pods());
    Some(finding.fix("start the hub agent; the run then continues", vec![look]))
}

/// A finding about the failed initialization, if the message has this meaning.
fn failed(run: &Run<'_>, entry: &'static str, title: impl Into<String>) -> Option<Finding> {
    let (_, condition) = run.initialization()?;
    Some(run.quoting(Finding::error(entry, title), condition))
}

fn message(run: &Run<'_>) -> Option<RunMessage> {
    run.initialization().map(|(message, _)| message)
}

pub(super) fn snapshot_not_found(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::SnapshotNotFound { index } = message(run)? else { return None };
    let placement = &run.object.spec.placement_name;
    let indices = run.inputs.snapshot_indices();
    let words: Vec<String> = indices.iter().map(ToString::to_string).collect();
    let known = if words.is_empty() { "none: no snapshot has been created yet".to_owned() } else { words.join(", ") };
    let finding = failed(run, "UR-04", format!("Placement {placement} has no resource snapshot with index {index}"))?
        .because("A run with an index rolls out that snapshot and no other. Without an index it creates a snapshot of what is on the hub now.")
        .with_evidence(&run.reference(), "spec.resourceSnapshotIndex", index)
        .with_evidence(&run.inputs.placement_reference(placement), "indices of its resource snapshots", known)
        .fix("run without an index", vec![new_run::like(run.inputs, run.object, None)]);
    let Some(newest) = indices.last() else { return Some(finding) };
    Some(finding.fix("run with the newest index", vec![new_run::like(run.inputs, run.object, Some(*newest))]))
}

pub(super) fn placement_not_found(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::PlacementNotFound = message(run)? else { return None };
    let wanted = &run.object.spec.placement_name;
    let names = run.inputs.placement_names.join(", ");
    let finding = failed(run, "UR-05", format!("There is no placement {wanted} {}", place(run)))?
        .because("A run looks for its placement in its own scope and namespace only.")
        .with_evidence(&run.reference(), "spec.placementName", wanted)
        .with_evidence(
            &run.reference(),
            "existing placements",
            if names.is_empty() { "none".to_owned() } else { names },
        );
    if run.inputs.placement_names.contains(wanted) {
        return Some(finding.fix("the placement exists now: run again", vec![run.again()]));
    }
    let near = nearest(wanted, run.inputs.placement_names.iter().map(String::as_str));
    let strategy = &run.object.spec.staged_update_strategy_name;
    let finding = match near {
        Some(name) => finding.fix(
            format!("if {name} is meant, run with that"),
            vec![new_run::of(run.inputs, run.object.name(), name, strategy, None)],
        ),
        None => finding,
    };
    Some(finding.fix("create the placement, then run again", vec![create_placement(run), run.again()]))
}

/// Only the user knows what the placement selects, so there is no command.
pub(super) fn create_placement(run: &Run<'_>) -> Step {
    let reference = ObjectRef::of::<Placement>(run.inputs.namespace.as_deref(), &run.object.spec.placement_name);
    by_hand(format!("create the {} {} again, with strategy type External", reference.kind, reference.name))
}

fn place(run: &Run<'_>) -> String {
    match &run.inputs.namespace {
        Some(namespace) => format!("in namespace {namespace}"),
        None => "among the cluster-scoped ones".to_owned(),
    }
}

pub(super) fn not_external(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::NotExternal { current } = message(run)? else { return None };
    let placement = run.inputs.placement_reference(&run.object.spec.placement_name);
    let now = run.inputs.placement.as_ref().map(|placement| placement.spec.strategy_type().to_string());
    let patch = json!({"spec": {"strategy": {"type": "External"}}});
    let mut steps =
        vec![run.inputs.kubectl.patch("set strategy type External; this cannot be reverted", &placement, patch)];
    if run.inputs.is_external() {
        steps.clear();
    }
    steps.push(run.again());
    let finding =
        failed(run, "UR-06", format!("Placement {} is rolled out by {current}, not by runs", placement.name))?
            .because("Only placements with strategy type External are rolled out by runs.")
            .with_evidence(&placement, "spec.strategy.type", now.unwrap_or(current));
    Some(finding.fix("make the placement External, then run again", steps))
}

pub(super) fn strategy_not_found(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::StrategyNotFound { .. } = message(run)? else { return None };
    let name = &run.object.spec.staged_update_strategy_name;
    let finding = failed(run, "UR-07", format!("There is no strategy {name} {}", place(run)))?
        .because("A run looks for its strategy in its own scope and namespace only, when it is initialized.")
        .with_evidence(&run.reference(), "spec.stagedRolloutStrategyName", name);
    Some(strategy_found_again(run, finding))
}

/// Fixes for a missing strategy: it exists now, it exists in another scope, or it has to be created.
pub(super) fn strategy_found_again(run: &Run<'_>, finding: Finding) -> Finding {
    let name = &run.object.spec.staged_update_strategy_name;
    if run.inputs.strategy(name).is_some() {
        return finding.fix("the strategy exists now: run again", vec![run.again()]);
    }
    if let Some(elsewhere) = run.inputs.strategies_elsewhere.first() {
        let copy = json!(elsewhere.spec);
        let what = format!("copy {} to where the run looks", elsewhere.reference());
        return finding
            .with_evidence(&elsewhere.reference(), "metadata.name", elsewhere.name())
            .fix("make a copy, then run again", vec![new_run::strategy(run.inputs, what, name, copy), run.again()]);
    }
    let near = nearest(name, run.inputs.strategies.iter().map(super::super::inputs::ObservedObject::name));
    let finding = match near {
        Some(near) => finding.fix(
            format!("if {near} is meant, run with that"),
            vec![new_run::of(
                run.inputs,
                run.object.name(),
                &run.object.spec.placement_name,
                near,
                run.index_to_keep(),
            )],
        ),
        None => finding,
    };
    finding.fix("create the strategy, then run again", vec![new_run::simple_strategy(run.inputs, name), run.again()])
}

pub(super) fn invalid_stage_tasks(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::InvalidStageTasks { stage, error } = message(run)? else { return None };
    let finding = failed(run, "UR-08", format!("The tasks of stage {stage} are invalid: {error}"))?;
    Some(stage_tasks_fixed(run, finding, &stage))
}

/// Adds the strategy with valid tasks as a fix.
fn stage_tasks_fixed(run: &Run<'_>, finding: Finding, stage: &str) -> Finding {
    let name = &run.object.spec.staged_update_strategy_name;
    let reference = ObjectRef::of::<UpdateStrategy>(run.inputs.namespace.as_deref(), name);
    let Some(strategy) = run.inputs.strategy(name) else {
        return finding.fix(
            "fix the strategy, then run again",
            vec![by_hand(format!("fix stage {stage} of {reference}")), run.again()],
        );
    };
    let finding = finding.with_evidence(
        &reference,
        format!("spec.stages[{stage}]"),
        strategy_fixes::task_words(&strategy.spec, stage),
    );
    let (fixed, changes) = strategy_fixes::tasks(&strategy.spec);
    if changes.is_empty() {
        return finding.fix("the strategy has been fixed since: run again", vec![run.again()]);
    }
    let patch = json!({"spec": {"stages": fixed.stages}});
    let fix = run.inputs.kubectl.patch(changes.join("; "), &reference, patch);
    finding.fix("fix the strategy, then run again", vec![fix, run.again()])
}

pub(super) fn cluster_in_several_stages(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::ClusterInSeveralStages { cluster } = message(run)? else { return None };
    let finding = failed(run, "UR-09", format!("Cluster {cluster} is in more than one stage"))?;
    Some(moved_out_of_other_stages(run, finding, &cluster))
}

/// Adds a fix that keeps the cluster only in the first matching stage.
pub(super) fn moved_out_of_other_stages(run: &Run<'_>, finding: Finding, cluster: &str) -> Finding {
    let reference = ObjectRef::of::<Member>(None, cluster);
    let finding = finding.because("A run updates each cluster once, so no cluster may be selected by two stages.");
    let Some((member, strategy)) = run.inputs.member(cluster).zip(run.stages()) else {
        return finding.fix(
            "change labels or selectors, then run again",
            vec![run.inputs.kubectl.get("see its labels", &reference), run.again()],
        );
    };
    let labels = member.labels();
    let mut finding = finding.with_evidence(&reference, "metadata.labels", stages::label_words(&labels));
    let matching = stages::matching(strategy, &labels);
    for stage in &matching {
        let words = stages::selector_words(stage.label_selector.as_ref());
        finding = finding.with_evidence(&run.reference(), format!("stage {} selects", stage.name), words);
    }
    let [kept, others @ ..] = &matching[..] else {
        return finding.fix("its labels have been changed since: run again", vec![run.again()]);
    };
    let leaving: Option<Vec<(&str, Option<&str>)>> =
        others.iter().map(|stage| stages::label_to_leave(stage, kept).map(|key| (key, None))).collect();
    match leaving {
        Some(leaving) if !leaving.is_empty() => {
            let what = format!("keep it only in stage {}", kept.name);
            finding.fix(
                "remove the label, then run again",
                vec![run.inputs.kubectl.label(what, &reference, &leaving), run.again()],
            )
        }
        Some(_) => finding.fix("its labels have been changed since: run again", vec![run.again()]),
        None => {
            let strategy = ObjectRef::of::<UpdateStrategy>(
                run.inputs.namespace.as_deref(),
                &run.object.spec.staged_update_strategy_name,
            );
            finding.fix(
                "make the selectors disjoint, then run again",
                vec![run.inputs.kubectl.edit("make the selectors disjoint", &strategy), run.again()],
            )
        }
    }
}

pub(super) fn clusters_in_no_stage(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::ClustersInNoStage { shown } = message(run)? else { return None };
    let finding = failed(run, "UR-10", format!("No stage selects {}", shown.join(", ")))?;
    Some(labelled_into_a_stage(run, finding, &shown))
}

/// Adds a fix per stage that labels the clusters for it.
pub(super) fn labelled_into_a_stage(run: &Run<'_>, finding: Finding, clusters: &[String]) -> Finding {
    let mut finding = finding.because("Every cluster that the placement has picked must be in exactly one stage.");
    let all = run.stages().map(|strategy| in_no_stage(run, strategy)).unwrap_or_default();
    let clusters = if all.is_empty() { clusters } else { &all[..] };
    for cluster in clusters.iter().take(SHOWN_CLUSTERS) {
        if let Some(member) = run.inputs.member(cluster) {
            finding =
                finding.with_evidence(&member.reference(), "metadata.labels", stages::label_words(&member.labels()));
        }
    }
    let Some(strategy) = run.stages() else { return finding };
    for stage in &strategy.stages {
        let words = stages::selector_words(stage.label_selector.as_ref());
        finding = finding.with_evidence(&run.reference(), format!("stage {} selects", stage.name), words);
    }
    for stage in &strategy.stages {
        let wanted = stage.label_selector.as_ref().map(stages::labels_wanted).unwrap_or_default();
        if wanted.is_empty() {
            continue;
        }
        let labels: Vec<(&str, Option<&str>)> = wanted.into_iter().map(|(key, value)| (key, Some(value))).collect();
        let mut steps: Vec<Step> = clusters
            .iter()
            .map(|cluster| {
                let reference = ObjectRef::of::<Member>(None, cluster);
                run.inputs.kubectl.label(format!("bring {cluster} into stage {}", stage.name), &reference, &labels)
            })
            .collect();
        steps.push(run.again());
        finding = finding.fix(format!("label the clusters for stage {}, then run again", stage.name), steps);
    }
    finding
}

/// Clusters that the placement has picked and no stage selects: messages name only the first few.
fn in_no_stage(run: &Run<'_>, strategy: &UpdateStrategySpec) -> Vec<String> {
    let bound = run.inputs.bindings.iter().filter_map(|binding| run.inputs.member(&binding.spec.target_cluster));
    let outside = bound.filter(|member| stages::matching(strategy, &member.labels()).is_empty());
    outside.map(|member| member.name().to_owned()).collect()
}

pub(super) fn invalid_sorting_label(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::InvalidSortingLabel { key, value, cluster } = message(run)? else { return None };
    let found = if value.is_empty() { "is missing".to_owned() } else { format!("is {value:?}") };
    let finding = failed(run, "UR-11", format!("Label {key} of cluster {cluster} {found}: it must be an integer"))?;
    Some(sorting_label_fixed(run, finding, &key))
}

/// Adds a fix that numbers all clusters without an integer label, after those that have one.
pub(super) fn sorting_label_fixed(run: &Run<'_>, finding: Finding, key: &str) -> Finding {
    let mut finding =
        finding.because("The stage sorts its clusters by this label; those with smaller numbers go first.");
    let number = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(key).and_then(|value| value.parse::<i64>().ok())
    };
    let stage = run.stages().and_then(|strategy| {
        strategy
            .stages
            .iter()
            .find(|stage| stage.sorting_label_key.as_deref() == Some(key))
            .map(|stage| (strategy, stage))
    });
    let (mut last, mut unnumbered) = (0, Vec::new());
    for binding in &run.inputs.bindings {
        let Some(member) = run.inputs.member(&binding.spec.target_cluster) else { continue };
        let labels = member.labels();
        let is_in = stage.is_none_or(|(strategy, stage)| {
            stages::matching(strategy, &labels).iter().any(|one| one.name == stage.name)
        });
        match number(&labels) {
            Some(number) if is_in => last = last.max(number),
            None if is_in => unnumbered.push(member),
            _ => {}
        }
    }
    let mut steps = Vec::new();
    for member in unnumbered.iter().take(SHOWN_CLUSTERS) {
        last += 1;
        finding = finding.with_evidence(
            &member.reference(),
            format!("metadata.labels[{key}]"),
            member.label(key).unwrap_or("none"),
        );
        let what = format!("give {} the number {last}", member.name());
        steps.push(run.inputs.kubectl.label(what, &member.reference(), &[(key, Some(&last.to_string()))]));
    }
    steps.push(run.again());
    finding.fix("give each cluster of the stage an integer, then run again", steps)
}

pub(super) fn invalid_index(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::InvalidSnapshotIndex { index } = message(run)? else { return None };
    let finding = failed(run, "UR-12", format!("The index {index:?} is not an integer >= 0"))?.with_evidence(
        &run.reference(),
        "spec.resourceSnapshotIndex",
        &index,
    );
    Some(finding.fix("run without an index", vec![new_run::like(run.inputs, run.object, None)]))
}

pub(super) fn not_scheduled(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::NotScheduled = message(run)? else { return None };
    let finding = failed(
        run,
        "UR-13",
        format!("Placement {} was not fully scheduled when the run was created", run.object.spec.placement_name),
    )?;
    Some(scheduled_first(run, finding))
}

/// Adds the fixes of a scheduling problem, each followed by a new run.
pub(super) fn scheduled_first(run: &Run<'_>, finding: Finding) -> Finding {
    let Some(root) = placement::scheduling(run.inputs) else {
        return finding.fix("the placement is scheduled now: run again", vec![run.again()]);
    };
    let mut finding = finding;
    finding.title.clone_from(&root.title);
    finding.because_of = Some(root.entry);
    finding.explanation = format!("The run was created before scheduling had finished. {}", root.explanation);
    finding.evidence.extend(root.evidence);
    for fix in root.fixes {
        let mut steps = fix.steps;
        steps.push(run.again());
        finding = finding.fix(format!("{}, then run again", fix.what), steps);
    }
    finding
}

pub(super) fn bindings_do_not_fit(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::BindingsDoNotFit = message(run)? else { return None };
    let placement = &run.object.spec.placement_name;
    let finding = failed(run, "UR-14", format!("The clusters chosen for placement {placement} do not fit its policy"))?;
    Some(clusters_chosen_first(run, finding))
}

/// Adds the fixes for a placement without selected clusters, each followed by a new run.
pub(super) fn clusters_chosen_first(run: &Run<'_>, finding: Finding) -> Finding {
    if run.inputs.bindings.is_empty()
        && let Some(root) = placement::nothing_chosen(run.inputs)
    {
        let mut finding = finding.because(root.explanation);
        finding.title = root.title;
        finding.because_of = Some(root.entry);
        finding.evidence.extend(root.evidence);
        for fix in root.fixes {
            let mut steps = fix.steps;
            steps.push(run.again());
            finding = finding.fix(format!("{}, then run again", fix.what), steps);
        }
        return finding;
    }
    let bound: Vec<&str> = run.inputs.bindings.iter().map(|one| one.spec.target_cluster.as_str()).collect();
    let placement = run.inputs.placement_reference(&run.object.spec.placement_name);
    scheduled_first(run, finding.with_evidence(&placement, "clusters with a binding", bound.join(", ")))
}

pub(super) fn invalid_selector(run: &Run<'_>) -> Option<Finding> {
    let RunMessage::InvalidStageSelector { stage, error } = message(run)? else { return None };
    let name = &run.object.spec.staged_update_strategy_name;
    let reference = ObjectRef::of::<UpdateStrategy>(run.inputs.namespace.as_deref(), name);
    let finding = failed(run, "UR-15", format!("The label selector of stage {stage} cannot be used: {error}"))?
        .because("Operators of label selectors are In, NotIn, Exists and DoesNotExist; keys and values follow the rules of labels.");
    let Some(strategy) = run.inputs.strategy(name) else {
        return Some(finding.fix(
            "fix the selector, then run again",
            vec![run.inputs.kubectl.edit("fix the selector", &reference), run.again()],
        ));
    };
    let selector =
        strategy.spec.stages.iter().find(|one| one.name == stage).and_then(|one| one.label_selector.as_ref());
    let finding = finding.with_evidence(
        &reference,
        format!("spec.stages[{stage}].labelSelector"),
        stages::selector_words(selector),
    );
    let patch = json!({"spec": {"stages": strategy_fixes::with_open_operators(&strategy.spec)}});
    let step =
        run.inputs.kubectl.patch("name an operator that exists: In, NotIn, Exists or DoesNotExist", &reference, patch);
    Some(finding.fix("fix the selector, then run again", vec![step, run.again()]))
}

pub(super) fn other(run: &Run<'_>) -> Option<Finding> {
    let (_, condition) = run.initialization()?;
    let finding = failed(run, "UR-30", format!("Run {} could not be initialized", run.object.name()))?;
    let finding = finding.because(format!("The hub agent says: {}", condition.message));
    Some(finding.fix("run again; if it fails in the same way, report it as a bug", vec![run.again()]))
}
