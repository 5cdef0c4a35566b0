//! The names and headers of the files in a data directory: type, format version and number.

use super::record::crc32;

/// The version of the format that is written and read.
const VERSION: u32 = 1;
/// Magic, version, number and a checksum of these.
pub(super) const HEADER_BYTES: usize = 28;

/// The kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Changes in the order in which they were made.
    Log,
    /// Everything up to the moment at which the log of the same number was begun.
    Snapshot,
}

impl FileKind {
    fn magic(self) -> &'static [u8; 12] {
        match self {
            FileKind::Log => b"apiserverLOG",
            FileKind::Snapshot => b"apiserverSNP",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            FileKind::Log => "log-",
            FileKind::Snapshot => "snapshot-",
        }
    }

    pub(super) fn name(self, number: u64) -> String {
        format!("{}{number:012}", self.prefix())
    }

    /// The numbers of the files of this kind, in order.
    pub(super) fn numbers(self, names: &[String]) -> Vec<u64> {
        let number = |name: &String| name.strip_prefix(self.prefix())?.parse().ok();
        let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    pub(super) fn header(self, number: u64) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..12].copy_from_slice(self.magic());
        out[12..16].copy_from_slice(&VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&number.to_le_bytes());
        let checksum = crc32(&out[..24]);
        out[24..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(super) fn read_header(self, number: u64, data: &[u8]) -> Header {
        let expected = self.header(number);
        let Some(found) = data.first_chunk::<HEADER_BYTES>() else {
            let is_begun = expected.starts_with(data) || data.iter().all(|byte| *byte == 0);
            return if is_begun { Header::Unfinished } else { Header::Foreign };
        };
        if *found == expected {
            return Header::Whole;
        }
        if found.iter().all(|byte| *byte == 0) {
            // Records follow a header only when it is on disk.
            return if data.len() == HEADER_BYTES { Header::Unfinished } else { Header::Damaged };
        }
        if found[..12] != expected[..12] {
            return if found[12..] == expected[12..] { Header::Damaged } else { Header::Foreign };
        }
        let version = u32::from_le_bytes([found[12], found[13], found[14], found[15]]);
        let is_undamaged = crc32(&found[..24]).to_le_bytes() == found[24..];
        if is_undamaged && version != VERSION { Header::OtherVersion(version) } else { Header::Damaged }
    }
}

/// The header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Whole,
    /// The file was created, and a crash came before the header was on disk.
    Unfinished,
    Damaged,
    /// Not a file of ours, or one of a version that had no header.
    Foreign,
    OtherVersion(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_the_kind_and_version_of_the_file() {
        let whole = FileKind::Log.header(7);
        assert_eq!(FileKind::Log.read_header(7, &whole), Header::Whole);
        assert_eq!(FileKind::Snapshot.read_header(7, &whole), Header::Foreign);
        assert_eq!(FileKind::Log.read_header(8, &whole), Header::Damaged, "it was renamed");
        for cut in 0..HEADER_BYTES {
            assert_eq!(FileKind::Log.read_header(7, &whole[..cut]), Header::Unfinished);
        }
        assert_eq!(FileKind::Log.read_header(7, &[0; HEADER_BYTES]), Header::Unfinished);
        assert_eq!(FileKind::Log.read_header(7, &[0; HEADER_BYTES + 1]), Header::Damaged);
        for byte in 0..HEADER_BYTES {
            let mut damaged = whole;
            damaged[byte] ^= 1;
            assert_eq!(FileKind::Log.read_header(7, &damaged), Header::Damaged, "byte {byte}");
        }
        let mut later = whole;
        later[12] = 2;
        let checksum = crc32(&later[..24]);
        later[24..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(FileKind::Log.read_header(7, &later), Header::OtherVersion(2));
    }

    #[test]
    fn file_names_have_numbers_and_other_files_are_ignored() {
        assert_eq!(FileKind::Log.name(3), "log-000000000003");
        let names =
            ["log-000000000012", "LOCK", "log-000000000003", "snapshot-000000000003", "log-x", "snapshot-1.tmp"];
        let names = names.map(str::to_owned);
        assert_eq!(FileKind::Log.numbers(&names), [3, 12]);
        assert_eq!(FileKind::Snapshot.numbers(&names), [3]);
    }
}
