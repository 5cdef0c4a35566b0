//! The durable log: one append-only file for all clusters, written by one thread.
//!
//! Writes that arrive during an fsync are written and synced together, and acknowledged only then. When the log has
//! outgrown its snapshot, a new log is started and a snapshot is written beside it. If a group cannot be written (full
//! disk), it is lost, its stores return to the durable state, and further writes are refused until the disk accepts them
//! again.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::disk::{Directory, Disk, DiskFile};
use super::format::{FileKind, HEADER_BYTES};
use super::lock::DirectoryLock;
use super::log::{Appended, Image, Log, Member, Record};
use super::record::Frame;
use super::recovery::{Recovered, recover};
pub(crate) use super::recovery::{RecoveryError, TornTail};
use super::resource::HistoryLimits;
use super::set_aside::{self, SetAside};
use super::snapshot;
use super::state::{Replayed, Store};
use crate::private;

/// Bytes written before one fsync at most; keeps the delay of the first writer of a group bounded.
const GROUP_BYTES: usize = 8 << 20;

/// Time after which a log that could not be written is tried again. Writes are refused until then.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Bytes that must fit before writes are accepted again: a few large objects, so that the next write does not fail at once.
const ROOM_BYTES: usize = 4 << 20;

/// When a log is replaced by a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct CompactionLimits {
    /// A log smaller than this (bytes) is kept: reading it back takes well under a second.
    pub minimum_bytes: u64,
    /// A log this many times larger than the last snapshot is mostly history.
    pub snapshot_factor: u64,
}

impl Default for CompactionLimits {
    fn default() -> Self {
        Self { minimum_bytes: 64 << 20, snapshot_factor: 2 }
    }
}

/// Stores of all clusters by name. Held for good: a snapshot without one of them would lose it.
type Members = Arc<Mutex<BTreeMap<Arc<str>, Arc<dyn Member>>>>;

enum Job {
    Append(Record, Arc<dyn Member>),
    Compact,
    Stop,
}

/// Why nothing can be written, if so. Set by the writer.
type WriteError = Arc<watch::Sender<Option<Arc<str>>>>;

/// A log in a data directory. Dropping it finishes what was appended.
pub(crate) struct FileLog {
    jobs: Mutex<Sender<Job>>,
    write_error: WriteError,
    members: Members,
    torn_tail: Option<TornTail>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for FileLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileLog").field("clusters", &self.members.lock().len()).finish_non_exhaustive()
    }
}

/// The stores of a data directory, by cluster.
pub(crate) type Stores = BTreeMap<String, Arc<Store>>;

/// Opens a data directory: the stores of all clusters found there, by name, and the log they write to.
pub(crate) fn open(
    directory: &Path,
    history: HistoryLimits,
    compaction: CompactionLimits,
) -> Result<(Arc<FileLog>, Stores), RecoveryError> {
    prepare_directory(directory)?;
    let disk = Directory(directory.to_owned());
    let lock = DirectoryLock::acquire(directory)
        .map_err(|e| RecoveryError::Refused { path: directory.to_owned(), reason: e.to_string() })?;
    open_disk(Arc::new(disk), history, compaction, Some(lock))
}

/// Creates a data directory if it does not exist, durably. Only its owner may read it: permissions of others are removed if it
/// holds nothing but data of this server, and the directory is refused if it holds more, because others may need it.
pub(crate) fn prepare_directory(path: &Path) -> Result<(), RecoveryError> {
    let io = |e| RecoveryError::io(path, e);
    let disk = Directory(path.to_owned());
    disk.make().map_err(io)?;
    let names = disk.names().map_err(io)?;
    let is_ours = |name: &&String| OUR_NAMES.iter().any(|ours| name.starts_with(ours));
    if let Some(mode) = private::permissions_of_others(path).map_err(io)?
        && !names.iter().all(|name| is_ours(&name))
    {
        return Err(RecoveryError::Exposed { path: path.to_owned(), mode });
    }
    restrict(path)?;
    names.iter().filter(is_ours).try_for_each(|name| restrict(&disk.path(name)))
}

/// How the names in a data directory begin. The root of a file system has `lost+found`.
const OUR_NAMES: [&str; 6] = ["LOCK", "pki", "log-", "snapshot-", "set-aside-", "lost+found"];

