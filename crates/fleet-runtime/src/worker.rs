//! The loop of one controller: takes due keys, reconciles several of them at the same time, and stops or pauses with the process
//! and its lease.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::{Id, JoinSet};
use tracing::Instrument as _;

use crate::clock::{Clock, Seeds};
use crate::controller::Controller;
use crate::deferral::WriteCosts;
use crate::events::Recorder;
use crate::flag::Flag;
use crate::metrics::Metrics;
use crate::queue::{Done, Reason};
use crate::reader::Reader;
use crate::reconcile::{Reconciler, flush, reconcile};
use crate::triggers::WorkQueue;
use crate::writer::Writer;

/// Time for running reconciles to finish when the process is asked to stop. An agent must exit within two seconds, and
/// releases its Lease after this.
pub const SHUTDOWN_GRACE: Duration = Duration::from_millis(1500);

/// The loop of one controller.
pub(crate) struct Worker<C: Controller> {
    pub(crate) controller: Arc<C>,
    pub(crate) work_queue: Arc<WorkQueue<C::Key>>,
    /// How many keys are reconciled at the same time.
    pub(crate) workers: usize,
    /// Caches that must be synced before a reconcile.
    pub(crate) gates: Vec<Flag>,
    pub(crate) leading: Flag,
    pub(crate) stopping: Flag,
    pub(crate) context: Arc<Context>,
}

/// What all reconciles of a runtime share.
pub(crate) struct Context {
    pub(crate) clock: Clock,
    pub(crate) seeds: Seeds,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) write_costs: WriteCosts,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
}

impl<C: Controller> Worker<C> {
    /// Runs until the process stops. Running reconciles then have `SHUTDOWN_GRACE` to finish.
    pub(crate) async fn run(self) {
        tokio::select! {
            biased;
            () = self.stopping.becomes(true) => return,
            () = wait_for_all(&self.gates) => {}
        }
        tracing::info!(controller = C::NAME, "caches are complete");
        let mut in_flight = InFlight { tasks: JoinSet::new(), keys: BTreeMap::new() };
        loop {
            self.dispatch(&mut in_flight);
            // If all workers are busy, the timer is not armed: the next worker that finishes takes the overdue keys.
            let has_free_worker = in_flight.tasks.len() < self.workers;
            let due = self.next_due().filter(|_| has_free_worker);
            let (leading, is_synced) = (self.leading.is_set(), self.is_synced());
            tokio::select! {
                biased;
                () = self.stopping.becomes(true) => break,
                () = self.leading.becomes(!leading) => if leading { self.cancel_all(&mut in_flight).await },
                Some(ended) = in_flight.tasks.join_next_with_id() => self.completed(&mut in_flight, ended),
                () = wait_for_all(&self.gates), if !is_synced => {}
                () = self.work_queue.enqueued.notified() => {}
                () = self.context.clock.sleep_until(due.unwrap_or(Timestamp::MAX)),
                    if leading && is_synced && due.is_some() => {}
            }
        }
        let drain = async {
            while let Some(ended) = in_flight.tasks.join_next_with_id().await {
                self.completed(&mut in_flight, ended);
            }
            self.flush_all().await;
        };
        if tokio::time::timeout(SHUTDOWN_GRACE, drain).await.is_err() {
            tracing::warn!(controller = C::NAME, "shutdown grace period is over; running reconciles were cancelled");
        }
    }

    /// Writes all deferred statuses, which would be lost with the process.
    async fn flush_all(&self) {
        if !self.leading.is_set() {
            return;
        }
        let deferred = self.work_queue.deferrals.lock().take_all();
        let writes = deferred.into_iter().flat_map(|(_, objects)| objects).map(|object| async move {
            if let Err(error) = self.context.writer.flush(C::NAME, &object).await {
                tracing::warn!(controller = C::NAME, error = error.with_causes(), "a deferred status was not written");
            }
        });
        futures::future::join_all(writes).await;
    }

    fn next_due(&self) -> Option<Timestamp> {
        let flush = self.work_queue.deferrals.lock().next_due();
        self.work_queue.queue.lock().next_due().into_iter().chain(flush).min()
    }

    /// Starts reconciles and flushes while there are due keys and free workers.
    fn dispatch(&self, in_flight: &mut InFlight<C::Key>) {
        if !self.leading.is_set() || !self.is_synced() {
            return;
        }
        let now = self.context.clock.now();
        let mut queue = self.work_queue.queue.lock();
        while in_flight.tasks.len() < self.workers {
            let Some(taken) = queue.take(now) else { break };
            let waited = Duration::try_from(now.duration_since(taken.since)).unwrap_or_default();
            self.context.metrics.waited(C::NAME, waited);
            let span = tracing::info_span!(
                "reconcile", controller = C::NAME, key = %taken.key, reason = taken.reason.label()
            );
            let key = taken.key.clone();
            in_flight.spawn(taken.key, reconcile(self.reconciler(), key).instrument(span));
        }
        self.context.metrics.depth(C::NAME, queue.depth());
        let mut deferrals = self.work_queue.deferrals.lock();
        while in_flight.tasks.len() < self.workers {
            let Some(key) = deferrals.take_due_key(now) else { break };
            if queue.take_idle(&key, now) {
                let span = tracing::info_span!("flush", controller = C::NAME, key = %key);
                in_flight.spawn(key.clone(), flush(self.reconciler(), key).instrument(span));
            }
        }
    }

    /// A cache is not synced while its server is listed again after a restore.
    fn is_synced(&self) -> bool {
        self.gates.iter().all(Flag::is_set)
    }

    fn reconciler(&self) -> Reconciler<C> {
        let (controller, queue) = (self.controller.clone(), self.work_queue.clone());
        Reconciler { controller, context: self.context.clone(), queue }
    }

    fn completed(&self, in_flight: &mut InFlight<C::Key>, ended: Result<(Id, Done), tokio::task::JoinError>) {
        let (id, done) = match ended {
            Ok((id, done)) => (id, done),
            Err(error) if error.is_panic() => (error.id(), Done::Failed),
            Err(error) => (error.id(), Done::Cancelled),
        };
        let Some(key) = in_flight.keys.remove(&id) else { return };
        self.work_queue.queue.lock().done(&key, done, self.context.clock.now());
    }

    /// Cancels all reconciles after the lease was lost: another process may be writing now. Deferred statuses are dropped.
    async fn cancel_all(&self, in_flight: &mut InFlight<C::Key>) {
        in_flight.tasks.abort_all();
        while let Some(ended) = in_flight.tasks.join_next_with_id().await {
            self.completed(in_flight, ended);
        }
        // The next leader computes these statuses itself.
        let deferred = self.work_queue.deferrals.lock().take_all();
        for (key, objects) in deferred {
            for object in objects {
                self.context.writer.drop_deferred(&object);
            }
            self.work_queue.enqueue([key], Reason::Change);
        }
    }
}

/// Running reconciles.
struct InFlight<Key> {
    tasks: JoinSet<Done>,
    keys: BTreeMap<Id, Key>,
}

impl<Key> InFlight<Key> {
    fn spawn(&mut self, key: Key, reconcile: impl Future<Output = Done> + Send + 'static) {
        let task = self.tasks.spawn(reconcile);
        self.keys.insert(task.id(), key);
    }
}

async fn wait_for_all(gates: &[Flag]) {
    for gate in gates {
        gate.becomes(true).await;
    }
}
