//! Maps events of Works, AppliedWorks and placed objects to the Works to reconcile.

use std::sync::Arc;

use fleet_api::kinds::{AppliedWork, Work};
use fleet_api::well_known::finalizers;
use fleet_core::apply::priority::{HIGHEST, of_change};
use fleet_runtime::queue::Rank;
use fleet_runtime::{Cache, Discovery, Event, MetadataCaches, ObjectKey, Triggers};
use parking_lot::Mutex;

use super::memory::Memory;
use super::wire::Place;
use crate::Caches;
use crate::options::MemberOptions;

/// Which Works an event enqueues.
pub(super) fn triggers(
    options: &MemberOptions,
    caches: &Caches,
    applied_works: &Cache<AppliedWork>,
    objects: &MetadataCaches,
    discovery: &Discovery,
    memory: &Arc<Mutex<Memory>>,
) -> Triggers<ObjectKey> {
    let namespace: Arc<str> = options.namespace.as_str().into();
    let priority_decay = options.applier.priority_decay;
    Triggers::new()
        .on_ranked(&caches.works, {
            let memory = memory.clone();
            move |event, now| {
                let first = priority_decay.map_or(HIGHEST, |priority_decay| of_change(event.old, priority_decay, now));
                let rank = Rank::try_from(HIGHEST - first).unwrap_or(Rank::MAX);
                (is_instruction(event) || is_overwritten(event, &memory)).then(|| (event.key(), rank))
            }
        })
        .on(applied_works, {
            let memory = memory.clone();
            move |event| {
                let own = is_deleting(event).then(|| ObjectKey::namespaced(namespace.clone(), event.key().name));
                let listed = event.changed(|applied_work| applied_work.status.as_ref());
                let waiting = listed.then(|| memory.lock().waiting_for_content());
                own.into_iter().chain(waiting.into_iter().flatten()).collect::<Vec<_>>()
            }
        })
        .on_metadata(objects, {
            let memory = memory.clone();
            move |kind, event| {
                let place = Place { kind: kind.clone(), key: event.key() };
                let version = event.new.and_then(|object| object.metadata.resource_version.clone());
                memory.lock().works_to_enqueue(&place, &version)
            }
        })
        .on_discovery(discovery, {
            let memory = memory.clone();
            move || memory.lock().with_unknown_kinds()
        })
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
