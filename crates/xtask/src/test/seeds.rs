//! The first seed of random tests, derived from the commit: every commit tries new cases, and every run of a commit tries the
//! same.

use std::fmt;
use std::path::Path;
use std::process::Command;

/// Hexadecimal digits of the commit in the seed.
const DIGITS: usize = 8;
/// Seed for sources outside of a repository, such as a release archive.
const WITHOUT_COMMIT: u64 = 20_261_116;

/// The first seed of all random cases of a run of the test command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seed {
    pub(super) number: u64,
    origin: String,
}

impl Seed {
    /// The given seed, or that of the commit.
    pub(super) fn choose(given: Option<u64>, root: &Path) -> Self {
        match (given, commit(root)) {
            (Some(number), _) => Self { number, origin: "given".to_owned() },
            (None, Some(commit)) => Self::of_commit(&commit),
            (None, None) => Self { number: WITHOUT_COMMIT, origin: "there is no commit".to_owned() },
        }
    }

    fn of_commit(commit: &str) -> Self {
        let digits = commit.get(..DIGITS).unwrap_or(commit);
        let number = u64::from_str_radix(digits, 16).unwrap_or(WITHOUT_COMMIT);
        Self { number, origin: format!("commit {digits}") }
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, origin } = self;
        write!(f, "random cases start at seed {number} ({origin}); `cargo xtask test --seed {number}` repeats them")
    }
}

fn commit(root: &Path) -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_22_every_commit_has_its_own_seed_and_says_how_to_repeat_it() {
        let seed = Seed::of_commit("00000abc0123456789abcdef0123456789abcdef");
        assert_eq!(seed.number, 0xabc);
        assert_eq!(
            seed.to_string(),
            "random cases start at seed 2748 (commit 00000abc); `cargo xtask test --seed 2748` repeats them"
        );
        assert_ne!(Seed::of_commit("ffffffff").number, seed.number);
    }

    #[test]
    fn audit_22_a_given_seed_wins_and_sources_without_a_commit_have_one() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Seed::choose(Some(7), directory.path()).number, 7);
        assert_eq!(Seed::choose(None, directory.path()).number, WITHOUT_COMMIT);
    }
}
