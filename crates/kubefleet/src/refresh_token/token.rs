//! A token: when it is refreshed, and how it is written to a file that only its owner can read. `Debug` must not show the
//! token.

use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

/// Minimum delay, for sources whose tokens expire at once.
const SHORTEST_PAUSE: Duration = Duration::from_secs(5);
/// Read and write for the owner.
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

    /// Writes the token to the file atomically. Returns whether the content changed.
    pub(super) fn write(&self, path: &Path) -> io::Result<bool> {
        if std::fs::read(path).is_ok_and(|kept| kept == self.text.as_bytes()) {
            return Ok(false);
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let staged = path.with_file_name(format!(".{}.new", name.display()));
        // A leftover file may have other permissions or be a link.
        match std::fs::remove_file(&staged) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(OWNER_ONLY).open(&staged)?;
        file.write_all(self.text.as_bytes())?;
        std::fs::rename(staged, path)?;
        Ok(true)
    }
}

/// When to refresh a token: after half of its remaining lifetime.
pub(super) fn refresh_at(expires: Timestamp, now: Timestamp) -> Timestamp {
    let left = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
    now.checked_add(left.checked_div(2).unwrap_or_default().max(SHORTEST_PAUSE)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_is_refreshed_after_half_of_its_remaining_lifetime() {
        assert_eq!(refresh_at(at(24 * 3600), at(0)), at(12 * 3600));
        assert_eq!(refresh_at(at(1060), at(1000)), at(1030));
        for (expires, case) in [(1002, "nearly over"), (1000, "over"), (10, "long over")] {
            assert_eq!(refresh_at(at(expires), at(1000)), at(1005), "{case}");
        }
        assert!(refresh_at(Timestamp::MAX, at(0)) > at(0));
    }

    #[test]
    fn the_file_contains_only_the_token_and_is_private() {
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
    fn a_leftover_file_of_a_crash_does_not_leak_the_token() {
        let directory = tempfile::tempdir().unwrap();
        let left_over = directory.path().join(".token.new");
        std::fs::write(&left_over, "half").unwrap();
        std::fs::set_permissions(&left_over, std::fs::Permissions::from_mode(0o644)).unwrap();
        let path = directory.path().join("token");
        Token::new("whole".to_owned(), at(0)).write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn audit_12_a_planted_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("token"), directory.path().join("other"));
        std::fs::write(&other, "theirs").unwrap();
        std::os::unix::fs::symlink(&other, directory.path().join(".token.new")).unwrap();
        Token::new("secret".to_owned(), at(0)).write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "theirs");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "secret");
    }

    #[test]
    fn debug_output_does_not_contain_the_token() {
        let shown = format!("{:?}", Token::new("hush".to_owned(), at(0)));
        assert!(shown.contains("1970") && !shown.contains("hush"), "{shown}");
    }
}
