//! The reconcile loop of one controller: takes keys, fetches, plans, writes in order, and sets the wake-up.
//!
//! A panic affects only the key it happened on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleet_api::wake::Wake;
use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::clock::{Clock, Seeds, later};
use crate::controller::{Actions, Controller, PlanInput, PlanResult, WriteResult};
use crate::error::{Error, panic_text};
use crate::events::Recorder;
use crate::flag::Flag;
use crate::metrics::{Metrics, ReconcileResult, RunningReconcile};
use crate::queue::{Done, Reason, Taken};
use crate::reader::Reader;
use crate::reconcile_context::ReconcileContext;
use crate::triggers::WorkQueue;
use crate::write::Write;
use crate::writer::{OwnWrites, Writer};

/// Time for running reconciles to finish when the process is asked to stop. An agent must exit within two seconds, and
/// releases its Lease after this.
pub const SHUTDOWN_GRACE: Duration = Duration::from_millis(1500);

/// The loop of one controller.
pub(crate) struct Worker<C: Controller> {
    pub(crate) controller: Arc<C>,
    pub(crate) work_queue: Arc<WorkQueue<C::Key>>,
    /// How many keys are reconciled at the same time.
    pub(crate) workers: usize,
    /// Caches that must be synced before the first reconcile.
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
            let due = self.work_queue.queue.lock().next_due().filter(|_| has_free_worker);
            let leading = self.leading.is_set();
            tokio::select! {
                biased;
                () = self.stopping.becomes(true) => break,
                () = self.leading.becomes(!leading) => if leading { self.cancel_all(&mut in_flight).await },
                Some(ended) = in_flight.tasks.join_next_with_id() => self.completed(&mut in_flight, ended),
                () = self.work_queue.enqueued.notified() => {}
                () = self.context.clock.sleep_until(due.unwrap_or(Timestamp::MAX)), if leading && due.is_some() => {}
            }
        }
        let drain = async {
            while let Some(ended) = in_flight.tasks.join_next_with_id().await {
                self.completed(&mut in_flight, ended);
            }
            self.flush().await;
        };
        if tokio::time::timeout(SHUTDOWN_GRACE, drain).await.is_err() {
            tracing::warn!(controller = C::NAME, "shutdown grace period is over; running reconciles were cancelled");
        }
    }

    /// Reconciles the keys of `on_shutdown`: writes that the controller deferred in memory would be lost.
    async fn flush(&self) {
        if !self.leading.is_set() {
            return;
        }
        let flush = |key| {
            let taken = Taken { key, reason: Reason::Wake, since: self.context.clock.now(), deferred_since: None };
            reconcile(self.controller.clone(), self.context.clone(), taken)
        };
        futures::future::join_all(self.controller.on_shutdown().into_iter().map(flush)).await;
    }

    /// Starts reconciles while there are due keys and free workers.
    fn dispatch(&self, in_flight: &mut InFlight<C::Key>) {
        if !self.leading.is_set() {
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
            let reconcile = reconcile(self.controller.clone(), self.context.clone(), taken).instrument(span);
            let task = in_flight.tasks.spawn(reconcile);
            in_flight.keys.insert(task.id(), key);
        }
        self.context.metrics.depth(C::NAME, queue.depth());
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

    /// Cancels all reconciles after the lease was lost: another process may be writing now.
    async fn cancel_all(&self, in_flight: &mut InFlight<C::Key>) {
        in_flight.tasks.abort_all();
        while let Some(ended) = in_flight.tasks.join_next_with_id().await {
            self.completed(in_flight, ended);
        }
    }
}

/// Running reconciles.
struct InFlight<Key> {
    tasks: JoinSet<Done>,
    keys: BTreeMap<Id, Key>,
}

async fn wait_for_all(gates: &[Flag]) {
    for gate in gates {
        gate.becomes(true).await;
    }
}

/// Reconciles a key once and classifies the result.
async fn reconcile<C: Controller>(controller: Arc<C>, context: Arc<Context>, taken: Taken<C::Key>) -> Done {
    let mut running = context.metrics.begin(C::NAME);
    let attempt =
        std::panic::AssertUnwindSafe(attempt(&*controller, &context, &taken, &mut running)).catch_unwind().await;
    let (done, result) = match attempt {
        Ok(Ok(done)) => (done, running.result_of_plan()),
        Ok(Err(Error::NotLeading)) => (Done::Cancelled, ReconcileResult::Cancelled),
        Ok(Err(error)) if error.is_conflict() => {
            tracing::debug!(error = error.with_causes(), "write conflict; reconciling again");
            (Done::Conflict, ReconcileResult::Conflict)
        }
        Ok(Err(error)) => {
            tracing::warn!(error = error.with_causes(), "reconcile failed; retrying");
            (Done::Failed, ReconcileResult::Failed)
        }
        Err(panic) => {
            context.metrics.panicked(C::NAME);
            tracing::error!(panic = panic_text(&*panic), "reconcile panicked; retrying");
            (Done::Failed, ReconcileResult::Panicked)
        }
    };
    running.end(result);
    done
}

