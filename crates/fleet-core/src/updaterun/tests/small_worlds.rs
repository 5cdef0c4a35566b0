//! Every interleaving in a small model: three clusters in two stages with gates; a user who approves, stops, resumes
//! and edits; a process that may defer statuses and crash after any write; clusters that report at any time.
//!
//! Every reachable state is checked once: no stage starts out of order, no gate is skipped, the concurrency limit
//! holds, a final run stays final, no run fails on unconfirmed facts, a stopped run starts nothing, and every run ends.

use std::collections::BTreeSet;
use std::hash::Hash as _;

use fleet_api::conditions::Condition;
use fleet_api::kinds::{Cluster, Namespaced, Scope};
use fleet_api::types::UpdateRunState::{Run, Stop};
use fleet_api::types::{BindingState, StageUpdatingStatus, UpdateRunState, UpdateRunStatus};
use serde_json::json;

use super::exploring::{State, explore, hash_fixture, hashed};
use super::fixture::{RUN, RunFixture, is_over, strategy};
use crate::plan::Wake;
use crate::updaterun::binding::has_rollout_started;
use crate::updaterun::status::progressing_since;
use crate::updaterun::{BindingFacts, Observed, Plan, RunOutcome, Write, plan};

/// Events that may still happen.
#[derive(Debug, Clone, Copy, Hash)]
struct Budget {
    /// Changes of `spec.state`.
    toggles: u8,
    /// Crashes in the middle of a plan.
    crashes: u8,
    /// Edits by a user that end the run, or try to.
    edits: u8,
    /// Pauses until the plan's wake time.
    waits: u8,
    /// Whether clusters may be so slow that the run is stuck.
    slow: bool,
    /// Whether statuses may be deferred and lost.
    holds: bool,
    /// Concurrency of the first stage.
    at_once: usize,
}

#[derive(Debug, Clone)]
struct Node<S: Scope> {
    fixture: RunFixture<S>,
    budget: Budget,
    /// Requests that were approved at some time.
    approved: BTreeSet<String>,
}

const FIRST: [&str; 2] = ["a", "b"];

fn start<S: Scope>(budget: Budget) -> Node<S> {
    let mut fixture = RunFixture::new();
    let mut spec = strategy("{stages: [
        {name: one, labelSelector: {matchLabels: {stage: one}}, afterStageTasks: [{type: Approval}, {type: TimedWait, waitTime: 1m}]},
        {name: two, labelSelector: {matchLabels: {stage: two}}, beforeStageTasks: [{type: Approval}]}]}");
    spec.stages[0].max_concurrency = Some(i64::try_from(budget.at_once).unwrap().into());
    fixture.strategy = Some(spec);
    fixture.join("a stage=one, b stage=one, c stage=two");
    fixture.create_run(RUN, "", Run);
    Node { fixture, budget, approved: BTreeSet::new() }
}

impl<S: Scope> State for Node<S> {
    fn digest(&self) -> u64 {
        hashed(|hasher| {
            (self.budget, &self.approved).hash(hasher);
            hash_fixture(&self.fixture, hasher);
        })
    }

    fn is_end(&self) -> bool {
        is_over(&self.fixture.runs[RUN])
    }

    fn successors(&self) -> Vec<(String, Self)> {
        let plan = self.fixture.plan(RUN);
        check_plan(self, &plan);
        let mut all = what_the_hub_does(self, &plan);
        let waiting = self.fixture.bindings.iter().filter(|one| one.spec.state == BindingState::Bound);
        for binding in waiting.filter(|one| !is_available(&BindingFacts::of(*one))) {
            let (cluster, mut next) = (&binding.spec.target_cluster, self.clone());
            if next.fixture.serve(cluster) {
                all.push((format!("{cluster} answers"), next));
            }
        }
        all.extend(approvals(self));
        if plan.report.outcome.is_final() {
            return all;
        }
        if self.budget.toggles > 0 {
            let mut next = self.clone();
            next.budget.toggles -= 1;
            let state = if next.fixture.runs[RUN].spec.state() == Run { Stop } else { Run };
            next.fixture.set_state(RUN, state);
            all.push((format!("{state:?}"), next));
        }
        if self.budget.edits > 0 {
            all.extend(edits(self));
        }
        all
    }
}

