//! Runs the work applier: brings the manifests of Works to the member and reports what came of it.
//!
//! Decides what wakes a Work (its own change, a change of an object that it placed, a new kind on the member, joining) and
//! in which order things are asked. Never decides what is asked or reported: that is `fleet_core::apply`.
//!
//! | file | what |
//! |---|---|
//! | `run` | one Work that is wanted: hold it, clean up, write ahead, apply, look |
//! | `removal` | what a Work no longer names, and Works that go |
//! | `memory`, `watching` | which change on the member concerns which Work |
//! | `wire` | the core's words in the runtime's |

mod memory;
mod removal;
mod run;
mod watching;
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fleet_api::conditions::decode;
use fleet_api::conditions::work::{WorkAvailable, WorkDiffReported};
use fleet_api::kinds::{AppliedWork, Work};
use fleet_api::types::WorkStatus;
use fleet_core::apply::definitions::SERVED_WITHIN;
use fleet_core::apply::farewell::is_held;
use fleet_core::apply::priority::{HIGHEST, of_change};
use fleet_core::apply::requeue::is_worth_a_retry;
use fleet_core::apply::status::{ManifestResult, NewStatus, ledger_status, mirrors, work_status};
use fleet_core::apply::tally;
use fleet_runtime::queue::Rank;
use fleet_runtime::{
    Actions, Cache, Controller, Discovery, Error, Event, Hands, Kind, Marks, MetadataCaches, Moment, Next, ObjectKey,
    Runtime, Side, Tally, Triggers, Write,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use self::memory::{Learned, Memory};
use self::removal::Parting;
use self::run::{Run, strategy_of, version_of, without_spec};
use self::watching::{MAX_WATCHED_KINDS, choose};
use self::wire::Place;
use crate::Caches;
use crate::options::{ApplierOptions, MemberOptions};
use crate::ownership::APPLIER;

/// A status that says "applied, not available yet" waits so long for a better one: what becomes available quickly costs one
/// write instead of two.
const INTERIM_WINDOW: Duration = Duration::from_secs(2);

/// What turns the applier on and off: whoever learns that the member has joined, or leaves.
pub(crate) struct Switch {
    applying: watch::Sender<bool>,
    /// `None` where somebody else applies Works.
    parts: Option<Parts>,
}

struct Parts {
    works: Cache<Work>,
    marks: Marks<ObjectKey>,
    memory: Arc<Mutex<Memory>>,
    objects: MetadataCaches,
}

impl Switch {
    /// Of a member whose Works somebody else applies.
    pub(crate) fn idle(applying: watch::Sender<bool>) -> Self {
        Self { applying, parts: None }
    }

    /// From now on Works are applied, or left alone. What was known of them does not outlive a time in which nobody listened.
    pub(crate) fn turn(&self, on: bool) {
        self.applying.send_replace(on);
        let Some(Parts { works, marks, memory, objects }) = &self.parts else { return };
        memory.lock().forget_all();
        objects.want(&BTreeSet::new());
        if on {
            works.keys().into_iter().for_each(|work| marks.mark(work));
        }
    }
}

/// Starts the applier, turned off.
pub(crate) fn start(
    runtime: &mut Runtime,
    member: Side,
    options: &MemberOptions,
    caches: &Caches,
    applying: watch::Sender<bool>,
    processed: Processed,
) -> Switch {
    let ledgers: Cache<AppliedWork> = runtime.cache(Kind::new().on(member));
    let discovery = runtime.discovery(member);
    let objects = runtime.metadata(member);
    let memory = Arc::new(Mutex::new(Memory::default()));
    let namespace: Arc<str> = options.namespace.as_str().into();
    let decline = options.applier.decline;
    let triggers = Triggers::new()
        .on_ranked(&caches.works, {
            let memory = memory.clone();
            move |event, now| {
                let first = decline.map_or(HIGHEST, |decline| of_change(event.old, decline, now));
                let rank = Rank::try_from(HIGHEST - first).unwrap_or(Rank::MAX);
                (is_instruction(event) || is_overwritten(event, &memory)).then(|| (event.key(), rank))
            }
        })
        .on(&ledgers, move |event| is_going(event).then(|| ObjectKey::namespaced(namespace.clone(), event.key().name)))
        .on_metadata(&objects, {
            let memory = memory.clone();
            move |kind, event| {
                let place = Place { kind: kind.clone(), key: event.key() };
                let version = event.new.and_then(|object| object.metadata.resource_version.clone());
                memory.lock().concerned(&place, &version)
            }
        })
        .on_discovery(&discovery, {
            let memory = memory.clone();
            move || memory.lock().with_unknown_kinds()
        });
    let applier = Applier {
        works: caches.works.clone(),
        ledgers,
        discovery,
        objects: objects.clone(),
        memory: memory.clone(),
        member,
        applying: applying.subscribe(),
        processed,
        options: options.applier.clone(),
    };
    let marks = runtime.controller(applier, triggers, options.applier.works_at_once);
    Switch { applying, parts: Some(Parts { works: caches.works.clone(), marks, memory, objects }) }
}

/// Whether the hub asks for something else now. What this agent reports in the same object is no instruction.
fn is_instruction(event: Event<'_, Work>) -> bool {
    event.changed(|work| {
        let metadata = &work.metadata;
        (metadata.generation, metadata.uid.as_deref(), metadata.deletion_timestamp.is_some())
    })
}

/// Whether somebody else has taken away our hold on a Work, or has written over what we told of it. Nobody polls, so this is
/// the one occasion to put it right.
fn is_overwritten(event: Event<'_, Work>, memory: &Mutex<Memory>) -> bool {
    let (Some(old), Some(new)) = (event.old, event.new) else { return false };
    if new.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let key = event.key();
    let lost_hold = is_held(old) && !is_held(new);
    let overwritten = lost_hold || (old.status != new.status && memory.lock().is_foreign(&key, new.status.as_ref()));
    if overwritten {
        memory.lock().overwritten(&key);
    }
    overwritten
}

/// Whether a ledger goes or is gone. Its Work then has to let go too, or to begin anew.
fn is_going(event: Event<'_, AppliedWork>) -> bool {
    event.new.is_none_or(|ledger| ledger.metadata.deletion_timestamp.is_some())
        && event.changed(|ledger| ledger.metadata.deletion_timestamp.is_some())
}

struct Applier {
    works: Cache<Work>,
    ledgers: Cache<AppliedWork>,
    discovery: Discovery,
    objects: MetadataCaches,
    memory: Arc<Mutex<Memory>>,
    member: Side,
    applying: watch::Receiver<bool>,
    processed: Processed,
    options: ApplierOptions,
}

/// How often Works and their manifests were processed, and with which result.
#[derive(Debug, Clone)]
pub struct Processed {
    pub works: Tally,
    pub manifests: Tally,
}

impl Default for Processed {
    fn default() -> Self {
        let tally = |(name, help, labels)| Tally::new(name, help, labels);
        Self { works: tally(tally::WORKS), manifests: tally(tally::MANIFESTS) }
    }
}

impl Processed {
    fn count(&self, status: &WorkStatus) {
        self.works.count(&tally::of_work(status));
        for record in status.manifest_conditions.iter().filter(|record| record.identifier.ordinal >= 0) {
            self.manifests.count(&tally::of_manifest(record));
        }
    }
}

/// What came of a look at a Work.
#[derive(Default)]
enum Visit {
    /// There is nothing to do.
    #[default]
    Nothing,
    /// There is no such Work.
    Gone,
    /// Its ledger is being deleted; the ledger's end wakes it.
    LedgerGoes,
    /// Somebody fights over its objects.
    Rests {
        until: Timestamp,
    },
    Applied(Box<Run>),
    Parted(Parting),
}

impl Controller for Applier {
    const NAME: &'static str = APPLIER;
    type Key = ObjectKey;
    type Facts = Visit;

    async fn converse(&self, key: &ObjectKey, hands: &Hands<'_>) -> Result<Visit, Error> {
        if !*self.applying.borrow() || self.works.is_broken(key) {
            return Ok(Visit::Nothing);
        }
        let Some(work) = self.works.get(key) else { return Ok(Visit::Gone) };
        let rests_until = self.memory.lock().rests_until(key, work.generation(), hands.moment().now);
        if let Some(until) = rests_until.filter(|_| work.metadata.deletion_timestamp.is_none()) {
            return Ok(Visit::Rests { until });
        }
        self.memory.lock().begin(key);
        if work.metadata.deletion_timestamp.is_some() {
            return self.part(key, hands).await.map(Visit::Parted);
        }
        Ok(self.run(work, hands).await?.map_or(Visit::LedgerGoes, |run| Visit::Applied(Box::new(run))))
    }

    fn plan(&self, key: &ObjectKey, visit: Visit, moment: Moment) -> Actions {
        // What a plan that failed would have told is not counted.
        drop(self.memory.lock().counted(key));
        match visit {
            Visit::Nothing | Visit::LedgerGoes => {
                self.memory.lock().leave(key);
                Actions::none()
            }
            Visit::Rests { until } => {
                let note = Some("rests, because its objects are changed as often as they are put right".to_owned());
                Actions { note, ..Actions::none() }.then(Next::At(until))
            }
            Visit::Gone => {
                self.memory.lock().forget(key);
                self.watch_what_is_needed();
                Actions::none()
            }
            Visit::Parted(parting) => {
                self.memory.lock().leave(key);
                parting.actions(moment.now)
            }
            Visit::Applied(run) => self.report(key, &run, moment.now),
        }
    }

    fn performed(&self, key: &ObjectKey) {
        if let Some(status) = self.memory.lock().counted(key) {
            self.processed.count(&status);
        }
    }
}

impl Applier {
    fn report(&self, key: &ObjectKey, run: &Run, now: Timestamp) -> Actions {
        let missed = self.memory.lock().end(key, learned(run), now);
        self.watch_what_is_needed();
        if let Some(until) = self.awaited_kinds_until(key, run, now) {
            let note = Some("waits for kinds that the Work defines itself".to_owned());
            return Actions { note, ..Actions::none() }.then(Next::At(until));
        }
        let new = work_status(&run.work, &run.results, &run.held, now);
        let mut actions = Actions::none();
        let stored = without_spec(&run.work);
        if new.is_news {
            let write = Write::status(&stored, &stored.clone().with_status(new.status.clone()));
            actions.write(if new.is_interim { write.coalesce(INTERIM_WINDOW) } else { write });
        }
        let ledger = run.ledger.clone().with_status(ledger_status(&run.results));
        let listed = run.ledger.status.clone().unwrap_or_default();
        if Some(&listed) != ledger.status.as_ref() {
            actions.write(Write::status(&run.ledger, &ledger).on(self.member));
        }
        self.memory.lock().report(key, new.status.clone());
        let next = if missed { Next::At(now) } else { self.next_look(key, run, &new, now) };
        actions.then(next)
    }

    fn awaited_kinds_until(&self, key: &ObjectKey, run: &Run, now: Timestamp) -> Option<Timestamp> {
        let since = self.memory.lock().awaits_kinds_since(key, run.awaits_own_kinds, now)?;
        let until = since.checked_add(SERVED_WITHIN).ok()?;
        (until > now).then_some(until)
    }

    /// When to look again if nothing is heard of the objects.
    fn next_look(&self, key: &ObjectKey, run: &Run, new: &NewStatus, now: Timestamp) -> Next {
        let kept = run.room_at.map_or(Next::OnChange, Next::At);
        let all_watched = run.places().all(|place| self.objects.is_complete(&place.kind));
        let strategy = strategy_of(&run.work);
        if all_watched && !run.results.iter().any(|result| is_worth_a_retry(result, &strategy)) {
            return kept;
        }
        let (conditions, generation) = (&new.status.conditions, run.work.generation());
        let settled = decode::<WorkAvailable>(conditions, generation).is_true()
            || decode::<WorkDiffReported>(conditions, generation).is_true();
        let pace = &self.options.pace;
        kept.or(Next::At(self.memory.lock().requeue(key).next(pace, generation, &run.results, settled, now)))
    }

    fn watch_what_is_needed(&self) {
        let mut needed = self.memory.lock().kinds();
        needed.retain(|kind, _| {
            let found = self.discovery.find(&kind.group, &kind.version, &kind.kind);
            found.is_some_and(|found| found.has_verb("list") && found.has_verb("watch"))
        });
        let limit = self.options.watched_kinds.min(MAX_WATCHED_KINDS);
        self.objects.want(&choose(&self.objects.kinds(), &needed, limit));
    }
}

fn learned(run: &Run) -> Learned {
    let seen =
        |result: &ManifestResult| Some((Place::of(&result.identifier)?, version_of(result.processed.live.as_ref())));
    let (strategy, mirrors) = (strategy_of(&run.work), mirrors(&run.work));
    let kept = |result: &ManifestResult| Some((Place::of(&result.identifier)?, result.kept(&strategy, mirrors)?));
    // Of several manifests for one object the first is the one that was applied.
    let first_of_each = || run.results.iter().rev();
    Learned {
        basis: run.basis.clone(),
        objects: first_of_each().filter_map(seen).collect(),
        results: first_of_each().filter_map(kept).collect(),
        changed: run.changed.clone(),
        has_unknown_kinds: run.has_unknown_kinds,
    }
}
