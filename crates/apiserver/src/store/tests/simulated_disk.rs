//! A disk in memory that loses what was not synced: names one by one, content in several ways.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::store::disk::{ASIDE, Disk, DiskFile};
use crate::store::format::HEADER_BYTES;

/// The places in the code that sync something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Site {
    /// The data directory's own name.
    DirectoryName,
    /// The header of a new log.
    LogHeader,
    /// The name of a new log.
    LogName,
    /// A group of records, before they are acknowledged.
    Group,
    /// The content of a file that is written aside, before it gets its name.
    WholeFile,
    /// The name of such a file, before anything that it replaces is removed.
    WholeFileName,
    /// The content of a log that a killed process has left.
    ReopenedLog,
    /// The names that a killed process has left.
    ReopenedNames,
}

impl Site {
    pub(super) const ALL: [Site; 8] = [
        Site::DirectoryName,
        Site::LogHeader,
        Site::LogName,
        Site::Group,
        Site::WholeFile,
        Site::WholeFileName,
        Site::ReopenedLog,
        Site::ReopenedNames,
    ];
}

#[derive(Debug, Clone, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
}

/// A change of names. Each may reach the disk alone until names are synced.
#[derive(Debug, Clone)]
enum Naming {
    Put { name: String, file: usize, instead_of: Option<String> },
    Remove(String),
}

/// What remains of unsynced content after a power loss.
#[derive(Debug, Clone, Copy)]
pub(super) enum Leaves {
    Nothing,
    Everything,
    /// The first half of what was appended.
    Half,
    /// The length, but zeros for content.
    Zeros,
}

impl Leaves {
    pub(super) const ALL: [Leaves; 4] = [Leaves::Nothing, Leaves::Everything, Leaves::Half, Leaves::Zeros];

    fn of(self, content: &Content) -> Vec<u8> {
        let Content { now, synced } = content;
        let same = now.iter().zip(synced).take_while(|(a, b)| a == b).count();
        let appended = now.len().saturating_sub(same);
        match self {
            Leaves::Nothing => synced.clone(),
            Leaves::Everything => now.clone(),
            Leaves::Half => now[..same + appended / 2].to_vec(),
            Leaves::Zeros => {
                let mut left = now.clone();
                left[same..].fill(0);
                left
            }
        }
    }
}

/// Everything on a disk at one moment, synced or not.
#[derive(Debug, Clone, Default)]
pub(super) struct Moment {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    pending: Vec<Naming>,
    /// The data directory itself has a durable name.
    is_named: bool,
    /// What was acknowledged at that moment.
    pub(super) acknowledged: u64,
}

impl Moment {
    /// All that may be left after a power loss at this moment.
    pub(super) fn after_power_loss(&self) -> impl Iterator<Item = SimulatedDisk> {
        assert!(self.pending.len() < 12, "too many to try all");
        (0..1_u32 << self.pending.len()).flat_map(move |kept| {
            Leaves::ALL.map(|leaves| {
                let mut names = self.synced_names.clone();
                for (_, naming) in self.pending.iter().enumerate().filter(|(bit, _)| kept >> bit & 1 == 1) {
                    match naming {
                        Naming::Put { name, file, instead_of } => {
                            names.insert(name.clone(), *file);
                            if let Some(old) = instead_of {
                                names.remove(old);
                            }
                        }
                        Naming::Remove(name) => drop(names.remove(name)),
                    }
                }
                if !self.is_named {
                    names.clear();
                }
                let content = |file: &Content| {
                    let left = leaves.of(file);
                    Content { now: left.clone(), synced: left }
                };
                let files = self.files.iter().map(content).collect();
                let synced_names = names.clone();
                let is_named = self.is_named;
                let moment = Moment { files, names, synced_names, is_named, ..Moment::default() };
                SimulatedDisk::at(moment, None)
            })
        })
    }

    /// What the next process finds after the one before was killed: the system goes on, so nothing is lost yet.
    pub(super) fn after_kill(&self, ignored: Option<Site>) -> SimulatedDisk {
        SimulatedDisk::at(self.clone(), ignored)
    }
}

#[derive(Debug, Default)]
struct State {
    now: Moment,
    moments: Vec<Moment>,
    ignored: Option<Site>,
    synced: Vec<Site>,
    /// A log was opened, and names were not synced since.
    reopened: bool,
    /// Bytes that still fit; `None`: as many as come.
    room: Option<usize>,
}

/// Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(super) struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    gate: Arc<Gate>,
}

/// Blocks the creation of temporary files.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<Passing>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Passing {
    is_closed: bool,
    arrived: usize,
    may_pass: usize,
}

impl SimulatedDisk {
    /// An empty disk whose code leaves out the syncs of one site.
    pub(super) fn new(ignored: Option<Site>) -> Self {
        Self::at(Moment::default(), ignored)
    }

