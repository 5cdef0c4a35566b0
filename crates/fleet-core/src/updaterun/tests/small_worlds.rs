//! Every interleaving of a small world: three clusters in two stages with gates, a user who approves, stops, resumes and
//! edits, a process that may die after any write, clusters that answer when they like.
//!
//! Every state that can be reached is looked at once. In none of them is a stage started out of order, a gate skipped or
//! more updated at a time than allowed; what is final stays final, a stopped run starts nothing, and from everywhere the end can
//! still be reached.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use fleet_api::conditions::Condition;
use fleet_api::kinds::{Cluster, Namespaced, Scope};
use fleet_api::types::UpdateRunState::{Run, Stop};
use fleet_api::types::{BindingState, StageUpdatingStatus, UpdateRunState, UpdateRunStatus};
use serde_json::json;

use super::fixture::{RUN, World, strategy};
use crate::plan::Wake;
use crate::updaterun::evidence::has_rollout_started;
use crate::updaterun::{BindingFacts, Outcome, Plan, WhoSaysRolloutStarted, Write};

/// What may still happen.
#[derive(Debug, Clone, Copy, Hash)]
struct Budget {
    /// Changes of the wanted state.
    toggles: u8,
    /// Deaths of the process in the middle of a plan.
    crashes: u8,
    /// Edits by a user that end the run, or try to.
    edits: u8,
    /// Times at which nothing happens until the plan's wake-up.
    waits: u8,
    /// Whether clusters may be so slow that the run is stuck.
    slow: bool,
    /// How many clusters of the first stage may be updated at a time.
    at_once: usize,
}

#[derive(Debug, Clone)]
struct Node<S: Scope> {
    world: World<S>,
    budget: Budget,
    /// Requests that somebody approved at some time.
    approved: BTreeSet<String>,
}

const FIRST: [&str; 2] = ["a", "b"];

fn start<S: Scope>(budget: Budget, who: WhoSaysRolloutStarted) -> Node<S> {
    let mut world = World::new();
    world.settings.rollout_started = who;
    let mut spec = strategy("{stages: [
        {name: one, labelSelector: {matchLabels: {stage: one}}, afterStageTasks: [{type: Approval}, {type: TimedWait, waitTime: 1m}]},
        {name: two, labelSelector: {matchLabels: {stage: two}}, beforeStageTasks: [{type: Approval}]}]}");
    spec.stages[0].max_concurrency = Some(i64::try_from(budget.at_once).unwrap().into());
    world.strategy = Some(spec);
    world.join("a stage=one, b stage=one, c stage=two");
    world.create_run(RUN, "", Run);
    Node { world, budget, approved: BTreeSet::new() }
}

/// Everything that may happen next, each with a name.
fn successors<S: Scope>(node: &Node<S>) -> Vec<(String, Node<S>)> {
    let mut all = Vec::new();
    let plan = node.world.plan(RUN);
    check_plan(node, &plan);
    if !plan.is_idle() {
        let mut next = node.clone();
        next.world.apply(RUN, &plan);
        all.push(("plan".to_owned(), next));
        for written in (1..=plan.writes.len()).filter(|_| node.budget.crashes > 0) {
            let mut next = node.clone();
            next.budget.crashes -= 1;
            plan.writes[..written].iter().for_each(|write| next.world.write(RUN, write));
            all.push((format!("crash after {written}"), next));
        }
    } else if let Wake::At(instant) = plan.wake
        && node.budget.waits > 0
        && (node.budget.slow || plan.report.outcome == Outcome::Waiting)
    {
        let mut next = node.clone();
        next.budget.waits -= 1;
        next.world.now = instant;
        all.push(("wait".to_owned(), next));
    }
    let waiting = node.world.bindings.iter().filter(|one| one.spec.state == BindingState::Bound);
    for binding in waiting.filter(|one| !is_available(&BindingFacts::of(*one))) {
        let (cluster, mut next) = (&binding.spec.target_cluster, node.clone());
        if next.world.serve(cluster) {
            all.push((format!("{cluster} answers"), next));
        }
    }
    all.extend(approvals(node));
    if plan.report.outcome.is_final() {
        return all;
    }
    if node.budget.toggles > 0 {
        let mut next = node.clone();
        next.budget.toggles -= 1;
        let state = if next.world.runs[RUN].spec.state() == Run { Stop } else { Run };
        next.world.set_state(RUN, state);
        all.push((format!("{state:?}"), next));
    }
    if node.budget.edits > 0 {
        all.extend(edits(node));
    }
    all
}

fn approvals<S: Scope>(node: &Node<S>) -> Vec<(String, Node<S>)> {
    let mut all = Vec::new();
    for request in &node.world.approvals {
        let name = request.metadata.name.clone().unwrap();
        if request.status.is_none() {
            let mut next = node.clone();
            next.world.approve(&name, "True", 1);
            next.approved.insert(name.clone());
            all.push((format!("approve {name}"), next));
        }
    }
    all
}

