//! The store of one cluster: reads, checked writes, and when they become visible.
//!
//! Decides the revision of every write and whether it is still allowed (expected revision, guards). A read may see a
//! write that is not durable yet; it is answered only once that write is. No lock is held over an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::bell::{Bell, Listener};
use super::encode::Encoded;
use super::entry::{ChangeKind, Entry, Event, Index};
use super::log::{Appended, Image, Log, Member, Record};
use super::resource::{HistoryLimits, Page, Resource};
use crate::registry::StorageKey;

/// One object to be written or deleted.
#[derive(Debug, Clone)]
pub struct Change {
    pub resource: StorageKey,
    pub key: Box<str>,
    pub expect: Expect,
    pub action: Action,
}

/// What must be true of the object for the change to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Revision(u64),
    Any,
}

#[derive(Debug, Clone)]
pub enum Action {
    Put { body: Encoded, index: Index, shape: u64 },
    Delete,
}

/// What must be true of other objects at the moment of the change.
#[derive(Debug, Clone)]
pub enum Guard {
    Exists {
        resource: StorageKey,
        key: Box<str>,
    },
    /// No resource has an object in this namespace.
    NamespaceEmpty(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the object exists already")]
    AlreadyExists,
    #[error("the object does not exist")]
    NotFound,
    #[error("the object was changed: it is at revision {current}")]
    Conflict { current: u64 },
    #[error("an object that this write depends on does not exist")]
    GuardMissing,
    #[error("the namespace is not empty")]
    NamespaceNotEmpty,
    #[error("too old resource version: {asked} ({oldest})")]
    Expired { asked: u64, oldest: u64 },
    #[error("Too large resource version: {asked}, current: {current}")]
    Future { asked: u64, current: u64 },
    #[error("the log is not writable: {0}")]
    LogFailed(Arc<str>),
}

/// A page of a list and the revision it shows.
#[derive(Debug)]
pub struct Listing {
    pub revision: u64,
    pub entries: Vec<Arc<Entry>>,
    /// Objects that follow, counted now; 0 on the last page.
    pub remaining: usize,
}

/// All objects of one cluster.
pub struct Store {
    cluster: Arc<str>,
    limits: HistoryLimits,
    log: Arc<dyn Log>,
    core: Arc<Core>,
}

/// What the log knows of a store. It does not know the log, so that a log is always closed by its user.
struct Core {
    state: Mutex<State>,
    durable: watch::Sender<Durable>,
}

#[derive(Debug, Clone, Default)]
struct Durable {
    revision: u64,
    failed: Option<Arc<str>>,
}

pub(super) struct State {
    revision: u64,
    /// Changes up to here are durable and shown to watchers.
    pub(super) published: u64,
    /// The revision at which recording began; nothing before it can be asked for.
    base: u64,
    pub(super) resources: BTreeMap<StorageKey, Resource>,
    unpublished: VecDeque<(u64, StorageKey)>,
    /// Wakes the watchers of a resource; made when the first one comes.
    wakers: BTreeMap<StorageKey, Bell>,
    wake_any: Bell,
}

/// What an empty store starts with: revision 0 means "any" to clients.
const FIRST_REVISION: u64 = 1;

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl Store {
    pub fn new(cluster: &str, log: Arc<dyn Log>, limits: HistoryLimits) -> Arc<Self> {
        Self::restored(cluster, log, limits, Image { revision: FIRST_REVISION, entries: Vec::new() })
    }

    /// A store that continues from a snapshot. Records that follow it are given to `replay`.
    pub fn restored(cluster: &str, log: Arc<dyn Log>, limits: HistoryLimits, image: Image) -> Arc<Self> {
        let mut resources: BTreeMap<StorageKey, Resource> = BTreeMap::new();
        let revision = image.revision.max(FIRST_REVISION);
        for (key, entry) in image.entries {
            resources.entry(key).or_insert_with(|| Resource::starting_at(revision)).restore(entry);
        }
        let state = State {
            revision,
            published: revision,
            base: revision,
            resources,
            unpublished: VecDeque::new(),
            wakers: BTreeMap::new(),
            wake_any: Bell::default(),
        };
        let cluster: Arc<str> = cluster.into();
        let durable = watch::Sender::new(Durable { revision, failed: None });
        let core = Arc::new(Core { state: Mutex::new(state), durable });
        let member: Arc<dyn Member> = core.clone();
        log.attach(&cluster, &member);
        Arc::new(Self { cluster, limits, log, core })
    }

    /// All objects and the revision they stand for, for a store that is to continue from here.
    pub fn image(&self) -> Image {
        self.core.image()
    }

    /// Applies a change that the log already holds. Changes that the snapshot contains are skipped.
    pub(super) fn replay(&self, resource: &StorageKey, kind: ChangeKind, entry: Arc<Entry>) {
        let mut state = self.core.state.lock();
        if entry.revision <= state.revision {
            return;
        }
        state.revision = entry.revision;
        state.published = entry.revision;
        let revision = entry.revision;
        let limits = self.limits;
        state.resource(resource).apply(kind, entry, limits);
        self.core.durable.send_modify(|d| d.revision = revision);
    }

    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.core.state.lock().revision
    }

