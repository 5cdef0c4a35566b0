//! Random scenarios: a list of requests of users, generated from a seed alone.
//!
//! A scenario is generated before it runs, so that the same requests can be sent with and without faults. The final
//! state after one action must be deterministic; most actions are therefore single requests with time to settle. Each
//! scenario has one kind, which keeps it short.
//!
//! | file | actions |
//! |---|---|
//! | `placing` | members join, leave and change; placements with every policy |
//! | `content` | namespaces, ConfigMaps and workloads on the hub |
//! | `rolling` | rolling updates: content, limits, apply strategies, overrides, evictions |
//! | `applying` | objects of members: existing before, edited, deleted; apply strategies and take-over |
//! | `staging` | staged update runs: stages, approvals, stop and resume |

mod applying;
mod content;
mod placing;
mod rolling;
mod staging;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use fleet_api::kinds::ClusterResourcePlacementEviction;
use fleet_core::placement::SnapshotIntervals;
use fleet_runtime::KindId;
use serde_json::{Value, json};

use crate::Random;
use crate::member::{SimulatedMember, WorkHandling};
use crate::state::Tolerance;
use placing::PolicyType;
use rolling::LONGEST_UNAVAILABLE_PERIOD;
use staging::Run;

const NAMESPACES: [&str; 2] = ["app-a", "app-b"];
/// Pause between overlapping actions. Workloads take some seconds to become ready, so a rollout is still in progress.
const OVERLAP: Range<Duration> = Duration::ZERO..Duration::from_secs(4);
/// Chance in thousandths that the hub collects changes before it makes a snapshot, as real hubs do by default.
const COLLECTING_HUB: u32 = 300;

/// One request of a user, and the member that joins with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// For the output: `label member2 region=west`.
    pub what: String,
    /// The member whose API server receives the request; `None` for the hub's.
    pub on: Option<String>,
    pub method: &'static str,
    pub path: String,
    pub body: Value,
    /// A member whose agent starts after the request.
    pub joining: Option<JoiningMember>,
    /// Whether the user repeats the request while the name of the new object is taken.
    pub retries_conflict: bool,
    /// If set, the next action follows after this time, and the fleet does not get time to settle.
    pub next_after: Option<Duration>,
}

impl Action {
    pub fn changes_apply_strategy(&self) -> bool {
        self.method == "PATCH" && self.body["spec"]["strategy"].get("applyStrategy").is_some()
    }

    pub fn is_eviction(&self) -> bool {
        self.method == "POST" && self.path == KindId::of::<ClusterResourcePlacementEviction>().collection_path(None)
    }
}

/// A member that joins with a request.
#[derive(Debug, Clone, PartialEq)]
pub struct JoiningMember {
    pub member: SimulatedMember,
    /// Whether the agent keeps running if the member was in the fleet before.
    pub keeps_agent: bool,
}

/// What the actions of a scenario are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScenarioKind {
    Placing,
    Rolling,
    Applying,
    Staging,
}

impl ScenarioKind {
    pub const ALL: [Self; 4] = [Self::Placing, Self::Rolling, Self::Applying, Self::Staging];

    /// Seeds alternate, so that every range of four seeds has all kinds.
    pub fn of(seed: u64) -> Self {
        Self::ALL[usize::try_from(seed % Self::ALL.len() as u64).unwrap_or(0)]
    }

    /// Number of actions after the setup.
    pub fn length(self) -> usize {
        match self {
            Self::Placing | Self::Applying => 6,
            Self::Rolling => 5,
            Self::Staging => 8,
        }
    }

    /// What member agents do with Works. In `Placing` several placements may select the same object; if agents applied
    /// Works, the first Work would own it, which is nondeterministic.
    fn works(self) -> WorkHandling {
        match self {
            Self::Placing => WorkHandling::Acknowledged,
            Self::Rolling | Self::Applying | Self::Staging => WorkHandling::Applied,
        }
    }
}

/// Actions without faults (`setup`), and actions that are followed by faults.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub kind: ScenarioKind,
    pub setup: Vec<Action>,
    pub actions: Vec<Action>,
    /// Differences between two runs that are allowed.
    pub tolerance: Tolerance,
    /// How long the hub collects changes of content before it makes a snapshot.
    pub snapshot_intervals: SnapshotIntervals,
    /// How long a rollout waits for a cluster with resources whose availability cannot be tracked.
    pub untracked_for: Option<Duration>,
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let kind = ScenarioKind::of(seed);
    let mut builder = ScenarioBuilder::new(Random::new(seed).fork(), kind);
    let snapshot_intervals =
        if builder.random.chance(COLLECTING_HUB) { SnapshotIntervals::default() } else { SnapshotIntervals::NONE };
    match kind {
        ScenarioKind::Placing => builder.set_up_placing(),
        ScenarioKind::Rolling => builder.set_up_rolling(),
        ScenarioKind::Applying => builder.set_up_applying(),
        ScenarioKind::Staging => builder.set_up_staging(),
    }
    let setup = std::mem::take(&mut builder.actions);
    while builder.actions.len() < kind.length() {
        match kind {
            ScenarioKind::Placing => builder.add_placing_action(),
            ScenarioKind::Rolling => builder.add_rolling_action(),
            ScenarioKind::Applying => builder.add_applying_action(),
            ScenarioKind::Staging => builder.add_staging_action(),
        }
    }
    if matches!(kind, ScenarioKind::Placing | ScenarioKind::Rolling) {
        builder.lift_limits();
    }
    // After the last action the fleet always gets time to settle.
    if let Some(last) = builder.actions.last_mut() {
        last.next_after = None;
    }
    let untracked_for = (!builder.untracked.is_empty()).then_some(LONGEST_UNAVAILABLE_PERIOD);
    Scenario { kind, setup, actions: builder.actions, tolerance: builder.tolerance, snapshot_intervals, untracked_for }
}