async fn attempt<C: Controller>(
    controller: &C,
    context: &Context,
    taken: &Taken<C::Key>,
    running: &mut RunningReconcile,
) -> Result<Done, Error> {
    let facts = controller.observe_with_writes(&taken.key, &ReconcileContext::new(context, C::NAME)).await?;
    let input = || PlanInput { now: context.clock.now(), seed: context.seeds.next() };
    let plan_input = input();
    let started = Instant::now();
    let actions = controller.plan(&taken.key, facts, plan_input);
    context.metrics.planned(C::NAME, started.elapsed());
    running.planned(&actions);
    let Executed { results, is_committed, mut requeue } =
        execute::<C>(context, actions, plan_input.now, taken.deferred_since).await?;
    if is_committed {
        controller.on_committed(&taken.key);
    }
    if !results.is_empty()
        && let Some(more) = controller.on_results(&taken.key, results, input())
    {
        let at = context.clock.now();
        let deferred_since = requeue.deferred_since.or(taken.deferred_since);
        requeue = execute::<C>(context, more, at, deferred_since).await?.requeue;
    }
    let wake = match requeue.wake {
        Wake::At(at) => Some(at),
        Wake::OnChange => None,
    };
    Ok(Done::Settled { wake, deferred_since: requeue.deferred_since })
}

/// The outcome of executing a plan.
struct Executed {
    /// Of `best_effort` writes, and the rejection of a `report_rejection` write.
    results: Vec<WriteResult>,
    /// Whether all writes were sent, except deferred ones.
    is_committed: bool,
    requeue: Requeue,
}

/// When the key is reconciled again.
struct Requeue {
    wake: Wake,
    deferred_since: Option<Timestamp>,
}

async fn execute<C: Controller>(
    context: &Context,
    actions: Actions,
    now: Timestamp,
    deferred_since: Option<Timestamp>,
) -> Result<Executed, Error> {
    if let Some(note) = &actions.note {
        tracing::debug!(note, "planned");
    }
    if let PlanResult::Blocked(why) = &actions.result {
        tracing::warn!(why, "reconcile blocked by invalid input; waiting for it to change");
    }
    let mut results = Vec::new();
    let mut own_writes = OwnWrites::default();
    let mut requeue = Requeue { wake: actions.wake, deferred_since: None };
    for mut write in actions.writes {
        if write.is_nothing() {
            // `on_results` gets one result per `best_effort` write.
            if write.best_effort {
                results.push(Ok(None));
            }
            continue;
        }
        if let Some(due) = deferred_until(&write, now, deferred_since) {
            requeue.deferred_since = Some(deferred_since.unwrap_or(now));
            requeue.wake = requeue.wake.earlier(Wake::At(due));
            continue;
        }
        let base = write.base().map(str::to_owned);
        own_writes.rebase(&mut write);
        let result = context.writer.send(C::NAME, &write, write.best_effort).await;
        let result = result.map(|written| {
            own_writes.record(&write, base, written.version);
            written.object
        });
        match result {
            Err(Error::NotLeading) => return Err(Error::NotLeading),
            Err(error) if write.report_rejection && error.is_rejection() => {
                tracing::debug!(error = error.with_causes(), "the API server rejected a write");
                results.push(Err(error));
                return Ok(Executed { results, is_committed: false, requeue });
            }
            result if write.best_effort => results.push(result),
            result => drop(result?),
        }
    }
    // Events describe the effect of the writes. Deferred writes are planned again, together with their events.
    if requeue.deferred_since.is_none() {
        actions.events.into_iter().for_each(|event| context.recorder.record(event));
    }
    Ok(Executed { results, is_committed: true, requeue })
}

/// Until when a deferrable write waits; `None` if it must be sent now.
fn deferred_until(write: &Write, now: Timestamp, deferred_since: Option<Timestamp>) -> Option<Timestamp> {
    let due = later(deferred_since.unwrap_or(now), write.defer?);
    (due > now).then_some(due)
}
