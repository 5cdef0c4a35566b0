//! What the runtime counts about itself.
//!
//! Decides names, labels and buckets. Never decides what happens.

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::controller::{Actions, Look, Next};
use crate::error::Error;
use crate::kind::KindId;

/// Upper bounds of the time buckets in seconds: from a plan that reads a few objects to a server that is overloaded.
const SECONDS: [f64; 12] = [0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

/// The runtime's metrics. Clones count together, so that several runtimes of one process can share a registry.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Families>);

/// Told of every reconcile, for those who keep metrics under other names.
pub trait Spectator: Send + Sync + 'static {
    fn began(&self, controller: &'static str);

    fn ended(&self, controller: &'static str, finish: &Finish, took: Duration);
}

/// What is told of a reconcile that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    pub how: Ending,
    /// What its plan came to, if there was one.
    pub look: Look,
    /// Whether its plan asks to be made again at some time, if nothing changes before.
    pub comes_back: bool,
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All that it wanted is done.
    Settled,
    /// All that it wanted is done, but what it found makes no sense.
    Stopped,
    /// Something went wrong; it is tried again.
    Failed,
    /// Somebody else wrote first; it is planned again at once.
    Conflict,
    Panicked,
    /// It was cut short, because this process does not lead any more or ends.
    Cancelled,
}

impl Ending {
    /// For metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Conflict => "conflict",
            Self::Panicked => "panicked",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Default)]
struct Families {
    spectator: OnceLock<Box<dyn Spectator>>,
    queue_wait: Timing<OfController>,
    plan: Timing<OfController>,
    depth: Family<OfController, Gauge>,
    reconciles: Family<Reconciled, Counter>,
    panics: Family<OfController, Counter>,
    write: Timing<Request>,
    writes: Family<Requested, Counter>,
    reads: Family<Requested, Counter>,
    not_owned: Family<OfController, Counter>,
    unreadable: Family<OfKind, Counter>,
    watch_restarts: Family<Restart, Counter>,
    events: Family<Published, Counter>,
    writes_made: Counter,
    reads_made: Counter,
}

/// Histograms over `SECONDS`, one for each set of labels.
struct Timing<Labels>(Family<Labels, Histogram, fn() -> Histogram>);

impl<Labels: Clone + Hash + Eq> Default for Timing<Labels> {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(SECONDS)))
    }
}

