//! Every interleaving of plans, single writes, crashes, members' progress and one change, for a few clusters.
//!
//! A plan is made from the current state and executed write by write; any event may happen between two writes. Writes
//! with a precondition are rejected if their binding has changed. RolloutStarted writes are left out, because nothing
//! depends on them. The conditions of a cluster are interpreted here independently of the code under test.

use std::collections::{BTreeSet, HashSet, VecDeque};

use fleet_api::types::BindingState;

use super::fixture::{Fares, RolloutFixture, bump};
use crate::rollout::{BindingFacts, Budget, ClusterPhase, ClusterReport, Write};

/// No model here needs more ready clusters; this number of losses excuses every violation.
const MOST_NEEDED: usize = 2;

/// A plan that is being executed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pending {
    writes: Vec<WriteKey>,
    /// Bindings that changed since the plan was made.
    touched: BTreeSet<String>,
    /// Clusters that have failed since then.
    losses: usize,
}

/// Identity of a write: the binding, and whether it is a removal, a move, or a new apply strategy.
type WriteKey = (String, &'static str);

#[derive(Debug, Clone)]
struct State {
    fixture: RolloutFixture,
    pending: Option<(Pending, Vec<Write>)>,
    /// Whether the change is still to come.
    unchanged: bool,
}

/// One model: its initial state, and a change at some time.
struct Small {
    fixture: RolloutFixture,
    change: fn(&mut RolloutFixture),
    budget: (usize, usize, usize),
    /// Whether ready clusters may fail; with four clusters there would be too many states.
    failing: bool,
}

/// The last report about the current content of a binding.
fn reported(fixture: &RolloutFixture, index: usize) -> Fares {
    let facts = BindingFacts::of(&fixture.bindings[index]);
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

fn is_deleting(fixture: &RolloutFixture, index: usize) -> bool {
    fixture.bindings[index].metadata.deletion_timestamp.is_some()
}

impl State {
    fn key(&self) -> String {
        let bindings: Vec<_> = (0..self.fixture.bindings.len())
            .map(|index| {
                let binding = &self.fixture.bindings[index];
                let spec = &binding.spec;
                let reported = reported(&self.fixture, index);
                let deleting = is_deleting(&self.fixture, index);
                let name = binding.metadata.name.as_deref().unwrap();
                format!("{name} {} {} {reported:?} {deleting}", spec.state, spec.resource_snapshot_name)
            })
            .collect();
        let pending = self.pending.as_ref().map(|(pending, _)| pending);
        format!("{bindings:?} {pending:?} {} {:?}", self.unchanged, self.fixture.latest)
    }

    fn ready(&self) -> usize {
        let fixture = &self.fixture;
        (0..fixture.bindings.len())
            .filter(|index| !is_deleting(fixture, *index) && reported(fixture, *index) == Fares::Ready)
            .count()
    }

    fn carrying(&self) -> usize {
        self.fixture.bindings.iter().filter(|one| BindingFacts::of(one).has_content()).count()
    }

    /// Whether a cluster has content that is not known to fail and may keep the service up.
    fn may_serve(&self, name: &str) -> bool {
        let bindings = &self.fixture.bindings;
        let index = bindings.iter().position(|one| one.metadata.name.as_deref() == Some(name)).unwrap();
        BindingFacts::of(&bindings[index]).has_content() && reported(&self.fixture, index) != Fares::Failing
    }

    fn touch(&mut self, name: &str, loss: bool) {
        if let Some((pending, _)) = &mut self.pending {
            // Bindings that are not written may change.
            pending.losses = (pending.losses + usize::from(loss)).min(MOST_NEEDED);
            if pending.writes.iter().any(|(binding, _)| binding == name) {
                pending.touched.insert(name.to_owned());
            }
        }
    }

    /// All possible next steps.
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
            (small.change)(&mut changed.fixture);
            for (index, before) in self.fixture.bindings.iter().enumerate() {
                if before.metadata.generation != changed.fixture.bindings[index].metadata.generation {
                    let was_ready = reported(&self.fixture, index) == Fares::Ready;
                    changed.touch(before.metadata.name.as_deref().unwrap(), was_ready);
                }
            }
            next.push(changed);
        }
        next
    }

    fn planned(&self) -> Option<State> {
        let writes: Vec<_> = self.fixture.plan().writes.into_iter().filter(|write| !write.is_deferrable()).collect();
        (!writes.is_empty()).then(|| {
            let pending =
                Pending { writes: writes.iter().map(write_key).collect(), touched: BTreeSet::new(), losses: 0 };
            State { pending: Some((pending, writes)), ..self.clone() }
        })
    }

    /// Executes or rejects the next write of the plan. The limits must hold here.
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
        state.fixture.write(&write);
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

    /// One member makes progress or fails.
    fn members(&self, small: &Small) -> Vec<State> {
        let mut next = Vec::new();
        for index in 0..self.fixture.bindings.len() {
            let binding = &self.fixture.bindings[index];
            let name = binding.metadata.name.clone().unwrap();
            if is_deleting(&self.fixture, index) {
                let mut gone = self.clone();
                gone.fixture.bindings.remove(index);
                gone.touch(&name, false);
                next.push(gone);
                continue;
            }
            if !BindingFacts::of(binding).has_content() {
                continue;
            }
            let steps: &[Fares] = match reported(&self.fixture, index) {
                Fares::Silent => &[Fares::Applying, Fares::Ready],
                Fares::Applying if small.failing => &[Fares::Ready, Fares::Failing],
                Fares::Ready if small.failing => &[Fares::Failing],
                Fares::Ready => &[],
                _ => &[Fares::Ready],
            };
            for step in steps {
                let mut state = self.clone();
                let cluster = binding.spec.target_cluster.clone();
                state.fixture.report(&cluster, *step);
                let was_ready = reported(&self.fixture, index) == Fares::Ready;
                state.touch(&name, was_ready);
                next.push(state);
            }
        }
        next
    }

    /// Without further failures every wanted cluster ends up to date. `well` are states for which that is known.
    fn check_ends_well(mut self, small: &Small, well: &mut HashSet<String>) {
        let mut passed = Vec::new();
        while !well.contains(&self.key()) {
            passed.push(self.key());
            let plan = self.fixture.run();
            self.fixture.clean_up();
            let carrying = self.fixture.bindings.iter().filter(|one| BindingFacts::of(one).has_content());
            let carrying: Vec<_> = carrying.map(|one| one.spec.target_cluster.clone()).collect();
            self.fixture.report(&carrying.join(" "), Fares::Ready);
            if plan.is_idle() && self.key() == passed[passed.len() - 1] {
                let done = |one: &ClusterReport| one.phase == ClusterPhase::UpToDate;
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
        Write::Abandon { .. } | Write::SetRolloutStarted { .. } => unreachable!("left out"),
    }
}

/// Visits all states and returns their number, so that a model that has become trivial is noticed.
fn explore(small: &Small) -> usize {
    let start = State { fixture: small.fixture.clone(), pending: None, unchanged: true };
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

fn newer_content(fixture: &mut RolloutFixture) {
    fixture.latest = Some(2);
}

/// Two clusters are unscheduled and two others picked.
fn other_clusters(fixture: &mut RolloutFixture) {
    for binding in &mut fixture.bindings {
        binding.spec.state = BindingState::Unscheduled;
        bump(binding);
    }
    fixture.add("c Scheduled\nd Scheduled");
}

#[test]
fn updates_of_three_clusters_never_exceed_the_limits() {
    let fixture = RolloutFixture::new("n=3 u=1 s=0", "a Bound @0 ready\nb Bound @0 ready\nc Bound @0 ready");
    let situations = explore(&Small { fixture, change: newer_content, budget: (3, 1, 0), failing: true });
    assert!(situations > 1_000, "{situations}");
}

#[test]
fn updates_of_four_clusters_by_twos_never_exceed_the_limits() {
    let fixture =
        RolloutFixture::new("u=50%", "a Bound @0 ready\nb Bound @0 ready\nc Bound @0 ready\nd Bound @0 failing");
    let situations = explore(&Small { fixture, change: newer_content, budget: (4, 2, 1), failing: false });
    assert!(situations > 1_000, "{situations}");
}

#[test]
fn clusters_are_exchanged_without_exceeding_the_limits() {
    for (u, s) in [(0, 1), (1, 0), (1, 1), (2, 0), (0, 2)] {
        let fixture = RolloutFixture::new(&format!("n=2 u={u} s={s}"), "a Bound @1 ready\nb Bound @1 ready");
        let situations = explore(&Small { fixture, change: other_clusters, budget: (2, u, s), failing: true });
        assert!(situations > 100, "u={u} s={s}: {situations}");
    }
}

#[test]
fn clusters_are_exchanged_while_their_content_changes() {
    let fixture = RolloutFixture::new("n=2 u=1 s=1", "a Bound @0 ready\nb Bound @0 failing");
    let situations = explore(&Small { fixture, change: other_clusters, budget: (2, 1, 1), failing: true });
    assert!(situations > 1_000, "{situations}");
}

#[test]
fn an_apply_strategy_that_changes_in_between_disturbs_no_other_cluster() {
    let fixture = RolloutFixture::new("n=3 u=1 s=1", "a Bound @0 ready\nb Bound @0 ready\nc Bound @0 ready");
    let change = |fixture: &mut RolloutFixture| fixture.edit("n=3 u=1 s=1 apply=ServerSideApply");
    let situations = explore(&Small { fixture, change, budget: (3, 1, 1), failing: true });
    assert!(situations > 1_000, "{situations}");
}
