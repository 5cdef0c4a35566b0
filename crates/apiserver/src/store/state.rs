//! The store of one cluster: reads, conditional writes, and their visibility.
//!
//! A read may see a write that is not durable yet. It is answered only once that write is durable, and repeated if the
//! write is lost. Never hold a lock over an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::encode::{Encoded, MAX_DEPTH};
use super::entry::{ChangeKind, Entry, Event, Index};
use super::log::{Appended, Image, Log, Member, Record};
use super::notifier::{Notifier, Subscription};
use super::resource::{HistoryLimits, Page, Resource};
use crate::registry::StorageKey;

/// One object to be written or deleted.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) resource: StorageKey,
    pub(crate) key: Box<str>,
    pub(crate) expect: Expect,
    pub(crate) action: Action,
}

/// The precondition of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Absent,
    Revision(u64),
    Any,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Put { body: Encoded, index: Index, shape: u64 },
    Delete,
}

/// A precondition about other objects.
#[derive(Debug, Clone)]
pub(crate) enum Guard {
    Exists {
        resource: StorageKey,
        key: Box<str>,
    },
    /// No resource has an object in this namespace.
    NamespaceEmpty(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
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
    /// etcd's own words, which clients know.
    #[error("etcdserver: request is too large")]
    TooLarge,
    /// What the gRPC client of kube-apiserver says before etcd is asked.
    #[error(
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({bytes} vs. {MAX_MESSAGE_BYTES})"
    )]
    TooLargeToSend { bytes: usize },
    #[error("the object is nested {depth} levels deep, managedFields included; at most {MAX_DEPTH} can be stored")]
    TooDeep { depth: usize },
    #[error("the data directory of this API server cannot be written ({0}); objects can still be read")]
    LogFailed(Arc<str>),
}

/// Follows a store in its write path: what it derives from the objects is always at the revision of the store.
pub(crate) trait CommitObserver: Send + Sync {
    /// Handles one stored object or one change of it. Called under the lock of the store, in the order of revisions and
    /// before the change is visible, so it must not block and must not call the store. Changes that the log could
    /// not write are undone in the opposite order, each as a change to the object before it.
    fn committed(&self, resource: &StorageKey, kind: ChangeKind, entry: &Entry);
}

/// A page of a list and the revision it shows.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) revision: u64,
    pub(crate) entries: Vec<Arc<Entry>>,
    /// Objects that follow, counted now; 0 on the last page.
    pub(crate) remaining: usize,
}

/// All objects of one cluster.
pub(crate) struct Store {
    cluster: Arc<str>,
    limits: HistoryLimits,
    log: Arc<dyn Log>,
    core: Arc<Core>,
    set_aside: AtomicU64,
}

/// A change that the log holds.
#[derive(Debug)]
pub(super) enum Replayed<'a> {
    Change(ChangeKind, Arc<Entry>),
    /// Its object cannot be read: the store continues without it.
    Unreadable {
        key: &'a str,
        revision: u64,
    },
}

impl Replayed<'_> {
    fn revision(&self) -> u64 {
        match self {
            Replayed::Change(_, entry) => entry.revision,
            Replayed::Unreadable { revision, .. } => *revision,
        }
    }
}

/// The store as the log sees it. It has no reference to the log, so that a log is always closed by its user.
struct Core {
    state: Mutex<State>,
    durable: watch::Sender<Durable>,
}

#[derive(Debug, Clone, Default)]
struct Durable {
    revision: u64,
    /// For every time that writes were lost: the last revision that was durable, and why.
    losses: Vec<(u64, Arc<str>)>,
}

/// A wait for the durability of a revision, and the number of losses at its start.
#[derive(Debug, Clone, Copy)]
struct Mark {
    revision: u64,
    epoch: usize,
}

impl Durable {
    /// Whether a revision is durable or was lost; `None` while undecided.
    fn outcome(&self, mark: Mark) -> Option<Result<(), StoreError>> {
        match self.losses.get(mark.epoch) {
            Some((durable, _)) if mark.revision <= *durable => Some(Ok(())),
            Some((_, why)) => Some(Err(StoreError::LogFailed(why.clone()))),
            None => (self.revision >= mark.revision).then_some(Ok(())),
        }
    }
}