    /// The object as it is now, durable or not. For checks whose outcome is not shown to a client by itself.
    pub fn peek(&self, resource: &StorageKey, key: &str) -> Option<Arc<Entry>> {
        self.core.state.lock().resources.get(resource).and_then(|r| r.get(key)).cloned()
    }

    /// The object as it is now.
    pub async fn get(&self, resource: &StorageKey, key: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        let (found, revision) = {
            let state = self.core.state.lock();
            let found = state.resources.get(resource).and_then(|r| r.get(key)).cloned();
            let last = state.resources.get(resource).map_or(0, Resource::last_revision);
            let revision = found.as_ref().map_or(last, |e| e.revision);
            (found, revision)
        };
        self.settled(revision).await?;
        Ok(found)
    }

    /// Up to `limit` objects of a namespace (or of all) whose key follows `after`, at revision `at` (or now).
    pub async fn list(
        &self,
        resource: &StorageKey,
        namespace: Option<&str>,
        after: Option<&str>,
        limit: usize,
        at: Option<u64>,
    ) -> Result<Listing, StoreError> {
        let listing = self.peek_list(resource, namespace, after, limit, at)?;
        self.settled(listing.revision).await?;
        Ok(listing)
    }

    /// As `list`, but shows writes that are not durable yet.
    pub fn peek_list(
        &self,
        resource: &StorageKey,
        namespace: Option<&str>,
        after: Option<&str>,
        limit: usize,
        at: Option<u64>,
    ) -> Result<Listing, StoreError> {
        let prefix = prefix_of(namespace);
        let state = self.core.state.lock();
        let revision = at.unwrap_or(state.revision);
        if revision > state.revision {
            return Err(StoreError::Future { asked: revision, current: state.revision });
        }
        let Some(content) = state.resources.get(resource) else {
            return if revision < state.base {
                Err(StoreError::Expired { asked: revision, oldest: state.base })
            } else {
                Ok(Listing { revision, entries: Vec::new(), remaining: 0 })
            };
        };
        let Some(Page { entries, more }) = content.page(&prefix, after, limit, revision) else {
            return Err(StoreError::Expired { asked: revision, oldest: content.compacted() });
        };
        let last = entries.last().map(|e| &*e.key);
        let remaining = if more { content.count_after(&prefix, last).max(1) } else { 0 };
        Ok(Listing { revision, entries, remaining })
    }

    /// Makes all changes or none, each with a revision of its own, and returns once they are durable. The entry of a
    /// deletion is the object's last state under the revision of the deletion.
    pub async fn commit(&self, changes: Vec<Change>, guards: &[Guard]) -> Result<Vec<Arc<Entry>>, StoreError> {
        let (entries, revision) = self.commit_now(changes, guards)?;
        self.settled(revision).await?;
        Ok(entries)
    }

    /// As `commit`, without waiting: the writes are seen by readers, who wait for them themselves.
    pub fn commit_unsettled(&self, changes: Vec<Change>, guards: &[Guard]) -> Result<Vec<Arc<Entry>>, StoreError> {
        self.commit_now(changes, guards).map(|(entries, _)| entries)
    }

    fn commit_now(&self, changes: Vec<Change>, guards: &[Guard]) -> Result<(Vec<Arc<Entry>>, u64), StoreError> {
        let mut state = self.core.state.lock();
        for guard in guards {
            state.check_guard(guard)?;
        }
        for (index, change) in changes.iter().enumerate() {
            state.check(change)?;
            let twice = |other: &Change| other.resource == change.resource && other.key == change.key;
            if changes[..index].iter().any(twice) {
                return Err(StoreError::AlreadyExists);
            }
        }
        if let Some(why) = &self.core.durable.borrow().failed {
            return Err(StoreError::LogFailed(why.clone()));
        }
        let mut record = Record { cluster: self.cluster.clone(), changes: Vec::with_capacity(changes.len()) };
        for change in changes {
            record.changes.extend(state.apply(change, self.limits));
        }
        let revision = state.revision;
        let entries = record.changes.iter().map(|(_, event)| event.entry.clone()).collect();
        state.unpublished.extend(record.changes.iter().map(|(key, event)| (event.revision(), key.clone())));
        // Under the lock, so that the log sees the writes of a cluster in the order of their revisions.
        let member: Arc<dyn Member> = self.core.clone();
        if self.log.append(record, &member) == Appended::Durable {
            self.core.durable.send_modify(|d| d.revision = revision);
            state.publish(revision);
        }
        Ok((entries, revision))
    }

    /// Waits until everything up to `revision` is durable.
    pub async fn settled(&self, revision: u64) -> Result<(), StoreError> {
        {
            let durable = self.core.durable.borrow();
            if durable.revision >= revision {
                return Ok(());
            }
            if let Some(why) = &durable.failed {
                return Err(StoreError::LogFailed(why.clone()));
            }
        }
        let mut receiver = self.core.durable.subscribe();
        let outcome = receiver.wait_for(|d| d.revision >= revision || d.failed.is_some()).await;
        match outcome {
            Ok(durable) if durable.revision >= revision => Ok(()),
            Ok(durable) => Err(StoreError::LogFailed(durable.failed.clone().unwrap_or_default())),
            // The sender is part of this store, which is borrowed.
            Err(_) => Err(StoreError::LogFailed("the store was closed".into())),
        }
    }

