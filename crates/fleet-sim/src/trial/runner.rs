//! Runs one scenario with or without faults: performs the actions of users, switches faults on after each action,
//! crashes agents, skews their clocks, and waits until the fleet has settled.

use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::fault_mode::{self, CLOCK_JUMP, FaultMode};
use super::profile::FaultProfile;
use super::restart::{self, RestartWrite};
use super::restore::RestorePlan;
use super::{RunResult, TrialError, TrialStats};
use crate::Random;
use crate::invariants::{Invariants, quiescent};
use crate::network::{CrashMoment, FaultRates};
use crate::scenario::{Action, Scenario, ScenarioKind};
use crate::simulation::{HUB, Simulation};
use crate::state::{FleetState, Tolerance, difference};

/// How long faults last after an action. Long enough for watches to break several times.
const FAULT_PERIOD: Range<Duration> = Duration::from_secs(5)..Duration::from_secs(40);
/// Chance in thousandths of one more crash or clock change during a fault period.
const AGENT_FAULT: u32 = 600;
/// Chance in thousandths that such a fault changes a clock instead of crashing an agent.
const CLOCK_IS_SET: u32 = 300;
/// How long after the last agent fault a clock is changed.
const UNTIL_CLOCK_IS_SET: Range<Duration> = Duration::ZERO..Duration::from_secs(6);
/// Writes of an agent that may still succeed before its planned crash.
const WRITES_BEFORE_CRASH: u64 = 6;
/// How long an agent stays down after a crash.
const DOWNTIME: Range<Duration> = Duration::ZERO..Duration::from_secs(8);
/// Chance in thousandths that a fault hits the hub agent instead of a member agent.
const HUB_IS_VICTIM: u32 = 600;
/// Chance in thousandths that an agent is down while a user acts.
const OUTAGE: u32 = 200;
/// Time for restarted agents to reconcile every object.
const RESTART: Duration = Duration::from_secs(20);
/// How often, and for how long, a user repeats a create request whose name is still taken.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
const RETRY_TIMEOUT: Duration = Duration::from_mins(15);
/// The answer to a create request whose name is taken.
const CONFLICT: u16 = 409;

pub(super) struct ScenarioRunner {
    pub(super) simulation: Simulation,
    pub(super) invariants: Arc<Mutex<Invariants>>,
    pub(super) fault_mode: FaultMode,
    /// For fault periods, crashes and clocks. The network has its own source.
    pub(super) random: Random,
    /// An agent that is down while users act.
    stopped_agent: Option<String>,
    answers: Vec<u16>,
    crashes: usize,
    /// For the profile `ServerRestore`, in the run with faults.
    pub(super) restore: RestorePlan,
    /// Whether the profile of the seed is `ServerRestore`.
    hub_is_restored: bool,
}

impl ScenarioRunner {
    pub(super) fn new(
        simulation: Simulation,
        invariants: Arc<Mutex<Invariants>>,
        fault_mode: FaultMode,
        seed: u64,
    ) -> Self {
        Self {
            simulation,
            invariants,
            fault_mode,
            random: Random::new(!seed),
            stopped_agent: None,
            answers: Vec::new(),
            crashes: 0,
            restore: RestorePlan::default(),
            hub_is_restored: FaultProfile::of(seed) == FaultProfile::ServerRestore,
        }
    }

    pub(super) async fn run(&mut self, scenario: &Scenario) -> Result<RunResult, TrialError> {
        self.simulation.start_hub()?;
        for action in &scenario.setup {
            self.perform(self.answers.len(), action).await?;
        }
        self.simulation.advance(FaultMode::WithoutFaults.settling(scenario)).await;
        if self.hub_is_restored {
            self.restore = RestorePlan::draw(&mut self.random, &scenario.actions);
        }
        let (mut next, mut settled) = (0, 0);
        while let Some(action) = scenario.actions.get(next) {
            if self.fault_mode != FaultMode::WithoutFaults && self.stopped_agent.is_none() && self.random.chance(OUTAGE)
            {
                self.stop_an_agent();
            }
            self.perform(scenario.setup.len() + next, action).await?;
            next += 1;
            if let Some(pause) = action.next_after {
                self.simulation.network().set_fault_rates(self.fault_mode.rates());
                self.simulation.advance(pause).await;
                continue;
            }
            if self.fault_mode != FaultMode::WithoutFaults {
                self.cause_faults(next, &scenario.actions[settled..next]).await?;
            }
            self.simulation.advance(self.fault_mode.settling(scenario)).await;
            next = self.restore.first_lost().unwrap_or(next);
            settled = next;
        }
        self.simulation.advance(fault_mode::final_wait(scenario)).await;
        self.cause_final_incident(scenario).await?;
        self.check_settled_fleet(scenario).await
    }