pub(super) struct State {
    /// The revision of the last change that is there.
    revision: u64,
    /// The highest revision that was ever given. One that was lost is not given again.
    assigned: u64,
    /// How often writes were lost.
    epoch: usize,
    /// Changes up to here are durable and shown to watchers.
    pub(super) published: u64,
    /// The revision at which recording began; nothing before it can be asked for.
    base: u64,
    pub(super) resources: BTreeMap<StorageKey, Resource>,
    unpublished: VecDeque<(u64, StorageKey)>,
    /// Wakes the watchers of a resource; created with the first watcher.
    wakers: BTreeMap<StorageKey, Notifier>,
    wake_any: Notifier,
    observers: Vec<Arc<dyn CommitObserver>>,
}

/// etcd's default limit of a request (`--max-request-bytes`). What is stored here can move to a real cluster.
const MAX_REQUEST_BYTES: usize = 1536 << 10;

/// The largest message that kube-apiserver's client sends to etcd.
const MAX_MESSAGE_BYTES: usize = 2 << 20;

/// What an empty store starts with: revision 0 means "any" to clients.
const FIRST_REVISION: u64 = 1;

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl Store {
    pub(crate) fn new(cluster: &str, log: Arc<dyn Log>, limits: HistoryLimits) -> Arc<Self> {
        Self::restored(cluster, log, limits, Image { revision: FIRST_REVISION, entries: Vec::new() })
    }

    /// A store that continues from a snapshot. Records that follow it are given to `replay`.
    pub(crate) fn restored(cluster: &str, log: Arc<dyn Log>, limits: HistoryLimits, image: Image) -> Arc<Self> {
        let mut resources: BTreeMap<StorageKey, Resource> = BTreeMap::new();
        let revision = image.revision.max(FIRST_REVISION);
        for (key, entry) in image.entries {
            resources.entry(key).or_insert_with(|| Resource::starting_at(revision)).restore(entry);
        }
        let state = State {
            revision,
            assigned: revision,
            epoch: 0,
            published: revision,
            base: revision,
            resources,
            unpublished: VecDeque::new(),
            wakers: BTreeMap::new(),
            wake_any: Notifier::default(),
            observers: Vec::new(),
        };
        let cluster: Arc<str> = cluster.into();
        let durable = watch::Sender::new(Durable { revision, losses: Vec::new() });
        let core = Arc::new(Core { state: Mutex::new(state), durable });
        let member: Arc<dyn Member> = core.clone();
        log.attach(&cluster, &member);
        Arc::new(Self { cluster, limits, log, core, set_aside: AtomicU64::new(0) })
    }

    /// Gives the observer every stored object, and from then on every change, without a gap in between.
    pub(crate) fn observe_commits(&self, observer: Arc<dyn CommitObserver>) {
        let mut state = self.core.state.lock();
        for (key, resource) in &state.resources {
            for entry in resource.entries() {
                observer.committed(key, ChangeKind::Put, entry);
            }
        }
        state.observers.push(observer);
    }

    /// All objects and the revision they stand for, for a store that is to continue from here.
    pub(crate) fn image(&self) -> Image {
        self.core.image()
    }

    /// Applies a change that the log already holds. Changes that the snapshot contains are skipped; says whether this was one.
    pub(super) fn replay(&self, resource: &StorageKey, change: Replayed<'_>) -> bool {
        let (revision, limits) = (change.revision(), self.limits);
        let mut state = self.core.state.lock();
        if revision <= state.revision {
            return false;
        }
        state.revision = revision;
        state.assigned = revision;
        state.published = revision;
        let resource = state.resource(resource);
        match change {
            Replayed::Change(kind, entry) => drop(resource.apply(kind, entry, limits, revision)),
            Replayed::Unreadable { key, .. } => resource.forget(key, revision),
        }
        self.core.durable.send_modify(|d| d.revision = revision);
        true
    }

    /// Notes that recovery could not read so many objects of this cluster.
    pub(super) fn note_set_aside(&self, objects: u64) {
        self.set_aside.store(objects, Ordering::Relaxed);
    }

    /// Objects of this cluster that recovery could not read and put into files.
    pub(crate) fn set_aside(&self) -> u64 {
        self.set_aside.load(Ordering::Relaxed)
    }

    /// The revision of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.core.state.lock().revision
    }

    /// The object as it is now, durable or not. For checks whose outcome is not shown to a client by itself.
    pub(crate) fn peek(&self, resource: &StorageKey, key: &str) -> Option<Arc<Entry>> {
        self.core.state.lock().resources.get(resource).and_then(|r| r.get(key)).cloned()
    }

    /// The object as it is now.
    pub(crate) async fn get(&self, resource: &StorageKey, key: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        loop {
            let (found, mark) = {
                let state = self.core.state.lock();
                let found = state.resources.get(resource).and_then(|r| r.get(key)).cloned();
                let last = state.resources.get(resource).map_or(0, Resource::last_revision);
                let revision = found.as_ref().map_or(last, |e| e.revision);
                (found, Mark { revision, epoch: state.epoch })
            };
            if self.settled(mark).await.is_ok() {
                return Ok(found);
            }
        }
    }

    /// Up to `limit` objects of a namespace (or of all) whose key follows `after`, at revision `at` (or now).
    pub(crate) async fn list(
        &self,
        resource: &StorageKey,
        namespace: Option<&str>,
        after: Option<&str>,
        limit: usize,
        at: Option<u64>,
    ) -> Result<Listing, StoreError> {
        loop {
            let epoch = self.core.state.lock().epoch;
            let listing = self.peek_list(resource, namespace, after, limit, at)?;
            // A loss between the two lines is found as well: the list is then made again for nothing.
            if self.settled(Mark { revision: listing.revision, epoch }).await.is_ok() {
                return Ok(listing);
            }
        }
    }

    /// As `list`, but shows writes that are not durable yet.
    pub(crate) fn peek_list(
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
    pub(crate) async fn commit(&self, changes: Vec<Change>, guards: &[Guard]) -> Result<Vec<Arc<Entry>>, StoreError> {
        let (entries, mark) = self.commit_now(changes, guards)?;
        self.settled(mark).await?;
        Ok(entries)
    }

    /// As `commit`, without waiting: readers see the writes and wait for them themselves.
    pub(crate) fn commit_unsettled(
        &self,
        changes: Vec<Change>,
        guards: &[Guard],
    ) -> Result<Vec<Arc<Entry>>, StoreError> {
        self.commit_now(changes, guards).map(|(entries, _)| entries)
    }

    fn commit_now(&self, changes: Vec<Change>, guards: &[Guard]) -> Result<(Vec<Arc<Entry>>, Mark), StoreError> {
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
        // Checked under the lock: writes that pass here before the log fails are undone with the rest.
        if let Some(why) = self.log.write_error() {
            return Err(StoreError::LogFailed(why));
        }
        let (epoch, cluster) = (state.epoch, self.cluster.clone());
        let mut record = Record { cluster, epoch, changes: Vec::with_capacity(changes.len()) };
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
        Ok((entries, Mark { revision, epoch }))
    }

    /// Waits until everything up to a revision is durable, or lost.
    async fn settled(&self, mark: Mark) -> Result<(), StoreError> {
        if let Some(outcome) = self.core.durable.borrow().outcome(mark) {
            return outcome;
        }
        let mut receiver = self.core.durable.subscribe();
        let known = receiver.wait_for(|durable| durable.outcome(mark).is_some()).await;
        // The sender is part of this store, which is borrowed.
        known.ok().and_then(|durable| durable.outcome(mark)).unwrap_or(Ok(()))
    }

    /// Why nothing can be written at the moment.
    pub(crate) fn write_error(&self) -> Option<Arc<str>> {
        self.log.write_error()
    }

    /// Forgets the history up to `revision`: older watches and lists are answered as expired.
    pub(crate) fn compact(&self, revision: u64) {
        let mut state = self.core.state.lock();
        // Writes that are not durable may have to be undone.
        let revision = revision.min(state.published);
        state.base = state.base.max(revision);
        for resource in state.resources.values_mut() {
            resource.compact(revision);
        }
    }

    /// Number of objects and their bytes, per resource that has any.
    pub(crate) fn sizes(&self) -> Vec<(StorageKey, usize, usize)> {
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

    fn failed(&self, why: &Arc<str>) {
        let mut state = self.state.lock();
        if state.revision > state.published {
            state.roll_back();
            let durable = state.published;
            self.durable.send_modify(|d| d.losses.push((durable, why.clone())));
        }
    }

    fn epoch(&self) -> usize {
        self.state.lock().epoch
    }

    fn image(&self) -> Image {
        let state = self.state.lock();
        let mut entries = Vec::new();
        for (key, resource) in &state.resources {
            entries.extend(resource.at(state.published).into_iter().map(|e| (key.clone(), e)));
        }
        Image { revision: state.published, entries }
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
        if let Action::Put { body, .. } = &change.action {
            match body.len() + change.key.len() {
                0..=MAX_REQUEST_BYTES => {}
                bytes if bytes > MAX_MESSAGE_BYTES => return Err(StoreError::TooLargeToSend { bytes }),
                _ => return Err(StoreError::TooLarge),
            }
            if body.depth() > MAX_DEPTH {
                return Err(StoreError::TooDeep { depth: body.depth() });
            }
        }
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
        let (revision, published) = (self.assigned + 1, self.published);
        let Change { resource: resource_key, key, action, .. } = change;
        let resource = self.resource(&resource_key);
        let (kind, entry) = match action {
            Action::Put { body, index, shape } => {
                let (bytes, revision_at) = body.with_revision(revision);
                (ChangeKind::Put, Entry { key, revision, bytes, revision_at, shape, index })
            }
            Action::Delete => (ChangeKind::Delete, resource.get(&key)?.at_revision(revision)),
        };
        let event = resource.apply(kind, Arc::new(entry), limits, published);
        (self.revision, self.assigned) = (revision, revision);
        for observer in &self.observers {
            observer.committed(&resource_key, kind, &event.entry);
        }
        Some((resource_key, event))
    }

    /// Returns to what is durable, and gives the observers the objects as they were.
    fn roll_back(&mut self) {
        let Self { resources, observers, published, .. } = self;
        for (key, resource) in resources {
            for undone in resource.roll_back(*published) {
                let (kind, entry) = match &undone.previous {
                    Some(previous) => (ChangeKind::Put, previous),
                    None => (ChangeKind::Delete, &undone.entry),
                };
                for observer in &*observers {
                    observer.committed(key, kind, entry);
                }
            }
        }
        self.unpublished.clear();
        self.revision = self.published;
        self.epoch += 1;
    }

    fn publish(&mut self, revision: u64) {
        self.published = self.published.max(revision);
        while self.unpublished.front().is_some_and(|(r, _)| *r <= revision) {
            if let Some((_, key)) = self.unpublished.pop_front()
                && let Some(waker) = self.wakers.get(&key)
            {
                waker.notify();
            }
        }
        self.wake_any.notify();
    }

    /// The oldest revision that a watch of the resource may start from.
    pub(super) fn oldest(&self, resource: &StorageKey) -> u64 {
        self.resources.get(resource).map_or(self.base, Resource::compacted)
    }

    pub(super) fn waker(&mut self, resource: &StorageKey) -> Subscription {
        self.wakers.entry(resource.clone()).or_default().subscribe()
    }

    pub(super) fn any_waker(&mut self) -> Subscription {
        self.wake_any.subscribe()
    }
}

fn prefix_of(namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/"),
        _ => String::new(),
    }
}
