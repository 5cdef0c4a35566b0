//! The trial of one seed: its scenario runs without faults and with faults, and both runs must end in the same state.
//!
//! A trial fails if the final states differ, if an invariant is violated, if a controller writes a field that it does
//! not own, or if restarted agents write anything to a settled fleet.
//!
//! | file | content |
//! |---|---|
//! | `runner` | runs a scenario: actions, faults, crashes, clocks |
//! | `fault_mode` | with or without faults, and how long the fleet gets to settle |
//! | `profile` | the fault profile of a seed |
//! | `incidents` | faults of a whole server, link, kind, clock or status |
//! | `restore` | a restore of the hub's server from a backup |
//! | `restart` | which writes are needless after a restart of a settled fleet |

mod fault_mode;
mod incidents;
mod profile;
mod restart;
mod restore;
mod runner;

use std::sync::Arc;

use fleet_core::scheduler::EligibilityLimits;
use fleet_hub::HubOptions;
use fleet_runtime::Metrics;
use jiff::SignedDuration;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::invariants::Invariants;
use crate::network::Trace;
use crate::scenario::{Scenario, scenario};
use crate::simulation::{AgentMetrics, Simulation, SimulationError, SimulationTemplate, epoch};
use crate::state::{FleetState, Tolerance, difference};
use fault_mode::FaultMode;
use profile::FaultProfile;
use runner::ScenarioRunner;

/// Heartbeat timeout in trials in which the hub receives heartbeats late or loses them: until it notices that a watch
/// stalled, or after its server was restored from a backup.
const LONG_HEARTBEAT_TIMEOUT: SignedDuration = SignedDuration::from_mins(30);

/// A run makes about two thousand requests, a long one ten thousand. One that makes so many repeats them without pause.
const MAX_REQUESTS: usize = 200_000;

/// Figures of the run with faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialStats {
    pub requests: usize,
    /// Requests that met a fault.
    pub faults: usize,
    pub crashes: usize,
}

/// A seed that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    pub seed: u64,
    pub why: String,
    /// One action per line.
    pub scenario: String,
    /// All requests of the run without faults if that run failed, otherwise of the run with faults.
    pub trace: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { seed, why, scenario, .. } = self;
        write!(f, "seed {seed} failed: {why}\nits scenario:\n{scenario}\nreplay it: cargo xtask sim --seed {seed}")
    }
}

/// Runs trials. All trials start from the same template.
#[derive(Debug, Clone)]
pub struct Trials {
    template: SimulationTemplate,
}

impl Trials {
    /// Builds the template on its own thread, because the caller may be inside a tokio runtime.
    pub fn prepare() -> Result<Self, TrialError> {
        let build =
            || -> Result<SimulationTemplate, TrialError> { Ok(virtual_time()?.block_on(SimulationTemplate::build())?) };
        let built = std::thread::spawn(build).join();
        let template = built.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Self { template })
    }

    /// Runs a seed without and with faults. Creates its own tokio runtime, so it must not be called inside one.
    pub fn run(&self, seed: u64) -> Result<TrialStats, Box<Failure>> {
        trial(&self.template, seed)
    }

    /// The trace of a seed's run with faults.
    pub fn trace_with_faults(&self, seed: u64) -> Result<String, TrialError> {
        let result = run(&self.template, seed, &scenario(seed), faults_of(seed)).map_err(|failed| failed.error)?;
        Ok(result.trace.to_string())
    }
}

