//! The one loop: takes keys, fetches, plans, writes in order, sets the wake-up.
//!
//! Decides how many keys are in hand at once and what the end of a reconcile means for its key. Contains panics to the
//! key they happened on. Never decides what a plan says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::clock::{Clock, Seeds, later};
use crate::controller::{Actions, Controller, Look, Moment, Next, Outcome};
use crate::error::{Error, panic_text};
use crate::events::Recorder;
use crate::flag::Flag;
use crate::hands::Hands;
use crate::metrics::{Ending, Metrics, Reconcile};
use crate::queue::{Done, Reason, Taken};
use crate::reader::Reader;
use crate::triggers::Lane;
use crate::write::Write;
use crate::writer::{Chain, Writer};

/// How long reconciles that have begun may take to end when the process is asked to stop. An agent promises to be gone
/// within two seconds, and still gives its Lease up after this.
pub const SHUTDOWN_GRACE: Duration = Duration::from_millis(1500);

/// What a controller's loop works with.
pub(crate) struct Worker<C: Controller> {
    pub(crate) controller: Arc<C>,
    pub(crate) lane: Arc<Lane<C::Key>>,
    pub(crate) workers: usize,
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
    /// Runs until the process stops. Reconciles that have begun get `SHUTDOWN_GRACE` to end.
    pub(crate) async fn run(self) {
        tokio::select! {
            biased;
            () = self.stopping.becomes(true) => return,
            () = wait_for_all(&self.gates) => {}
        }
        tracing::info!(controller = C::NAME, "caches are complete");
        let mut flights = Flights { tasks: JoinSet::new(), keys: BTreeMap::new() };
        loop {
            self.dispatch(&mut flights);
            // Without a free hand nothing can be taken, however long it is due; a hand that lands takes it.
            let has_hands = flights.tasks.len() < self.workers;
            let due = self.lane.queue.lock().next_due().filter(|_| has_hands);
            let leading = self.leading.is_up();
            tokio::select! {
                biased;
                () = self.stopping.becomes(true) => break,
                () = self.leading.becomes(!leading) => if leading { self.stand_down(&mut flights).await },
                Some(ended) = flights.tasks.join_next_with_id() => self.landed(&mut flights, ended),
                () = self.lane.marked.notified() => {}
                () = self.context.clock.sleep_until(due.unwrap_or(Timestamp::MAX)), if leading && due.is_some() => {}
            }
        }
        let drain = async {
            while let Some(ended) = flights.tasks.join_next_with_id().await {
                self.landed(&mut flights, ended);
            }
            self.look_once_more().await;
        };
        if tokio::time::timeout(SHUTDOWN_GRACE, drain).await.is_err() {
            tracing::warn!(controller = C::NAME, "reconciles were cut short by the end of the process");
        }
    }

    /// What a controller has kept back in its memory would be lost with it.
    async fn look_once_more(&self) {
        if !self.leading.is_up() {
            return;
        }
        let look = |key| {
            let taken = Taken { key, reason: Reason::Wake, since: self.context.clock.now(), soft_since: None };
            reconcile(self.controller.clone(), self.context.clone(), taken)
        };
        futures::future::join_all(self.controller.before_the_end().into_iter().map(look)).await;
    }

    /// Hands out keys while there are hands.
    fn dispatch(&self, flights: &mut Flights<C::Key>) {
        if !self.leading.is_up() {
            return;
        }
        let now = self.context.clock.now();
        let mut queue = self.lane.queue.lock();
        while flights.tasks.len() < self.workers {
            let Some(taken) = queue.take(now) else { break };
            let waited = Duration::try_from(now.duration_since(taken.since)).unwrap_or_default();
            self.context.metrics.waited(C::NAME, waited);
            let span = tracing::info_span!(
                "reconcile", controller = C::NAME, key = %taken.key, reason = taken.reason.word()
            );
            let key = taken.key.clone();
            let reconcile = reconcile(self.controller.clone(), self.context.clone(), taken).instrument(span);
            let task = flights.tasks.spawn(reconcile);
            flights.keys.insert(task.id(), key);
        }
        self.context.metrics.depth(C::NAME, queue.depth());
    }

    fn landed(&self, flights: &mut Flights<C::Key>, ended: Result<(Id, Done), tokio::task::JoinError>) {
        let (id, done) = match ended {
            Ok((id, done)) => (id, done),
            Err(error) if error.is_panic() => (error.id(), Done::Failed),
            Err(error) => (error.id(), Done::Cancelled),
        };
        let Some(key) = flights.keys.remove(&id) else { return };
        self.lane.queue.lock().done(&key, done, self.context.clock.now());
    }

    /// Somebody else leads now: nothing that has begun may go on writing.
    async fn stand_down(&self, flights: &mut Flights<C::Key>) {
        flights.tasks.abort_all();
        while let Some(ended) = flights.tasks.join_next_with_id().await {
            self.landed(flights, ended);
        }
    }
}

struct Flights<Key> {
    tasks: JoinSet<Done>,
    keys: BTreeMap<Id, Key>,
}

