//! What a token is, when it is fetched again, and how it is written down.
//!
//! Decides that half of a token's remaining life is waited, and that nobody but its owner reads the file. Never shows the
//! token itself.

use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

/// A source that gives tokens which end at once is not asked all the time.
const SHORTEST_PAUSE: Duration = Duration::from_secs(5);
/// Readable and writable for the owner.
const OWNER_ONLY: u32 = 0o600;

/// A bearer token for the hub.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    text: String,
    pub(super) expires: Timestamp,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl Token {
    pub(super) fn new(text: String, expires: Timestamp) -> Self {
        Self { text, expires }
    }

    /// Writes the token, as it is, to a file that is complete at any moment: whoever reads it sees the old one or the new one.
    /// Says whether there was anything to write.
    pub(super) fn write(&self, path: &Path) -> io::Result<bool> {
        if std::fs::read(path).is_ok_and(|kept| kept == self.text.as_bytes()) {
            return Ok(false);
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let staged = path.with_file_name(format!(".{}.new", name.display()));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(OWNER_ONLY).open(&staged)?;
        // One that was left behind may have had other permissions.
        file.set_permissions(std::fs::Permissions::from_mode(OWNER_ONLY))?;
        file.write_all(self.text.as_bytes())?;
        std::fs::rename(staged, path)?;
        Ok(true)
    }
}

/// When a token that ends then is fetched again: after half of its remaining life.
pub(super) fn refresh_at(expires: Timestamp, now: Timestamp) -> Timestamp {
    let left = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
    now.checked_add((left / 2).max(SHORTEST_PAUSE)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn half_of_the_remaining_life_is_waited() {
        assert_eq!(refresh_at(at(24 * 3600), at(0)), at(12 * 3600));
        assert_eq!(refresh_at(at(1060), at(1000)), at(1030));
        for (expires, case) in [(1002, "nearly over"), (1000, "over"), (10, "long over")] {
            assert_eq!(refresh_at(at(expires), at(1000)), at(1005), "{case}");
        }
        assert!(refresh_at(Timestamp::MAX, at(0)) > at(0));
    }

    #[test]
    fn the_file_is_the_token_and_only_its_owner_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let token = |text: &str| Token::new(text.to_owned(), at(0));
        assert!(token("first").write(&path).unwrap());
        assert!(!token("first").write(&path).unwrap(), "it is there already");
        assert!(token("second, longer").write(&path).unwrap());
        assert!(token("3rd").write(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3rd");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(files.len(), 1, "nothing else is left");
        assert!(token("x").write(&directory.path().join("missing/token")).is_err());
        assert!(token("x").write(Path::new("/")).is_err());
    }

    #[test]
    fn a_left_over_of_a_crash_does_not_give_the_token_away() {
        let directory = tempfile::tempdir().unwrap();
        let left_over = directory.path().join(".token.new");
        std::fs::write(&left_over, "half").unwrap();
        std::fs::set_permissions(&left_over, std::fs::Permissions::from_mode(0o644)).unwrap();
        let path = directory.path().join("token");
        Token::new("whole".to_owned(), at(0)).write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_token_is_not_shown() {
        let shown = format!("{:?}", Token::new("hush".to_owned(), at(0)));
        assert!(shown.contains("1970") && !shown.contains("hush"), "{shown}");
    }
}
