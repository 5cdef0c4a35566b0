//! What users do in a simulated world: a list of actions by seed.
//!
//! Decides the actions beforehand, from the seed alone, so that the same story can be told in good and in bad weather. Each
//! action is one request: what one request leads to may not depend on luck, what two lead to may. So that stories stay
//! short, each has one theme. Never looks at the world.
//!
//! | file | what users do |
//! |---|---|
//! | `placing` | members come, go and change; placements with every sort of policy |
//! | `content` | namespaces, maps and workloads on the hub |
//! | `rolling` | rolling updates: content, limits, apply strategies, overrides, evictions |
//! | `applying` | members' own objects: there before, edited, deleted; ways to apply and to take over |
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

use fleet_core::placement::SnapshotPace;
use fleet_runtime::KindId;
use serde_json::{Value, json};

use crate::Random;
use crate::member::{SimulatedMember, Works};
use crate::state::Leeway;
use placing::PolicyType;
use rolling::LONGEST_UNAVAILABLE_PERIOD;
use staging::Run;

const NAMESPACES: [&str; 2] = ["app-a", "app-b"];
/// A moment within which a rollout is on its way: members take some seconds until their workloads are ready.
const HASTE: Range<Duration> = Duration::ZERO..Duration::from_secs(4);
/// Chance in thousandths that the hub collects changes before it takes them up, as real ones do by default.
const UNHURRIED_HUB: u32 = 300;

/// One request of a user, and who appears with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// For people: `label member2 region=west`.
    pub what: String,
    /// The member whose own server is asked; the hub's if nobody.
    pub on: Option<String>,
    pub method: &'static str,
    pub path: String,
    pub body: Value,
    /// A member whose agent runs from now on.
    pub appears: Option<Arrival>,
    /// Whether the user asks again until the name is free that the request wants.
    pub insists: bool,
    /// Instead of time to settle: the next action follows after so long, in whatever state things are.
    pub haste: Option<Duration>,
}

/// Who comes with a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    pub member: SimulatedMember,
    /// Whether its agent has gone on running since it was a member before, if it was.
    pub lives_on: bool,
}

/// What a story is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    Placing,
    Rolling,
    Applying,
    Staging,
}

impl Theme {
    pub const ALL: [Self; 4] = [Self::Placing, Self::Rolling, Self::Applying, Self::Staging];

    /// Seeds take turns, so that every range of them has all themes.
    pub fn of(seed: u64) -> Self {
        Self::ALL[usize::try_from(seed % Self::ALL.len() as u64).unwrap_or(0)]
    }

    /// Actions of a story after its opening.
    pub fn length(self) -> usize {
        match self {
            Self::Placing | Self::Applying => 6,
            Self::Rolling => 5,
            Self::Staging => 8,
        }
    }

    /// What the agents of its members do with Works. Where several placements select the same things, members that apply
    /// would give them to whoever comes first, which is luck.
    fn works(self) -> Works {
        match self {
            Self::Placing => Works::Acknowledged,
            Self::Rolling | Self::Applying | Self::Staging => Works::Applied,
        }
    }
}

/// The actions before the first storm, and those that a storm follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    pub theme: Theme,
    pub opening: Vec<Action>,
    pub actions: Vec<Action>,
    /// What it leaves to luck.
    pub leeway: Leeway,
    /// How soon the hub takes changes of content up.
    pub pace: SnapshotPace,
    /// How long clusters are waited for that have something placed whose availability nobody can tell.
    pub untracked_for: Option<Duration>,
}

/// The story of a seed.
pub fn story(seed: u64) -> Story {
    let theme = Theme::of(seed);
    let mut author = Author::new(Random::new(seed).fork(), theme);
    let pace = if author.random.chance(UNHURRIED_HUB) { SnapshotPace::default() } else { SnapshotPace::AT_ONCE };
    match theme {
        Theme::Placing => author.open_placing(),
        Theme::Rolling => author.open_rolling(),
        Theme::Applying => author.open_applying(),
        Theme::Staging => author.open_staging(),
    }
    let opening = std::mem::take(&mut author.story);
    while author.story.len() < theme.length() {
        match theme {
            Theme::Placing => author.place_or_change(),
            Theme::Rolling => author.roll(),
            Theme::Applying => author.apply_or_tamper(),
            Theme::Staging => author.stage(),
        }
    }
    if matches!(theme, Theme::Placing | Theme::Rolling) {
        author.lift_limits();
    }
    // Nothing follows the last one, so it has all the time.
    if let Some(last) = author.story.last_mut() {
        last.haste = None;
    }
    let untracked_for = (!author.untracked.is_empty()).then_some(LONGEST_UNAVAILABLE_PERIOD);
    Story { theme, opening, actions: author.story, leeway: author.leeway, pace, untracked_for }
}