fn restrict(path: &Path) -> Result<(), RecoveryError> {
    match private::restrict_to_owner(path) {
        Ok(None) => Ok(()),
        Ok(Some(mode)) => {
            let mode = format!("{mode:03o}");
            tracing::warn!(path = %path.display(), mode, "others had permissions on data of this server; they are removed");
            Ok(())
        }
        // A volume that belongs to another user, as in a container. New files are still their owner's only.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            tracing::warn!(path = %path.display(), %error, "others have permissions that cannot be removed");
            Ok(())
        }
        Err(error) => Err(RecoveryError::io(path, error)),
    }
}

pub(super) fn open_disk(
    disk: Arc<dyn Disk>,
    history: HistoryLimits,
    compaction: CompactionLimits,
    lock: Option<DirectoryLock>,
) -> Result<(Arc<FileLog>, Stores), RecoveryError> {
    let recovered = recover(&*disk)?;
    let writer = Writer::open(disk.clone(), &recovered, compaction, lock)?;
    let log = FileLog::start(writer, recovered.torn_tail.clone())?;
    let shared: Arc<dyn Log> = log.clone();
    let (stores, unreadable) = restore(&shared, recovered, history);
    // The files are safe on disk before the next snapshot, which no longer has these objects.
    unreadable.write(&*disk)?;
    for (cluster, objects) in set_aside::count(&*disk)? {
        if let Some(store) = stores.get(&cluster) {
            store.note_set_aside(objects);
        }
    }
    Ok((log, stores))
}

pub(super) fn restore(log: &Arc<dyn Log>, recovered: Recovered, history: HistoryLimits) -> (Stores, SetAside) {
    let mut stores = Stores::new();
    let mut unreadable = recovered.set_aside;
    for (cluster, image) in recovered.images {
        stores.insert(cluster.to_string(), Store::restored(&cluster, log.clone(), history, image));
    }
    for change in recovered.changes {
        let store = stores
            .entry(change.cluster.to_string())
            .or_insert_with(|| Store::new(&change.cluster, log.clone(), history));
        if let Some(problem) = &change.problem {
            let (key, revision) = (&change.entry.key, change.entry.revision);
            if store.replay(&change.resource, Replayed::Unreadable { key, revision }) {
                tracing::debug!(%problem, revision, "a recorded change cannot be read");
                unreadable.note(change);
            }
        } else {
            let place = (change.cluster, change.resource.clone(), change.entry.key.clone());
            if store.replay(&change.resource, Replayed::Change(change.kind, Arc::new(change.entry))) {
                unreadable.replaced(&place);
            }
        }
    }
    (stores, unreadable)
}

impl FileLog {
    fn start(mut writer: Writer, torn_tail: Option<TornTail>) -> Result<Arc<Self>, RecoveryError> {
        let (jobs, queue) = channel();
        let (members, write_error) = (writer.members.clone(), writer.write_error.clone());
        let directory = writer.disk.path("");
        let thread = std::thread::Builder::new()
            .name("apiserver-log".to_owned())
            .spawn(move || writer.run(&queue))
            .map_err(|e| RecoveryError::io(&directory, e))?;
        let (jobs, thread) = (Mutex::new(jobs), Mutex::new(Some(thread)));
        Ok(Arc::new(Self { jobs, write_error, members, torn_tail, thread }))
    }

    /// The interrupted write that was cut off when the directory was opened.
    pub(crate) fn torn_tail(&self) -> Option<&TornTail> {
        self.torn_tail.as_ref()
    }

    /// Follows why nothing can be written.
    #[cfg(test)]
    pub(super) fn write_errors(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.write_error.subscribe()
    }

    /// Asks for a snapshot now; it is written after everything appended so far.
    pub(crate) fn compact(&self) {
        let _ = self.jobs.lock().send(Job::Compact);
    }
}

impl Log for FileLog {
    fn append(&self, record: Record, member: &Arc<dyn Member>) -> Appended {
        // The thread ends only when this log is dropped.
        let _ = self.jobs.lock().send(Job::Append(record, member.clone()));
        Appended::Pending
    }