fn edits<S: Scope>(node: &Node<S>) -> Vec<(String, Node<S>)> {
    let edit = |name: &str, change: &dyn Fn(&mut World<S>)| {
        let mut next = node.clone();
        next.budget.edits -= 1;
        change(&mut next.world);
        (name.to_owned(), next)
    };
    let steal = |world: &mut World<S>| {
        world.edit_binding("a", |spec| {
            spec["resourceSnapshotName"] = json!("other-9-snapshot");
            spec["state"] = json!("Bound");
        });
        world.binding("a").metadata.annotations = None;
    };
    vec![
        edit("relabel c", &|world| world.label("c", "stage=none")),
        edit("delete requests", &|world| world.approvals.clear()),
        edit("delete strategy", &|world| world.strategy = None),
        edit("delete placement", &|world| world.placement = None),
        edit("steal a", &steal),
        edit("withdraw", &|world| world.approvals.iter_mut().for_each(|one| one.status = None)),
        edit("change content", &|world| world.hub.set("1")),
    ]
}

/// What must hold whenever a plan is made.
fn check_plan<S: Scope>(node: &Node<S>, plan: &Plan) {
    let world = &node.world;
    let before = world.runs[RUN].status.as_ref();
    let after = plan.status.as_ref().map(|new| &new.status).or(before);
    if before.is_some_and(is_final) {
        assert!(plan.is_idle(), "final stays final: {plan:#?}");
    }
    let moves: Vec<_> = plan.writes.iter().filter_map(moved_cluster).collect();
    if world.runs[RUN].spec.state() != UpdateRunState::Run {
        let starts = |write: &&Write| {
            !matches!(
                write,
                Write::HoldRun | Write::Content(_) | Write::SayRolloutStarted { .. } | Write::RenewNote { .. }
            )
        };
        assert_eq!(plan.writes.iter().find(starts), None, "a stopped run starts nothing");
    }
    if plan.report.outcome == Outcome::Stopped {
        assert_eq!(updating(world, &["a", "b", "c"]), 0, "stopped, but not at rest");
    }
    let Some(after) = after else { return };
    if moves.contains(&"c") {
        let one = &after.stages_status[0];
        assert!(has(&one.conditions, "Succeeded"), "stage two before stage one is done");
        assert!(has(&one.after_stage_task_status[1].conditions, "WaitTimeElapsed"));
        for gate in ["example-run-after-one", "example-run-before-two"] {
            assert!(node.approved.contains(gate), "{gate} was skipped");
        }
    }
    check_evidence(world, before, after);
    // What is being updated now, and what this plan would add.
    let in_first = moves.iter().filter(|cluster| FIRST.contains(*cluster)).count();
    if world.placement.is_some() {
        assert!(updating(world, &FIRST) + in_first <= node.budget.at_once, "too many at once: {plan:#?}");
    }
}

/// A cluster is done only when its binding says so of this content and generation.
fn check_evidence<S: Scope>(world: &World<S>, before: Option<&UpdateRunStatus>, after: &UpdateRunStatus) {
    let done = |stage: &StageUpdatingStatus| -> BTreeSet<String> {
        let done = stage.clusters.iter().filter(|cluster| has(&cluster.conditions, "Succeeded"));
        done.map(|cluster| cluster.cluster_name.clone()).collect()
    };
    let wanted = format!("{}-{}-snapshot", world.key.name, after.resource_snapshot_index_used);
    for (index, stage) in after.stages_status.iter().enumerate() {
        let old = before.and_then(|status| status.stages_status.get(index)).map(done).unwrap_or_default();
        for cluster in done(stage).difference(&old) {
            let binding = world.bindings.iter().find(|one| one.spec.target_cluster == *cluster).unwrap();
            assert_eq!(binding.spec.resource_snapshot_name, wanted);
            assert!(is_available(&BindingFacts::of(binding)));
        }
    }
}

fn moved_cluster(write: &Write) -> Option<&str> {
    match write {
        Write::MoveBinding(change) => change.binding.rsplit('-').nth(1),
        _ => None,
    }
}

/// How many of the clusters have got content from the run and have not made it available.
fn updating<S: Scope>(world: &World<S>, clusters: &[&str]) -> usize {
    let bindings = world.bindings.iter().filter(|one| clusters.contains(&one.spec.target_cluster.as_str()));
    let facts = bindings.map(BindingFacts::of);
    let is_updating = |binding: &BindingFacts<'_>| {
        *binding.state == BindingState::Bound && binding.note.is_some() && !is_available(binding)
    };
    facts.filter(is_updating).count()
}

fn is_available(binding: &BindingFacts<'_>) -> bool {
    let available = binding.conditions.iter().find(|one| one.type_ == "Available");
    has_rollout_started(binding)
        && available.is_some_and(|one| {
            one.observed_generation == binding.generation && one.status == fleet_api::conditions::ConditionStatus::True
        })
}

fn has(conditions: &[Condition], type_: &str) -> bool {
    let found = conditions.iter().find(|one| one.type_ == type_);
    found.is_some_and(|one| one.status == fleet_api::conditions::ConditionStatus::True)
}

