//! The files of a data directory: snapshots, logs, and which of them count.
//!
//! `snapshot-N` holds everything up to the moment at which `log-N` was begun (and perhaps some of what followed, which
//! replay skips by revision). A snapshot is written aside and renamed, so it is whole if it is there. Decides what is
//! read at the start and what may be removed; never appends to a log.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::log::Image;
use super::record::{FRAME_HEADER_BYTES, Frame, Reader, Restored, frame_at};

#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error("cannot read or write {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is damaged at byte {at}, before its end")]
    Damaged { path: PathBuf, at: usize },
    #[error("the data directory {path} cannot be used: {reason}")]
    Refused { path: PathBuf, reason: String },
}

impl RecoveryError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// What a data directory holds.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    pub(super) images: BTreeMap<Arc<str>, Image>,
    /// Changes after the images (and some of those within), in order.
    pub(super) changes: Vec<Restored>,
    /// The number of the log to append to, and its valid length.
    pub(super) log_number: u64,
    pub(super) log_bytes: u64,
    pub(super) snapshot_bytes: u64,
}

pub(super) fn log_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("log-{number:012}"))
}

fn snapshot_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("snapshot-{number:012}"))
}

pub(super) fn recover(directory: &Path) -> Result<Recovered, RecoveryError> {
    let (snapshots, logs) = numbered_files(directory)?;
    let mut out = Recovered::default();
    let base = snapshots.last().copied().unwrap_or(0);
    if snapshots.is_empty() {
        out.log_number = 0;
    } else {
        read_snapshot(&snapshot_path(directory, base), &mut out)?;
    }
    let logs: Vec<u64> = logs.into_iter().filter(|n| *n >= base).collect();
    out.log_number = base;
    for (position, number) in logs.iter().enumerate() {
        let path = log_path(directory, *number);
        let data = fs::read(&path).map_err(|e| RecoveryError::io(&path, e))?;
        let valid = read_log(&data, &mut out.changes);
        // A newer log is begun only after the older one is safe on disk, a group only after the one before it. Only
        // what the last group wrote may be incomplete, and none of it was acknowledged.
        if valid < data.len() && (position + 1 < logs.len() || a_later_group_follows(&data, valid)) {
            return Err(RecoveryError::Damaged { path, at: valid });
        }
        out.log_number = *number;
        out.log_bytes = valid as u64;
    }
    Ok(out)
}

fn numbered_files(directory: &Path) -> Result<(Vec<u64>, Vec<u64>), RecoveryError> {
    let (mut snapshots, mut logs) = (Vec::new(), Vec::new());
    for file in fs::read_dir(directory).map_err(|e| RecoveryError::io(directory, e))? {
        let file = file.map_err(|e| RecoveryError::io(directory, e))?;
        let name = file.file_name();
        let name = name.to_string_lossy();
        if let Some(number) = name.strip_prefix("snapshot-").and_then(|n| n.parse().ok()) {
            snapshots.push(number);
        } else if let Some(number) = name.strip_prefix("log-").and_then(|n| n.parse().ok()) {
            logs.push(number);
        }
    }
    snapshots.sort_unstable();
    logs.sort_unstable();
    Ok((snapshots, logs))
}

/// Where the log stops being valid.
fn read_log(data: &[u8], changes: &mut Vec<Restored>) -> usize {
    let mut at = 0;
    while let Some((content, next)) = frame_at(data, at) {
        let Some(mut read) = read_record(content) else { return at };
        changes.append(&mut read);
        at = next;
    }
    at
}

/// Whether a whole frame behind `damaged` belongs to a group that was begun behind it.
fn a_later_group_follows(data: &[u8], damaged: usize) -> bool {
    let later = damaged + 1..data.len();
    later.into_iter().any(|at| {
        let group = data.get(at + FRAME_HEADER_BYTES..).and_then(|content| Reader(content).number());
        let begun = group.and_then(|group| usize::try_from(group).ok());
        // Looked at first, since it excludes nearly all positions and a checksum runs over the whole content.
        begun.is_some_and(|begun| begun > damaged && begun <= at) && frame_at(data, at).is_some()
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

fn read_snapshot(path: &Path, out: &mut Recovered) -> Result<(), RecoveryError> {
    let data = fs::read(path).map_err(|e| RecoveryError::io(path, e))?;
    out.snapshot_bytes = data.len() as u64;
    let mut at = 0;
    while at < data.len() {
        let damaged = || RecoveryError::Damaged { path: path.to_owned(), at };
        let (content, next) = frame_at(&data, at).ok_or_else(damaged)?;
        let mut reader = Reader(content);
        let cluster: Arc<str> = reader.string().ok_or_else(damaged)?.into();
        let revision = reader.number().ok_or_else(damaged)?;
        let image = out.images.entry(cluster.clone()).or_default();
        image.revision = revision;
        while !reader.is_empty() {
            let restored = reader.change(&cluster).ok_or_else(damaged)?;
            image.entries.push((restored.resource, Arc::new(restored.entry)));
        }
        at = next;
    }
    Ok(())
}

/// Content of one snapshot frame is written out when it reaches this size, so that memory stays bounded.
const SNAPSHOT_FRAME_BYTES: usize = 1 << 20;

/// Writes snapshot `number` and then removes what it replaces. Gives its size.
pub(super) fn write(directory: &Path, number: u64, images: &[(Arc<str>, Image)]) -> Result<u64, RecoveryError> {
    let path = snapshot_path(directory, number);
    let aside = directory.join("snapshot.tmp");
    let bytes = write_file(&aside, images).map_err(|e| RecoveryError::io(&aside, e))?;
    fs::rename(&aside, &path).map_err(|e| RecoveryError::io(&path, e))?;
    sync_directory(directory)?;
    let (snapshots, logs) = numbered_files(directory)?;
    let old = snapshots.into_iter().filter(|n| *n < number).map(|n| snapshot_path(directory, n));
    for path in old.chain(logs.into_iter().filter(|n| *n < number).map(|n| log_path(directory, n))) {
        fs::remove_file(&path).map_err(|e| RecoveryError::io(&path, e))?;
    }
    Ok(bytes)
}

fn write_file(path: &Path, images: &[(Arc<str>, Image)]) -> io::Result<u64> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut total = 0;
    let mut buffer = Vec::new();
    for (cluster, image) in images {
        let mut rest = image.entries.as_slice();
        // At least one frame, so that an empty cluster keeps its revision.
        loop {
            buffer.clear();
            let mut frame = Frame::start(&mut buffer);
            frame.text(cluster.as_bytes());
            frame.number(image.revision);
            let mut bytes = 0;
            while let [(resource, entry), more @ ..] = rest
                && bytes < SNAPSHOT_FRAME_BYTES
            {
                frame.change(resource, super::entry::ChangeKind::Put, entry);
                bytes += entry.bytes.len();
                rest = more;
            }
            frame.finish();
            total += buffer.len() as u64;
            file.write_all(&buffer)?;
            if rest.is_empty() {
                break;
            }
        }
    }
    file.flush()?;
    file.get_ref().sync_all()?;
    Ok(total)
}

/// Makes created, renamed and removed names durable.
pub(super) fn sync_directory(directory: &Path) -> Result<(), RecoveryError> {
    File::open(directory).and_then(|d| d.sync_all()).map_err(|e| RecoveryError::io(directory, e))
}