/// Plans are executed completely or partly; statuses are deferred, stored or lost.
fn what_the_hub_does<S: Scope>(node: &Node<S>, plan: &Plan) -> Vec<(String, Node<S>)> {
    let mut all = Vec::new();
    let mut then = |name: &str, crashes: u8, change: &dyn Fn(&mut RunFixture<S>)| {
        let mut next = node.clone();
        next.budget.crashes -= crashes;
        change(&mut next.fixture);
        all.push((name.to_owned(), next));
    };
    if plan.is_idle() {
        let due = (node.budget.slow || plan.report.outcome == RunOutcome::Waiting) && node.budget.waits > 0;
        if let Wake::At(instant) = plan.wake
            && due
        {
            let mut next = node.clone();
            next.budget.waits -= 1;
            next.fixture.now = instant;
            all.push(("wait".to_owned(), next));
            return all;
        }
    } else {
        then("plan", 0, &|fixture| {
            fixture.apply(RUN, plan);
            // A plan that always leads to another plan would never end.
            assert!(fixture.plan(RUN).is_idle(), "{:#?}", fixture.plan(RUN));
        });
        if may_be_deferred(node, plan) {
            then("plan, keeping the status back", 0, &|fixture| fixture.apply_deferring_status(RUN, plan));
        }
        for written in (1..=plan.writes.len()).filter(|_| node.budget.crashes > 0) {
            then(&format!("crash after {written}"), 1, &|fixture| {
                fixture.deferred.clear();
                plan.writes[..written].iter().for_each(|write| fixture.write(RUN, write));
            });
        }
    }
    if node.fixture.deferred.contains_key(RUN) {
        then("store the status", 0, &|fixture| fixture.flush(RUN));
        if node.budget.crashes > 0 {
            then("lose the status", 1, &|fixture| fixture.deferred.clear());
        }
    }
    all
}

/// The hub defers statuses of runs with many clusters; here it may do so with three.
fn may_be_deferred<S: Scope>(node: &Node<S>, plan: &Plan) -> bool {
    let stored = node.fixture.runs[RUN].status.as_ref();
    let new = plan.status.as_ref().map(|new| &new.status);
    node.budget.holds && stored.zip(new).is_some_and(|(stored, new)| progressing_since(stored, new).is_some())
}

fn approvals<S: Scope>(node: &Node<S>) -> Vec<(String, Node<S>)> {
    let mut all = Vec::new();
    for request in &node.fixture.approvals {
        let name = request.metadata.name.clone().unwrap();
        let is_approved = |one: &Condition| one.type_ == "Approved" && one.observed_generation == 1;
        if !request.status.iter().flat_map(|status| &status.conditions).any(is_approved) {
            let mut next = node.clone();
            next.fixture.approve(&name, "True", 1);
            next.approved.insert(name.clone());
            all.push((format!("approve {name}"), next));
        }
    }
    all
}

fn edits<S: Scope>(node: &Node<S>) -> Vec<(String, Node<S>)> {
    let edit = |name: &str, change: &dyn Fn(&mut RunFixture<S>)| {
        let mut next = node.clone();
        next.budget.edits -= 1;
        change(&mut next.fixture);
        (name.to_owned(), next)
    };
    let steal = |fixture: &mut RunFixture<S>| {
        fixture.edit_binding("a", |spec| {
            spec["resourceSnapshotName"] = json!("other-9-snapshot");
            spec["state"] = json!("Bound");
        });
        fixture.binding("a").metadata.annotations = None;
    };
    vec![
        edit("relabel c", &|fixture| fixture.label("c", "stage=none")),
        edit("delete requests", &|fixture| fixture.approvals.clear()),
        edit("delete strategy", &|fixture| fixture.strategy = None),
        edit("delete placement", &|fixture| fixture.placement = None),
        edit("steal a", &steal),
        edit("withdraw", &|fixture| fixture.approvals.iter_mut().for_each(|one| one.status = None)),
        edit("change content", &|fixture| fixture.hub.set("1")),
        edit("change the policy", &change_policy),
        edit("a cluster joins", &|fixture| fixture.join("d stage=one")),
        edit("a cluster leaves", &|fixture| {
            fixture.members.retain(|one| one.metadata.name.as_deref() != Some("c"));
            fixture.bindings.retain(|one| one.spec.target_cluster != "c");
        }),
        edit("make the strategy invalid", &|fixture| {
            let tasks = &mut fixture.strategy.as_mut().unwrap().stages[1].before_stage_tasks;
            tasks.push(tasks[0].clone());
        }),
        edit("approve what is not there", &|fixture| {
            let names: Vec<_> = fixture.approvals.iter().map(|one| one.metadata.name.clone().unwrap()).collect();
            for name in &names {
                fixture.approve(name, "True", 0);
            }
        }),
    ]
}

/// The scheduler updates all bindings to the new policy.
fn change_policy<S: Scope>(fixture: &mut RunFixture<S>) {
    fixture.set_policy(1, "{placementType: PickAll}");
    let policy = fixture.policy().metadata.name.clone().unwrap();
    for cluster in ["a", "b", "c"] {
        fixture.edit_binding(cluster, |spec| spec["schedulingPolicySnapshotName"] = json!(policy));
    }
}

