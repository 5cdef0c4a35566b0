//! Tells one story in one weather.
//!
//! Decides when it storms, which agents die or are away, when clocks are set and how wrong. After every action there is time
//! to settle, unless the story says that the next one follows in haste. Never decides what users do.

use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::quiet::{self, Written};
use super::sky::{self, CLOCK_JUMP, Sky};
use super::{Outcome, Told, TrialError};
use crate::Random;
use crate::laws::{Laws, rest};
use crate::network::{CrashMoment, Weather};
use crate::state::{FleetState, Leeway, difference};
use crate::story::{Action, Story, Theme};
use crate::world::{HUB, World};

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
/// Chance in thousandths that an agent is away when a user does something.
const OUTAGE: u32 = 200;
/// Time for agents that were started anew to look at everything.
const RESTART: Duration = Duration::from_secs(20);
/// How often, and how long, a user asks again for a name that is not free yet.
const ASKS_AGAIN_AFTER: Duration = Duration::from_secs(1);
const ASKS_FOR: Duration = Duration::from_mins(15);
/// What a server answers as long as a name is not free.
const CONFLICT: u16 = 409;

pub(super) struct Teller {
    pub(super) world: World,
    pub(super) laws: Arc<Mutex<Laws>>,
    pub(super) sky: Sky,
    /// For storms and deaths; the network has its own.
    random: Random,
    /// An agent that does not run at present.
    away: Option<String>,
    answers: Vec<u16>,
    crashes: usize,
}

impl Teller {
    pub(super) fn new(world: World, laws: Arc<Mutex<Laws>>, sky: Sky, seed: u64) -> Self {
        Self { world, laws, sky, random: Random::new(!seed), away: None, answers: Vec::new(), crashes: 0 }
    }

    pub(super) async fn tell(&mut self, story: &Story) -> Result<Told, TrialError> {
        self.world.start_hub()?;
        for action in &story.opening {
            self.perform(action).await?;
        }
        self.world.pass(Sky::Calm.settling(story)).await;
        for action in &story.actions {
            if self.sky != Sky::Calm && self.away.is_none() && self.random.chance(OUTAGE) {
                self.leave_to_itself();
            }
            self.perform(action).await?;
            if let Some(haste) = action.haste {
                self.world.network().set_weather(self.sky.storm());
                self.world.pass(haste).await;
                continue;
            }
            if self.sky != Sky::Calm {
                self.storm().await?;
            }
            self.world.pass(self.sky.settling(story)).await;
        }
        self.world.pass(sky::end(story)).await;
        self.judge(story).await
    }

    /// Looks at the fleet as it is, and at what agents make of it that are started anew.
    async fn judge(&mut self, story: &Story) -> Result<Told, TrialError> {
        let state = self.read().await?;
        let mut wrongs = rest::broken(&state, story.theme != Theme::Placing);
        wrongs.extend(self.stirred_by_restart(&state).await?);
        let after = self.read().await?;
        let leeway = Leeway { strategies: self.laws.lock().strategies(), ..story.leeway.clone() };
        let stirred = difference(&state.without_luck(&leeway), &after.without_luck(&leeway));
        wrongs.extend(stirred.map(|text| format!("a restart changes the state:\n{text}")));
        wrongs.extend(self.laws.lock().broken().iter().cloned());
        let trace = self.world.network().take_trace();
        let outcome = Outcome {
            requests: trace.lines().len(),
            faults: trace.lines().iter().filter(|line| line.outcome.contains("(fault)")).count(),
            crashes: self.crashes,
        };
        Ok(Told { state, leeway, answers: self.answers.clone(), wrongs, outcome, trace })
    }

    async fn perform(&mut self, action: &Action) -> Result<(), TrialError> {
        let client = action.on.as_deref().map_or_else(|| self.world.user(), |member| self.world.user_of(member));
        let mut answer = send(&client, action).await;
        if action.insists && answer == CONFLICT {
            // What is there goes only with the help of whoever is away.
            self.come_back()?;
            let asks_until = Instant::now() + ASKS_FOR;
            while answer == CONFLICT && Instant::now() < asks_until {
                self.world.pass(ASKS_AGAIN_AFTER).await;
                answer = send(&client, action).await;
            }
        }
        self.answers.push(answer);
        if let Some(arrival) = &action.appears {
            self.world.receive(&arrival.member, arrival.lives_on).await?;
        }
        Ok(())
    }

    /// Stops an agent before something happens that it will have to find out about later.
    fn leave_to_itself(&mut self) {
        let victim = self.victim();
        self.world.stop(&victim);
        self.crashes += 1;
        self.away = Some(victim);
    }

    fn come_back(&mut self) -> Result<(), TrialError> {
        let Some(agent) = self.away.take() else { return Ok(()) };
        self.set_clock_wrong(&agent);
        self.revive(&agent)
    }

    async fn storm(&mut self) -> Result<(), TrialError> {
        let ends = Instant::now() + self.random.duration(&STORM);
        self.world.network().set_weather(self.sky.storm());
        if self.away.is_some() {
            self.world.pass(self.random.duration(&AWAY)).await;
            self.come_back()?;
        }
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
