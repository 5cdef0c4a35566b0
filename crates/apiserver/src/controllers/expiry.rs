//! Deletes Events one hour after their last write. The time is that of this process, so a restart gives them another
//! hour.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{StoreEvent, Wake};
use crate::registry::StorageKey;
use crate::server::Cluster;
use crate::store::{Action, Change, ChangeKind, Entry, Expect};

/// How long an event is kept.
const EVENT_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// Minimum sleep until something is due, in case the clock of the cluster stands still.
const SHORTEST_SLEEP: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Expiry {
    due: BTreeSet<(Timestamp, Box<str>)>,
    times: BTreeMap<Box<str>, Timestamp>,
}

fn events() -> StorageKey {
    StorageKey::new("", "events")
}

impl Expiry {
    pub(super) fn observe(&mut self, cluster: &Cluster, event: &StoreEvent) {
        match event {
            StoreEvent::Changed(resource, event) if *resource == events() => {
                self.forget(&event.entry.key);
                if event.kind == ChangeKind::Put {
                    self.note(cluster, &event.entry);
                }
            }
            StoreEvent::Relisted(resource, entries) if *resource == events() => {
                for entry in entries {
                    self.forget(&entry.key);
                    self.note(cluster, entry);
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, cluster: &Cluster, entry: &Entry) {
        let due = cluster.now().saturating_add(EVENT_LIFETIME).unwrap_or(Timestamp::MAX);
        self.due.insert((due, entry.key.clone()));
        self.times.insert(entry.key.clone(), due);
    }

    fn forget(&mut self, key: &str) {
        if let Some(due) = self.times.remove(key) {
            self.due.remove(&(due, key.into()));
        }
    }

    pub(super) async fn work(&mut self, cluster: &Arc<Cluster>) -> Wake {
        let now = cluster.now();
        let mut changes = Vec::new();
        while let Some((due, key)) = self.due.first().cloned().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, key.clone()));
            self.times.remove(&key);
            changes.push(Change { resource: events(), key, expect: Expect::Any, action: Action::Delete });
        }
        for change in changes {
            // One that is gone already is what was wanted.
            let _ = cluster.store().commit(vec![change], &[]).await;
        }
        match self.due.first() {
            None => Wake::OnChange,
            Some((due, _)) => {
                let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
                Wake::after(wait.max(SHORTEST_SLEEP))
            }
        }
    }
}