    /// Checks the settled fleet and what a restart of all agents changes in it.
    async fn check_settled_fleet(&mut self, scenario: &Scenario) -> Result<RunResult, TrialError> {
        let state = self.read().await?;
        let mut problems = quiescent::violations(&state, scenario.kind != ScenarioKind::Placing);
        problems.extend(self.writes_after_restart(&state).await?);
        let after = self.read().await?;
        let strategies = self.invariants.lock().strategies();
        let tolerance = Tolerance { strategies, hub_is_restored: self.hub_is_restored, ..scenario.tolerance.clone() };
        let changed = difference(&state.normalized(&tolerance), &after.normalized(&tolerance));
        problems.extend(changed.map(|text| format!("a restart changes the state:\n{text}")));
        problems.extend(self.invariants.lock().violations().iter().cloned());
        let trace = self.simulation.network().take_trace();
        let stats = TrialStats {
            requests: trace.lines().len(),
            faults: trace.lines().iter().filter(|line| line.outcome.contains("(fault)")).count(),
            crashes: self.crashes,
        };
        Ok(RunResult { state, tolerance, answers: self.answers.clone(), problems, stats, trace })
    }

    /// Performs an action, maybe again after a restore. `number` counts all actions of the scenario.
    async fn perform(&mut self, number: usize, action: &Action) -> Result<(), TrialError> {
        if let Some(joining) = &action.joining {
            self.simulation.prepare_member(&joining.member).await?;
        }
        let answer = self.request_until_accepted(action).await?;
        match self.answers.get_mut(number) {
            None => self.answers.push(answer),
            Some(before) if action.on.is_none() => *before = answer,
            // A member's server was not restored, so it may refuse the request that it accepted before.
            Some(_) => {}
        }
        if let Some(joining) = &action.joining {
            self.simulation.start_member_agent(joining.member.name.as_str(), joining.keeps_agent)?;
        }
        Ok(())
    }

    /// Sends the request of an action and returns the status code. Repeats it while its name is taken, if the action
    /// says so.
    pub(super) async fn request_until_accepted(&mut self, action: &Action) -> Result<u16, TrialError> {
        let client =
            action.on.as_deref().map_or_else(|| self.simulation.user(), |member| self.simulation.user_of(member));
        let mut answer = request(&client, action.method, &action.path, &action.body).await.0;
        if action.retries_conflict && answer == CONFLICT {
            // The stopped agent may have to remove its finalizer before the name becomes free.
            self.start_stopped_agent()?;
            let started = Instant::now();
            while answer == CONFLICT && started.elapsed() < RETRY_TIMEOUT {
                self.simulation.advance(RETRY_PERIOD).await;
                answer = request(&client, action.method, &action.path, &action.body).await.0;
            }
        }
        Ok(answer)
    }

    /// Stops an agent, so that it misses the next action and has to find out about it later.
    fn stop_an_agent(&mut self) {
        let victim = self.victim();
        self.simulation.stop(&victim);
        self.crashes += 1;
        self.stopped_agent = Some(victim);
    }

    fn start_stopped_agent(&mut self) -> Result<(), TrialError> {
        let Some(agent) = self.stopped_agent.take() else { return Ok(()) };
        self.skew_clock(&agent);
        self.restart_agent(&agent)
    }