fn trial(template: &SimulationTemplate, seed: u64) -> Result<TrialStats, Box<Failure>> {
    let scenario = scenario(seed);
    let failure = |why: String, trace: String| {
        let lines: Vec<String> =
            scenario.setup.iter().chain(&scenario.actions).map(|one| format!("  {}", one.what)).collect();
        Box::new(Failure { seed, why, scenario: lines.join("\n"), trace })
    };
    let expected = run(template, seed, &scenario, FaultMode::WithoutFaults)
        .map_err(|failed| failure(format!("cannot run without faults: {}", failed.error), failed.trace))?;
    let faulty = run(template, seed, &scenario, faults_of(seed))
        .map_err(|failed| failure(format!("cannot run with faults: {}", failed.error), failed.trace))?;
    let trace = if expected.problems.is_empty() { &faulty.trace } else { &expected.trace };
    let mut problems: Vec<String> =
        expected.problems.iter().map(|problem| format!("without faults: {problem}")).collect();
    problems.extend(faulty.problems.iter().map(|problem| format!("with faults: {problem}")));
    if expected.answers != faulty.answers {
        problems.push(format!("users got other answers: {:?} and {:?}", expected.answers, faulty.answers));
    }
    let without_faults = expected.state.normalized(&expected.tolerance);
    let with_faults = faulty.state.normalized(&faulty.tolerance);
    problems.extend(difference(&without_faults, &with_faults).map(|text| format!("the states differ:\n{text}")));
    if problems.is_empty() { Ok(faulty.stats) } else { Err(failure(problems.join("\n"), trace.to_string())) }
}

fn faults_of(seed: u64) -> FaultMode {
    FaultMode::WithFaults(FaultProfile::of(seed))
}

/// The options of the hub agent in both runs of a seed.
fn hub_of(seed: u64, scenario: &Scenario) -> HubOptions {
    let eligibility = if FaultProfile::of(seed).delays_heartbeats() {
        EligibilityLimits { heartbeat_timeout: LONG_HEARTBEAT_TIMEOUT, health_timeout: LONG_HEARTBEAT_TIMEOUT }
    } else {
        EligibilityLimits::default()
    };
    HubOptions { snapshot_intervals: scenario.snapshot_intervals, eligibility, ..HubOptions::default() }
}

struct RunResult {
    state: FleetState,
    tolerance: Tolerance,
    /// HTTP status codes that users received.
    answers: Vec<u16>,
    problems: Vec<String>,
    stats: TrialStats,
    trace: Trace,
}

/// Why a scenario cannot run.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[error("the hub's state cannot be read: {0}")]
    State(#[from] kube::Error),
    #[error("no runtime: {0}")]
    Runtime(#[from] std::io::Error),
}

/// A run that did not reach its end, and its requests.
struct FailedRun {
    error: TrialError,
    trace: String,
}

impl From<TrialError> for FailedRun {
    fn from(error: TrialError) -> Self {
        Self { error, trace: String::new() }
    }
}

fn virtual_time() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()
}

/// Runs a scenario on its own tokio runtime: one thread, paused time.
fn run(
    template: &SimulationTemplate,
    seed: u64,
    scenario: &Scenario,
    fault_mode: FaultMode,
) -> Result<RunResult, FailedRun> {
    virtual_time().map_err(TrialError::from)?.block_on(async {
        let (mut of_hub, mut of_members) = (Registry::default(), Registry::default());
        let metrics =
            AgentMetrics { hub: Metrics::registered(&mut of_hub), members: Metrics::registered(&mut of_members) };
        let simulation = Simulation::new(template, seed, metrics).await.map_err(TrialError::from)?;
        let simulation = simulation.with_hub(hub_of(seed, scenario));
        simulation.network().limit_requests(MAX_REQUESTS);
        let invariants = Arc::new(Mutex::new(Invariants::from(epoch(), fault_mode.lag())));
        simulation.network().observe_writes({
            let invariants = invariants.clone();
            move |write| invariants.lock().observe(write)
        });
        let mut runner = ScenarioRunner::new(simulation, invariants, fault_mode, seed);
        let mut result = runner.run(scenario).await;
        if let Ok(result) = &mut result {
            result.problems.extend(forbidden(&of_hub));
            result.problems.extend(forbidden(&of_members));
        }
        let trace = runner.simulation.network().trace();
        runner.simulation.shut_down().await;
        result.map_err(|error| FailedRun { error, trace })
    })
}

/// Metrics that must be zero: writes outside of the single-writer table, panics, unreadable objects.
fn forbidden(registry: &Registry) -> Vec<String> {
    let mut text = String::new();
    if encode(&mut text, registry).is_err() {
        return vec!["metrics cannot be read".to_owned()];
    }
    let bad = ["fleet_runtime_not_owned_total", "fleet_runtime_panics_total", "fleet_runtime_unreadable_objects_total"];
    let lines = text.lines().filter(|line| bad.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0"));
    lines.map(str::to_owned).collect()
}
