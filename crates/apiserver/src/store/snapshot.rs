//! Snapshots: everything up to the start of the log with the same number (and possibly later changes, which replay skips
//! by revision).
//!
//! A snapshot is written to a temporary file and renamed, so an existing one is complete.

use std::io;
use std::sync::Arc;

use super::disk::{self, Disk, DiskFile};
use super::entry::ChangeKind;
use super::format::{FileKind, HEADER_BYTES};
use super::log::Image;
use super::record::{Found, Frame, Reader, frame_at};
use super::recovery::{FileContent, Recovered, RecoveryError, read_file};

/// Content of one snapshot frame is written out when it reaches this size, so that memory stays bounded.
const SNAPSHOT_FRAME_BYTES: usize = 1 << 20;

/// In place of a cluster's name in the last frame, which says how many came before.
const END: &str = "";

/// Reads snapshot `number`, which must be whole.
pub(super) fn read(disk: &dyn Disk, number: u64, out: &mut Recovered) -> Result<(), RecoveryError> {
    let path = disk.path(&FileKind::Snapshot.name(number));
    let damaged = |at| RecoveryError::Damaged { path: path.clone(), at, is_last_write: false };
    let FileContent { data, is_begun } = read_file(disk, FileKind::Snapshot, number)?;
    if !is_begun {
        return Err(damaged(0));
    }
    out.snapshot_bytes = data.len() as u64;
    let (mut at, mut frames) = (HEADER_BYTES, 0);
    loop {
        let Found::Frame { content, next } = frame_at(&data, at) else { return Err(damaged(at)) };
        let mut reader = Reader(content);
        let (cluster, number) = reader.string().zip(reader.number()).ok_or_else(|| damaged(at))?;
        if cluster == END {
            let is_whole = number == frames && next == data.len();
            return if is_whole { Ok(()) } else { Err(damaged(at)) };
        }
        read_entries(cluster.into(), number, reader, out).ok_or_else(|| damaged(at))?;
        (at, frames) = (next, frames + 1);
    }
}

fn read_entries(cluster: Arc<str>, revision: u64, mut reader: Reader<'_>, out: &mut Recovered) -> Option<()> {
    let image = out.images.entry(cluster.clone()).or_default();
    image.revision = revision;
    while !reader.is_empty() {
        let restored = reader.change(&cluster)?;
        if restored.problem.is_some() {
            out.set_aside.note(restored);
        } else {
            image.entries.push((restored.resource, Arc::new(restored.entry)));
        }
    }
    Some(())
}

/// Writes snapshot `number` and then removes what it replaces. Gives its size.
pub(super) fn write(disk: &dyn Disk, number: u64, images: &[(Arc<str>, Image)]) -> Result<u64, RecoveryError> {
    let name = FileKind::Snapshot.name(number);
    let mut bytes = 0;
    let written = disk::write_whole(disk, &name, |file| {
        bytes = write_frames(file, number, images)?;
        Ok(())
    });
    written.map_err(|e| RecoveryError::io(&disk.path(&name), e))?;
    // The snapshot and its name are safe on disk.
    let names = disk.names().map_err(|e| RecoveryError::io(&disk.path(""), e))?;
    for kind in [FileKind::Snapshot, FileKind::Log] {
        for old in kind.numbers(&names).into_iter().filter(|old| *old < number) {
            let name = kind.name(old);
            disk.remove(&name).map_err(|e| RecoveryError::io(&disk.path(&name), e))?;
        }
    }
    Ok(bytes)
}

fn write_frames(file: &mut dyn DiskFile, number: u64, images: &[(Arc<str>, Image)]) -> io::Result<u64> {
    file.append(&FileKind::Snapshot.header(number))?;
    let (mut total, mut frames) = (HEADER_BYTES as u64, 0);
    let mut buffer = Vec::new();
    for (cluster, image) in images {
        let mut rest = image.entries.as_slice();
        // At least one frame, so that an empty cluster keeps its revision.
        loop {
            let mut frame = Frame::start(&mut buffer);
            frame.text(cluster.as_bytes());
            frame.number(image.revision);
            let mut bytes = 0;
            while let [(resource, entry), more @ ..] = rest
                && bytes < SNAPSHOT_FRAME_BYTES
            {
                frame.change(resource, ChangeKind::Put, entry);
                bytes += entry.bytes.len();
                rest = more;
            }
            frame.finish();
            frames += 1;
            total += buffer.len() as u64;
            file.append(&buffer)?;
            buffer.clear();
            if rest.is_empty() {
                break;
            }
        }
    }
    let mut end = Frame::start(&mut buffer);
    end.text(END.as_bytes());
    end.number(frames);
    end.finish();
    file.append(&buffer)?;
    Ok(total + buffer.len() as u64)
}
