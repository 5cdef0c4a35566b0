//! The work applier: applies the manifests of Works to the member and reports the results.
//!
//! A Work is enqueued when it changes, when one of its objects changes, when the member serves a new kind, and when
//! the member joins.
//!
//! | file | what |
//! |---|---|
//! | `run` | applies one Work: finalizer, cleanup, write-ahead, apply, availability |
//! | `finalize` | removed objects and deleted Works |
//! | `delete_budget` | the delete budget and its record on the member |
//! | `memory`, `watching` | which Works a change on the member enqueues |
//! | `wire` | converts between the types of the core and of the runtime |

mod delete_budget;
mod finalize;
mod memory;
mod run;
mod watching;
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet_api::conditions::decode;
use fleet_api::conditions::work::{WorkAvailable, WorkDiffReported};
use fleet_api::kinds::{AppliedWork, Work};
use fleet_api::types::WorkStatus;
use fleet_api::well_known::finalizers;
use fleet_core::apply::definitions::SERVED_WITHIN;
use fleet_core::apply::metrics;
use fleet_core::apply::priority::{HIGHEST, of_change};
use fleet_core::apply::requeue::is_worth_a_retry;
use fleet_core::apply::status::{ManifestResult, NewStatus, applied_work_status, mirrors, work_status};
use fleet_runtime::queue::Rank;
use fleet_runtime::{
    Actions, Cache, ClusterId, Controller, CounterVec, Discovery, Enqueuer, Error, Event, Kind, MetadataCaches,
    ObjectKey, PlanInput, ReconcileContext, Runtime, Triggers, Wake, Write,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use self::finalize::FinalizeProgress;
use self::memory::{Learned, Memory};
use self::run::{Run, strategy_of, version_of, without_spec};
use self::watching::{MAX_WATCHED_KINDS, choose};
use self::wire::Place;
use crate::Caches;
use crate::options::{ApplierOptions, MemberOptions};
use crate::ownership::APPLIER;

/// Turns the applier on when the member joins, and off when it leaves.
pub(crate) struct Switch {
    applying: watch::Sender<bool>,
    /// `None` if another applier is used.
    parts: Option<Parts>,
}

struct Parts {
    works: Cache<Work>,
    enqueuer: Enqueuer<ObjectKey>,
    memory: Arc<Mutex<Memory>>,
    objects: MetadataCaches,
}

impl Switch {
    /// For a member with another applier.
    pub(crate) fn idle(applying: watch::Sender<bool>) -> Self {
        Self { applying, parts: None }
    }

    /// Turns the applier on or off. Drops its memory, because events are not observed while it is off.
    pub(crate) fn turn(&self, on: bool) {
        self.applying.send_replace(on);
        let Some(Parts { works, enqueuer, memory, objects }) = &self.parts else { return };
        memory.lock().forget_all();
        objects.set_kinds(&BTreeSet::new());
        if on {
            works.keys().into_iter().for_each(|work| enqueuer.enqueue(work));
        }
    }
}

/// Starts the applier, turned off.
pub(crate) fn start(
    runtime: &mut Runtime,
    member: ClusterId,
    options: &MemberOptions,
    caches: &Caches,
    applying: watch::Sender<bool>,
    processed: Processed,
) -> Switch {
    let applied_works: Cache<AppliedWork> = runtime.cache(Kind::new().on(member));
    let discovery = runtime.discovery(member);
    let objects = runtime.metadata(member);
    let memory = Arc::new(Mutex::new(Memory::default()));
    let namespace: Arc<str> = options.namespace.as_str().into();
    let priority_decay = options.applier.priority_decay;
    let triggers = Triggers::new()
        .on_ranked(&caches.works, {
            let memory = memory.clone();
            move |event, now| {
                let first = priority_decay.map_or(HIGHEST, |priority_decay| of_change(event.old, priority_decay, now));
                let rank = Rank::try_from(HIGHEST - first).unwrap_or(Rank::MAX);
                (is_instruction(event) || is_overwritten(event, &memory)).then(|| (event.key(), rank))
            }
        })
        .on(&applied_works, {
            let memory = memory.clone();
            move |event| {
                let own = is_deleting(event).then(|| ObjectKey::namespaced(namespace.clone(), event.key().name));
                let listed = event.changed(|applied_work| applied_work.status.as_ref());
                let waiting = listed.then(|| memory.lock().waiting_for_content());
                own.into_iter().chain(waiting.into_iter().flatten()).collect::<Vec<_>>()
            }
        })
        .on_metadata(&objects, {
            let memory = memory.clone();
            move |kind, event| {
                let place = Place { kind: kind.clone(), key: event.key() };
                let version = event.new.and_then(|object| object.metadata.resource_version.clone());
                memory.lock().works_to_enqueue(&place, &version)
            }
        })
        .on_discovery(&discovery, {
            let memory = memory.clone();
            move || memory.lock().with_unknown_kinds()
        });
    let applier = Applier {
        works: caches.works.clone(),
        applied_works,
        discovery,
        objects: objects.clone(),
        memory: memory.clone(),
        member,
        applying: applying.subscribe(),
        processed,
        options: options.applier.clone(),
    };
    let enqueuer = runtime.controller(applier, triggers, options.applier.works_at_once);
    Switch { applying, parts: Some(Parts { works: caches.works.clone(), enqueuer, memory, objects }) }
}

/// Whether the hub has changed the Work. Status updates of this agent do not count.
fn is_instruction(event: Event<'_, Work>) -> bool {
    event.changed(|work| {
        let metadata = &work.metadata;
        (metadata.generation, metadata.uid.as_deref(), metadata.deletion_timestamp.is_some())
    })
}

/// Whether another writer has removed our finalizer from a Work or changed its status. This trigger is the only
/// chance to repair it.
fn is_overwritten(event: Event<'_, Work>, memory: &Mutex<Memory>) -> bool {
    let (Some(old), Some(new)) = (event.old, event.new) else { return false };
    if new.is_deleting() {
        return false;
    }
    let key = event.key();
    let lost_finalizer = old.has_finalizer(finalizers::WORK) && !new.has_finalizer(finalizers::WORK);
    let overwritten =
        lost_finalizer || (old.status != new.status && memory.lock().is_foreign(&key, new.status.as_ref()));
    if overwritten {
        memory.lock().overwritten(&key);
    }
    overwritten
}

/// Whether an AppliedWork is being deleted or gone. Its Work must then be finalized, or applied again.
fn is_deleting(event: Event<'_, AppliedWork>) -> bool {
    event.new.is_none_or(AppliedWork::is_deleting) && event.changed(AppliedWork::is_deleting)
}

struct Applier {
    works: Cache<Work>,
    applied_works: Cache<AppliedWork>,
    discovery: Discovery,
    objects: MetadataCaches,
    memory: Arc<Mutex<Memory>>,
    member: ClusterId,
    applying: watch::Receiver<bool>,
    processed: Processed,
    options: ApplierOptions,
}

/// How often Works and their manifests were processed, and with which result.
#[derive(Debug, Clone)]
pub struct Processed {
    pub works: CounterVec,
    pub manifests: CounterVec,
}

impl Default for Processed {
    fn default() -> Self {
        let counter = |(name, help, labels)| CounterVec::new(name, help, labels);
        Self { works: counter(metrics::WORKS), manifests: counter(metrics::MANIFESTS) }
    }
}

impl Processed {
    fn count(&self, status: &WorkStatus) {
        self.works.count(&metrics::of_work(status));
        for record in status.manifest_conditions.iter().filter(|record| record.identifier.ordinal >= 0) {
            self.manifests.count(&metrics::of_manifest(record));
        }
    }
}

/// The result of applying or finalizing a Work.
enum Reconciled {
    /// Its AppliedWork is being deleted; the deletion wakes the Work.
    AppliedWorkDeleting,
    Applied(Box<Run>),
    Finalizing(FinalizeProgress),
}

impl Controller for Applier {
    const NAME: &'static str = APPLIER;
    type Key = ObjectKey;
    /// `None` if the Work is gone.
    type Facts = Option<Reconciled>;

    async fn fetch(&self, key: &ObjectKey, context: &ReconcileContext<'_>) -> Result<Option<Reconciled>, Error> {
        let Some(work) = self.works.get(key) else { return Ok(None) };
        self.memory.lock().begin(key);
        if work.is_deleting() {
            return self.finalize(key, context).await.map(|progress| Some(Reconciled::Finalizing(progress)));
        }
        let run = self.run(work, context).await?;
        Ok(Some(run.map_or(Reconciled::AppliedWorkDeleting, |run| Reconciled::Applied(Box::new(run)))))
    }

    fn plan(&self, key: &ObjectKey, reconciled: Option<Option<Reconciled>>, input: PlanInput) -> Actions {
        // The status of a plan that failed is not counted.
        drop(self.memory.lock().counted(key));
        let Some(reconciled) = reconciled.flatten() else { return self.plan_to_apply(key, input.now) };
        match reconciled {
            Reconciled::AppliedWorkDeleting => {
                self.memory.lock().leave(key);
                Actions::none()
            }
            Reconciled::Finalizing(progress) => {
                self.memory.lock().leave(key);
                progress.actions(input.now)
            }
            Reconciled::Applied(run) => self.report(key, &run, input.now),
        }
    }

    fn on_committed(&self, key: &ObjectKey) {
        if let Some(status) = self.memory.lock().counted(key) {
            self.processed.count(&status);
        }
    }
}

impl Applier {
    /// Whether the Work must be applied or finalized now.
    fn plan_to_apply(&self, key: &ObjectKey, now: Timestamp) -> Actions {
        if !*self.applying.borrow() || self.works.is_unreadable(key) {
            self.memory.lock().leave(key);
            return Actions::none();
        }
        let Some(work) = self.works.get(key) else {
            self.memory.lock().forget(key);
            self.update_watches();
            return Actions::none();
        };
        self.memory.lock().since.get_or_insert(now);
        let backoff_until = self.memory.lock().backoff_until(key, work.generation(), now);
        if let Some(until) = backoff_until.filter(|_| !work.is_deleting()) {
            let note = Some("backing off: another writer keeps changing its objects".to_owned());
            return Actions { note, ..Actions::none() }.with_wake(Wake::At(until));
        }
        Actions::needs_facts()
    }

    fn report(&self, key: &ObjectKey, run: &Run, now: Timestamp) -> Actions {
        let missed = self.memory.lock().end(key, learned(run), now);
        self.update_watches();
        if let Some(until) = self.awaited_kinds_until(key, run, now) {
            let note = Some("waiting for kinds that the Work defines itself".to_owned());
            return Actions { note, ..Actions::none() }.with_wake(Wake::At(until));
        }
        let new = work_status(&run.work, &run.results, &run.held, now);
        let mut actions = Actions::none();
        let stored = without_spec(&run.work);
        if new.is_news {
            let write = Write::status(&stored, &stored.clone().with_status(new.status.clone()));
            actions.write(write.deferrable_for(new.defer));
        }
        let applied_work = run.applied_work.clone().with_status(applied_work_status(
            &run.results,
            &run.held,
            run.applied_work.status.as_ref(),
        ));
        let listed = run.applied_work.status.clone().unwrap_or_default();
        if Some(&listed) != applied_work.status.as_ref() {
            actions.write(Write::status(&run.applied_work, &applied_work).on(self.member));
        }
        self.memory.lock().report(key, new.status.clone());
        let next = if missed { Wake::At(now) } else { self.next_requeue(key, run, &new, now) };
        actions.with_wake(next)
    }

    fn awaited_kinds_until(&self, key: &ObjectKey, run: &Run, now: Timestamp) -> Option<Timestamp> {
        let since = self.memory.lock().awaits_kinds_since(key, run.awaits_own_kinds, now)?;
        let until = since.checked_add(SERVED_WITHIN).ok()?;
        (until > now).then_some(until)
    }

    /// When to requeue if no event arrives.
    fn next_requeue(&self, key: &ObjectKey, run: &Run, new: &NewStatus, now: Timestamp) -> Wake {
        let kept = run.room_at.map_or(Wake::OnChange, Wake::At);
        let all_watched = run.places().all(|place| self.objects.is_complete(&place.kind));
        let strategy = strategy_of(&run.work);
        if all_watched && !run.results.iter().any(|result| is_worth_a_retry(result, &strategy)) {
            return kept;
        }
        let (conditions, generation) = (&new.status.conditions, run.work.generation());
        let settled = decode::<WorkAvailable>(conditions, generation).is_true()
            || decode::<WorkDiffReported>(conditions, generation).is_true();
        let pace = &self.options.requeue_backoff;
        kept.earlier(Wake::At(self.memory.lock().requeue(key).next(pace, generation, &run.results, settled, now)))
    }

    fn update_watches(&self) {
        let mut needed = self.memory.lock().kinds();
        needed.retain(|kind, _| {
            let found = self.discovery.find(&kind.group, &kind.version, &kind.kind);
            found.is_some_and(|found| found.has_verb("list") && found.has_verb("watch"))
        });
        let limit = self.options.watched_kinds.min(MAX_WATCHED_KINDS);
        self.objects.set_kinds(&choose(&self.objects.kinds(), &needed, limit));
    }
}

fn learned(run: &Run) -> Learned {
    let seen =
        |result: &ManifestResult| Some((Place::of(&result.identifier)?, version_of(result.processed.live.as_ref())));
    let (strategy, mirrors) = (strategy_of(&run.work), mirrors(&run.work));
    let kept = |result: &ManifestResult| Some((Place::of(&result.identifier)?, result.kept(&strategy, mirrors)?));
    // Of several manifests for one object, the first was applied.
    let first_of_each = || run.results.iter().rev();
    Learned {
        basis: run.basis.clone(),
        objects: first_of_each().filter_map(seen).collect(),
        results: first_of_each().filter_map(kept).collect(),
        changed: run.changed.clone(),
        has_unknown_kinds: run.has_unknown_kinds,
    }
}
