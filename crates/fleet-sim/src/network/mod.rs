//! The network between clients and API servers, with everything that goes wrong on one.
//!
//! Decides, from one seed and the present weather, what becomes of each request, and writes down what did. Kills agents: at a
//! chosen write, before or after the server has seen it, the agent is cut off for good and whoever waits for that is told.
//! Never changes what a server decided.
//!
//! | file | what |
//! |---|---|
//! | `weather` | what may go wrong, and the throw of the dice |
//! | `service` | carries one request |
//! | `watching` | carries the events of one watch |
//! | `trace` | what happened, as text |

mod service;
mod trace;
mod watching;
mod weather;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use apiserver::http::LocalService;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use trace::{Line, Trace};
pub use weather::{Cut, EventFate, Fate, Refusal, Sort, Way, Weather};

use crate::Random;
use service::{Call, Wire};

/// All connections of a world. Clones are the same network.
#[derive(Debug, Clone)]
pub struct Network(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    began: Instant,
    random: Random,
    weather: Weather,
    trace: Trace,
    actors: BTreeMap<String, Actor>,
    witness: Option<Witness>,
}

/// A write that a server has carried out, whether or not its sender ever learns of it.
#[derive(Debug, Clone, Copy)]
pub struct Carried<'a> {
    /// Virtual time since the world began.
    pub at: Duration,
    pub actor: &'a str,
    /// Which server; the hub's is called `HUB_SERVER`.
    pub server: &'a str,
    pub verb: &'a str,
    /// With its query.
    pub path: &'a str,
    /// What the server answered: the object as it is now, or a Status.
    pub answer: &'a [u8],
}

/// Who is shown all writes that took place, in the order in which servers answered.
struct Witness(Box<dyn FnMut(&Carried<'_>) + Send>);

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

/// The hub's API server, in traces and to witnesses.
pub const HUB_SERVER: &str = "";

/// Somebody who makes requests.
#[derive(Debug, Default)]
struct Actor {
    /// How often it was started. What an earlier life still sends goes nowhere.
    life: u64,
    end: Option<End>,
}

/// A death that is planned.
#[derive(Debug)]
struct End {
    /// Writes that still succeed.
    writes_left: u64,
    moment: CrashMoment,
    told: oneshot::Sender<()>,
}

/// Where in a write an agent dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashMoment {
    BeforeTheServer,
    AfterTheServer,
}

/// Whether an agent lives on after this write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Lives,
    Dies(CrashMoment),
    Dead,
}

impl Network {
    /// A network whose time begins now. Must be called within a tokio runtime.
    pub fn new(random: Random, weather: Weather) -> Self {
        Self(Arc::new(Mutex::new(State {
            began: Instant::now(),
            random,
            weather,
            trace: Trace::default(),
            actors: BTreeMap::new(),
            witness: None,
        })))
    }

    /// A client of the hub's server, for the present life of an actor.
    pub fn client(&self, actor: &str, server: LocalService) -> kube::Client {
        self.client_of(actor, HUB_SERVER, server)
    }

    /// A client of any server. All connections of an actor share its life: it dies at a write on any of them.
    pub fn client_of(&self, actor: &str, name: &str, server: LocalService) -> kube::Client {
        self.connect(actor, name, server, false)
    }

    /// A client that no weather touches. What it does is written down all the same.
    pub fn steady_client(&self, actor: &str, name: &str, server: LocalService) -> kube::Client {
        self.connect(actor, name, server, true)
    }

    fn connect(&self, actor: &str, name: &str, server: LocalService, steady: bool) -> kube::Client {
        let life = self.0.lock().actors.entry(actor.to_owned()).or_default().life;
        let wire = Wire { network: self.clone(), actor: actor.into(), life, name: name.into(), server, steady };
        kube::Client::new(wire, "default")
    }

