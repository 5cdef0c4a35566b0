//! The simulated network between clients and API servers.
//!
//! It draws the outcome of each request from one seed and the current fault rates, records it in a trace, and can crash
//! an agent at a chosen write, before or after the server has committed it. It never changes the decision of a server.
//!
//! | file | content |
//! |---|---|
//! | `faults` | fault rates, and how the outcome of a request or event is drawn |
//! | `service` | delivers one request |
//! | `watch_events` | delivers the events of one watch |
//! | `links` | partitions, servers that are down, kinds that are not served |
//! | `reads` | truncated bodies, short pages, stale lists, incomplete discovery |
//! | `write_cost` | servers that take time for writes |
//! | `trace` | all requests as text |

mod faults;
mod links;
mod reads;
mod service;
mod trace;
mod watch_events;
mod write_cost;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use apiserver::LocalService;
use parking_lot::Mutex;
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

pub use faults::{Cut, Delivery, EventOutcome, FaultRates, Refusal, RequestKind, RequestOutcome};
pub use trace::{Line, Trace};

use crate::Random;
use links::{Links, Obstacle};
use reads::RecentLists;
use service::{Call, Connection};
use write_cost::SlowServer;

/// All connections of a simulation. Clones share their state.
#[derive(Debug, Clone)]
pub struct Network(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    started_at: Instant,
    random: Random,
    fault_rates: FaultRates,
    trace: Trace,
    /// Further requests are refused once the trace has so many lines.
    max_requests: usize,
    actors: BTreeMap<String, Actor>,
    write_observer: Option<WriteObserver>,
    lists: RecentLists,
    links: Links,
    slow_servers: BTreeMap<String, SlowServer>,
    /// Notifies watches that a link has changed.
    links_changed: Arc<Notify>,
}

/// A write that a server has committed, whether or not the client receives the answer.
#[derive(Debug, Clone, Copy)]
pub struct CommittedWrite<'a> {
    /// Virtual time since the start of the simulation.
    pub at: Duration,
    pub actor: &'a str,
    /// The name of a member, or `HUB_SERVER`.
    pub server: &'a str,
    pub verb: &'a str,
    /// With the query.
    pub path: &'a str,
    /// The body of the answer: the new object, or a Status.
    pub answer: &'a [u8],
}

/// Called for each committed write, in the order of the servers' answers.
struct WriteObserver(Box<dyn FnMut(&CommittedWrite<'_>) + Send>);

impl fmt::Debug for WriteObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteObserver")
    }
}

/// Returns the server that runs at the time of the call.
pub(crate) type ServerSource = Arc<dyn Fn() -> LocalService + Send + Sync>;

/// The name of the hub's API server in traces and committed writes.
pub const HUB_SERVER: &str = "";

/// A client of API servers: an agent or a user.
#[derive(Debug, Default)]
struct Actor {
    /// Increases with each start. Requests of an earlier incarnation are dropped.
    incarnation: u64,
    planned_crash: Option<PlannedCrash>,
}

/// A crash of an agent at one of its next writes.
#[derive(Debug)]
struct PlannedCrash {
    /// Writes that still succeed.
    writes_left: u64,
    moment: CrashMoment,
    notify: oneshot::Sender<()>,
}

/// When an agent crashes, relative to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashMoment {
    BeforeTheServer,
    AfterTheServer,
}

/// What happens to a write and to the agent that sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteVerdict {
    Proceed,
    Crash(CrashMoment),
    Disconnected,
}

impl Network {
    /// A network whose time starts now. Must be called inside a tokio runtime.
    pub fn new(random: Random, fault_rates: FaultRates) -> Self {
        Self(Arc::new(Mutex::new(State {
            started_at: Instant::now(),
            random,
            fault_rates,
            trace: Trace::default(),
            max_requests: usize::MAX,
            actors: BTreeMap::new(),
            write_observer: None,
            lists: RecentLists::default(),
            links: Links::default(),
            slow_servers: BTreeMap::new(),
            links_changed: Arc::default(),
        })))
    }

