//! Reads a data directory: which files count, and where a crash or damage ended them.
//!
//! A write that a crash interrupted was never acknowledged: it is cut off and reported. Anything else that is missing or
//! damaged may have been acknowledged: the directory is refused with an error that names the place and the next step. An
//! object whose bytes are intact but cannot be read is set aside. Never change a file here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::Disk;
use super::format::{FileKind, HEADER_BYTES, Header};
use super::log::Image;
use super::record::{FRAME_HEADER_BYTES, Found, Reader, Restored, frame_at, has_unwritten_sector};
use super::set_aside::SetAside;
use super::snapshot;

#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error("cannot read or write {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is damaged at byte {at}, {}", part(.is_last_write))]
    Damaged {
        path: PathBuf,
        at: usize,
        /// Nothing follows that would be lost with it.
        is_last_write: bool,
    },
    #[error("{path} is missing: {why}")]
    Missing { path: PathBuf, why: String },
    #[error("{path} cannot be read: {why}")]
    Format { path: PathBuf, why: String },
    #[error("{path} can be read by others (mode {mode:03o}) and holds files that are not of this server")]
    Exposed { path: PathBuf, mode: u32 },
    #[error("the data directory {path} cannot be used: {reason}")]
    Refused { path: PathBuf, reason: String },
}

/// Which part of a file is damaged.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the macro gives a reference")]
fn part(is_last_write: &bool) -> &'static str {
    if *is_last_write { "in its last write" } else { "before its end" }
}

impl RecoveryError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// What an operator can do about a damaged directory.
    pub fn recovery_hint(&self) -> Option<String> {
        let or_backup = "nothing was changed; restore a backup, or start with another directory";
        match self {
            Self::Damaged { path, at, is_last_write: true } => Some(format!(
                "nothing was changed; restore a backup, or give that write up: keep a copy and run \
                 `truncate --size={at} {}`",
                path.display()
            )),
            Self::Damaged { .. } | Self::Missing { .. } => Some(or_backup.to_owned()),
            Self::Format { .. } => {
                Some("nothing was changed; use the version that wrote it, or start with another directory".to_owned())
            }
            Self::Exposed { path, .. } => {
                Some(format!("choose another directory, or make this one private: `chmod 700 {}`", path.display()))
            }
            Self::Io { .. } | Self::Refused { .. } => None,
        }
    }
}

/// The end of a log that a crash interrupted. No write in it was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TornTail {
    pub(crate) path: PathBuf,
    /// Where the incomplete record begins, in bytes.
    pub(crate) at: usize,
    /// Bytes from there to the end of the file.
    pub(crate) bytes: usize,
}

/// The content of a data directory.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    pub(super) images: BTreeMap<Arc<str>, Image>,
    /// Objects of the images that cannot be read.
    pub(super) set_aside: SetAside,
    /// Changes after the images (and some of those within), in order.
    pub(super) changes: Vec<Restored>,
    /// The number of the log to append to.
    pub(super) log_number: u64,
    /// The valid length of that log; 0 if it has to be begun.
    pub(super) log_bytes: u64,
    /// An older log whose last write was interrupted, and its valid length.
    pub(super) torn: Option<(u64, u64)>,
    pub(super) snapshot_bytes: u64,
    /// The incomplete record to cut off, in any log.
    pub(super) torn_tail: Option<TornTail>,
}

pub(super) fn recover(disk: &dyn Disk) -> Result<Recovered, RecoveryError> {
    let names = disk.names().map_err(|e| RecoveryError::io(&disk.path(""), e))?;
    let mut out = Recovered::default();
    let snapshot = FileKind::Snapshot.numbers(&names).last().copied();
    let logs = logs_to_read(disk, snapshot, &FileKind::Log.numbers(&names))?;
    if let Some(number) = snapshot {
        snapshot::read(disk, number, &mut out)?;
    }
    let content = |number: &u64| read_file(disk, FileKind::Log, *number).map(|content| (*number, content));
    let contents = logs.iter().map(content);
    let contents = contents.collect::<Result<Vec<_>, RecoveryError>>()?;
    let last = contents.iter().rposition(|(_, content)| content.data.len() > HEADER_BYTES).unwrap_or(0);
    for (position, (number, FileContent { data, is_begun })) in contents.iter().enumerate() {
        let path = disk.path(&FileKind::Log.name(*number));
        let is_newest = position + 1 == contents.len();
        // A newer log, and the snapshot of the same number, are written only when the header is on disk.
        let may_be_unfinished = is_newest && snapshot != Some(*number);
        if !is_begun && !may_be_unfinished {
            return Err(damaged_header(path));
        }
        // A log that has no record yet may have been begun in vain: the one before it is still the last with records.
        let is_last = position >= last;
        let valid = if *is_begun { read_log(&path, data, is_last, &mut out.changes)? } else { 0 };
        if valid < data.len() || !is_begun {
            let torn_tail = report(path, valid, data.len() - valid);
            // Both the last log with records and a newer one that was begun in vain may be torn. The first is reported.
            out.torn_tail.get_or_insert(torn_tail);
            if !is_newest {
                out.torn = Some((*number, valid as u64));
            }
        }
        out.log_number = *number;
        out.log_bytes = valid as u64;
    }
    Ok(out)
}

