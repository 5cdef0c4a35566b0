//! The format of records in a file: length, checksums, content. Detects truncated and damaged records.

use std::sync::Arc;

use bytes::Bytes;

use super::entry::{ChangeKind, Entry, Index};
use crate::registry::StorageKey;

/// How a frame begins: a byte that is never zero, which distinguishes it from a frame that was never written.
const FRAME_MAGIC: [u8; 4] = *b"\xA7REC";

/// Magic, length of the content, its checksum, and a checksum of these three.
pub(super) const FRAME_HEADER_BYTES: usize = 16;

/// Larger than any commit: a length beyond it means that what is read is no frame.
pub(super) const MAX_FRAME_BYTES: usize = 1 << 30;

/// The smallest unit that a disk writes whole or not at all, in bytes.
const SECTOR_BYTES: usize = 512;

/// One change as it is read back.
#[derive(Debug)]
pub(super) struct Restored {
    pub(super) cluster: Arc<str>,
    pub(super) resource: StorageKey,
    pub(super) kind: ChangeKind,
    pub(super) entry: Entry,
    /// Why the object cannot be read, although its bytes are undamaged.
    pub(super) problem: Option<String>,
}

/// Builds one frame; `finish` puts length and checksum in front.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Frame<'a> {
    pub(super) fn start(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        Self { out, start }
    }

    pub(super) fn number(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn text(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.out.extend_from_slice(value);
    }

    pub(super) fn change(&mut self, resource: &StorageKey, kind: ChangeKind, entry: &Entry) {
        self.text(resource.as_str().as_bytes());
        self.number(u64::from(kind == ChangeKind::Delete));
        self.number(entry.revision);
        self.number(u64::from(entry.revision_at));
        self.text(entry.key.as_bytes());
        self.text(&entry.bytes);
    }

    pub(super) fn finish(self) {
        let content = self.start + FRAME_HEADER_BYTES;
        let length = u32::try_from(self.out.len() - content).unwrap_or(u32::MAX);
        let checksum = crc32(&self.out[content..]);
        let header = &mut self.out[self.start..content];
        header[..4].copy_from_slice(&FRAME_MAGIC);
        header[4..8].copy_from_slice(&length.to_le_bytes());
        header[8..12].copy_from_slice(&checksum.to_le_bytes());
        let checksum = crc32(&header[..12]);
        header[12..].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The content at an offset of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A frame; the next one starts at `next`.
    Frame { content: &'a [u8], next: usize },
    /// The file ends within a frame.
    Cut,
    /// No frame, or one that was changed since it was written.
    Damaged,
}

pub(super) fn frame_at(data: &[u8], at: usize) -> Found<'_> {
    let Some(header) = data.get(at..).and_then(|rest| rest.first_chunk::<FRAME_HEADER_BYTES>()) else {
        return Found::Cut;
    };
    let number = |from: usize| u32::from_le_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]]);
    let length = number(4) as usize;
    if header[..4] != FRAME_MAGIC || crc32(&header[..12]) != number(12) || length == 0 || length > MAX_FRAME_BYTES {
        return Found::Damaged;
    }
    let start = at + FRAME_HEADER_BYTES;
    match data.get(start..start + length) {
        None => Found::Cut,
        Some(content) if crc32(content) == number(8) => Found::Frame { content, next: start + length },
        Some(_) => Found::Damaged,
    }
}