    /// A client of the hub's server for the current incarnation of an actor.
    pub fn client(&self, actor: &str, server: LocalService) -> kube::Client {
        self.client_of(actor, HUB_SERVER, server)
    }

    /// A client of any server. A crash disconnects all clients of the same incarnation.
    pub fn client_of(&self, actor: &str, name: &str, server: LocalService) -> kube::Client {
        self.connect(actor, name, server, false)
    }

    /// A client without faults. Its requests are in the trace, too.
    pub fn client_without_faults(&self, actor: &str, name: &str, server: LocalService) -> kube::Client {
        self.connect(actor, name, server, true)
    }

    fn connect(&self, actor: &str, name: &str, server: LocalService, without_faults: bool) -> kube::Client {
        self.connect_to(actor, name, Arc::new(move || server.clone()), without_faults)
    }

    /// A client of a server that may be replaced while the client is in use.
    pub(crate) fn connect_to(
        &self,
        actor: &str,
        name: &str,
        server: ServerSource,
        without_faults: bool,
    ) -> kube::Client {
        let incarnation = self.0.lock().actors.entry(actor.to_owned()).or_default().incarnation;
        let connection = Connection {
            network: self.clone(),
            actor: actor.into(),
            incarnation,
            name: name.into(),
            server,
            without_faults,
        };
        kube::Client::new(connection, "default")
    }

    /// Partitions an actor from a server, or ends the partition. Watches stall, and break when the partition ends.
    pub fn partition(&self, actor: &str, server: &str, is_partitioned: bool) {
        self.change_links(|links| links.set_partitioned(actor, server, is_partitioned));
    }

    /// Stops or starts a server: while it is down, watches break and connections are refused.
    pub fn stop_server(&self, server: &str, is_down: bool) {
        self.change_links(|links| links.set_down(server, is_down));
    }

    /// Stops or resumes serving a kind, as a server does when its CustomResourceDefinition changes.
    pub fn stop_serving(&self, server: &str, plural: &str, is_unserved: bool) {
        self.change_links(|links| links.set_unserved(server, plural, is_unserved));
    }

    /// From now on, writes of agents take the time on this server that they take on a small real one: see `write_cost`.
    pub fn make_writes_slow(&self, server: &str) {
        self.0.lock().slow_servers.insert(server.to_owned(), SlowServer::new());
    }

    fn slow_server(&self, server: &str) -> Option<SlowServer> {
        self.0.lock().slow_servers.get(server).cloned()
    }

    fn change_links(&self, change: impl FnOnce(&mut Links)) {
        let state = &mut *self.0.lock();
        change(&mut state.links);
        state.links_changed.notify_waiters();
    }

    fn obstacle(&self, call: &Call) -> Option<Obstacle> {
        self.0.lock().links.obstacle(&call.actor, &call.server, &call.path)
    }

    fn starts(&self, server: &str) -> u64 {
        self.0.lock().links.starts(server)
    }

    /// Completes after the next change of a link. Watches are woken in the order in which they began to wait;
    /// `tokio::sync::watch` would wake them in random order.
    fn link_change(&self) -> OwnedNotified {
        self.0.lock().links_changed.clone().notified_owned()
    }

