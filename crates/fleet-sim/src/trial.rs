//! One seed's trial: a story is told in calm and in stormy weather, and must end in the same state.
//!
//! Decides when it storms, which agents die, when clocks are set and how wrong, and what counts as a failure.
//! After every action there is time to settle: scheduling keeps what it has, so what two actions lead to may depend on which
//! was seen first, and that is no fault. Laws are watched over all the time. Never decides what users do.

mod quiet;

use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fleet_runtime::Metrics;
use jiff::SignedDuration;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::time::Instant;

use crate::Random;
use crate::laws::{Laws, rest};
use crate::network::{CrashMoment, Trace, Weather};
use crate::state::{FleetState, difference};
use crate::story::{Action, Story, Theme, story};
use crate::world::{AgentMetrics, Ground, HUB, World, WorldError, origin};
use quiet::Written;

/// How long it storms after an action. Long enough for watches to break several times.
const STORM: Range<Duration> = Duration::from_secs(5)..Duration::from_secs(40);
/// Chance in thousandths that something befalls an agent during a storm, again and again.
const BLOWS: u32 = 600;
/// Chance in thousandths that its clock is set, rather than that it is to die.
const CLOCK_IS_SET: u32 = 300;
/// How long after the last blow a clock is set.
const UNTIL_CLOCK_IS_SET: Range<Duration> = Duration::ZERO..Duration::from_secs(6);
/// Writes that an agent lives through at most once its death is decided.
const WRITES_BEFORE_DEATH: u64 = 6;
/// How long a dead agent stays away.
const AWAY: Range<Duration> = Duration::ZERO..Duration::from_secs(8);
/// Chance in thousandths that the agent that dies is the hub's.
const HUB_DIES: u32 = 600;
/// By how much an agent's clock is fast or slow at most: enough to be out of order, too little for heartbeats to count as
/// lost.
const CLOCK_JUMP: Duration = Duration::from_secs(20);
/// Time to settle after a storm: a request that hangs (1 min), then the longest backoff (1 min) and the longest pause of a
/// watch (30 s).
const SETTLE: Duration = Duration::from_secs(150);
/// Time to settle where nothing goes wrong: a new member's agent may have to wait for its rights once or twice.
const SETTLE_IN_CALM: Duration = Duration::from_secs(40);
/// The same where rollouts go from cluster to cluster and runs wait for a while between stages.
const SETTLE_ROLLOUTS: Duration = Duration::from_mins(2);
/// A run that gets no further says so after five minutes, by clocks that may be wrong.
const RUNS_GET_STUCK: Duration = Duration::from_secs(300 + 3 * CLOCK_JUMP.as_secs());
/// Time for agents that were started anew to look at everything.
const RESTART: Duration = Duration::from_secs(20);

/// What a trial came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Requests that went over the network in the storm.
    pub requests: usize,
    /// Of these, those that a fault happened to.
    pub faults: usize,
    pub crashes: usize,
}

/// A seed that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    pub seed: u64,
    pub why: String,
    /// The story, one action a line.
    pub story: String,
    /// What went over the network: without faults if that went wrong already, otherwise in the storm.
    pub trace: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { seed, why, story, .. } = self;
        write!(f, "seed {seed} failed: {why}\nits story:\n{story}\nreplay it: cargo xtask sim --seed {seed}")
    }
}

/// Trials of any seeds, which share what is the same in all of them.
#[derive(Debug, Clone)]
pub struct Trials {
    ground: Ground,
}

impl Trials {
    /// Lays the ground, on a thread of its own: whoever asks may be within a runtime.
    pub fn prepare() -> Result<Self, TrialError> {
        let lay = || -> Result<Ground, TrialError> { Ok(virtual_time()?.block_on(Ground::lay())?) };
        let laid = std::thread::spawn(lay).join();
        let ground = laid.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Self { ground })
    }

    /// Runs a seed in both weathers. Must not be called within a runtime: it has its own.
    pub fn run(&self, seed: u64) -> Result<Outcome, Box<Failure>> {
        trial(&self.ground, seed)
    }

    /// The trace of a seed's storm.
    pub fn stormy_trace(&self, seed: u64) -> Result<String, TrialError> {
        tell(&self.ground, seed, &story(seed), Sky::Stormy).map(|told| told.trace.to_string())
    }
}

