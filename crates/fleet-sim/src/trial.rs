//! One seed's trial: a story is told in calm and in stormy weather, and must end in the same state.
//!
//! Decides when it storms, when the hub agent dies, and what counts as a failure. After every action there is time to settle:
//! scheduling keeps what it has, so what two actions lead to may depend on which was seen first, and that is no fault. Never
//! decides what users do.

use std::time::Duration;

use fleet_runtime::Metrics;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::time::Instant;

use crate::Random;
use crate::laws;
use crate::network::{CrashMoment, Line, Weather};
use crate::state::{HubState, difference};
use crate::story::{Action, Story, story};
use crate::world::{Ground, HUB, World, WorldError};

/// Actions of a story after its opening.
pub const ACTIONS: usize = 6;
/// How long it storms after an action. Long enough for watches to break several times.
const STORM: std::ops::Range<Duration> = Duration::from_secs(5)..Duration::from_secs(40);
/// Chance in thousandths that the hub agent is to die during a storm, again and again.
const CRASHES: u32 = 400;
/// Writes that a hub agent lives through at most once its death is decided.
const WRITES_BEFORE_DEATH: u64 = 6;
/// How long a dead hub agent stays away.
const AWAY: std::ops::Range<Duration> = Duration::ZERO..Duration::from_secs(8);
/// Time to settle after a storm: a request that hangs (1 min), then the longest backoff (1 min) and the longest pause of a
/// watch (30 s).
const SETTLE: Duration = Duration::from_secs(150);
/// Time to settle where nothing goes wrong: a new member's agent may have to wait for its rights once or twice.
const SETTLE_IN_CALM: Duration = Duration::from_secs(40);
/// Time for a hub agent that was started anew to look at everything.
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
    /// What went over the network in the storm.
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
        tell(&self.ground, seed, &story(Random::new(seed).fork(), ACTIONS), Sky::Stormy).map(|told| told.trace)
    }
}

fn trial(ground: &Ground, seed: u64) -> Result<Outcome, Box<Failure>> {
    let telling = || story(Random::new(seed).fork(), ACTIONS);
    let failure = |why: String, trace: String| {
        let told = telling();
        let lines: Vec<String> =
            told.opening.iter().chain(&told.actions).map(|one| format!("  {}", one.what)).collect();
        Box::new(Failure { seed, why, story: lines.join("\n"), trace })
    };
    let calm = tell(ground, seed, &telling(), Sky::Calm)
        .map_err(|error| failure(format!("no calm world: {error}"), String::new()))?;
    let storm = tell(ground, seed, &telling(), Sky::Stormy)
        .map_err(|error| failure(format!("no stormy world: {error}"), String::new()))?;
    let mut wrongs: Vec<String> = calm.wrongs.iter().map(|wrong| format!("without faults: {wrong}")).collect();
    wrongs.extend(storm.wrongs.iter().map(|wrong| format!("with faults: {wrong}")));
    if calm.answers != storm.answers {
        wrongs.push(format!("users got other answers: {:?} and {:?}", calm.answers, storm.answers));
    }
    wrongs.extend(difference(&calm.state, &storm.state).map(|text| format!("the states differ:\n{text}")));
    if wrongs.is_empty() { Ok(storm.outcome) } else { Err(failure(wrongs.join("\n"), storm.trace)) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sky {
    Calm,
    Stormy,
}

/// A story that was told.
struct Told {
    state: String,
    /// What users were answered.
    answers: Vec<u16>,
    wrongs: Vec<String>,
    outcome: Outcome,
    trace: String,
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
        let mut registry = Registry::default();
        let metrics = Metrics::registered(&mut registry);
        let world = World::new(ground, seed, metrics).await?;
        let mut teller = Teller { world, random: Random::new(!seed), answers: Vec::new(), crashes: 0 };
        let told = teller.tell(story, sky, &registry).await;
        teller.world.end().await;
        told
    })
}

struct Teller {
    world: World,
    /// For storms and deaths; the network has its own.
    random: Random,
    answers: Vec<u16>,
    crashes: usize,
}

impl Teller {
    async fn tell(&mut self, story: &Story, sky: Sky, registry: &Registry) -> Result<Told, TrialError> {
        self.world.start_hub()?;
        for action in &story.opening {
            self.perform(action).await?;
        }
        self.world.pass(SETTLE_IN_CALM).await;
        for action in &story.actions {
            self.perform(action).await?;
            if sky == Sky::Stormy {
                self.storm().await?;
                self.world.pass(SETTLE).await;
            } else {
                self.world.pass(SETTLE_IN_CALM).await;
            }
        }
        let mut wrongs = self.needless_writes().await?;
        let state = HubState::read(&self.world.user()).await?;
        wrongs.extend(laws::broken(&state));
        wrongs.extend(forbidden(registry));
        let network = self.world.network();
        let outcome = network.with_trace(|trace| Outcome {
            requests: trace.lines().len(),
            faults: trace.lines().iter().filter(|line| line.outcome.contains("(fault)")).count(),
            crashes: self.crashes,
        });
        let trace = network.trace();
        Ok(Told { state: state.without_luck(), answers: self.answers.clone(), wrongs, outcome, trace })
    }

    async fn perform(&mut self, action: &Action) -> Result<(), TrialError> {
        let code = send(&self.world.user(), action).await;
        self.answers.push(code);
        if let Some(member) = &action.appears {
            self.world.start_member(member).await?;
        }
        Ok(())
    }

    async fn storm(&mut self) -> Result<(), TrialError> {
        let ends = Instant::now() + self.random.duration(&STORM);
        self.world.network().set_weather(Weather::stormy());
        while self.random.chance(CRASHES) {
            let moments = [CrashMoment::BeforeTheServer, CrashMoment::AfterTheServer];
            let moment = moments[self.random.index(moments.len())];
            let died = self.world.crash_hub_at(self.random.below(WRITES_BEFORE_DEATH), moment);
            if tokio::time::timeout_at(ends, died).await.is_err() {
                break;
            }
            self.crashes += 1;
            self.world.pass(self.random.duration(&AWAY)).await;
            self.world.start_hub()?;
        }
        self.world.network().spare(HUB);
        tokio::time::sleep_until(ends).await;
        self.world.network().set_weather(Weather::calm());
        Ok(())
    }

    /// A hub agent that is started on a settled hub has nothing to write but what heartbeats bring.
    async fn needless_writes(&mut self) -> Result<Vec<String>, TrialError> {
        let before = self.world.network().with_trace(|trace| trace.lines().len());
        self.world.start_hub()?;
        self.world.pass(RESTART).await;
        let written = self.world.network().with_trace(|trace| {
            let news = trace.lines()[before..].iter().filter(|line| is_write(line) && !is_heartbeat(line));
            news.map(|line| format!("needless after a restart: {line}")).collect()
        });
        Ok(written)
    }
}

fn is_write(line: &Line) -> bool {
    line.actor == HUB && !matches!(line.verb.as_str(), "GET" | "WATCH" | "HEAD")
}

fn is_heartbeat(line: &Line) -> bool {
    line.path.contains("/memberclusters/") || line.path.contains("/clusterprofiles/")
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