async fn wait_for_all(gates: &[Flag]) {
    for gate in gates {
        gate.becomes(true).await;
    }
}

/// One reconcile with everything that can happen to it.
async fn reconcile<C: Controller>(controller: Arc<C>, context: Arc<Context>, taken: Taken<C::Key>) -> Done {
    let mut told = context.metrics.begin(C::NAME);
    let attempt = std::panic::AssertUnwindSafe(attempt(&*controller, &context, &taken, &mut told)).catch_unwind().await;
    let (done, how) = match attempt {
        Ok(Ok(done)) => (done, told.settled()),
        Ok(Err(Error::NotLeading)) => (Done::Cancelled, Ending::Cancelled),
        Ok(Err(error)) if error.is_conflict() => {
            tracing::debug!(error = error.with_causes(), "somebody else wrote first");
            (Done::Conflict, Ending::Conflict)
        }
        Ok(Err(error)) => {
            tracing::warn!(error = error.with_causes(), "reconcile failed; it is tried again");
            (Done::Failed, Ending::Failed)
        }
        Err(panic) => {
            context.metrics.panicked(C::NAME);
            tracing::error!(panic = panic_text(&*panic), "reconcile panicked; it is tried again");
            (Done::Failed, Ending::Panicked)
        }
    };
    told.end(how);
    done
}

async fn attempt<C: Controller>(
    controller: &C,
    context: &Context,
    taken: &Taken<C::Key>,
    told: &mut Reconcile,
) -> Result<Done, Error> {
    let facts = controller.converse(&taken.key, &Hands::new(context, C::NAME)).await?;
    let moment = || Moment { now: context.clock.now(), seed: context.seeds.next() };
    let planned_at = moment();
    let started = Instant::now();
    let actions = controller.plan(&taken.key, facts, planned_at);
    context.metrics.planned(C::NAME, started.elapsed());
    told.planned(&actions);
    let Performed { outcomes, is_whole, mut end } =
        perform::<C>(context, actions, planned_at.now, taken.soft_since).await?;
    if is_whole {
        controller.performed(&taken.key);
    }
    if !outcomes.is_empty()
        && let Some(more) = controller.conclude(&taken.key, outcomes, moment())
    {
        let at = context.clock.now();
        end = perform::<C>(context, more, at, end.soft_since.or(taken.soft_since)).await?.end;
    }
    let wake = match end.next {
        Next::At(at) => Some(at),
        Next::OnChange => None,
    };
    Ok(Done::Settled { wake, soft_since: end.soft_since })
}

/// What came of the actions of a plan.
struct Performed {
    /// Of its observed writes.
    outcomes: Vec<Outcome>,
    /// Whether it came to its end: no write was refused.
    is_whole: bool,
    end: End,
}

/// What follows for the key.
struct End {
    next: Next,
    soft_since: Option<Timestamp>,
}

async fn perform<C: Controller>(
    context: &Context,
    actions: Actions,
    now: Timestamp,
    soft_since: Option<Timestamp>,
) -> Result<Performed, Error> {
    if let Some(note) = &actions.note {
        tracing::debug!(note, "planned");
    }
    if let Look::Stopped(why) = &actions.look {
        tracing::warn!(why, "nothing can be done until somebody changes what is wrong");
    }
    let mut outcomes = Vec::new();
    let mut chain = Chain::default();
    let mut end = End { next: actions.next, soft_since: None };
    for mut write in actions.writes {
        if write.is_nothing() {
            // Who counts outcomes finds one for each write.
            if write.observed {
                outcomes.push(Ok(None));
            }
            continue;
        }
        if let Some(due) = put_off(&write, now, soft_since) {
            end.soft_since = Some(soft_since.unwrap_or(now));
            end.next = end.next.or(Next::At(due));
            continue;
        }
        let base = write.base().map(str::to_owned);
        chain.follow(&mut write);
        let outcome = context.writer.perform(C::NAME, &write, write.observed).await;
        let outcome = outcome.map(|answer| {
            chain.note(&write, base, answer.version);
            answer.object
        });
        match outcome {
            Err(Error::NotLeading) => return Err(Error::NotLeading),
            Err(error) if write.explained && error.is_refusal() => {
                tracing::debug!(error = error.with_causes(), "the server refuses a write");
                outcomes.push(Err(error));
                return Ok(Performed { outcomes, is_whole: false, end });
            }
            outcome if write.observed => outcomes.push(outcome),
            outcome => drop(outcome?),
        }
    }
    // They speak of what the writes bring about. What was put off is planned again, and its events with it.
    if end.soft_since.is_none() {
        actions.events.into_iter().for_each(|event| context.recorder.record(event));
    }
    Ok(Performed { outcomes, is_whole: true, end })
}

/// Until when a soft write is put off; `None` if it is to be made now.
fn put_off(write: &Write, now: Timestamp, soft_since: Option<Timestamp>) -> Option<Timestamp> {
    let due = later(soft_since.unwrap_or(now), write.soft?);
    (due > now).then_some(due)
}
