//! The runtime's own metrics: names, labels and buckets.

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fleet_api::wake::Wake;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::controller::{Actions, PlanResult};
use crate::error::Error;
use crate::kind::KindId;

/// Upper bounds of the time buckets in seconds: from a plan that reads a few objects to a server that is overloaded.
const SECONDS: [f64; 12] = [0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

/// The runtime's metrics. Clones share the counters, so that several runtimes of one process can share a registry.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Families>);

/// Called for every reconcile, for metrics under other names.
pub trait ReconcileObserver: Send + Sync + 'static {
    fn started(&self, controller: &'static str);

    fn finished(&self, controller: &'static str, summary: &ReconcileSummary, took: Duration);
}

/// A finished reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconcileSummary {
    pub result: ReconcileResult,
    /// `Decided` if it ended before there was a plan.
    pub plan_result: PlanResult,
    /// Whether its plan set a wake-up.
    pub is_requeued: bool,
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileResult {
    /// The plan was executed.
    Succeeded,
    /// The plan was executed, but its input is invalid (`PlanResult::Blocked`).
    Blocked,
    /// A read or write failed; the key is retried.
    Failed,
    /// Another client changed an object first; the key is reconciled again at once.
    Conflict,
    Panicked,
    /// The process lost the lease or is stopping.
    Cancelled,
}

impl ReconcileResult {
    /// The label value in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Succeeded => "settled",
            Self::Blocked => "stopped",
            Self::Failed => "failed",
            Self::Conflict => "conflict",
            Self::Panicked => "panicked",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Default)]
struct Families {
    observer: OnceLock<Box<dyn ReconcileObserver>>,
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

    /// Registers an observer that is called for every reconcile. Only the first registration counts.
    pub fn set_observer(&self, observer: impl ReconcileObserver) {
        let _ = self.0.observer.set(Box::new(observer));
    }

    /// Write requests, with any outcome.
    pub fn writes(&self) -> u64 {
        self.0.writes_made.get()
    }

    /// Read requests of controllers.
    pub fn reads(&self) -> u64 {
        self.0.reads_made.get()
    }

    /// Successful reads of single objects of a kind.
    pub fn reads_of(&self, kind: &KindId) -> u64 {
        self.0.reads.get_or_create(&Requested { kind: kind.to_string(), verb: "get", outcome: "ok" }).get()
    }

    /// Writes of one kind, by verb (`create`, `patch`, `status`, `delete`…) and outcome (`ok`, `conflict`…).
    pub fn writes_of(&self, kind: &KindId, verb: &'static str, outcome: &'static str) -> u64 {
        self.0.writes.get_or_create(&Requested { kind: kind.to_string(), verb, outcome }).get()
    }

    /// Reconciles of a controller with this result.
    pub fn reconciles(&self, controller: &'static str, result: ReconcileResult) -> u64 {
        self.0.reconciles.get_or_create(&Reconciled { controller, result: result.label() }).get()
    }

    /// Versions of objects of a kind that could not be read.
    pub fn unreadable_objects(&self, kind: &KindId) -> u64 {
        self.0.unreadable.get_or_create(&OfKind { kind: kind.to_string() }).get()
    }

    /// Lists that were repeated because a watch had expired.
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

    /// Starts a reconcile. Counts as cancelled if it is dropped without `end`.
    pub(crate) fn begin(&self, controller: &'static str) -> RunningReconcile {
        if let Some(observer) = self.0.observer.get() {
            observer.started(controller);
        }
        let summary = ReconcileSummary {
            result: ReconcileResult::Cancelled,
            plan_result: PlanResult::Decided,
            is_requeued: false,
        };
        RunningReconcile { metrics: self.clone(), controller, started: Instant::now(), summary }
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

/// A reconcile that has not ended.
pub(crate) struct RunningReconcile {
    metrics: Metrics,
    controller: &'static str,
    started: Instant,
    summary: ReconcileSummary,
}

impl RunningReconcile {
    pub(crate) fn planned(&mut self, actions: &Actions) {
        self.summary.plan_result = actions.result.clone();
        self.summary.is_requeued = actions.wake != Wake::OnChange;
    }

    /// The result if the plan was executed completely.
    pub(crate) fn result_of_plan(&self) -> ReconcileResult {
        if matches!(self.summary.plan_result, PlanResult::Blocked(_)) {
            ReconcileResult::Blocked
        } else {
            ReconcileResult::Succeeded
        }
    }

    pub(crate) fn end(mut self, result: ReconcileResult) {
        self.summary.result = result;
    }
}

impl Drop for RunningReconcile {
    fn drop(&mut self) {
        let Self { metrics, controller, started, summary } = self;
        metrics.0.reconciles.get_or_create(&Reconciled { controller, result: summary.result.label() }).inc();
        if let Some(observer) = metrics.0.observer.get() {
            observer.finished(controller, summary, started.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_observer_is_called_for_every_start_and_end() {
        #[derive(Clone, Default)]
        struct Calls(Arc<parking_lot::Mutex<Vec<String>>>);
        impl ReconcileObserver for Calls {
            fn started(&self, controller: &'static str) {
                self.0.lock().push(format!("{controller} started"));
            }
            fn finished(&self, controller: &'static str, summary: &ReconcileSummary, _: Duration) {
                self.0.lock().push(format!("{controller} {} {}", summary.result.label(), summary.is_requeued));
            }
        }
        let (metrics, calls) = (Metrics::default(), Calls::default());
        metrics.set_observer(calls.clone());
        metrics.set_observer(Calls::default());
        let cancelled = metrics.begin("b");
        let mut blocked = metrics.begin("a");
        blocked.planned(&Actions { result: PlanResult::Blocked("why".to_owned()), ..Actions::none() });
        let result = blocked.result_of_plan();
        blocked.end(result);
        let mut requeued = metrics.begin("a");
        requeued.planned(&Actions::none().with_wake(Wake::At(jiff::Timestamp::MAX)));
        let result = requeued.result_of_plan();
        requeued.end(result);
        drop(cancelled);
        let expected =
            ["b started", "a started", "a stopped false", "a started", "a settled true", "b cancelled false"];
        assert_eq!(*calls.0.lock(), expected);
        assert_eq!(metrics.reconciles("b", ReconcileResult::Cancelled), 1);
    }

    #[test]
    fn a_registry_shows_what_was_counted_by_kind_verb_and_outcome() {
        let mut registry = Registry::default();
        let metrics = Metrics::registered(&mut registry);
        let kind = KindId::new("apps", "v1", "Deployment", "deployments");
        metrics.wrote(&kind, "create", Duration::from_millis(2), None);
        metrics.clone().wrote(&kind, "create", Duration::from_millis(2), Some(&Error::NotLeading));
        metrics.begin("toy").end(ReconcileResult::Succeeded);
        metrics.waited("toy", Duration::from_secs(2));
        metrics.planned("toy", Duration::from_micros(300));
        metrics.depth("toy", 3);
        metrics.read(&kind, "get", None);
        metrics.watch_restarted(&kind, "expired");
        assert_eq!((metrics.writes(), metrics.reads(), metrics.relists(&kind)), (2, 1, 1));
        assert_eq!(
            (metrics.writes_of(&kind, "create", "ok"), metrics.reconciles("toy", ReconcileResult::Succeeded)),
            (1, 1)
        );
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