fn trial(ground: &Ground, seed: u64) -> Result<Outcome, Box<Failure>> {
    let telling = story(seed);
    let failure = |why: String, trace: String| {
        let lines: Vec<String> =
            telling.opening.iter().chain(&telling.actions).map(|one| format!("  {}", one.what)).collect();
        Box::new(Failure { seed, why, story: lines.join("\n"), trace })
    };
    let calm = tell(ground, seed, &telling, Sky::Calm)
        .map_err(|error| failure(format!("no calm world: {error}"), String::new()))?;
    let storm = tell(ground, seed, &telling, Sky::Stormy)
        .map_err(|error| failure(format!("no stormy world: {error}"), String::new()))?;
    let trace = if calm.wrongs.is_empty() { &storm.trace } else { &calm.trace };
    let mut wrongs: Vec<String> = calm.wrongs.iter().map(|wrong| format!("without faults: {wrong}")).collect();
    wrongs.extend(storm.wrongs.iter().map(|wrong| format!("with faults: {wrong}")));
    if calm.answers != storm.answers {
        wrongs.push(format!("users got other answers: {:?} and {:?}", calm.answers, storm.answers));
    }
    wrongs.extend(difference(&calm.state, &storm.state).map(|text| format!("the states differ:\n{text}")));
    if wrongs.is_empty() { Ok(storm.outcome) } else { Err(failure(wrongs.join("\n"), trace.to_string())) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sky {
    Calm,
    Stormy,
}

impl Sky {
    /// How far clocks may be apart. Times are told in whole seconds.
    fn skew(self) -> SignedDuration {
        match self {
            Self::Calm => SignedDuration::from_secs(1),
            Self::Stormy => SignedDuration::try_from(CLOCK_JUMP * 2).unwrap_or(SignedDuration::MAX),
        }
    }
}

/// A story that was told.
struct Told {
    state: String,
    /// What users were answered.
    answers: Vec<u16>,
    wrongs: Vec<String>,
    outcome: Outcome,
    trace: Trace,
}

/// Why a story cannot be told at all.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error(transparent)]
    World(#[from] WorldError),
    #[error("the hub's state cannot be read: {0}")]
    State(#[from] kube::Error),
    #[error("no runtime: {0}")]
    Runtime(#[from] std::io::Error),
}

fn virtual_time() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()
}

/// Tells a story on a runtime of its own: one thread, paused time.
fn tell(ground: &Ground, seed: u64, story: &Story, sky: Sky) -> Result<Told, TrialError> {
    virtual_time()?.block_on(async {
        let (mut of_hub, mut of_members) = (Registry::default(), Registry::default());
        let metrics =
            AgentMetrics { hub: Metrics::registered(&mut of_hub), members: Metrics::registered(&mut of_members) };
        let world = World::new(ground, seed, metrics).await?;
        let laws = Arc::new(Mutex::new(Laws::from(origin(), sky.skew())));
        world.network().show_writes({
            let laws = laws.clone();
            move |write| laws.lock().observe(write)
        });
        let mut teller = Teller { world, laws, random: Random::new(!seed), answers: Vec::new(), crashes: 0 };
        let mut told = teller.tell(story, sky).await;
        if let Ok(told) = &mut told {
            told.wrongs.extend(forbidden(&of_hub));
            told.wrongs.extend(forbidden(&of_members));
        }
        teller.world.end().await;
        told
    })
}

struct Teller {
    world: World,
    laws: Arc<Mutex<Laws>>,
    /// For storms and deaths; the network has its own.
    random: Random,
    answers: Vec<u16>,
    crashes: usize,
}

impl Teller {
    async fn tell(&mut self, story: &Story, sky: Sky) -> Result<Told, TrialError> {
        self.world.start_hub()?;
        for action in &story.opening {
            self.perform(action).await?;
        }
        let in_calm = if story.theme == Theme::Placing { SETTLE_IN_CALM } else { SETTLE_ROLLOUTS };
        self.world.pass(in_calm).await;
        for action in &story.actions {
            self.perform(action).await?;
            match (sky, action.haste) {
                (Sky::Calm, haste) => self.world.pass(haste.unwrap_or(in_calm)).await,
                (Sky::Stormy, Some(haste)) => {
                    self.world.network().set_weather(Weather::stormy());
                    self.world.pass(haste).await;
                }
                (Sky::Stormy, None) => {
                    self.storm().await?;
                    self.world.pass(SETTLE).await;
                }
            }
        }
        if story.theme == Theme::Staging {
            self.world.pass(RUNS_GET_STUCK).await;
        }
        let settled = self.read().await?;
        let mut wrongs = rest::broken(&settled.hub);
        let state = settled.without_luck(story.is_hurried());
        wrongs.extend(self.stirred_by_restart(&settled).await?);
        let after = self.read().await?.without_luck(story.is_hurried());
        wrongs.extend(difference(&state, &after).map(|text| format!("a restart changes the state:\n{text}")));
        wrongs.extend(self.laws.lock().broken().iter().cloned());
        let trace = self.world.network().take_trace();
        let outcome = Outcome {
            requests: trace.lines().len(),
            faults: trace.lines().iter().filter(|line| line.outcome.contains("(fault)")).count(),
            crashes: self.crashes,
        };
        Ok(Told { state, answers: self.answers.clone(), wrongs, outcome, trace })
    }

    async fn perform(&mut self, action: &Action) -> Result<(), TrialError> {
        let client = action.on.as_deref().map_or_else(|| self.world.user(), |member| self.world.user_of(member));
        self.answers.push(send(&client, action).await);
        if let Some(member) = &action.appears {
            self.world.start_member(member).await?;
        }
        Ok(())
    }

    async fn storm(&mut self) -> Result<(), TrialError> {
        let ends = Instant::now() + self.random.duration(&STORM);
        self.world.network().set_weather(Weather::stormy());
        while self.random.chance(BLOWS) {
            let victim = self.victim();
            if self.random.chance(CLOCK_IS_SET) {
                let at = Instant::now() + self.random.duration(&UNTIL_CLOCK_IS_SET);
                tokio::time::sleep_until(at.min(ends)).await;
                self.set_clock_wrong(&victim);
                continue;
            }
            let moments = [CrashMoment::BeforeTheServer, CrashMoment::AfterTheServer];
            let moment = moments[self.random.index(moments.len())];
            let died = self.world.network().crash_at(&victim, self.random.below(WRITES_BEFORE_DEATH), moment);
            if tokio::time::timeout_at(ends, died).await.is_err() {
                self.world.network().spare(&victim);
                break;
            }
            self.crashes += 1;
            self.world.pass(self.random.duration(&AWAY)).await;
            self.set_clock_wrong(&victim);
            self.revive(&victim)?;
        }
        tokio::time::sleep_until(ends).await;
        self.world.network().set_weather(Weather::calm());
        Ok(())
    }

    fn victim(&mut self) -> String {
        let members = self.world.members();
        if self.random.chance(HUB_DIES) {
            return HUB.to_owned();
        }
        self.random.pick(&members).cloned().unwrap_or_else(|| HUB.to_owned())
    }

    fn set_clock_wrong(&mut self, agent: &str) {
        let ahead = self.random.duration(&(Duration::ZERO..CLOCK_JUMP * 2));
        let fast = SignedDuration::try_from(ahead).unwrap_or_default()
            - SignedDuration::try_from(CLOCK_JUMP).unwrap_or_default();
        self.world.set_clock(agent, fast);
    }

    fn revive(&mut self, agent: &str) -> Result<(), TrialError> {
        match agent {
            HUB => self.world.start_hub()?,
            member => self.world.restart_member(member)?,
        }
        Ok(())
    }

    async fn read(&self) -> Result<FleetState, TrialError> {
        let members = self.world.members().into_iter().map(|name| (name.clone(), self.world.user_of(&name)));
        Ok(FleetState::read(&self.world.user(), members).await?)
    }

    /// Starts all agents anew, with clocks that are right; tells what they then write without need.
    async fn stirred_by_restart(&mut self, settled: &FleetState) -> Result<Vec<String>, TrialError> {
        let network = self.world.network().clone();
        let before = network.with_trace(|trace| trace.lines().len());
        let written: Arc<Mutex<Vec<Written>>> = Arc::default();
        network.show_writes({
            let (laws, written) = (self.laws.clone(), written.clone());
            move |write| {
                laws.lock().observe(write);
                written.lock().extend(Written::of(write));
            }
        });
        let members = self.world.members();
        for agent in iter::once(HUB).chain(members.iter().map(String::as_str)) {
            self.world.set_clock(agent, SignedDuration::ZERO);
            self.revive(agent)?;
        }
        self.world.pass(RESTART).await;
        let written = written.lock();
        Ok(network.with_trace(|trace| quiet::needless(settled, &written, &trace.lines()[before..])))
    }
}

/// Sends a user's request and gives the answer's code; 0 if there was none.
async fn send(client: &kube::Client, action: &Action) -> u16 {
    let format = match action.method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if action.body.is_null() { Vec::new() } else { action.body.to_string().into_bytes() };
    let request = http::Request::builder().method(action.method).uri(&action.path);
    let Ok(request) = request.header(http::header::CONTENT_TYPE, format).body(body) else { return 0 };
    match client.request::<Value>(request).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

/// Writes outside of the single-writer table, and panics, by controller.
fn forbidden(registry: &Registry) -> Vec<String> {
    let mut text = String::new();
    if encode(&mut text, registry).is_err() {
        return vec!["metrics cannot be read".to_owned()];
    }
    let bad = ["fleet_runtime_not_owned_total", "fleet_runtime_panics_total", "fleet_runtime_unreadable_objects_total"];
    let lines = text.lines().filter(|line| bad.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0"));
    lines.map(str::to_owned).collect()
}