    /// Shows somebody all writes that servers carry out from now on.
    pub fn show_writes(&self, to: impl FnMut(&Carried<'_>) + Send + 'static) {
        self.0.lock().witness = Some(Witness(Box::new(to)));
    }

    fn bear_witness(&self, actor: &str, server: &str, verb: &str, path: &str, answer: &[u8]) {
        let state = &mut *self.0.lock();
        let at = state.began.elapsed();
        if let Some(Witness(witness)) = &mut state.witness {
            witness(&Carried { at, actor, server, verb, path, answer });
        }
    }

    pub fn set_weather(&self, weather: Weather) {
        self.0.lock().weather = weather;
    }

    /// Ends the actor's present life: nothing that it has sent and nothing that it will send arrives. Clients made from now
    /// on belong to its next life.
    pub fn bury(&self, actor: &str) {
        let mut state = self.0.lock();
        let actor = state.actors.entry(actor.to_owned()).or_default();
        actor.life += 1;
        actor.end = None;
    }

    /// Lets the actor die at one of its next writes. The result is ready when that has happened; it fails if the actor
    /// ended otherwise before.
    pub fn crash_at(&self, actor: &str, writes_left: u64, moment: CrashMoment) -> oneshot::Receiver<()> {
        let (told, ended) = oneshot::channel();
        let mut state = self.0.lock();
        state.actors.entry(actor.to_owned()).or_default().end = Some(End { writes_left, moment, told });
        ended
    }

    /// Takes a planned death back.
    pub fn spare(&self, actor: &str) {
        if let Some(actor) = self.0.lock().actors.get_mut(actor) {
            actor.end = None;
        }
    }

    /// What has happened so far, as text.
    pub fn trace(&self) -> String {
        self.0.lock().trace.to_string()
    }

    /// Gives what has happened so far away; what comes from now on begins a new trace.
    pub fn take_trace(&self) -> Trace {
        std::mem::take(&mut self.0.lock().trace)
    }

    /// Reads what has happened so far.
    pub fn with_trace<T>(&self, read: impl FnOnce(&Trace) -> T) -> T {
        read(&self.0.lock().trace)
    }

    /// Virtual time since the world began.
    pub fn elapsed(&self) -> Duration {
        self.0.lock().began.elapsed()
    }

    fn record(&self, call: &Call, outcome: impl Into<String>) {
        let until = self.elapsed();
        let line = Line {
            at: call.at,
            until,
            actor: call.actor.clone(),
            server: call.server.clone(),
            verb: call.verb.clone(),
            path: call.path.clone(),
            outcome: outcome.into(),
        };
        self.0.lock().trace.record(line);
    }

    fn way(&self, sort: Sort) -> Way {
        let state = &mut *self.0.lock();
        weather::way(&state.weather, sort, &mut state.random)
    }

    fn event_fate(&self) -> EventFate {
        let state = &mut *self.0.lock();
        weather::event_fate(&state.weather, &mut state.random)
    }

    fn lives(&self, actor: &str, life: u64) -> bool {
        self.0.lock().actors.get(actor).is_some_and(|actor| actor.life == life)
    }

    /// Counts a write that is about to reach the server. From a death on, all others of this life are dead as well.
    fn judge_write(&self, name: &str, life: u64) -> Judgement {
        let mut state = self.0.lock();
        let Some(actor) = state.actors.get_mut(name).filter(|actor| actor.life == life) else {
            return Judgement::Dead;
        };
        match &mut actor.end {
            None => Judgement::Lives,
            Some(end) if end.writes_left > 0 => {
                end.writes_left -= 1;
                Judgement::Lives
            }
            Some(end) => {
                let moment = end.moment;
                actor.life += 1;
                Judgement::Dies(moment)
            }
        }
    }

    /// Tells whoever waits for it that an actor has died.
    fn announce_death(&self, name: &str) {
        let end = self.0.lock().actors.get_mut(name).and_then(|actor| actor.end.take());
        if let Some(End { told, .. }) = end {
            // Nobody may be waiting any more, when the world is being taken down.
            let _ = told.send(());
        }
    }
}