fn report(path: PathBuf, at: usize, bytes: usize) -> TornTail {
    tracing::warn!(
        file = %path.display(), at, bytes,
        "a crash interrupted the last write, which was not acknowledged; it is cut off"
    );
    TornTail { path, at, bytes }
}

fn damaged_header(path: PathBuf) -> RecoveryError {
    RecoveryError::Damaged { path, at: 0, is_last_write: false }
}

/// The logs behind the snapshot. None of them may be missing: a log is begun before the snapshot of its number, and removed
/// only when a later snapshot is safe.
fn logs_to_read(disk: &dyn Disk, snapshot: Option<u64>, logs: &[u64]) -> Result<Vec<u64>, RecoveryError> {
    let missing = |kind: FileKind, number: u64, why: String| {
        Err(RecoveryError::Missing { path: disk.path(&kind.name(number)), why })
    };
    let base = snapshot.unwrap_or(0);
    let logs: Vec<u64> = logs.iter().copied().filter(|number| *number >= base).collect();
    match (logs.first(), snapshot) {
        (Some(first), None) if *first > 0 => {
            let why = format!("{} continues it", FileKind::Log.name(*first));
            return missing(FileKind::Snapshot, *first, why);
        }
        (first, Some(base)) if first != Some(&base) => {
            let why = format!("{} is continued by it", FileKind::Snapshot.name(base));
            return missing(FileKind::Log, base, why);
        }
        _ => {}
    }
    for pair in logs.windows(2) {
        if pair[1] != pair[0] + 1 {
            let why = format!("{} continues it", FileKind::Log.name(pair[1]));
            return missing(FileKind::Log, pair[0] + 1, why);
        }
    }
    Ok(logs)
}

/// What a file contains, header included.
pub(super) struct FileContent {
    pub(super) data: Vec<u8>,
    /// False if a crash came before the header was on disk.
    pub(super) is_begun: bool,
}

/// Reads a file that must be one of this kind and number.
pub(super) fn read_file(disk: &dyn Disk, kind: FileKind, number: u64) -> Result<FileContent, RecoveryError> {
    let path = disk.path(&kind.name(number));
    let data = disk.read(&kind.name(number)).map_err(|e| RecoveryError::io(&path, e))?;
    let format = |why: &str| RecoveryError::Format { path: path.clone(), why: why.to_owned() };
    match kind.read_header(number, &data) {
        Header::Whole => Ok(FileContent { data, is_begun: true }),
        Header::Unfinished => Ok(FileContent { data, is_begun: false }),
        Header::Damaged => Err(damaged_header(path)),
        Header::OtherVersion(version) => Err(format(&format!("it has format version {version}, which is not known"))),
        Header::Foreign => Err(format("it has no format version: it is of a version before 1, or of another program")),
    }
}

/// Reads a log; gives its valid length, which is shorter than the file if a crash interrupted the last write.
fn read_log(path: &Path, data: &[u8], is_last: bool, changes: &mut Vec<Restored>) -> Result<usize, RecoveryError> {
    let mut at = HEADER_BYTES;
    loop {
        let found = frame_at(data, at);
        if let Found::Frame { content, next } = found
            && let Some(mut read) = read_record(content)
        {
            changes.append(&mut read);
            at = next;
            continue;
        }
        if at == data.len() {
            return Ok(at);
        }
        // A newer log is begun only after the older one is safe on disk, a group only after the one before it. Only the
        // last group may be incomplete, and none of it was acknowledged.
        let is_last_write = is_last && !a_later_group_follows(data, at);
        let is_interrupted = match found {
            Found::Cut => true,
            Found::Damaged => has_unwritten_sector(data, at),
            Found::Frame { .. } => false,
        };
        if !(is_last_write && is_interrupted) {
            return Err(RecoveryError::Damaged { path: path.to_owned(), at, is_last_write });
        }
        return Ok(at);
    }
}

/// Whether a whole frame behind `damaged` belongs to a group that was begun behind it.
fn a_later_group_follows(data: &[u8], damaged: usize) -> bool {
    let later = damaged + 1..data.len();
    later.into_iter().any(|at| {
        let group = data.get(at + FRAME_HEADER_BYTES..).and_then(|content| Reader(content).number());
        let begun = group.and_then(|group| usize::try_from(group).ok());
        // Looked at first, since it excludes nearly all positions and a checksum runs over the whole content.
        begun.is_some_and(|begun| begun > damaged && begun <= at) && matches!(frame_at(data, at), Found::Frame { .. })
    })
}

fn read_record(content: &[u8]) -> Option<Vec<Restored>> {
    let mut reader = Reader(content);
    // The start of its group, which matters only where the log is damaged.
    reader.number()?;
    let cluster: Arc<str> = reader.string()?.into();
    let mut out = Vec::new();
    while !reader.is_empty() {
        out.push(reader.change(&cluster)?);
    }
    Some(out)
}