    async fn cause_faults(&mut self, performed: usize, recent: &[Action]) -> Result<(), TrialError> {
        let ends = after(self.random.duration(&FAULT_PERIOD));
        self.simulation.network().set_fault_rates(self.fault_mode.rates());
        if self.stopped_agent.is_some() {
            self.simulation.advance(self.random.duration(&DOWNTIME)).await;
            self.start_stopped_agent()?;
        }
        self.cause_incident(performed, recent).await?;
        while self.random.chance(AGENT_FAULT) {
            let victim = self.victim();
            if self.random.chance(CLOCK_IS_SET) {
                let at = after(self.random.duration(&UNTIL_CLOCK_IS_SET));
                tokio::time::sleep_until(at.min(ends)).await;
                self.skew_clock(&victim);
                continue;
            }
            let moments = [CrashMoment::BeforeTheServer, CrashMoment::AfterTheServer];
            let moment = moments[self.random.index(moments.len())];
            let crashed = self.simulation.network().crash_at(&victim, self.random.below(WRITES_BEFORE_CRASH), moment);
            if tokio::time::timeout_at(ends, crashed).await.is_err() {
                self.simulation.network().cancel_crash(&victim);
                break;
            }
            self.crashes += 1;
            self.simulation.advance(self.random.duration(&DOWNTIME)).await;
            self.skew_clock(&victim);
            self.restart_agent(&victim)?;
        }
        tokio::time::sleep_until(ends).await;
        self.simulation.network().set_fault_rates(FaultRates::none());
        Ok(())
    }

    pub(super) fn victim(&mut self) -> String {
        let members = self.simulation.members();
        if self.random.chance(HUB_IS_VICTIM) {
            return HUB.to_owned();
        }
        self.random.pick(&members).cloned().unwrap_or_else(|| HUB.to_owned())
    }

    fn skew_clock(&mut self, agent: &str) {
        let ahead = self.random.duration(&(Duration::ZERO..CLOCK_JUMP.saturating_mul(2)));
        let jump = SignedDuration::try_from(CLOCK_JUMP).unwrap_or_default();
        let fast = SignedDuration::try_from(ahead).unwrap_or_default().saturating_sub(jump);
        self.simulation.set_clock(agent, fast);
    }

    fn restart_agent(&mut self, agent: &str) -> Result<(), TrialError> {
        match agent {
            HUB => self.simulation.start_hub()?,
            member => self.simulation.restart_member(member)?,
        }
        Ok(())
    }

    async fn read(&self) -> Result<FleetState, TrialError> {
        let members = self.simulation.members().into_iter().map(|name| (name.clone(), self.simulation.user_of(&name)));
        Ok(FleetState::read(&self.simulation.user(), members).await?)
    }

    /// Restarts all agents with correct clocks and returns their needless writes.
    async fn writes_after_restart(&mut self, settled: &FleetState) -> Result<Vec<String>, TrialError> {
        let network = self.simulation.network().clone();
        let before = network.with_trace(|trace| trace.lines().len());
        let written: Arc<Mutex<Vec<RestartWrite>>> = Arc::default();
        network.observe_writes({
            let (invariants, written) = (self.invariants.clone(), written.clone());
            move |write| {
                invariants.lock().observe(write);
                written.lock().extend(RestartWrite::of(write));
            }
        });
        let members = self.simulation.members();
        for agent in iter::once(HUB).chain(members.iter().map(String::as_str)) {
            self.simulation.set_clock(agent, SignedDuration::ZERO);
            self.restart_agent(agent)?;
        }
        self.simulation.advance(RESTART).await;
        let written = written.lock();
        Ok(network.with_trace(|trace| restart::needless_writes(settled, &written, &trace.lines()[before..])))
    }
}

/// Sends a request; returns its status code, or 0 without an answer, and the body of a successful answer.
pub(super) async fn request(client: &kube::Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let format = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, format);
    let Ok(request) = request.body(body) else { return (0, Value::Null) };
    match client.request::<Value>(request).await {
        Ok(answer) => (200, answer),
        Err(kube::Error::Api(status)) => (status.code, Value::Null),
        Err(_) => (0, Value::Null),
    }
}

fn after(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or(now)
}
