//! The durable log: one append-only file for all clusters, written by one thread.
//!
//! Many writers share one fsync: whatever has queued up while the last one ran is written and synced together, and only
//! then acknowledged. When the log has outgrown its snapshot a new log is begun and a snapshot written beside it.
//! Decides when that is; never decides what a record means.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::lock::DirectoryLock;
use super::log::{Appended, Image, Log, Member, Record};
use super::record::Frame;
use super::resource::HistoryLimits;
pub use super::snapshot::RecoveryError;
use super::snapshot::{self, Recovered, log_path};
use super::state::Store;

/// Bytes written before one fsync at most; keeps the delay of the first writer of a group bounded.
const GROUP_BYTES: usize = 8 << 20;

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

/// A log in a data directory. Dropping it finishes what was appended.
pub struct FileLog {
    jobs: Mutex<Sender<Job>>,
    members: Members,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for FileLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileLog").field("clusters", &self.members.lock().len()).finish_non_exhaustive()
    }
}

/// The stores of a data directory, by cluster.
pub type Stores = BTreeMap<String, Arc<Store>>;

/// Opens a data directory: the stores of all clusters found there, by name, and the log they write to.
pub fn open(
    directory: &Path,
    history: HistoryLimits,
    compaction: CompactionLimits,
) -> Result<(Arc<FileLog>, Stores), RecoveryError> {
    fs::create_dir_all(directory).map_err(|e| RecoveryError::io(directory, e))?;
    let lock = DirectoryLock::acquire(directory)
        .map_err(|e| RecoveryError::Refused { path: directory.to_owned(), reason: e.to_string() })?;
    let recovered = snapshot::recover(directory)?;
    let writer = Writer::open(directory, &recovered, compaction, lock)?;
    let log = FileLog::start(writer)?;
    let shared: Arc<dyn Log> = log.clone();
    Ok((log, restore(&shared, recovered, history)))
}

pub(super) fn restore(
    log: &Arc<dyn Log>,
    recovered: Recovered,
    history: HistoryLimits,
) -> BTreeMap<String, Arc<Store>> {
    let mut stores: BTreeMap<String, Arc<Store>> = BTreeMap::new();
    for (cluster, image) in recovered.images {
        stores.insert(cluster.to_string(), Store::restored(&cluster, log.clone(), history, image));
    }
    for change in recovered.changes {
        let store = stores
            .entry(change.cluster.to_string())
            .or_insert_with(|| Store::new(&change.cluster, log.clone(), history));
        store.replay(&change.resource, change.kind, Arc::new(change.entry));
    }
    stores
}

impl FileLog {
    fn start(mut writer: Writer) -> Result<Arc<Self>, RecoveryError> {
        let (jobs, queue) = channel();
        let members = writer.members.clone();
        let directory = writer.directory.clone();
        let thread = std::thread::Builder::new()
            .name("apiserver-log".to_owned())
            .spawn(move || writer.run(&queue))
            .map_err(|e| RecoveryError::io(&directory, e))?;
        Ok(Arc::new(Self { jobs: Mutex::new(jobs), members, thread: Mutex::new(Some(thread)) }))
    }

    /// Asks for a snapshot now; it is written after everything appended so far.
    pub fn compact(&self) {
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
    directory: PathBuf,
    file: File,
    number: u64,
    bytes: u64,
    snapshot_bytes: u64,
    limits: CompactionLimits,
    members: Members,
    buffer: Vec<u8>,
    failed: Option<String>,
    snapshotting: Option<JoinHandle<Result<u64, RecoveryError>>>,
    _lock: DirectoryLock,
}

/// How far one store got within a group.
type Progress = BTreeMap<usize, (Arc<dyn Member>, u64)>;

impl Writer {
    fn open(
        directory: &Path,
        recovered: &Recovered,
        limits: CompactionLimits,
        lock: DirectoryLock,
    ) -> Result<Self, RecoveryError> {
        let path = log_path(directory, recovered.log_number);
        let io = |e| RecoveryError::io(&path, e);
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(io)?;
        // What lies behind the last whole frame was never acknowledged.
        file.set_len(recovered.log_bytes).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        file.sync_all().map_err(io)?;
        snapshot::sync_directory(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            file,
            number: recovered.log_number,
            bytes: recovered.log_bytes,
            snapshot_bytes: recovered.snapshot_bytes,
            limits,
            members: Members::default(),
            buffer: Vec::new(),
            failed: None,
            snapshotting: None,
            _lock: lock,
        })
    }

    fn run(&mut self, queue: &Receiver<Job>) {
        while let Ok(job) = queue.recv() {
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

    fn take(&mut self, record: &Record, member: Arc<dyn Member>, group: &mut Progress) {
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
        if self.failed.is_none()
            && let Err(error) = self.file.write_all(&self.buffer).and_then(|()| self.file.sync_data())
        {
            tracing::error!(%error, "the log cannot be written; no further write is accepted");
            self.failed = Some(error.to_string());
        }
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        for (member, revision) in group.into_values() {
            match &self.failed {
                None => member.durable(revision),
                Some(why) => member.failed(why),
            }
        }
    }

    fn compact_if(&mut self, asked: bool) {
        let due = self.bytes >= self.limits.minimum_bytes
            && self.bytes >= self.snapshot_bytes.saturating_mul(self.limits.snapshot_factor);
        if self.failed.is_some() || !(asked || due) {
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

    /// Starts the next log first: whatever stands in older ones is in the stores when their images are taken.
    fn begin_snapshot(&mut self) -> Result<(), RecoveryError> {
        let number = self.number + 1;
        let path = log_path(&self.directory, number);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        self.file = file.map_err(|e| RecoveryError::io(&path, e))?;
        self.number = number;
        self.bytes = 0;
        snapshot::sync_directory(&self.directory)?;
        let members: Vec<_> = self.members.lock().iter().map(|(name, m)| (name.clone(), m.clone())).collect();
        let directory = self.directory.clone();
        let work = move || {
            let images: Vec<(Arc<str>, Image)> = members.into_iter().map(|(name, m)| (name, m.image())).collect();
            snapshot::write(&directory, number, &images)
        };
        let thread = std::thread::Builder::new().name("apiserver-snapshot".to_owned()).spawn(work);
        self.snapshotting = Some(thread.map_err(|e| RecoveryError::io(&self.directory, e))?);
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
