//! The objects of one resource and its recent changes. A list at an older revision is computed by undoing recorded
//! changes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::entry::{ChangeKind, Entry, Event};

/// How much history a resource keeps for watches that resume and for lists that are read in pages.
#[derive(Debug, Clone, Copy)]
pub struct HistoryLimits {
    /// Changes per resource.
    pub events: usize,
    /// Bytes of replaced and deleted objects per resource that only the history keeps alive.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    /// Some minutes of a busy resource: a client that pages or reconnects is back long before.
    fn default() -> Self {
        Self { events: 16_384, bytes: 16 << 20 }
    }
}

#[derive(Debug, Default)]
pub(super) struct Resource {
    entries: BTreeMap<Box<str>, Arc<Entry>>,
    history: VecDeque<Arc<Event>>,
    history_bytes: usize,
    /// Every change after this revision is in `history`.
    compacted: u64,
    last_revision: u64,
    object_bytes: usize,
}

/// A page of a list.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Arc<Entry>>,
    /// Whether objects follow.
    pub(crate) more: bool,
}

impl Resource {
    pub(super) fn starting_at(revision: u64) -> Self {
        Self { compacted: revision, last_revision: revision, ..Self::default() }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.entries.get(key)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn object_bytes(&self) -> usize {
        self.object_bytes
    }

    pub(super) fn last_revision(&self) -> u64 {
        self.last_revision
    }

    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }

    /// Puts an entry back that a snapshot recorded, without a change.
    pub(super) fn restore(&mut self, entry: Arc<Entry>) {
        self.object_bytes += entry.bytes.len();
        self.entries.insert(entry.key.clone(), entry);
    }

    /// Makes a change. What is not `published` yet stays in the history, since it may have to be undone.
    pub(super) fn apply(
        &mut self,
        kind: ChangeKind,
        entry: Arc<Entry>,
        limits: HistoryLimits,
        published: u64,
    ) -> Arc<Event> {
        let previous = match kind {
            ChangeKind::Put => {
                self.object_bytes += entry.bytes.len();
                self.entries.insert(entry.key.clone(), entry.clone())
            }
            ChangeKind::Delete => self.entries.remove(&entry.key),
        };
        if let Some(previous) = &previous {
            self.object_bytes -= previous.bytes.len();
        }
        self.last_revision = entry.revision;
        let event = Arc::new(Event { kind, entry, previous });
        self.history_bytes += weight(&event);
        self.history.push_back(event.clone());
        while (self.history.len() > limits.events || self.history_bytes > limits.bytes)
            && self.history.front().is_some_and(|oldest| oldest.revision() <= published)
        {
            self.forget_oldest();
        }
        event
    }

    /// Undoes all changes after `revision`, the last one first, and returns them in that order.
    pub(super) fn roll_back(&mut self, revision: u64) -> Vec<Arc<Event>> {
        let mut all = Vec::new();
        while let Some(event) = self.history.pop_back_if(|event| event.revision() > revision) {
            self.history_bytes -= weight(&event);
            let key = event.entry.key.clone();
            let undone = match &event.previous {
                Some(previous) => {
                    self.object_bytes += previous.bytes.len();
                    self.entries.insert(key, previous.clone())
                }
                None => self.entries.remove(&key),
            };
            self.object_bytes -= undone.map_or(0, |undone| undone.bytes.len());
            all.push(event);
        }
        self.last_revision = self.history.back().map_or(self.compacted, |event| event.revision());
        all
    }

    /// Drops an object that cannot be read. Older history is no longer available: watches must list again.
    pub(super) fn forget(&mut self, key: &str, revision: u64) {
        if let Some(previous) = self.entries.remove(key) {
            self.object_bytes -= previous.bytes.len();
        }
        self.last_revision = revision;
        self.compact(revision);
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.history.pop_front() else { return };
        self.history_bytes -= weight(&oldest);
        self.compacted = oldest.revision();
    }

    /// Drops the history up to and including `revision`.
    pub(super) fn compact(&mut self, revision: u64) {
        while self.history.front().is_some_and(|e| e.revision() <= revision) {
            self.forget_oldest();
        }
        self.compacted = self.compacted.max(revision.min(self.last_revision));
    }

    /// Up to `limit` changes after `after` and not after `until`; `None` if some of them are forgotten.
    pub(super) fn changes(&self, after: u64, until: u64, limit: usize) -> Option<Vec<Arc<Event>>> {
        if after < self.compacted {
            return None;
        }
        let start = self.history.partition_point(|e| e.revision() <= after);
        Some(self.history.range(start..).take(limit).take_while(|e| e.revision() <= until).cloned().collect())
    }

    /// Objects whose key starts with `prefix` and is greater than `after`, as they were at revision `at`; `None` if
    /// the changes since then are forgotten.
    pub(super) fn page(&self, prefix: &str, after: Option<&str>, limit: usize, at: u64) -> Option<Page> {
        if at < self.compacted {
            return None;
        }
        let range = self.entries.range::<str, _>(key_range(prefix, after));
        let mut now = range.take_while(|(key, _)| key.starts_with(prefix)).peekable();
        let undone = self.undone(prefix, after, at);
        let mut then = undone.into_iter().peekable();
        let mut page = Page::default();
        loop {
            let from_then = match (now.peek(), then.peek()) {
                (None, None) => return Some(page),
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some((current, _)), Some((older, _))) => {
                    if ***current == **older {
                        now.next();
                        true
                    } else {
                        *older < &***current
                    }
                }
            };
            let entry = if from_then { then.next().and_then(|(_, e)| e) } else { now.next().map(|(_, e)| e) };
            if let Some(entry) = entry {
                if page.entries.len() == limit {
                    page.more = true;
                    return Some(page);
                }
                page.entries.push(entry.clone());
            }
        }
    }

    /// For every key of the range that changed after `at`: the entry it had then.
    fn undone(&self, prefix: &str, after: Option<&str>, at: u64) -> BTreeMap<&str, Option<&Arc<Entry>>> {
        let mut out = BTreeMap::new();
        for event in self.history.iter().rev().take_while(|e| e.revision() > at) {
            let key = &*event.entry.key;
            if key.starts_with(prefix) && after.is_none_or(|after| key > after) {
                out.insert(key, event.previous.as_ref());
            }
        }
        out
    }

    /// All objects as they were at a revision whose changes are not forgotten.
    pub(super) fn at(&self, revision: u64) -> Vec<Arc<Entry>> {
        let page = self.page("", None, usize::MAX, revision);
        page.map_or_else(|| self.entries().cloned().collect(), |page| page.entries)
    }

    /// How many objects follow `after`, now.
    pub(super) fn count_after(&self, prefix: &str, after: Option<&str>) -> usize {
        self.entries.range::<str, _>(key_range(prefix, after)).take_while(|(key, _)| key.starts_with(prefix)).count()
    }
}

/// The bytes that an event keeps alive beyond the live objects.
fn weight(event: &Event) -> usize {
    let previous = event.previous.as_ref().map_or(0, |p| p.bytes.len());
    let deleted = if event.kind == ChangeKind::Delete { event.entry.bytes.len() } else { 0 };
    previous + deleted
}

/// From the prefix or from behind `after`, whichever comes later. The end is where the prefix no longer fits.
fn key_range<'a>(prefix: &'a str, after: Option<&'a str>) -> (Bound<&'a str>, Bound<&'a str>) {
    let start = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    (start, Bound::Unbounded)
}
