//! One seed's trial: a story is told in calm and in stormy weather, and must end in the same state.
//!
//! Decides what counts as a failure: another end, a broken law, a write outside of its owner's fields, an agent that finds
//! something to do when it is started anew. Laws are watched over all the time. Never decides what users do.
//!
//! | file | what |
//! |---|---|
//! | `teller` | tells a story: actions, storms, deaths, clocks |
//! | `sky` | which weather, and how much time things get |
//! | `quiet` | what agents may write that are started on a settled fleet |

mod quiet;
mod sky;
mod teller;

use std::sync::Arc;

use fleet_core::scheduler::EligibilityLimits;
use fleet_hub::HubOptions;
use fleet_runtime::Metrics;
use jiff::SignedDuration;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::Random;
use crate::laws::Laws;
use crate::network::Trace;
use crate::state::{FleetState, Leeway, difference};
use crate::story::{Story, story};
use crate::world::{AgentMetrics, Ground, World, WorldError, origin};
use sky::Sky;
use teller::Teller;

/// Chance in thousandths that watches fall silent in a world's storms. They take so long to be noticed that laws cannot be
/// held as tightly.
const SILENCES: u32 = 200;
/// How old a heartbeat may be where watches fall silent: the hub may have heard of none for as long as it takes to notice.
const PATIENCE: SignedDuration = SignedDuration::from_mins(30);

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
        tell(&self.ground, seed, &story(seed), storm_of(seed)).map(|told| told.trace.to_string())
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
    let storm = tell(ground, seed, &telling, storm_of(seed))
        .map_err(|error| failure(format!("no stormy world: {error}"), String::new()))?;
    let trace = if calm.wrongs.is_empty() { &storm.trace } else { &calm.trace };
    let mut wrongs: Vec<String> = calm.wrongs.iter().map(|wrong| format!("without faults: {wrong}")).collect();
    wrongs.extend(storm.wrongs.iter().map(|wrong| format!("with faults: {wrong}")));
    if calm.answers != storm.answers {
        wrongs.push(format!("users got other answers: {:?} and {:?}", calm.answers, storm.answers));
    }
    let without_faults = calm.state.without_luck(&calm.leeway);
    let with_faults = storm.state.excused_by(&calm.state).without_luck(&storm.leeway);
    wrongs.extend(difference(&without_faults, &with_faults).map(|text| format!("the states differ:\n{text}")));
    if wrongs.is_empty() { Ok(storm.outcome) } else { Err(failure(wrongs.join("\n"), trace.to_string())) }
}

/// The weather that a seed's story is told in the second time.
fn storm_of(seed: u64) -> Sky {
    Sky::Stormy { silences: Random::new(seed.rotate_left(32)).chance(SILENCES) }
}

/// How the hub agent of a seed's worlds is set up, with faults and without.
fn hub_of(seed: u64, story: &Story) -> HubOptions {
    let eligibility = match storm_of(seed) {
        Sky::Stormy { silences: true } => EligibilityLimits { heartbeat_timeout: PATIENCE, health_timeout: PATIENCE },
        Sky::Stormy { silences: false } | Sky::Calm => EligibilityLimits::default(),
    };
    HubOptions { snapshot_pace: story.pace, eligibility, ..HubOptions::default() }
}

/// A story that was told.
struct Told {
    state: FleetState,
    leeway: Leeway,
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
        let world = World::new(ground, seed, metrics).await?.with_hub(hub_of(seed, story));
        let laws = Arc::new(Mutex::new(Laws::from(origin(), sky.lag())));
        world.network().show_writes({
            let laws = laws.clone();
            move |write| laws.lock().observe(write)
        });
        let mut teller = Teller::new(world, laws, sky, seed);
        let mut told = teller.tell(story).await;
        if let Ok(told) = &mut told {
            told.wrongs.extend(forbidden(&of_hub));
            told.wrongs.extend(forbidden(&of_members));
        }
        teller.world.end().await;
        told
    })
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
