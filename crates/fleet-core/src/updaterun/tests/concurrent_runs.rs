//! Every interleaving of two runs of one placement with different content: the second starts while the first is in
//! progress. Statuses may be deferred and lost, and the process may crash after any write.
//!
//! The last run to update a binding owns it, and the other run fails. No run takes a binding back, even if its status
//! was lost.

use std::collections::BTreeSet;
use std::hash::Hash as _;

use fleet_api::kinds::{Cluster, Namespaced, Scope};
use fleet_api::types::UpdateRunState::Run;

use super::exploring::{State, explore, hash_fixture, hashed};
use super::fixture::{RunFixture, is_over, strategy};
use crate::updaterun::status::progressing_since;
use crate::updaterun::{BindingFacts, Cause, Plan, Write};

const RUNS: [&str; 2] = ["old", "new"];

#[derive(Debug, Clone)]
struct Node<S: Scope> {
    fixture: RunFixture<S>,
    /// Number of crashes that may still happen.
    crashes: u8,
    /// Which run has updated which binding.
    moved: BTreeSet<(&'static str, String)>,
}

fn start<S: Scope>(crashes: u8) -> Node<S> {
    let mut fixture = RunFixture::new();
    fixture.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 2}]}"));
    fixture.join("a, b, c");
    fixture.create_run("old", "", Run);
    Node { fixture, crashes, moved: BTreeSet::new() }
}

impl<S: Scope> State for Node<S> {
    fn digest(&self) -> u64 {
        hashed(|hasher| {
            (self.crashes, &self.moved).hash(hasher);
            hash_fixture(&self.fixture, hasher);
        })
    }

    fn is_end(&self) -> bool {
        self.fixture.runs.len() == RUNS.len() && self.fixture.runs.values().all(is_over)
    }

    fn successors(&self) -> Vec<(String, Self)> {
        let mut all = Vec::new();
        for run in RUNS.into_iter().filter(|run| self.fixture.runs.contains_key(*run)) {
            all.extend(what_comes_of(self, run));
        }
        for binding in &self.fixture.bindings {
            let (cluster, mut next) = (&binding.spec.target_cluster, self.clone());
            if next.fixture.serve(cluster) {
                all.push((format!("{cluster} answers"), next));
            }
        }
        if !self.fixture.runs.contains_key("new") {
            let mut next = self.clone();
            next.fixture.hub.set("1");
            next.fixture.create_run("new", "", Run);
            all.push(("another run".to_owned(), next));
        }
        all
    }
}

fn what_comes_of<S: Scope>(node: &Node<S>, run: &'static str) -> Vec<(String, Node<S>)> {
    let plan = node.fixture.plan(run);
    check_that_nothing_is_taken_back(node, run, &plan);
    let mut all = Vec::new();
    let mut then = |name: &str, crashes: u8, written: usize, change: &dyn Fn(&mut RunFixture<S>)| {
        let mut next = node.clone();
        next.crashes -= crashes;
        next.moved.extend(plan.writes[..written].iter().filter_map(moved_binding).map(|binding| (run, binding)));
        change(&mut next.fixture);
        all.push((format!("{run}: {name}"), next));
    };
    let all_of_them = plan.writes.len();
    if !plan.is_idle() {
        then("plan", 0, all_of_them, &|fixture| fixture.apply(run, &plan));
        let (stored, new) = (node.fixture.runs[run].status.as_ref(), plan.status.as_ref().map(|new| &new.status));
        if stored.zip(new).is_some_and(|(stored, new)| progressing_since(stored, new).is_some()) {
            then("plan, keeping the status back", 0, all_of_them, &|fixture| {
                fixture.apply_deferring_status(run, &plan);
            });
        }
        for written in (1..=all_of_them).filter(|_| node.crashes > 0) {
            then(&format!("crash after {written}"), 1, written, &|fixture| {
                fixture.deferred.clear();
                plan.writes[..written].iter().for_each(|write| fixture.write(run, write));
            });
        }
    }
    if node.fixture.deferred.contains_key(run) {
        then("store the status", 0, 0, &|fixture| fixture.flush(run));
        if node.crashes > 0 {
            then("lose the status", 1, 0, &|fixture| fixture.deferred.clear());
        }
    }
    all
}

fn moved_binding(write: &Write) -> Option<String> {
    match write {
        Write::MoveBinding(change) => Some(change.binding.clone()),
        _ => None,
    }
}

fn check_that_nothing_is_taken_back<S: Scope>(node: &Node<S>, run: &'static str, plan: &Plan) {
    for binding in plan.writes.iter().filter_map(moved_binding) {
        assert!(!node.moved.contains(&(run, binding.clone())), "{run} takes {binding} back: {node:#?}");
    }
}

#[test]
fn a_preempted_run_does_not_take_its_cluster_back() {
    for states in [explore(start::<Cluster>(1)), explore(start::<Namespaced>(2))] {
        assert!(states > 500, "only {states} states");
    }
}

#[test]
fn a_run_waits_at_most_a_minute_for_another_run_to_store_its_moves() {
    let mut fixture = start::<Cluster>(0).fixture;
    let plan = fixture.plan("old");
    // All writes except the status.
    plan.writes.iter().for_each(|write| fixture.write("old", write));
    fixture.serve_all();
    fixture.hub.set("1");
    fixture.create_run("new", "", Run);
    let waits = fixture.run("new");
    let causes: Vec<_> = waits.report.blockers.iter().map(|blocker| &blocker.cause).collect();
    let unrecorded = |cluster: &str| Cause::MoveNotRecorded { cluster: cluster.to_owned(), run: "old".to_owned() };
    assert_eq!(causes, [&unrecorded("a"), &unrecorded("b")]);
    let a = fixture.binding("a").clone();
    assert!(BindingFacts::of(&a).moved_by.unwrap().is_of("old", Some("uid-of-old")));
    let mut stored = fixture.clone();
    stored.step("old");
    assert!(stored.run("new").writes.iter().filter_map(moved_binding).count() == 2, "stored, so it may be taken");
    fixture.pass(60);
    assert!(fixture.plan("new").is_idle());
    fixture.pass(1);
    assert_eq!(fixture.run("new").writes.iter().filter_map(moved_binding).count(), 2, "whatever keeps the other one");
}