    /// Forgets the history up to `revision`: older watches and lists are answered as expired.
    pub fn compact(&self, revision: u64) {
        let mut state = self.core.state.lock();
        state.base = state.base.max(revision.min(state.revision));
        for resource in state.resources.values_mut() {
            resource.compact(revision);
        }
    }

    /// Number of objects and their bytes, per resource that has any.
    pub fn sizes(&self) -> Vec<(StorageKey, usize, usize)> {
        let state = self.core.state.lock();
        let sized = state.resources.iter().filter(|(_, r)| r.len() > 0);
        sized.map(|(key, r)| (key.clone(), r.len(), r.object_bytes())).collect()
    }

    pub(super) fn with_state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.core.state.lock())
    }
}

impl Member for Core {
    fn durable(&self, revision: u64) {
        {
            let mut state = self.state.lock();
            state.publish(revision);
        }
        self.durable.send_modify(|d| d.revision = d.revision.max(revision));
    }

    fn failed(&self, why: &str) {
        self.durable.send_modify(|d| d.failed = Some(why.into()));
    }

    fn image(&self) -> Image {
        let state = self.state.lock();
        let mut entries = Vec::new();
        for (key, resource) in &state.resources {
            entries.extend(resource.entries().map(|e| (key.clone(), e.clone())));
        }
        Image { revision: state.revision, entries }
    }
}

impl State {
    fn resource(&mut self, key: &StorageKey) -> &mut Resource {
        let base = self.base;
        if !self.resources.contains_key(key) {
            self.resources.insert(key.clone(), Resource::starting_at(base));
        }
        // Present by the line above; `or_insert_with` alone would clone the key on every write.
        self.resources.entry(key.clone()).or_insert_with(|| Resource::starting_at(base))
    }

    fn check_guard(&self, guard: &Guard) -> Result<(), StoreError> {
        match guard {
            Guard::Exists { resource, key } => {
                let found = self.resources.get(resource).and_then(|r| r.get(key));
                found.map(|_| ()).ok_or(StoreError::GuardMissing)
            }
            Guard::NamespaceEmpty(namespace) => {
                let prefix = prefix_of(Some(namespace));
                let empty = self.resources.values().all(|r| r.count_after(&prefix, None) == 0);
                if empty { Ok(()) } else { Err(StoreError::NamespaceNotEmpty) }
            }
        }
    }

    fn check(&self, change: &Change) -> Result<(), StoreError> {
        let current = self.resources.get(&change.resource).and_then(|r| r.get(&change.key)).map(|e| e.revision);
        match (change.expect, current) {
            (Expect::Absent, Some(_)) => Err(StoreError::AlreadyExists),
            (Expect::Revision(_), None) => Err(StoreError::NotFound),
            (Expect::Revision(expected), Some(current)) if expected != current => Err(StoreError::Conflict { current }),
            (Expect::Any, None) if matches!(change.action, Action::Delete) => Err(StoreError::NotFound),
            _ => Ok(()),
        }
    }

    /// `None` only for the deletion of what does not exist, which `check` has excluded.
    fn apply(&mut self, change: Change, limits: HistoryLimits) -> Option<(StorageKey, Arc<Event>)> {
        let revision = self.revision + 1;
        let Change { resource: resource_key, key, action, .. } = change;
        let resource = self.resource(&resource_key);
        let (kind, entry) = match action {
            Action::Put { body, index, shape } => {
                let (bytes, revision_at) = body.with_revision(revision);
                (ChangeKind::Put, Entry { key, revision, bytes, revision_at, shape, index })
            }
            Action::Delete => (ChangeKind::Delete, resource.get(&key)?.at_revision(revision)),
        };
        let event = resource.apply(kind, Arc::new(entry), limits);
        self.revision = revision;
        Some((resource_key, event))
    }

    fn publish(&mut self, revision: u64) {
        self.published = self.published.max(revision);
        while self.unpublished.front().is_some_and(|(r, _)| *r <= revision) {
            if let Some((_, key)) = self.unpublished.pop_front()
                && let Some(waker) = self.wakers.get(&key)
            {
                waker.ring();
            }
        }
        self.wake_any.ring();
    }

    /// The oldest revision that a watch of the resource may start from.
    pub(super) fn oldest(&self, resource: &StorageKey) -> u64 {
        self.resources.get(resource).map_or(self.base, Resource::compacted)
    }

    pub(super) fn waker(&mut self, resource: &StorageKey) -> Listener {
        self.wakers.entry(resource.clone()).or_default().listener()
    }

    pub(super) fn any_waker(&mut self) -> Listener {
        self.wake_any.listener()
    }
}

fn prefix_of(namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/"),
        _ => String::new(),
    }
}
