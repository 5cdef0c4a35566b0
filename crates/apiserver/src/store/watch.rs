//! Follows the changes of a store: of one resource for clients, of all for the controllers.
//!
//! A cursor remembers its revision and takes the next changes from the history; nothing is queued for it. A cursor that
//! falls behind the history gets an error and must list again. Never show a change before it is durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry::{Entry, Event};
use super::notifier::Subscription;
use super::state::{Store, StoreError};
use crate::registry::StorageKey;

/// Changes taken per visit to the store: long enough to catch up quickly, short enough not to hold its lock.
const BATCH_EVENTS: usize = 256;

/// A position in the changes of one resource.
#[derive(Debug)]
pub(crate) struct Cursor {
    store: Arc<Store>,
    resource: StorageKey,
    after: u64,
    changed: Subscription,
}

impl Store {
    /// Follows a resource from behind `after`.
    pub(crate) fn watch(self: &Arc<Self>, resource: &StorageKey, after: u64) -> Result<Cursor, StoreError> {
        let changed = self.with_state(|state| {
            let oldest = state.oldest(resource);
            if after < oldest {
                return Err(StoreError::Expired { asked: after, oldest });
            }
            Ok(state.waker(resource))
        })?;
        Ok(Cursor { store: self.clone(), resource: resource.clone(), after, changed })
    }

    /// Follows every resource from now on; what exists already comes first.
    pub(crate) fn watch_everything(self: &Arc<Self>) -> EveryChange {
        let changed = self.with_state(super::state::State::any_waker);
        EveryChange { store: self.clone(), seen: BTreeMap::new(), changed }
    }
}

impl Cursor {
    /// The next changes, at least one. Cancelling loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Vec<Arc<Event>>, StoreError> {
        loop {
            self.changed.catch_up();
            let events = self.ready()?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.changed.notified().await;
        }
    }

    /// The next changes that are there already, possibly none.
    pub(crate) fn ready(&mut self) -> Result<Vec<Arc<Event>>, StoreError> {
        let (resource, after) = (&self.resource, self.after);
        let events = self.store.with_state(|state| {
            let Some(content) = state.resources.get(resource) else { return Ok(Vec::new()) };
            content
                .changes(after, state.published, BATCH_EVENTS)
                .ok_or(StoreError::Expired { asked: after, oldest: content.compacted() })
        })?;
        if let Some(last) = events.last() {
            self.after = last.revision();
        }
        Ok(events)
    }

    /// A revision from which this watch could be resumed without loss: as new as possible, and never one that the store has
    /// not reached. A client that asks for changes after such a revision has seen another store, and gets an error here.
    pub(crate) fn frontier(&mut self) -> u64 {
        let (resource, after) = (&self.resource, self.after);
        let reached = self.store.with_state(|state| {
            let pending = state.resources.get(resource).is_some_and(|r| r.last_revision() > after);
            if pending { after } else { state.published }
        });
        self.after = after.max(reached);
        reached
    }
}

/// An event for a follower of all changes.
#[derive(Debug)]
pub enum StoreEvent {
    Changed(StorageKey, Arc<Event>),
    /// The changes of this resource were more than the history holds: this is all there is now.
    Relisted(StorageKey, Vec<Arc<Entry>>),
}

/// A position in the changes of all resources.
#[derive(Debug)]
pub struct EveryChange {
    store: Arc<Store>,
    seen: BTreeMap<StorageKey, u64>,
    changed: Subscription,
}

impl EveryChange {
    /// Waits until there may be something new. Cancelling loses nothing.
    pub async fn changed(&mut self) {
        self.changed.notified().await;
    }

    /// Everything new, in the order of revisions, relisted resources first.
    pub fn take(&mut self) -> Vec<StoreEvent> {
        self.changed.catch_up();
        let seen = &mut self.seen;
        let (mut relisted, mut events) = (Vec::new(), Vec::new());
        self.store.with_state(|state| {
            for (key, resource) in &state.resources {
                let after = seen.get(key).copied();
                if after == Some(resource.last_revision()) {
                    continue;
                }
                let changes = after.and_then(|after| resource.changes(after, state.published, usize::MAX));
                if let Some(changes) = changes {
                    if let Some(last) = changes.last() {
                        seen.insert(key.clone(), last.revision());
                    }
                    events.extend(changes.into_iter().map(|event| (key.clone(), event)));
                } else {
                    relisted.push(StoreEvent::Relisted(key.clone(), resource.at(state.published)));
                    seen.insert(key.clone(), state.published.min(resource.last_revision()));
                }
            }
        });
        events.sort_by_key(|(_, event)| event.revision());
        relisted.extend(events.into_iter().map(|(key, event)| StoreEvent::Changed(key, event)));
        relisted
    }
}
