//! Every interleaving of plans, single writes, crashes, members' progress and one change of mind, for a few clusters.
//!
//! A plan is made from what is true at that moment and then carried out write by write; between two writes anything may
//! happen. Writes that depend on what was observed are refused where their binding has changed since. Announcements are left
//! out: nothing depends on them. What a cluster says is read here once more, word by word, and not by the code under test.

use std::collections::{BTreeSet, HashSet, VecDeque};

use fleet_api::types::BindingState;

use super::fixture::{Fares, World, bump};
use crate::rollout::{BindingFacts, Budget, ClusterReport, Standing, Write};

/// No world here needs more ready clusters; so many losses excuse everything.
const MOST_NEEDED: usize = 2;

/// A plan that is being carried out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pending {
    writes: Vec<WriteKey>,
    /// Bindings that changed since the plan was made.
    touched: BTreeSet<String>,
    /// Clusters that stopped being ready by themselves since then.
    losses: usize,
}

/// What tells writes apart: the binding, and whether it is a removal, a move, or a new apply strategy.
type WriteKey = (String, &'static str);

#[derive(Debug, Clone)]
struct State {
    world: World,
    pending: Option<(Pending, Vec<Write>)>,
    /// Whether the change of mind is still to come.
    unchanged: bool,
}

/// One small world: where it starts, and what changes at some moment.
struct Small {
    world: World,
    change: fn(&mut World),
    budget: (usize, usize, usize),
    /// Whether clusters that are ready may fail; with four of them there would be too many situations.
    failing: bool,
}

/// What was last said of the content that a binding has now.
fn said(world: &World, index: usize) -> Fares {
    let facts = BindingFacts::of(&world.bindings[index]);
    let current = |type_: &str| {
        let is_it = |one: &&fleet_api::conditions::Condition| one.type_ == type_;
        let found = facts.conditions.iter().find(is_it).filter(|one| one.observed_generation == facts.generation);
        found.map(|one| one.status.to_string())
    };
    match (current("Applied").as_deref(), current("Available").as_deref()) {
        (_, Some("True")) => Fares::Ready,
        (_, Some(_)) => Fares::Failing,
        (Some(_), None) => Fares::Applying,
        (None, None) => Fares::Silent,
    }
}

fn is_deleting(world: &World, index: usize) -> bool {
    world.bindings[index].metadata.deletion_timestamp.is_some()
}

impl State {
    fn key(&self) -> String {
        let bindings: Vec<_> = (0..self.world.bindings.len())
            .map(|index| {
                let binding = &self.world.bindings[index];
                let spec = &binding.spec;
                let said = said(&self.world, index);
                let deleting = is_deleting(&self.world, index);
                let name = binding.metadata.name.as_deref().unwrap();
                format!("{name} {} {} {said:?} {deleting}", spec.state, spec.resource_snapshot_name)
            })
            .collect();
        let pending = self.pending.as_ref().map(|(pending, _)| pending);
        format!("{bindings:?} {pending:?} {} {:?}", self.unchanged, self.world.latest)
    }

    fn ready(&self) -> usize {
        let world = &self.world;
        (0..world.bindings.len())
            .filter(|index| !is_deleting(world, *index) && said(world, *index) == Fares::Ready)
            .count()
    }

    fn carrying(&self) -> usize {
        self.world.bindings.iter().filter(|one| BindingFacts::of(one).carries()).count()
    }

    /// Whether a cluster has something that is not known to fail: what it has may be what keeps the service up.
    fn may_serve(&self, name: &str) -> bool {
        let bindings = &self.world.bindings;
        let index = bindings.iter().position(|one| one.metadata.name.as_deref() == Some(name)).unwrap();
        BindingFacts::of(&bindings[index]).carries() && said(&self.world, index) != Fares::Failing
    }

    fn touch(&mut self, name: &str, loss: bool) {
        if let Some((pending, _)) = &mut self.pending {
            // What is not to be written may change.
            pending.losses = (pending.losses + usize::from(loss)).min(MOST_NEEDED);
            if pending.writes.iter().any(|(binding, _)| binding == name) {
                pending.touched.insert(name.to_owned());
            }
        }
    }

    /// Everything that may happen next.
    fn successors(&self, small: &Small) -> Vec<State> {
        let mut next = self.members(small);
        if self.pending.is_none() {
            next.extend(self.planned());
        } else {
            next.push(State { pending: None, ..self.clone() });
            next.push(self.written(small));
        }
        if self.unchanged {
            let mut changed = self.clone();
            changed.unchanged = false;
            (small.change)(&mut changed.world);
            for (index, before) in self.world.bindings.iter().enumerate() {
                if before.metadata.generation != changed.world.bindings[index].metadata.generation {
                    let was_ready = said(&self.world, index) == Fares::Ready;
                    changed.touch(before.metadata.name.as_deref().unwrap(), was_ready);
                }
            }
            next.push(changed);
        }
        next
    }

    fn planned(&self) -> Option<State> {
        let writes: Vec<_> = self.world.plan().writes.into_iter().filter(|write| !write.may_wait()).collect();
        (!writes.is_empty()).then(|| {
            let pending =
                Pending { writes: writes.iter().map(write_key).collect(), touched: BTreeSet::new(), losses: 0 };
            State { pending: Some((pending, writes)), ..self.clone() }
        })
    }

    /// The next write of the plan is carried out, or refused. This is where the limits must hold.
    fn written(&self, small: &Small) -> State {
        let mut state = self.clone();
        let Some((mut pending, mut writes)) = state.pending.take() else { return state };
        let write = writes.remove(0);
        let (name, what) = pending.writes.remove(0);
        if what != "strategy" && pending.touched.contains(&name) {
            return state;
        }
        let (target, max_unavailable, max_surge) = small.budget;
        let budget = Budget { target, max_unavailable, max_surge, ready: 0, carrying: 0 };
        let harmless = what == "strategy" || !state.may_serve(&name);
        state.world.write(&write);
        let after = state.ready();
        assert!(
            harmless || after + pending.losses >= budget.needed(),
            "{what} of {name} leaves {after} ready, {} needed, {} lost\n{}",
            budget.needed(),
            pending.losses,
            self.key(),
        );
        assert!(state.carrying() <= target + max_surge, "{what} of {name} exceeds the surge\n{}", self.key());
        pending.touched.remove(&name);
        state.pending = (!writes.is_empty()).then_some((pending, writes));
        state
    }

    /// Any one member makes a step, for better or worse.
    fn members(&self, small: &Small) -> Vec<State> {
        let mut next = Vec::new();
        for index in 0..self.world.bindings.len() {
            let binding = &self.world.bindings[index];
            let name = binding.metadata.name.clone().unwrap();
            if is_deleting(&self.world, index) {
                let mut gone = self.clone();
                gone.world.bindings.remove(index);
                gone.touch(&name, false);
                next.push(gone);
                continue;
            }
            if !BindingFacts::of(binding).carries() {
                continue;
            }
            let steps: &[Fares] = match said(&self.world, index) {
                Fares::Silent => &[Fares::Applying, Fares::Ready],
                Fares::Applying if small.failing => &[Fares::Ready, Fares::Failing],
                Fares::Ready if small.failing => &[Fares::Failing],
                Fares::Ready => &[],
                _ => &[Fares::Ready],
            };
            for step in steps {
                let mut state = self.clone();
                let cluster = binding.spec.target_cluster.clone();
                state.world.report(&cluster, *step);
                let was_ready = said(&self.world, index) == Fares::Ready;
                state.touch(&name, was_ready);
                next.push(state);
            }
        }
        next
    }

    /// From here on all goes well: it ends with every wanted cluster up to date. `well` are situations of which that is known.
    fn check_ends_well(mut self, small: &Small, well: &mut HashSet<String>) {
        let mut passed = Vec::new();
        while !well.contains(&self.key()) {
            passed.push(self.key());
            let plan = self.world.run();
            self.world.clean_up();
            let carrying = self.world.bindings.iter().filter(|one| BindingFacts::of(one).carries());
            let carrying: Vec<_> = carrying.map(|one| one.spec.target_cluster.clone()).collect();
            self.world.report(&carrying.join(" "), Fares::Ready);
            if plan.is_idle() && self.key() == passed[passed.len() - 1] {
                let done = |one: &ClusterReport| one.standing == Standing::UpToDate;
                assert!(plan.report.clusters.iter().all(done), "{:#?}", plan.report);
                assert_eq!(plan.report.clusters.len(), small.budget.0);
                break;
            }
        }
        well.extend(passed);
    }
}

fn write_key(write: &Write) -> WriteKey {
    match write {
        Write::SetApplyStrategy { binding, .. } => (binding.clone(), "strategy"),
        Write::Remove { binding } => (binding.clone(), "removal"),
        Write::Move(change) => (change.binding.clone(), "move"),
        Write::Abandon { .. } | Write::Announce { .. } => unreachable!("left out"),
    }
}

/// Goes through all that can happen. Gives the number of situations, so that a world that has become trivial is noticed.
fn explore(small: &Small) -> usize {
    let start = State { world: small.world.clone(), pending: None, unchanged: true };
    let mut seen = HashSet::from([start.key()]);
    let mut queue = VecDeque::from([start]);
    let mut well = HashSet::new();
    while let Some(state) = queue.pop_front() {
        for next in state.successors(small) {
            if seen.insert(next.key()) {
                queue.push_back(next);
            }
        }
        if state.pending.is_none() && !state.unchanged {
            state.check_ends_well(small, &mut well);
        }
    }
    seen.len()
}

fn newer_content(world: &mut World) {
    world.latest = Some(2);
}

/// Two clusters are given up and two others picked.
fn other_clusters(world: &mut World) {
    for binding in &mut world.bindings {
        binding.spec.state = BindingState::Unscheduled;
        bump(binding);
    }
    world.add("c Scheduled\nd Scheduled");
}

#[test]
fn updates_of_three_clusters_never_exceed_the_limits() {
    let world = World::new("n=3 u=1 s=0", "a Bound @0 ready\nb Bound @0 ready\nc Bound @0 ready");
    let situations = explore(&Small { world, change: newer_content, budget: (3, 1, 0), failing: true });
    assert!(situations > 1_000, "{situations}");
}

#[test]
fn updates_of_four_clusters_by_twos_never_exceed_the_limits() {
    let world = World::new("u=50%", "a Bound @0 ready\nb Bound @0 ready\nc Bound @0 ready\nd Bound @0 failing");
    let situations = explore(&Small { world, change: newer_content, budget: (4, 2, 1), failing: false });
    assert!(situations > 1_000, "{situations}");
}

#[test]
fn clusters_are_exchanged_without_exceeding_the_limits() {
    for (u, s) in [(0, 1), (1, 0), (1, 1), (2, 0), (0, 2)] {
        let world = World::new(&format!("n=2 u={u} s={s}"), "a Bound @1 ready\nb Bound @1 ready");
        let situations = explore(&Small { world, change: other_clusters, budget: (2, u, s), failing: true });
        assert!(situations > 100, "u={u} s={s}: {situations}");
    }
}

#[test]
fn clusters_are_exchanged_while_their_content_changes() {
    let world = World::new("n=2 u=1 s=1", "a Bound @0 ready\nb Bound @0 failing");
    let situations = explore(&Small { world, change: other_clusters, budget: (2, 1, 1), failing: true });
    assert!(situations > 1_000, "{situations}");
}

#[test]
fn an_apply_strategy_that_changes_in_between_disturbs_nobody_else() {
    let world = World::new("n=3 u=1 s=1", "a Bound @0 ready\nb Bound @0 ready\nc Bound @0 ready");
    let change = |world: &mut World| world.edit("n=3 u=1 s=1 apply=ServerSideApply");
    let situations = explore(&Small { world, change, budget: (3, 1, 1), failing: true });
    assert!(situations > 1_000, "{situations}");
}