fn is_final(status: &UpdateRunStatus) -> bool {
    status.conditions.iter().any(|one| {
        one.type_ == "Succeeded"
            || (one.type_ == "Initialized" && one.status == fleet_api::conditions::ConditionStatus::False)
    })
}

/// What tells one state from another; 64 bits are plenty for some ten thousand states.
fn digest<S: Scope>(node: &Node<S>) -> u64 {
    let (world, mut hasher) = (&node.world, DefaultHasher::new());
    (node.budget, &node.approved, world.now).hash(&mut hasher);
    let run = &world.runs[RUN];
    (run.spec.state, run.metadata.generation, &run.metadata.finalizers).hash(&mut hasher);
    if let Some(status) = &run.status {
        hash_conditions(&status.conditions, &mut hasher);
        for stage in status.stages_status.iter().chain(&status.deletion_stage_status) {
            (stage.start_time, stage.end_time).hash(&mut hasher);
            hash_conditions(&stage.conditions, &mut hasher);
            let tasks = stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status);
            tasks.for_each(|task| hash_conditions(&task.conditions, &mut hasher));
            stage.clusters.iter().for_each(|cluster| hash_conditions(&cluster.conditions, &mut hasher));
        }
    }
    for binding in &world.bindings {
        let metadata = &binding.metadata;
        (&binding.spec.resource_snapshot_name, metadata.generation, &metadata.annotations).hash(&mut hasher);
        hash_conditions(binding.status.as_ref().map_or(&[], |status| &status.conditions), &mut hasher);
    }
    for request in &world.approvals {
        request.metadata.name.hash(&mut hasher);
        hash_conditions(request.status.as_ref().map_or(&[], |status| &status.conditions), &mut hasher);
    }
    let labels: Vec<_> = world.members.iter().map(|member| &member.metadata.labels).collect();
    (world.placement.is_some(), world.strategy.is_some(), labels, world.snapshots.len()).hash(&mut hasher);
    world.hub.value().hash(&mut hasher);
    hasher.finish()
}

/// Messages follow from the rest.
fn hash_conditions(conditions: &[Condition], hasher: &mut DefaultHasher) {
    conditions.len().hash(hasher);
    for one in conditions {
        (&one.type_, one.status, &one.reason, one.observed_generation, one.last_transition_time).hash(hasher);
    }
}

/// Goes everywhere, and says how many states there are.
fn explore<S: Scope>(budget: Budget, who: WhoSaysRolloutStarted) -> usize {
    let first = start::<S>(budget, who);
    let mut numbers: BTreeMap<u64, usize> = BTreeMap::from([(digest(&first), 0)]);
    let mut queue = VecDeque::from([first]);
    let mut came_from: Vec<Vec<usize>> = vec![Vec::new()];
    let mut ends: Vec<usize> = Vec::new();
    let mut current = 0;
    while let Some(node) = queue.pop_front() {
        if node.world.runs[RUN].status.as_ref().is_some_and(is_final) {
            ends.push(current);
        }
        for (name, next) in successors(&node) {
            let number = *numbers.entry(digest(&next)).or_insert_with(|| {
                // A plan that led to another plan could go on like that for ever.
                assert!(name != "plan" || next.world.plan(RUN).is_idle(), "{:#?}", next.world.plan(RUN));
                came_from.push(Vec::new());
                queue.push_back(next);
                came_from.len() - 1
            });
            came_from[number].push(current);
        }
        current += 1;
    }
    assert!(!ends.is_empty());
    let mut reaches_end: BTreeSet<usize> = ends.iter().copied().collect();
    while let Some(state) = ends.pop() {
        ends.extend(came_from[state].iter().copied().filter(|from| reaches_end.insert(*from)));
    }
    assert_eq!(reaches_end.len(), came_from.len(), "from some states the end cannot be reached");
    came_from.len()
}

fn check<S: Scope>(budget: Budget, who: WhoSaysRolloutStarted, at_least: usize) {
    let states = explore::<S>(budget, who);
    assert!(states > at_least, "only {states} states");
}

#[test]
fn crashes_and_user_edits_at_every_moment() {
    let budget = Budget { toggles: 0, crashes: 1, edits: 1, waits: 1, slow: false, at_once: 2 };
    check::<Namespaced>(budget, WhoSaysRolloutStarted::WorkGenerator, 1_000);
}

#[test]
fn crashes_and_user_edits_while_a_run_stops_and_resumes() {
    let budget = Budget { toggles: 2, crashes: 1, edits: 1, waits: 2, slow: false, at_once: 1 };
    check::<Cluster>(budget, WhoSaysRolloutStarted::WorkGenerator, 1_000);
}

#[test]
fn slow_clusters_stops_and_crashes_where_the_run_speaks_for_itself() {
    let budget = Budget { toggles: 2, crashes: 1, edits: 0, waits: 4, slow: true, at_once: 2 };
    check::<Namespaced>(budget, WhoSaysRolloutStarted::Run, 1_000);
}
