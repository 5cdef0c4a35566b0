//! One reconcile of a key: plan, fetch or confirm what the plan needs, send or defer its writes in order, publish its events.
//!
//! A panic affects only the key it happened on.

use std::sync::Arc;

use fleet_api::wake::Wake;
use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::cache::Owner;
use crate::controller::{Actions, Controller, Needs, PlanInput, PlanResult, WriteResult};
use crate::deferral::ObjectRef;
use crate::error::{Error, panic_text};
use crate::metrics::{ReconcileResult, RunningReconcile};
use crate::queue::Done;
use crate::reconcile_context::ReconcileContext;
use crate::triggers::WorkQueue;
use crate::worker::Context;
use crate::write::Write;
use crate::writer::{OwnWrites, Written};

/// Plans per reconcile. A plan asks for facts and for a confirmation; each may be needed again if objects change meanwhile.
const PLANS_PER_RECONCILE: usize = 5;

/// What the reconciles of a controller share.
pub(crate) struct Reconciler<C: Controller> {
    pub(crate) controller: Arc<C>,
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Arc<WorkQueue<C::Key>>,
}

/// Reconciles a key once and classifies the result.
pub(crate) async fn reconcile<C: Controller>(reconciler: Reconciler<C>, key: C::Key) -> Done {
    let mut running = reconciler.context.metrics.begin(C::NAME);
    let reconcile = Reconcile { reconciler: &reconciler, key: &key };
    let attempt = std::panic::AssertUnwindSafe(reconcile.attempt(&mut running)).catch_unwind().await;
    let (done, result) = match attempt {
        Ok(Ok(done)) => (done, running.result_of_plan()),
        Ok(Err(error)) => failed(&error),
        Err(panic) => {
            reconciler.context.metrics.panicked(C::NAME);
            tracing::error!(panic = panic_text(&*panic), "reconcile panicked; retrying");
            (Done::Failed, ReconcileResult::Panicked)
        }
    };
    running.end(result);
    done
}

/// Writes the deferred statuses of a key whose deadline has passed, without a plan.
pub(crate) async fn flush<C: Controller>(reconciler: Reconciler<C>, key: C::Key) -> Done {
    let flushed = Reconcile { reconciler: &reconciler, key: &key }.flush_due().await;
    flushed.map_or_else(|error| failed(&error).0, |()| Done::Flushed)
}

fn failed(error: &Error) -> (Done, ReconcileResult) {
    match error {
        Error::NotLeading => (Done::Cancelled, ReconcileResult::Cancelled),
        error if error.is_conflict() => {
            tracing::debug!(error = error.with_causes(), "write conflict; reconciling again");
            (Done::Conflict, ReconcileResult::Conflict)
        }
        error => {
            tracing::warn!(error = error.with_causes(), "reconcile failed; retrying");
            (Done::Failed, ReconcileResult::Failed)
        }
    }
}

struct Reconcile<'a, C: Controller> {
    reconciler: &'a Reconciler<C>,
    key: &'a C::Key,
}

impl<C: Controller> std::ops::Deref for Reconcile<'_, C> {
    type Target = Reconciler<C>;

    fn deref(&self) -> &Reconciler<C> {
        self.reconciler
    }
}

/// The outcome of executing a plan.
struct Executed {
    /// Of `best_effort` writes, and the rejection of a `report_rejection` write.
    results: Vec<WriteResult>,
    /// Whether all writes were sent or deferred.
    is_committed: bool,
    wake: Wake,
}

