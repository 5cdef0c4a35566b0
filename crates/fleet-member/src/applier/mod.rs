//! The work applier: applies the manifests of Works to the member and reports the results.
//!
//! A Work is enqueued when it changes, when one of its objects changes, when the member serves a new kind, and when
//! the member joins.
//!
//! | file | what |
//! |---|---|
//! | `triggers`, `memory`, `watching` | which Works a change enqueues |
//! | `run` | applies one Work: finalizer, cleanup, write-ahead, apply, availability |
//! | `finalize` | removed objects and deleted Works |
//! | `delete_budget` | the delete budget and its record on the member |
//! | `execute` | reports the result of a run |
//! | `metrics` | counts processed Works and manifests |
//! | `wire` | converts between the types of the core and of the runtime |

mod delete_budget;
mod execute;
mod finalize;
mod memory;
mod metrics;
mod run;
mod triggers;
mod watching;
mod wire;

pub use self::metrics::Processed;

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet_api::kinds::{AppliedWork, Work};
use fleet_runtime::{
    Actions, Cache, ClusterId, Controller, Discovery, Enqueuer, Error, Kind, MetadataCaches, ObjectKey, PlanInput,
    ReconcileContext, Runtime, Wake,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use self::finalize::FinalizeProgress;
use self::memory::Memory;
use self::run::Run;
use self::triggers::triggers;
use self::watching::{MAX_WATCHED_KINDS, choose};
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
    let triggers = triggers(options, caches, &applied_works, &objects, &discovery, &memory);
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