/// Invariants of every plan.
fn check_plan<S: Scope>(node: &Node<S>, plan: &Plan) {
    let fixture = &node.fixture;
    let before = fixture.deferred.get(RUN).or(fixture.runs[RUN].status.as_ref());
    let after = plan.status.as_ref().map(|new| &new.status).or(before);
    if is_over(&fixture.runs[RUN]) {
        assert!(plan.is_idle(), "final stays final: {plan:#?}");
    } else {
        check_that_old_facts_end_nothing(fixture);
    }
    let moves: Vec<_> = plan.writes.iter().filter_map(moved_cluster).collect();
    if fixture.runs[RUN].spec.state() != UpdateRunState::Run {
        let starts =
            |write: &&Write| !matches!(write, Write::AddFinalizer | Write::Content(_) | Write::RenewMovedBy { .. });
        assert_eq!(plan.writes.iter().find(starts), None, "a stopped run starts nothing");
    }
    if plan.report.outcome == RunOutcome::Stopped {
        assert_eq!(updating(fixture, &["a", "b", "c"]), 0, "stopped, but not at rest");
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
    check_evidence(fixture, before, after);
    // Clusters that are updating, and those that this plan adds.
    let in_first = moves.iter().filter(|cluster| FIRST.contains(*cluster)).count();
    if fixture.placement.is_some() {
        assert!(updating(fixture, &FIRST) + in_first <= node.budget.at_once, "too many at once: {plan:#?}");
    }
}

/// An unconfirmed observation never fails a run.
fn check_that_old_facts_end_nothing<S: Scope>(fixture: &RunFixture<S>) {
    let unsure = fixture.observe(RUN, |observed| plan(&Observed { confirmed: false, ..observed.clone() }, fixture.now));
    let failed = [RunOutcome::Failed, RunOutcome::InitializationFailed].contains(&unsure.report.outcome);
    assert!(!failed, "ended on what may be old: {unsure:#?}");
}

/// A cluster is done only if its binding reports so for this content and generation.
fn check_evidence<S: Scope>(fixture: &RunFixture<S>, before: Option<&UpdateRunStatus>, after: &UpdateRunStatus) {
    let done = |stage: &StageUpdatingStatus| -> BTreeSet<String> {
        let done = stage.clusters.iter().filter(|cluster| has(&cluster.conditions, "Succeeded"));
        done.map(|cluster| cluster.cluster_name.clone()).collect()
    };
    let wanted = format!("{}-{}-snapshot", fixture.key.name, after.resource_snapshot_index_used);
    for (index, stage) in after.stages_status.iter().enumerate() {
        let old = before.and_then(|status| status.stages_status.get(index)).map(done).unwrap_or_default();
        for cluster in done(stage).difference(&old) {
            let binding = fixture.bindings.iter().find(|one| one.spec.target_cluster == *cluster).unwrap();
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

/// Number of clusters that got content from the run and are not available.
fn updating<S: Scope>(fixture: &RunFixture<S>, clusters: &[&str]) -> usize {
    let bindings = fixture.bindings.iter().filter(|one| clusters.contains(&one.spec.target_cluster.as_str()));
    let facts = bindings.map(BindingFacts::of);
    // A later change of the binding by another controller is not an update by the run.
    let is_moved = |binding: &BindingFacts<'_>| {
        binding.moved_by.as_ref().is_some_and(|note| note.generation == binding.generation)
    };
    let is_updating = |binding: &BindingFacts<'_>| {
        *binding.state == BindingState::Bound && is_moved(binding) && !is_available(binding)
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

fn check<S: Scope>(budget: Budget, at_least: usize) {
    let states = explore(start::<S>(budget));
    assert!(states > at_least, "only {states} states");
}

#[test]
fn crashes_and_user_edits_between_any_two_steps() {
    let budget = Budget { toggles: 0, crashes: 1, edits: 1, waits: 1, slow: false, holds: true, at_once: 2 };
    check::<Namespaced>(budget, 1_000);
}

#[test]
fn crashes_and_user_edits_while_a_run_stops_and_resumes() {
    let budget = Budget { toggles: 2, crashes: 1, edits: 1, waits: 2, slow: false, holds: false, at_once: 1 };
    check::<Cluster>(budget, 1_000);
}

#[test]
fn slow_clusters_stops_crashes_and_lost_statuses() {
    let budget = Budget { toggles: 2, crashes: 1, edits: 0, waits: 4, slow: true, holds: true, at_once: 2 };
    check::<Namespaced>(budget, 1_000);
}