impl<C: Controller> Reconcile<'_, C> {
    async fn attempt(&self, running: &mut RunningReconcile) -> Result<Done, Error> {
        let Some(actions) = self.plan().await? else {
            // The facts change faster than they can be read.
            return Ok(Done::Settled { wake: Some(self.context.clock.now()) });
        };
        running.planned(&actions);
        let Executed { results, is_committed, mut wake } = self.execute(actions).await?;
        if is_committed {
            self.controller.on_committed(self.key);
        }
        if !results.is_empty()
            && let Some(more) = self.controller.on_results(self.key, results, self.input(false))
        {
            wake = self.execute(more).await?.wake;
        }
        self.flush_due().await?;
        let wake = match wake {
            Wake::At(at) => Some(at),
            Wake::OnChange => None,
        };
        Ok(Done::Settled { wake })
    }

    fn input(&self, confirmed: bool) -> PlanInput {
        PlanInput { now: self.context.clock.now(), seed: self.context.seeds.next(), confirmed }
    }

    /// Plans until the plan needs nothing more. `None` if it always needs more.
    async fn plan(&self) -> Result<Option<Actions>, Error> {
        let (mut facts, mut confirmed) = (None, false);
        for _ in 0..PLANS_PER_RECONCILE {
            let (input, started) = (self.input(confirmed), Instant::now());
            let mut actions = self.controller.plan(self.key, facts.take(), input);
            self.context.metrics.planned(C::NAME, started.elapsed());
            match actions.needs.take() {
                None => return Ok(Some(actions)),
                Some(Needs::Facts) => {
                    let context = ReconcileContext::new(&self.context, C::NAME);
                    facts = Some(self.controller.fetch(self.key, &context).await?);
                }
                Some(Needs::Confirmation(checks)) => {
                    for check in &checks {
                        if !check.confirm(&self.context.reader).await? {
                            return Ok(Some(actions));
                        }
                    }
                    confirmed = true;
                }
            }
        }
        Ok(None)
    }

    async fn execute(&self, actions: Actions) -> Result<Executed, Error> {
        if let Some(note) = &actions.note {
            tracing::debug!(note, "planned");
        }
        if let PlanResult::Blocked(why) = &actions.result {
            tracing::warn!(why, "reconcile blocked by invalid input; waiting for it to change");
        }
        for (kind, key) in &actions.flush {
            self.context.writer.request_flush(kind, key);
        }
        let mut executed = Executed { results: Vec::new(), is_committed: true, wake: actions.wake };
        let mut own_writes = OwnWrites::default();
        for mut write in actions.writes {
            if write.is_nothing() {
                // `on_results` gets one result per `best_effort` write.
                if write.best_effort {
                    executed.results.push(Ok(None));
                }
                continue;
            }
            let base = write.base().map(str::to_owned);
            own_writes.rebase(&mut write);
            if self.defer(&write)? {
                continue;
            }
            let result = self.send(&write).await.map(|written| {
                own_writes.record(&write, base, written.version);
                written.object
            });
            match result {
                Err(Error::NotLeading) => return Err(Error::NotLeading),
                Err(error) if write.report_rejection && error.is_rejection() => {
                    tracing::debug!(error = error.with_causes(), "the API server rejected a write");
                    executed.results.push(Err(error));
                    return Ok(Executed { is_committed: false, ..executed });
                }
                result if write.best_effort => executed.results.push(result),
                result => drop(result?),
            }
        }
        actions.events.into_iter().for_each(|event| self.context.recorder.record(event));
        Ok(executed)
    }

    async fn send(&self, write: &Write) -> Result<Written, Error> {
        let started = Instant::now();
        let written = self.context.writer.send(C::NAME, write, write.best_effort).await;
        let (took, now) = (started.elapsed(), self.context.clock.now());
        self.context.write_costs.record_load(write.cluster, took, now);
        if write.is_status() {
            let object = ObjectRef::of(write);
            if write.defer.is_some() {
                self.context.write_costs.record(&object, took, now);
            }
            if written.is_ok() {
                self.queue.deferrals.lock().remove(self.key, &object);
            }
        }
        written
    }

    /// Defers a write, if it may wait. An object that no cache holds is written at once.
    fn defer(&self, write: &Write) -> Result<bool, Error> {
        let Some(window) = write.defer.filter(|_| write.is_status()) else { return Ok(false) };
        let (object, now) = (ObjectRef::of(write), self.context.clock.now());
        if self.is_due(&object, now) {
            return Ok(false);
        }
        let (queue, key) = (self.queue.clone(), self.key.clone());
        let owner: Owner = Arc::new(move |signal| queue.on_deferred(&key, signal));
        let is_deferred = self.context.writer.defer(C::NAME, write, owner)?;
        if is_deferred {
            let deadline = self.context.write_costs.deadline(&object, window, now, now);
            self.queue.deferrals.lock().add(self.key, object, now, deadline);
        }
        Ok(is_deferred)
    }

    /// Whether the deadline of a deferred status has passed, also if the server has become slow since then.
    fn is_due(&self, object: &ObjectRef, now: Timestamp) -> bool {
        let mut deferrals = self.queue.deferrals.lock();
        deferrals.postpone(self.key, &self.context.write_costs, now);
        deferrals.is_due(self.key, object, now)
    }

    /// The objects of the key whose deferred status must be written now.
    fn due(&self, now: Timestamp) -> Vec<ObjectRef> {
        let mut deferrals = self.queue.deferrals.lock();
        deferrals.postpone(self.key, &self.context.write_costs, now);
        deferrals.due(self.key, now)
    }

    /// Writes the deferred statuses of the key whose deadline has passed, and sets its timer.
    async fn flush_due(&self) -> Result<(), Error> {
        let due = self.due(self.context.clock.now());
        for object in due {
            let started = Instant::now();
            self.context.writer.flush(C::NAME, &object).await?;
            let (took, now) = (started.elapsed(), self.context.clock.now());
            self.context.write_costs.record_load(object.cluster, took, now);
            self.context.write_costs.record(&object, took, now);
            self.queue.deferrals.lock().remove(self.key, &object);
        }
        self.queue.deferrals.lock().arm(self.key);
        Ok(())
    }
}