impl<Labels: Clone + Hash + Eq> Timing<Labels> {
    fn observe(&self, labels: &Labels, time: Duration) {
        self.0.get_or_create(labels).observe(time.as_secs_f64());
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfController {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconciled {
    controller: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    kind: String,
    verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Requested {
    kind: String,
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Published {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Restart {
    kind: String,
    cause: &'static str,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("writes", &self.writes()).field("reads", &self.reads()).finish()
    }
}

impl Metrics {
    /// Metrics that this registry shows.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let all = &metrics.0;
        let registry = registry.sub_registry_with_prefix("fleet_runtime");
        registry.register("queue_wait_seconds", "From due to taken", all.queue_wait.0.clone());
        registry.register("plan_seconds", "Time of one plan, without reads and writes", all.plan.0.clone());
        registry.register("queue_depth", "Keys that wait for a worker", all.depth.clone());
        registry.register("reconciles", "Reconciles by result", all.reconciles.clone());
        registry.register("panics", "Panics contained to their key", all.panics.clone());
        registry.register("write_seconds", "Time of one write", all.write.0.clone());
        registry.register("writes", "Writes by kind, verb and outcome", all.writes.clone());
        registry.register("reads", "Reads by kind, verb and outcome", all.reads.clone());
        registry.register("not_owned", "Writes of fields that the controller does not own", all.not_owned.clone());
        registry.register("unreadable_objects", "Versions of objects that could not be read", all.unreadable.clone());
        registry.register("watch_restarts", "Watches that were started again", all.watch_restarts.clone());
        registry.register("events", "Events for people, written or dropped", all.events.clone());
        metrics
    }

    /// Tells somebody of every reconcile from now on. There is one seat; who comes second is told nothing.
    pub fn tell(&self, spectator: impl Spectator) {
        let _ = self.0.spectator.set(Box::new(spectator));
    }

    /// Requests that asked for a change, whatever came of them.
    pub fn writes(&self) -> u64 {
        self.0.writes_made.get()
    }

    /// Requests that controllers made to read.
    pub fn reads(&self) -> u64 {
        self.0.reads_made.get()
    }

    /// Objects of one kind that were read one by one.
    pub fn reads_of(&self, kind: &KindId) -> u64 {
        self.0.reads.get_or_create(&Requested { kind: kind.to_string(), verb: "get", outcome: "ok" }).get()
    }

    /// Writes of one kind, by verb (`create`, `patch`, `status`, `delete`…) and outcome (`ok`, `conflict`…).
    pub fn writes_of(&self, kind: &KindId, verb: &'static str, outcome: &'static str) -> u64 {
        self.0.writes.get_or_create(&Requested { kind: kind.to_string(), verb, outcome }).get()
    }

    /// Reconciles of a controller that ended this way.
    pub fn reconciles(&self, controller: &'static str, how: Ending) -> u64 {
        self.0.reconciles.get_or_create(&Reconciled { controller, result: how.word() }).get()
    }

    /// Versions of objects of a kind that could not be read.
    pub fn unreadable_objects(&self, kind: &KindId) -> u64 {
        self.0.unreadable.get_or_create(&OfKind { kind: kind.to_string() }).get()
    }

    /// Lists that were made again because a watch could not go on.
    pub fn relists(&self, kind: &KindId) -> u64 {
        self.0.watch_restarts.get_or_create(&Restart { kind: kind.to_string(), cause: "expired" }).get()
    }

    pub(crate) fn waited(&self, controller: &'static str, time: Duration) {
        self.0.queue_wait.observe(&OfController { controller }, time);
    }

    pub(crate) fn planned(&self, controller: &'static str, time: Duration) {
        self.0.plan.observe(&OfController { controller }, time);
    }

    pub(crate) fn depth(&self, controller: &'static str, depth: usize) {
        self.0.depth.get_or_create(&OfController { controller }).set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    /// A reconcile that begins now. Dropped before its end, as when another process leads now, it was cancelled.
    pub(crate) fn begin(&self, controller: &'static str) -> Reconcile {
        if let Some(spectator) = self.0.spectator.get() {
            spectator.began(controller);
        }
        let finish = Finish { how: Ending::Cancelled, look: Look::Decided, comes_back: false };
        Reconcile { metrics: self.clone(), controller, begun: Instant::now(), finish }
    }

    pub(crate) fn panicked(&self, controller: &'static str) {
        self.0.panics.get_or_create(&OfController { controller }).inc();
    }

    pub(crate) fn wrote(&self, kind: &KindId, verb: &'static str, time: Duration, error: Option<&Error>) {
        self.0.writes_made.inc();
        let outcome = error.map_or("ok", Error::class);
        self.0.write.observe(&Request { kind: kind.to_string(), verb }, time);
        self.0.writes.get_or_create(&Requested { kind: kind.to_string(), verb, outcome }).inc();
    }

    pub(crate) fn read(&self, kind: &KindId, verb: &'static str, error: Option<&Error>) {
        self.0.reads_made.inc();
        let outcome = error.map_or("ok", Error::class);
        self.0.reads.get_or_create(&Requested { kind: kind.to_string(), verb, outcome }).inc();
    }

    pub(crate) fn not_owned(&self, controller: &'static str) {
        self.0.not_owned.get_or_create(&OfController { controller }).inc();
    }

    pub(crate) fn unreadable(&self, kind: &KindId) {
        self.0.unreadable.get_or_create(&OfKind { kind: kind.to_string() }).inc();
    }

    pub(crate) fn published(&self, written: bool) {
        let outcome = if written { "ok" } else { "dropped" };
        self.0.events.get_or_create(&Published { outcome }).inc();
    }

    pub(crate) fn watch_restarted(&self, kind: &KindId, cause: &'static str) {
        self.0.watch_restarts.get_or_create(&Restart { kind: kind.to_string(), cause }).inc();
    }
}

/// A reconcile under way.
pub(crate) struct Reconcile {
    metrics: Metrics,
    controller: &'static str,
    begun: Instant,
    finish: Finish,
}

impl Reconcile {
    /// There is a plan.
    pub(crate) fn planned(&mut self, actions: &Actions) {
        self.finish.look = actions.look.clone();
        self.finish.comes_back = actions.next != Next::OnChange;
    }

    /// What it is called that everything which was planned is done.
    pub(crate) fn settled(&self) -> Ending {
        if matches!(self.finish.look, Look::Stopped(_)) { Ending::Stopped } else { Ending::Settled }
    }

    pub(crate) fn end(mut self, how: Ending) {
        self.finish.how = how;
    }
}

impl Drop for Reconcile {
    fn drop(&mut self) {
        let Self { metrics, controller, begun, finish } = self;
        metrics.0.reconciles.get_or_create(&Reconciled { controller, result: finish.how.word() }).inc();
        if let Some(spectator) = metrics.0.spectator.get() {
            spectator.ended(controller, finish, begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_looks_on_is_told_of_every_beginning_and_every_end() {
        #[derive(Clone, Default)]
        struct Told(Arc<parking_lot::Mutex<Vec<String>>>);
        impl Spectator for Told {
            fn began(&self, controller: &'static str) {
                self.0.lock().push(format!("{controller} began"));
            }
            fn ended(&self, controller: &'static str, finish: &Finish, _: Duration) {
                self.0.lock().push(format!("{controller} {} {}", finish.how.word(), finish.comes_back));
            }
        }
        let (metrics, told) = (Metrics::default(), Told::default());
        metrics.tell(told.clone());
        metrics.tell(Told::default());
        let cut_short = metrics.begin("b");
        let mut lost = metrics.begin("a");
        lost.planned(&Actions { look: Look::Stopped("why".to_owned()), ..Actions::none() });
        let how = lost.settled();
        lost.end(how);
        let mut early = metrics.begin("a");
        early.planned(&Actions::none().then(Next::At(jiff::Timestamp::MAX)));
        let how = early.settled();
        early.end(how);
        drop(cut_short);
        let expected = ["b began", "a began", "a stopped false", "a began", "a settled true", "b cancelled false"];
        assert_eq!(*told.0.lock(), expected);
        assert_eq!(metrics.reconciles("b", Ending::Cancelled), 1);
    }

    #[test]
    fn a_registry_shows_what_was_counted_by_kind_verb_and_outcome() {
        let mut registry = Registry::default();
        let metrics = Metrics::registered(&mut registry);
        let kind = KindId::new("apps", "v1", "Deployment", "deployments");
        metrics.wrote(&kind, "create", Duration::from_millis(2), None);
        metrics.clone().wrote(&kind, "create", Duration::from_millis(2), Some(&Error::NotLeading));
        metrics.begin("toy").end(Ending::Settled);
        metrics.waited("toy", Duration::from_secs(2));
        metrics.planned("toy", Duration::from_micros(300));
        metrics.depth("toy", 3);
        metrics.read(&kind, "get", None);
        metrics.watch_restarted(&kind, "expired");
        assert_eq!((metrics.writes(), metrics.reads(), metrics.relists(&kind)), (2, 1, 1));
        assert_eq!((metrics.writes_of(&kind, "create", "ok"), metrics.reconciles("toy", Ending::Settled)), (1, 1));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"fleet_runtime_writes_total{kind="deployments.apps",verb="create",outcome="ok"} 1"#,
            r#"fleet_runtime_writes_total{kind="deployments.apps",verb="create",outcome="not_leading"} 1"#,
            r#"fleet_runtime_queue_depth{controller="toy"} 3"#,
            r#"fleet_runtime_plan_seconds_bucket{le="0.0005",controller="toy"} 1"#,
            r#"fleet_runtime_queue_wait_seconds_sum{controller="toy"} 2.0"#,
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
        }
    }
}
