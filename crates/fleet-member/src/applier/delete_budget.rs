//! Takes deletions from the delete budget, and records them on the member before they are made.
//!
//! The record is an annotation of an AppliedWork that is not being deleted. `fleet_core::apply::budget` decides how
//! much may be deleted and when a record is due.

use fleet_api::kinds::AppliedWork;
use fleet_api::well_known::annotations;
use fleet_core::apply::budget::{Budget, Record, is_current};
use fleet_runtime::{Error, KindId, ObjectKey, PatchFormat, ReconcileContext, Write};
use jiff::Timestamp;
use serde_json::json;

use super::Applier;

/// A request to the budget.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted {
    /// As many as the budget allows.
    UpTo(usize),
    /// All of them or none.
    All(usize),
}

/// What the budget allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant {
    pub(super) objects: usize,
    /// Whether the request was granted completely.
    pub(super) is_complete: bool,
    /// Maximum number of deletions per minute.
    pub(super) limit: usize,
    /// When more may be deleted; `None` if nothing was deleted in the last minute.
    pub(super) room_at: Option<Timestamp>,
}

/// The AppliedWork whose objects are deleted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of<'a> {
    /// It stays, and has the record.
    Staying(&'a AppliedWork),
    /// It is about to be deleted; another AppliedWork has the record.
    Going(&'a AppliedWork),
}

impl Applier {
    /// Takes deletions from the budget. The caller may make them when this returns.
    pub(super) async fn take(
        &self,
        wanted: Wanted,
        of: Of<'_>,
        context: &ReconcileContext<'_>,
    ) -> Result<Grant, Error> {
        let now = context.plan_input().now;
        self.resume_budget(now);
        // Read from the cache, because the record may be newer than the caller's copy.
        let carries_record = match of {
            Of::Staying(_) => false,
            Of::Going(applied_work) => self
                .applied_works
                .get(&ObjectKey::of(applied_work))
                .is_some_and(|known| record_of(&known, now).is_some()),
        };
        let (grant, record) = {
            let mut memory = self.memory.lock();
            let limit = self.options.deletions.of(memory.placed());
            let budget = memory.budget.get_or_insert_default();
            let (objects, is_complete) = match wanted {
                Wanted::UpTo(objects) => {
                    let granted = budget.take_some(objects, limit, now);
                    (granted, granted == objects)
                }
                Wanted::All(objects) if budget.take_all(objects, limit, now) => (objects, true),
                Wanted::All(_) => (0, false),
            };
            let moves = is_complete && carries_record;
            let record = if moves { budget.record(now) } else { budget.due_record(now) };
            (Grant { objects, is_complete, limit, room_at: budget.next_room(now) }, record)
        };
        if let Some(record) = record {
            let stored = self.store(&record, of, context).await;
            let mut memory = self.memory.lock();
            let budget = memory.budget.get_or_insert_default();
            match stored {
                Ok(()) => budget.recorded(&record),
                Err(error) => {
                    budget.give_back(grant.objects, now);
                    return Err(error);
                }
            }
        }
        Ok(grant)
    }

    /// How many objects may be deleted now.
    pub(super) fn room(&self, now: Timestamp) -> usize {
        self.resume_budget(now);
        let mut memory = self.memory.lock();
        let limit = self.options.deletions.of(memory.placed());
        memory.budget.get_or_insert_default().room(limit, now)
    }

    /// Takes over the records of earlier agents.
    fn resume_budget(&self, now: Timestamp) {
        if self.memory.lock().budget.is_some() {
            return;
        }
        // Listed without the lock: the cache calls triggers that take it.
        let applied_works = self.applied_works.list();
        let records = applied_works.iter().filter_map(|applied_work| record_of(applied_work, now));
        let mut memory = self.memory.lock();
        let since = memory.since.unwrap_or(now);
        let resumed = Budget::resumed(records, self.options.deletions.unrecorded(), since, now);
        memory.budget.get_or_insert(resumed);
    }

    async fn store(&self, record: &Record, of: Of<'_>, context: &ReconcileContext<'_>) -> Result<(), Error> {
        let host = match of {
            Of::Staying(applied_work) => Some(applied_work.clone()),
            Of::Going(applied_work) => {
                let stays =
                    |other: &AppliedWork| other.metadata.name != applied_work.metadata.name && !other.is_deleting();
                self.applied_works.list().iter().find(|other| stays(other)).map(|other| AppliedWork::clone(other))
            }
        };
        // Without another AppliedWork there is nothing left that could be deleted.
        let Some(host) = host else { return Ok(()) };
        let body = json!({"metadata": {
            "uid": host.metadata.uid, "annotations": {annotations::RECENT_DELETIONS: record.text},
        }});
        let (kind, key) = (KindId::of::<AppliedWork>(), ObjectKey::of(&host));
        context.write(&Write::patch_raw(kind, key, PatchFormat::Merge, body).on(self.member)).await.map(drop)
    }
}

/// The record of an AppliedWork, if it is not out of date.
fn record_of(applied_work: &AppliedWork, now: Timestamp) -> Option<&str> {
    let record = applied_work.metadata.annotations.as_ref()?.get(annotations::RECENT_DELETIONS)?;
    is_current(record, now).then_some(record)
}