    fn attach(&self, cluster: &Arc<str>, member: &Arc<dyn Member>) {
        self.members.lock().insert(cluster.clone(), member.clone());
    }

    fn write_error(&self) -> Option<Arc<str>> {
        self.write_error.borrow().clone()
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        let _ = self.jobs.lock().send(Job::Stop);
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

struct Writer {
    disk: Arc<dyn Disk>,
    file: Box<dyn DiskFile>,
    number: u64,
    bytes: u64,
    snapshot_bytes: u64,
    limits: CompactionLimits,
    members: Members,
    buffer: Vec<u8>,
    write_error: WriteError,
    /// Something may be behind the valid bytes of the file.
    is_torn: bool,
    snapshotting: Option<JoinHandle<Result<u64, RecoveryError>>>,
    _lock: Option<DirectoryLock>,
}

/// Begins a log: its header and its name are safe on disk before the first record. One that was begun in vain is begun again.
fn begin(disk: &dyn Disk, number: u64) -> Result<Box<dyn DiskFile>, RecoveryError> {
    let name = FileKind::Log.name(number);
    let made = || {
        let mut file = match disk.create(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && disk.read(&name)?.len() <= HEADER_BYTES => {
                disk.open(&name, 0)?
            }
            created => created?,
        };
        file.append(&FileKind::Log.header(number))?;
        file.sync()?;
        disk.sync_names()?;
        Ok(file)
    };
    made().map_err(|e| RecoveryError::io(&disk.path(&name), e))
}

/// Goes on with a log. What was read of it is shown to clients, so it has to be safe on disk, also if the process that wrote
/// it ended before that.
fn reopen(disk: &dyn Disk, number: u64, bytes: u64) -> Result<Box<dyn DiskFile>, RecoveryError> {
    let name = FileKind::Log.name(number);
    let opened = || {
        let mut file = disk.open(&name, bytes)?;
        file.sync()?;
        disk.sync_names()?;
        Ok(file)
    };
    opened().map_err(|e| RecoveryError::io(&disk.path(&name), e))
}

/// How far one store got within a group.
type Progress = BTreeMap<usize, (Arc<dyn Member>, u64)>;

impl Writer {
    fn open(
        disk: Arc<dyn Disk>,
        recovered: &Recovered,
        limits: CompactionLimits,
        lock: Option<DirectoryLock>,
    ) -> Result<Self, RecoveryError> {
        let number = recovered.log_number;
        if let Some((number, bytes)) = recovered.torn {
            reopen(&*disk, number, bytes)?;
        }
        let (file, bytes) = match recovered.log_bytes {
            0 => (begin(&*disk, number)?, HEADER_BYTES as u64),
            bytes => (reopen(&*disk, number, bytes)?, bytes),
        };
        Ok(Self {
            disk,
            file,
            number,
            bytes,
            snapshot_bytes: recovered.snapshot_bytes,
            limits,
            members: Members::default(),
            buffer: Vec::new(),
            write_error: WriteError::default(),
            is_torn: false,
            snapshotting: None,
            _lock: lock,
        })
    }

    fn run(&mut self, queue: &Receiver<Job>) {
        while let Some(job) = self.next_job(queue) {
            let mut group = Progress::new();
            let mut compact = false;
            let mut stop = false;
            let mut next = Some(job);
            while let Some(job) = next {
                match job {
                    Job::Append(record, member) => self.take(&record, member, &mut group),
                    Job::Compact => compact = true,
                    Job::Stop => stop = true,
                }
                next = if stop || self.buffer.len() >= GROUP_BYTES { None } else { queue.try_recv().ok() };
            }
            self.flush(group);
            self.compact_if(compact);
            if stop {
                break;
            }
        }
        self.await_snapshot();
    }

    /// Waits for the next job. In the meantime a disk that took nothing is tried again and again.
    fn next_job(&mut self, queue: &Receiver<Job>) -> Option<Job> {
        loop {
            if self.write_error.borrow().is_none() {
                return queue.recv().ok();
            }
            match queue.recv_timeout(TRY_AGAIN_AFTER) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.try_again(),
            }
        }
    }

    fn take(&mut self, record: &Record, member: Arc<dyn Member>, group: &mut Progress) {
        if record.epoch < member.epoch() {
            return;
        }
        let mut frame = Frame::start(&mut self.buffer);
        // Where the group begins: a later group in the file proves that everything before it was safe on disk.
        frame.number(self.bytes);
        frame.text(record.cluster.as_bytes());
        for (resource, event) in &record.changes {
            frame.change(resource, event.kind, &event.entry);
        }
        frame.finish();
        let identity = Arc::as_ptr(&member).cast::<()>() as usize;
        group.insert(identity, (member, record.revision()));
    }

    fn flush(&mut self, group: Progress) {
        if self.buffer.is_empty() {
            return;
        }
        let buffer = std::mem::take(&mut self.buffer);
        match self.write(&buffer) {
            Ok(()) => {
                self.bytes += buffer.len() as u64;
                for (member, revision) in group.into_values() {
                    member.durable(revision);
                }
            }
            Err(error) => self.fail(&error),
        }
        self.buffer = buffer;
        self.buffer.clear();
    }

    /// Writes behind the valid bytes, durably. After a failure some of it may be there.
    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.truncate(self.bytes)?;
        }
        self.is_torn = true;
        self.file.append(data)?;
        self.file.sync()?;
        self.is_torn = false;
        Ok(())
    }

    /// Refuses writes from now on and takes back what is not durable, in all stores.
    fn fail(&mut self, error: &io::Error) {
        let why: Arc<str> = error.to_string().into();
        tracing::error!(%error, "the data directory cannot be written; writes are refused until it can, reads go on");
        self.write_error.send_replace(Some(why.clone()));
        // Cut at once, so that a restart does not find what was refused.
        self.is_torn = self.file.truncate(self.bytes).is_err();
        let members: Vec<_> = self.members.lock().values().cloned().collect();
        for member in members {
            member.failed(&why);
        }
    }

    /// Accepts writes again if there is room for some. The zeros that show it are cut off at once; to a recovery after a
    /// crash they are a write that did not reach the disk.
    fn try_again(&mut self) {
        let written = self.write(&vec![0; ROOM_BYTES]);
        self.is_torn = self.file.truncate(self.bytes).is_err();
        match written {
            Ok(()) => {
                tracing::info!("the data directory can be written again");
                self.write_error.send_replace(None);
            }
            Err(error) => tracing::debug!(%error, "the data directory cannot be written yet"),
        }
    }

    fn compact_if(&mut self, asked: bool) {
        let due = self.bytes >= self.limits.minimum_bytes
            && self.bytes >= self.snapshot_bytes.saturating_mul(self.limits.snapshot_factor);
        if self.write_error.borrow().is_some() || !(asked || due) {
            return;
        }
        if self.snapshotting.as_ref().is_some_and(|s| !s.is_finished() && !asked) {
            return;
        }
        self.await_snapshot();
        if let Err(error) = self.begin_snapshot() {
            tracing::warn!(%error, "no snapshot could be begun; the log goes on growing");
        }
    }

    /// Starts the next log first: all records of older logs are in the stores when their images are taken.
    fn begin_snapshot(&mut self) -> Result<(), RecoveryError> {
        let number = self.number + 1;
        self.file = begin(&*self.disk, number)?;
        self.number = number;
        self.bytes = HEADER_BYTES as u64;
        let members: Vec<_> = self.members.lock().iter().map(|(name, m)| (name.clone(), m.clone())).collect();
        let disk = self.disk.clone();
        let work = move || {
            let images: Vec<(Arc<str>, Image)> = members.into_iter().map(|(name, m)| (name, m.image())).collect();
            snapshot::write(&*disk, number, &images)
        };
        let thread = std::thread::Builder::new().name("apiserver-snapshot".to_owned()).spawn(work);
        self.snapshotting = Some(thread.map_err(|e| RecoveryError::io(&self.disk.path(""), e))?);
        Ok(())
    }

    fn await_snapshot(&mut self) {
        let Some(thread) = self.snapshotting.take() else { return };
        match thread.join() {
            Ok(Ok(bytes)) => self.snapshot_bytes = bytes,
            Ok(Err(error)) => tracing::warn!(%error, "a snapshot could not be written; the logs it covers stay"),
            Err(_) => tracing::error!("the snapshot thread ended unexpectedly; the logs it covers stay"),
        }
    }
}
