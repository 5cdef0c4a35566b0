//! Every interleaving of two runs of one placement that bring different content: one is under way when the other is made.
//! Statuses may be kept back and be lost, and the process may die after any write.
//!
//! Whoever moves a binding last has it, and the other run ends; but no run takes back what it has had, whatever was lost.

use std::collections::BTreeSet;
use std::hash::Hash as _;

use fleet_api::kinds::{Cluster, Namespaced, Scope};
use fleet_api::types::UpdateRunState::Run;

use super::exploring::{State, explore, hash_world, hashed};
use super::fixture::{World, is_over, strategy};
use crate::updaterun::changes::going_since;
use crate::updaterun::{BindingFacts, Cause, Plan, Write};

const RUNS: [&str; 2] = ["old", "new"];

#[derive(Debug, Clone)]
struct Node<S: Scope> {
    world: World<S>,
    /// Deaths of the process that may still come.
    crashes: u8,
    /// Which run has moved which binding.
    moved: BTreeSet<(&'static str, String)>,
}

fn start<S: Scope>(crashes: u8) -> Node<S> {
    let mut world = World::new();
    world.strategy = Some(strategy("{stages: [{name: all, labelSelector: {}, maxConcurrency: 2}]}"));
    world.join("a, b, c");
    world.create_run("old", "", Run);
    Node { world, crashes, moved: BTreeSet::new() }
}

impl<S: Scope> State for Node<S> {
    fn digest(&self) -> u64 {
        hashed(|hasher| {
            (self.crashes, &self.moved).hash(hasher);
            hash_world(&self.world, hasher);
        })
    }

    fn is_end(&self) -> bool {
        self.world.runs.len() == RUNS.len() && self.world.runs.values().all(is_over)
    }

    fn successors(&self) -> Vec<(String, Self)> {
        let mut all = Vec::new();
        for run in RUNS.into_iter().filter(|run| self.world.runs.contains_key(*run)) {
            all.extend(what_comes_of(self, run));
        }
        for binding in &self.world.bindings {
            let (cluster, mut next) = (&binding.spec.target_cluster, self.clone());
            if next.world.serve(cluster) {
                all.push((format!("{cluster} answers"), next));
            }
        }
        if !self.world.runs.contains_key("new") {
            let mut next = self.clone();
            next.world.hub.set("1");
            next.world.create_run("new", "", Run);
            all.push(("another run".to_owned(), next));
        }
        all
    }
}

fn what_comes_of<S: Scope>(node: &Node<S>, run: &'static str) -> Vec<(String, Node<S>)> {
    let plan = node.world.plan(run);
    check_that_nothing_is_taken_back(node, run, &plan);
    let mut all = Vec::new();
    let mut then = |name: &str, crashes: u8, written: usize, change: &dyn Fn(&mut World<S>)| {
        let mut next = node.clone();
        next.crashes -= crashes;
        next.moved.extend(plan.writes[..written].iter().filter_map(moved_binding).map(|binding| (run, binding)));
        change(&mut next.world);
        all.push((format!("{run}: {name}"), next));
    };
    let all_of_them = plan.writes.len();
    if !plan.is_idle() {
        then("plan", 0, all_of_them, &|world| world.apply(run, &plan));
        let (stored, new) = (node.world.runs[run].status.as_ref(), plan.status.as_ref().map(|new| &new.status));
        if stored.zip(new).is_some_and(|(stored, new)| going_since(stored, new).is_some()) {
            then("plan, keeping the status back", 0, all_of_them, &|world| world.apply_holding(run, &plan));
        }
        for written in (1..=all_of_them).filter(|_| node.crashes > 0) {
            then(&format!("crash after {written}"), 1, written, &|world| {
                world.held.clear();
                plan.writes[..written].iter().for_each(|write| world.write(run, write));
            });
        }
    }
    if node.world.held.contains_key(run) {
        then("store the status", 0, 0, &|world| world.flush(run));
        if node.crashes > 0 {
            then("lose the status", 1, 0, &|world| world.held.clear());
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
fn no_run_takes_back_what_another_has_taken_from_it() {
    for states in [explore(start::<Cluster>(1)), explore(start::<Namespaced>(2))] {
        assert!(states > 500, "only {states} states");
    }
}

#[test]
fn a_run_waits_a_minute_at_most_for_another_to_store_what_it_has_moved() {
    let mut world = start::<Cluster>(0).world;
    let plan = world.plan("old");
    // All but the status.
    plan.writes.iter().for_each(|write| world.write("old", write));
    world.serve_all();
    world.hub.set("1");
    world.create_run("new", "", Run);
    let waits = world.run("new");
    let causes: Vec<_> = waits.report.blockers.iter().map(|blocker| &blocker.cause).collect();
    let unrecorded = |cluster: &str| Cause::MoveNotRecorded { cluster: cluster.to_owned(), run: "old".to_owned() };
    assert_eq!(causes, [&unrecorded("a"), &unrecorded("b")]);
    let a = world.binding("a").clone();
    assert!(BindingFacts::of(&a).note.unwrap().is_of("old", Some("uid-of-old")));
    let mut stored = world.clone();
    stored.step("old");
    assert!(stored.run("new").writes.iter().filter_map(moved_binding).count() == 2, "stored, so it may be taken");
    world.pass(60);
    assert!(world.plan("new").is_idle());
    world.pass(1);
    assert_eq!(world.run("new").writes.iter().filter_map(moved_binding).count(), 2, "whatever keeps the other one");
}