/// The objects that the actions so far have created, to choose the next action from.
struct ScenarioBuilder {
    random: Random,
    kind: ScenarioKind,
    members: BTreeSet<String>,
    /// Members that left and whose API server still exists.
    left_members: BTreeSet<String>,
    placements: BTreeMap<String, Placed>,
    /// Paths on the hub of ConfigMaps, of workloads and of objects whose availability cannot be tracked.
    maps: BTreeSet<String>,
    workloads: BTreeSet<String>,
    untracked: BTreeSet<String>,
    overrides: BTreeSet<String>,
    /// Names of placements that have a disruption budget.
    budgets: BTreeSet<String>,
    runs: Vec<Run>,
    /// Stages of the staged update strategy.
    stages: Vec<Value>,
    /// Whether content must be valid: no missing images, no failing overrides.
    only_valid: bool,
    /// Whether some content was not valid.
    content_may_fail: bool,
    /// Makes names and contents unique.
    counter: u32,
    actions: Vec<Action>,
    tolerance: Tolerance,
}

#[derive(Debug, Clone)]
struct Placed {
    name: String,
    /// The type of a policy is immutable.
    policy: PolicyType,
    namespace: Option<&'static str>,
    /// The create request.
    created_by: Action,
}

impl ScenarioBuilder {
    fn new(random: Random, kind: ScenarioKind) -> Self {
        Self {
            random,
            kind,
            members: BTreeSet::new(),
            left_members: BTreeSet::new(),
            placements: BTreeMap::new(),
            maps: BTreeSet::new(),
            workloads: BTreeSet::new(),
            untracked: BTreeSet::new(),
            overrides: BTreeSet::new(),
            budgets: BTreeSet::new(),
            runs: Vec::new(),
            stages: Vec::new(),
            only_valid: false,
            content_may_fail: false,
            counter: 0,
            actions: Vec::new(),
            tolerance: Tolerance::default(),
        }
    }

    fn add(&mut self, what: String, method: &'static str, path: String, body: Value) {
        self.actions.push(Action {
            what,
            on: None,
            method,
            path,
            body,
            joining: None,
            retries_conflict: false,
            next_after: None,
        });
    }

    /// Records the placement that the last action creates.
    fn remember_placement(&mut self, path: String, name: String, policy: PolicyType, namespace: Option<&'static str>) {
        if let Some(created_by) = self.actions.last().cloned() {
            self.placements.insert(path, Placed { name, policy, namespace, created_by });
        }
    }

    /// Adds an action on a member's API server.
    fn add_on_member(&mut self, member: &str, what: String, method: &'static str, path: String, body: Value) {
        self.add(what, method, path, body);
        if let Some(action) = self.actions.last_mut() {
            action.on = Some(member.to_owned());
        }
    }

    /// Adds an action that creates an object; returns the path of the object.
    fn create(&mut self, what: String, kind: &KindId, namespace: Option<&str>, name: &str, rest: Value) -> String {
        let mut body = json!({"apiVersion": kind.api_version(), "kind": &*kind.kind, "metadata": {"name": name}});
        if let Some(namespace) = namespace {
            body["metadata"]["namespace"] = namespace.into();
        }
        merge(&mut body, rest);
        self.add(what, "POST", kind.collection_path(namespace), body);
        kind.object_path(namespace, name, None)
    }

    /// Lets the next action overlap with the last one. Both change content, so the number of snapshots becomes
    /// nondeterministic.
    fn overlap_content(&mut self) {
        self.tolerance.overlapping_changes = true;
        self.overlap();
    }

    /// Lets the next action overlap with the last one.
    fn overlap(&mut self) {
        let next_after = self.random.duration(&OVERLAP);
        if let Some(action) = self.actions.last_mut() {
            action.next_after = Some(next_after);
        }
    }

    fn number(&mut self) -> u32 {
        self.counter += 1;
        self.counter
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.index(all.len())]
    }

    fn pick_path(&mut self, from: impl Fn(&Self) -> &BTreeSet<String>) -> Option<String> {
        let all: Vec<String> = from(self).iter().cloned().collect();
        self.random.pick(&all).cloned()
    }

    fn pick_placement(&mut self) -> Option<(String, Placed)> {
        let all: Vec<(String, Placed)> =
            self.placements.iter().map(|(path, placed)| (path.clone(), placed.clone())).collect();
        self.random.pick(&all).cloned()
    }
}

/// Merges one object into another, field by field.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