    /// Registers the observer of all writes that servers commit from now on. It replaces the one before.
    pub fn observe_writes(&self, to: impl FnMut(&CommittedWrite<'_>) + Send + 'static) {
        self.0.lock().write_observer = Some(WriteObserver(Box::new(to)));
    }

    fn report_write(&self, actor: &str, server: &str, verb: &str, path: &str, answer: &[u8]) {
        let state = &mut *self.0.lock();
        let at = state.started_at.elapsed();
        if let Some(WriteObserver(write_observer)) = &mut state.write_observer {
            write_observer(&CommittedWrite { at, actor, server, verb, path, answer });
        }
    }

    pub fn set_fault_rates(&self, fault_rates: FaultRates) {
        self.0.lock().fault_rates = fault_rates;
    }

    /// Disconnects the current incarnation of an actor: none of its requests arrives any more. Clients created later
    /// belong to the next incarnation.
    pub fn disconnect(&self, actor: &str) {
        let mut state = self.0.lock();
        let actor = state.actors.entry(actor.to_owned()).or_default();
        actor.incarnation += 1;
        actor.planned_crash = None;
    }

    /// Plans a crash of the actor at one of its next writes. The receiver resolves after the crash, and fails if the
    /// actor is disconnected before.
    pub fn crash_at(&self, actor: &str, writes_left: u64, moment: CrashMoment) -> oneshot::Receiver<()> {
        let (notify, ended) = oneshot::channel();
        let mut state = self.0.lock();
        state.actors.entry(actor.to_owned()).or_default().planned_crash =
            Some(PlannedCrash { writes_left, moment, notify });
        ended
    }

    pub fn cancel_crash(&self, actor: &str) {
        if let Some(actor) = self.0.lock().actors.get_mut(actor) {
            actor.planned_crash = None;
        }
    }

    /// The trace so far, as text.
    pub fn trace(&self) -> String {
        self.0.lock().trace.to_string()
    }

    /// Refuses all requests once the trace has so many lines: an agent that repeats a request without pause would
    /// otherwise stop virtual time for good.
    pub fn limit_requests(&self, max: usize) {
        self.0.lock().max_requests = max;
    }

    fn check_limit(&self) -> io::Result<()> {
        let state = self.0.lock();
        if state.trace.lines().len() < state.max_requests {
            return Ok(());
        }
        Err(io::Error::other(format!("more than {} requests: an agent repeats them without pause", state.max_requests)))
    }

    /// Returns the trace so far and starts a new one.
    pub fn take_trace(&self) -> Trace {
        std::mem::take(&mut self.0.lock().trace)
    }

    pub fn with_trace<T>(&self, read: impl FnOnce(&Trace) -> T) -> T {
        read(&self.0.lock().trace)
    }

    /// Virtual time since the start of the simulation.
    pub fn elapsed(&self) -> Duration {
        self.0.lock().started_at.elapsed()
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

    fn draw_delivery(&self, kind: RequestKind) -> Delivery {
        let state = &mut *self.0.lock();
        faults::draw_delivery(&state.fault_rates, kind, &mut state.random)
    }

    /// A random number below `count`.
    fn index(&self, count: usize) -> usize {
        self.0.lock().random.index(count)
    }

    fn has_stale_lists(&self) -> bool {
        self.0.lock().fault_rates.stale_list > 0
    }

    fn with_lists<T>(&self, act: impl FnOnce(&mut RecentLists, Duration) -> T) -> T {
        let state = &mut *self.0.lock();
        act(&mut state.lists, state.started_at.elapsed())
    }

    fn draw_event_outcome(&self) -> EventOutcome {
        let state = &mut *self.0.lock();
        faults::draw_event_outcome(&state.fault_rates, &mut state.random)
    }

    fn is_connected(&self, actor: &str, incarnation: u64) -> bool {
        self.0.lock().actors.get(actor).is_some_and(|actor| actor.incarnation == incarnation)
    }

    /// Counts a write that is about to reach the server. A crash disconnects the whole incarnation.
    fn count_write(&self, name: &str, incarnation: u64) -> WriteVerdict {
        let mut state = self.0.lock();
        let Some(actor) = state.actors.get_mut(name).filter(|actor| actor.incarnation == incarnation) else {
            return WriteVerdict::Disconnected;
        };
        match &mut actor.planned_crash {
            None => WriteVerdict::Proceed,
            Some(crash) if crash.writes_left > 0 => {
                crash.writes_left -= 1;
                WriteVerdict::Proceed
            }
            Some(crash) => {
                let moment = crash.moment;
                actor.incarnation += 1;
                WriteVerdict::Crash(moment)
            }
        }
    }

    /// Notifies the receiver of `crash_at`.
    fn notify_crash(&self, name: &str) {
        let crash = self.0.lock().actors.get_mut(name).and_then(|actor| actor.planned_crash.take());
        if let Some(PlannedCrash { notify, .. }) = crash {
            // The receiver may be gone when the simulation shuts down.
            let _ = notify.send(());
        }
    }
}