    fn at(now: Moment, ignored: Option<Site>) -> Self {
        let state = State { now, ignored, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), gate: Arc::default() }
    }

    /// Notes what was acknowledged, and that a crash may come now.
    pub(super) fn acknowledged(&self, count: u64) {
        let mut state = self.state.lock();
        state.now.acknowledged = count;
        let now = state.now.clone();
        state.moments.push(now);
    }

    /// All moments so far: before each operation, and after each acknowledgement.
    pub(super) fn moments(&self) -> Vec<Moment> {
        let state = self.state.lock();
        state.moments.iter().cloned().chain([state.now.clone()]).collect()
    }

    /// The sites whose syncs were asked for.
    pub(super) fn synced(&self) -> Vec<Site> {
        self.state.lock().synced.clone()
    }

    pub(super) fn now(&self) -> Moment {
        self.state.lock().now.clone()
    }

    /// From now on creating a temporary file blocks.
    pub(super) fn close_gate(&self) {
        *self.gate.state.lock() = Passing { is_closed: true, ..Passing::default() };
    }

    /// Waits until so many have come to the closed gate.
    pub(super) fn await_arrivals(&self, count: usize) {
        let mut state = self.gate.state.lock();
        while state.arrived < count {
            self.gate.changed.wait(&mut state);
        }
    }

    /// Lets one blocked creation proceed.
    pub(super) fn let_one_pass(&self) {
        self.gate.state.lock().may_pass += 1;
        self.gate.changed.notify_all();
    }

    pub(super) fn open_gate(&self) {
        self.gate.state.lock().is_closed = false;
        self.gate.changed.notify_all();
    }

    /// Lets so many more bytes fit, or as many as come.
    pub(super) fn set_room(&self, room: Option<usize>) {
        self.state.lock().room = room;
    }

    fn pass_gate(&self) {
        let mut state = self.gate.state.lock();
        state.arrived += 1;
        self.gate.changed.notify_all();
        while state.is_closed && state.may_pass == 0 {
            self.gate.changed.wait(&mut state);
        }
        state.may_pass = state.may_pass.saturating_sub(1);
    }

    /// The state, after noting that a crash may come before this operation.
    fn operate<T>(&self, f: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock();
        let now = state.now.clone();
        state.moments.push(now);
        f(&mut state)
    }
}

impl State {
    /// Whether a sync is really done.
    fn syncs(&mut self, site: Site) -> bool {
        self.synced.push(site);
        self.ignored != Some(site)
    }

    fn file(&self, name: &str) -> io::Result<usize> {
        self.now.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for SimulatedDisk {
    fn make(&self) -> io::Result<()> {
        self.operate(|state| {
            state.now.is_named |= state.syncs(Site::DirectoryName);
            Ok(())
        })
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state.lock().now.names.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.state.lock();
        Ok(state.now.files[state.file(name)?].now.clone())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        if name.ends_with(ASIDE) {
            self.pass_gate();
        }
        let number = self.operate(|state| {
            if state.now.names.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let file = state.now.files.len();
            state.now.files.push(Content::default());
            state.now.names.insert(name.to_owned(), file);
            state.now.pending.push(Naming::Put { name: name.to_owned(), file, instead_of: None });
            Ok(file)
        })?;
        let file = SimulatedFile { disk: self.clone(), number, name: name.to_owned(), is_reopened: false };
        Ok(Box::new(file))
    }

    fn open(&self, name: &str, length: u64) -> io::Result<Box<dyn DiskFile>> {
        let number = self.operate(|state| {
            state.reopened = length > 0;
            state.file(name)
        })?;
        let mut file = SimulatedFile { disk: self.clone(), number, name: name.to_owned(), is_reopened: length > 0 };
        file.truncate(length)?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.operate(|state| {
            let file = state.file(from)?;
            state.now.names.remove(from);
            state.now.names.insert(to.to_owned(), file);
            let naming = Naming::Put { name: to.to_owned(), file, instead_of: Some(from.to_owned()) };
            state.now.pending.push(naming);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.operate(|state| {
            state.file(name)?;
            state.now.names.remove(name);
            state.now.pending.push(Naming::Remove(name.to_owned()));
            Ok(())
        })
    }

    fn sync_names(&self) -> io::Result<()> {
        self.operate(|state| {
            let renamed = |naming: &Naming| matches!(naming, Naming::Put { instead_of: Some(_), .. });
            let site = if state.reopened {
                Site::ReopenedNames
            } else if state.now.pending.last().is_some_and(renamed) {
                Site::WholeFileName
            } else {
                Site::LogName
            };
            state.reopened = false;
            if state.syncs(site) {
                state.now.synced_names = state.now.names.clone();
                state.now.pending.clear();
            }
            Ok(())
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("simulated").join(name)
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    number: usize,
    name: String,
    /// Nothing was appended since it was opened.
    is_reopened: bool,
}

impl DiskFile for SimulatedFile {
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.is_reopened = false;
        self.disk.operate(|state| {
            let fits = state.room.unwrap_or(data.len()).min(data.len());
            state.room = state.room.map(|room| room - fits);
            state.now.files[self.number].now.extend_from_slice(&data[..fits]);
            if fits < data.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        })
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).unwrap();
        self.disk.operate(|state| {
            state.now.files[self.number].now.truncate(length);
            Ok(())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.operate(|state| {
            let content = &state.now.files[self.number];
            let site = if self.name.ends_with(ASIDE) {
                Site::WholeFile
            } else if self.is_reopened {
                Site::ReopenedLog
            } else if content.now.len() == HEADER_BYTES {
                Site::LogHeader
            } else {
                Site::Group
            };
            if state.syncs(site) {
                let content = &mut state.now.files[self.number];
                content.synced = content.now.clone();
            }
            Ok(())
        })
    }
}