/// Whether a sector from `at` on was never written. A file that grew before a crash reads as zeros where its blocks did not
/// reach the disk; no record has a sector of zeros, since JSON has none. Fewer zeros than a frame header has bytes, where a
/// sector is shared with an older record or with the end of the file, do not count: they may as well be damage.
pub(super) fn has_unwritten_sector(data: &[u8], at: usize) -> bool {
    let mut start = at;
    while start < data.len() {
        let end = ((start / SECTOR_BYTES + 1) * SECTOR_BYTES).min(data.len());
        if end - start >= FRAME_HEADER_BYTES && data[start..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        start = end;
    }
    false
}

/// Reads what `Frame` wrote.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn number(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_at_checked(8)?;
        self.0 = rest;
        Some(u64::from_le_bytes(head.try_into().ok()?))
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn string(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.text()?).ok()
    }

    pub(super) fn change(&mut self, cluster: &Arc<str>) -> Option<Restored> {
        let resource = StorageKey::from(self.string()?);
        let kind = if self.number()? == 0 { ChangeKind::Put } else { ChangeKind::Delete };
        let revision = self.number()?;
        let revision_at = u32::try_from(self.number()?).ok()?;
        let key = Box::from(self.string()?);
        let bytes = Bytes::copy_from_slice(self.text()?);
        let (index, problem) = match serde_json::from_slice(&bytes) {
            Ok(object) => (Index::of(&object), None),
            Err(problem) => (Index::default(), Some(problem.to_string())),
        };
        let entry = Entry { key, revision, bytes, revision_at, shape: 0, index };
        Some(Restored { cluster: cluster.clone(), resource, kind, entry, problem })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// CRC-32 (IEEE), eight bytes at a time.
pub(super) fn crc32(data: &[u8]) -> u32 {
    let mut crc = !0_u32;
    let mut chunks = data.chunks_exact(8);
    for chunk in &mut chunks {
        let low = (crc ^ u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]])).to_le_bytes();
        crc = (0..4).fold(0, |crc, at| {
            crc ^ CRC_TABLES[7 - at][usize::from(low[at])] ^ CRC_TABLES[3 - at][usize::from(chunk[4 + at])]
        });
    }
    for byte in chunks.remainder() {
        let [low, ..] = crc.to_le_bytes();
        crc = (crc >> 8) ^ CRC_TABLES[0][usize::from(low ^ byte)];
    }
    !crc
}

static CRC_TABLES: [[u32; 256]; 8] = crc_tables();

const fn crc_tables() -> [[u32; 256]; 8] {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    let mut tables = [[0_u32; 256]; 8];
    let mut byte = 0;
    let mut number = 0_u32;
    while byte < 256 {
        let mut value = 0_u32;
        let mut bit = 0;
        let mut input = number;
        while bit < 8 {
            let low = (value ^ input) & 1;
            value >>= 1;
            if low == 1 {
                value ^= POLYNOMIAL;
            }
            input >>= 1;
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
        number += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let last = tables[table - 1][byte];
            tables[table][byte] = (last >> 8) ^ tables[0][(last & 0xFF) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"The quick brown fox jumps over the lazy dog"), 0x414F_A339);
    }

    #[test]
    fn complete_truncated_and_damaged_frames_are_distinguished() {
        let mut data = Vec::new();
        let mut frame = Frame::start(&mut data);
        frame.text(b"hello");
        frame.number(7);
        frame.finish();
        let Found::Frame { content, next } = frame_at(&data, 0) else { panic!("no frame") };
        let mut reader = Reader(content);
        assert_eq!((reader.string(), reader.number(), reader.is_empty()), (Some("hello"), Some(7), true));
        assert_eq!(next, data.len());
        for cut in 0..data.len() {
            assert_eq!(frame_at(&data[..cut], 0), Found::Cut);
        }
        for position in 0..data.len() {
            let mut damaged = data.clone();
            damaged[position] ^= 1;
            assert_eq!(frame_at(&damaged, 0), Found::Damaged, "byte {position}");
        }
    }

    #[test]
    fn sectors_that_were_never_written_are_found() {
        let written = vec![b'x'; 2000];
        assert!(!has_unwritten_sector(&written, 100));
        for (zeros, unwritten) in [(512..1024, true), (513..1024, false), (100..512, true), (1536..2000, true)] {
            let mut data = written.clone();
            data[zeros.clone()].fill(0);
            assert_eq!(has_unwritten_sector(&data, 100), unwritten, "{zeros:?}");
        }
        assert!(
            !has_unwritten_sector(&[0; FRAME_HEADER_BYTES - 1], 0) && has_unwritten_sector(&[0; FRAME_HEADER_BYTES], 0)
        );
    }
}