/// What the author of a story remembers of it.
struct Author {
    random: Random,
    theme: Theme,
    members: BTreeSet<String>,
    /// Who was a member once and keeps its server.
    former: BTreeSet<String>,
    /// By path.
    placements: BTreeMap<String, Placed>,
    /// Paths of maps, of workloads and of objects whose availability nobody can tell, on the hub.
    maps: BTreeSet<String>,
    workloads: BTreeSet<String>,
    untracked: BTreeSet<String>,
    /// Paths of overrides.
    overrides: BTreeSet<String>,
    /// Names of placements that have a disruption budget.
    budgets: BTreeSet<String>,
    runs: Vec<Run>,
    /// Stages of the strategy that runs follow.
    stages: Vec<Value>,
    /// Whether everything that is asked for now must be possible.
    careful: bool,
    /// Makes names and contents differ.
    counter: u32,
    story: Vec<Action>,
    leeway: Leeway,
}

/// A placement that was made.
#[derive(Debug, Clone)]
struct Placed {
    name: String,
    /// Its type cannot be changed.
    policy: PolicyType,
    namespace: Option<&'static str>,
    /// The request that made it.
    made: Action,
}

impl Author {
    fn new(random: Random, theme: Theme) -> Self {
        Self {
            random,
            theme,
            members: BTreeSet::new(),
            former: BTreeSet::new(),
            placements: BTreeMap::new(),
            maps: BTreeSet::new(),
            workloads: BTreeSet::new(),
            untracked: BTreeSet::new(),
            overrides: BTreeSet::new(),
            budgets: BTreeSet::new(),
            runs: Vec::new(),
            stages: Vec::new(),
            careful: false,
            counter: 0,
            story: Vec::new(),
            leeway: Leeway::default(),
        }
    }

    fn tell(&mut self, what: String, method: &'static str, path: String, body: Value) {
        self.story.push(Action { what, on: None, method, path, body, appears: None, insists: false, haste: None });
    }

    /// Remembers the placement that the last request made.
    fn placed(&mut self, path: String, name: String, policy: PolicyType, namespace: Option<&'static str>) {
        if let Some(made) = self.story.last().cloned() {
            self.placements.insert(path, Placed { name, policy, namespace, made });
        }
    }

    /// The same on a member's own server.
    fn tell_on(&mut self, member: &str, what: String, method: &'static str, path: String, body: Value) {
        self.tell(what, method, path, body);
        if let Some(action) = self.story.last_mut() {
            action.on = Some(member.to_owned());
        }
    }

    /// Creates an object of a kind; gives its path.
    fn create(&mut self, what: String, kind: &KindId, namespace: Option<&str>, name: &str, rest: Value) -> String {
        let mut body = json!({"apiVersion": kind.api_version(), "kind": &*kind.kind, "metadata": {"name": name}});
        if let Some(namespace) = namespace {
            body["metadata"]["namespace"] = namespace.into();
        }
        merge(&mut body, rest);
        self.tell(what, "POST", kind.collection_path(namespace), body);
        kind.object_path(namespace, name, None)
    }

    /// The next request follows what was told last in a moment, and both change content.
    fn hurry(&mut self) {
        self.leeway.hurried = true;
        self.in_haste();
    }

    /// The next request follows what was told last in a moment.
    fn in_haste(&mut self) {
        let haste = self.random.duration(&HASTE);
        if let Some(action) = self.story.last_mut() {
            action.haste = Some(haste);
        }
    }

    fn number(&mut self) -> u32 {
        self.counter += 1;
        self.counter
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.index(all.len())]
    }

    fn a_path(&mut self, from: impl Fn(&Self) -> &BTreeSet<String>) -> Option<String> {
        let all: Vec<String> = from(self).iter().cloned().collect();
        self.random.pick(&all).cloned()
    }

    fn a_placement(&mut self) -> Option<(String, Placed)> {
        let all: Vec<(String, Placed)> =
            self.placements.iter().map(|(path, placed)| (path.clone(), placed.clone())).collect();
        self.random.pick(&all).cloned()
    }
}

/// Lays one object over another, field by field.
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
