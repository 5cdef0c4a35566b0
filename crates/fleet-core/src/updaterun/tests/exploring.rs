//! Visits every reachable state of a small model once, and checks that there are no cycles and that an end is reachable
//! from every state. Together this means that every run ends, in any order of events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use fleet_api::conditions::Condition;
use fleet_api::kinds::Scope;
use fleet_api::types::UpdateRunStatus;

use super::fixture::RunFixture;

/// A state with its possible next steps.
pub(super) trait State: Sized {
    /// Hash of the state; 64 bits are enough for some ten thousand states.
    fn digest(&self) -> u64;
    /// All possible next steps, each with a name.
    fn successors(&self) -> Vec<(String, Self)>;
    /// Whether all runs have ended.
    fn is_end(&self) -> bool;
}

/// The successors of each state.
type Steps = Vec<(String, usize)>;

/// Visits all states and returns their number.
pub(super) fn explore<N: State>(first: N) -> usize {
    let mut numbers: BTreeMap<u64, usize> = BTreeMap::from([(first.digest(), 0)]);
    let mut queue = VecDeque::from([first]);
    let mut graph: Vec<Steps> = Vec::new();
    let mut ends: Vec<usize> = Vec::new();
    while let Some(state) = queue.pop_front() {
        if state.is_end() {
            ends.push(graph.len());
        }
        let mut number_of = |next: N| {
            let new = numbers.len();
            *numbers.entry(next.digest()).or_insert_with(|| {
                queue.push_back(next);
                new
            })
        };
        graph.push(state.successors().into_iter().map(|(name, next)| (name, number_of(next))).collect());
    }
    assert!(!ends.is_empty());
    let mut came_from: Vec<Vec<usize>> = vec![Vec::new(); graph.len()];
    for (state, steps) in graph.iter().enumerate() {
        for (_, next) in steps {
            came_from[*next].push(state);
        }
    }
    check_that_all_reach_an_end(&came_from, ends);
    check_that_there_are_no_circles(&graph, &came_from);
    graph.len()
}

fn check_that_all_reach_an_end(came_from: &[Vec<usize>], mut ends: Vec<usize>) {
    let mut reaches_end: BTreeSet<usize> = ends.iter().copied().collect();
    while let Some(state) = ends.pop() {
        ends.extend(came_from[state].iter().copied().filter(|from| reaches_end.insert(*from)));
    }
    assert_eq!(reaches_end.len(), came_from.len(), "from some states no end can be reached");
}

/// Removes states without successors repeatedly; the remaining states form cycles.
fn check_that_there_are_no_circles(graph: &[Steps], came_from: &[Vec<usize>]) {
    let mut leads_to: Vec<usize> = graph.iter().map(Vec::len).collect();
    let mut dead_ends: Vec<usize> = (0..graph.len()).filter(|state| leads_to[*state] == 0).collect();
    while let Some(state) = dead_ends.pop() {
        for from in &came_from[state] {
            leads_to[*from] -= 1;
            if leads_to[*from] == 0 {
                dead_ends.push(*from);
            }
        }
    }
    if let Some(first) = leads_to.iter().position(|count| *count > 0) {
        panic!("this can go on for ever: {:#?}", circle(graph, &leads_to, first));
    }
}

/// The steps of one cycle; `leads_to` is zero for all states outside of cycles.
fn circle(graph: &[Steps], leads_to: &[usize], first: usize) -> Vec<String> {
    let (mut path, mut names) = (vec![first], Vec::new());
    loop {
        let steps = &graph[path[path.len() - 1]];
        let (name, next) = steps.iter().find(|(_, next)| leads_to[*next] > 0).unwrap();
        names.push(name.clone());
        if let Some(begin) = path.iter().position(|state| state == next) {
            return names.split_off(begin);
        }
        path.push(*next);
    }
}

/// Hashes everything that a plan depends on and that can change.
pub(super) fn hash_fixture<S: Scope>(fixture: &RunFixture<S>, hasher: &mut DefaultHasher) {
    fixture.now.hash(hasher);
    for (name, run) in &fixture.runs {
        (name, run.spec.state, run.metadata.generation, &run.metadata.finalizers).hash(hasher);
        hash_status(run.status.as_ref(), hasher);
        hash_status(fixture.deferred.get(name), hasher);
    }
    for binding in &fixture.bindings {
        let metadata = &binding.metadata;
        (&binding.spec.resource_snapshot_name, metadata.generation, &metadata.annotations).hash(hasher);
        (&binding.spec.scheduling_policy_snapshot_name, &binding.spec.target_cluster).hash(hasher);
        hash_conditions(binding.status.as_ref().map_or(&[], |status| &status.conditions), hasher);
    }
    for request in &fixture.approvals {
        request.metadata.name.hash(hasher);
        hash_conditions(request.status.as_ref().map_or(&[], |status| &status.conditions), hasher);
    }
    let members: Vec<_> =
        fixture.members.iter().map(|member| (&member.metadata.name, &member.metadata.labels)).collect();
    (fixture.placement.is_some(), members, fixture.snapshots.len(), fixture.policies.len()).hash(hasher);
    serde_json::to_string(&fixture.strategy).unwrap().hash(hasher);
    fixture.hub.value().hash(hasher);
}

fn hash_status(status: Option<&UpdateRunStatus>, hasher: &mut DefaultHasher) {
    status.is_some().hash(hasher);
    let Some(status) = status else { return };
    hash_conditions(&status.conditions, hasher);
    for stage in status.stages_status.iter().chain(&status.deletion_stage_status) {
        (stage.start_time, stage.end_time).hash(hasher);
        hash_conditions(&stage.conditions, hasher);
        let tasks = stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status);
        tasks.for_each(|task| hash_conditions(&task.conditions, hasher));
        stage.clusters.iter().for_each(|cluster| hash_conditions(&cluster.conditions, hasher));
    }
}

fn hash_conditions(conditions: &[Condition], hasher: &mut DefaultHasher) {
    conditions.len().hash(hasher);
    for one in conditions {
        (&one.type_, one.status, one.observed_generation, one.last_transition_time).hash(hasher);
        (&one.reason, &one.message).hash(hasher);
    }
}

/// Finishes the hash of `hash_fixture`.
pub(super) fn hashed(with: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hasher = DefaultHasher::new();
    with(&mut hasher);
    hasher.finish()
}
