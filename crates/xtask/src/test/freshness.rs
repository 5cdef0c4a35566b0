//! Remembers which tests have passed, keyed by names, sizes and times of their input files, under `target/`. Only passes are
//! recorded, and files that cannot be read count as changed: a failure must never count as a pass.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::Context as _;
use serde_json::{Value, json};

/// The file of the records, below the workspace.
const NOTES: &str = "target/xtask-test.json";
/// Inputs of builds and tests outside of `crates`.
const SHARED_INPUTS: &[&str] = &[
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "Containerfile",
    "charts",
    "config",
    "docs/INSTALL.md",
    "docs/STAGED-UPDATE.md",
    "examples",
    "fuzz/corpus",
    "rust-toolchain.toml",
];
/// Output directories.
const NOT_AN_INPUT: &[&str] = &["target", ".git"];

/// The input files of a result.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    files: BTreeMap<PathBuf, String>,
}

impl Seen {
    /// Adds one file.
    pub(super) fn file(mut self, path: &Path) -> anyhow::Result<Self> {
        self.add(path)?;
        Ok(self)
    }

    /// Adds everything below these directories.
    pub(super) fn directories(mut self, directories: &[PathBuf]) -> anyhow::Result<Self> {
        for directory in directories {
            self.walk(directory)?;
        }
        Ok(self)
    }

    /// Adds the inputs outside of `crates`.
    pub(super) fn shared(mut self, root: &Path) -> anyhow::Result<Self> {
        for path in SHARED_INPUTS.iter().map(|name| root.join(name)).filter(|path| path.exists()) {
            if path.is_dir() { self.walk(&path)? } else { self.add(&path)? }
        }
        Ok(self)
    }

    /// Adds the whole workspace except output directories.
    pub(super) fn workspace(mut self, root: &Path) -> anyhow::Result<Self> {
        for path in entries(root)? {
            if path.file_name().is_some_and(|name| NOT_AN_INPUT.iter().any(|not| *not == name)) {
                continue;
            }
            if path.is_dir() { self.walk(&path)? } else { self.add(&path)? }
        }
        Ok(self)
    }

    fn walk(&mut self, directory: &Path) -> anyhow::Result<()> {
        for path in entries(directory)? {
            if path.is_dir() { self.walk(&path)? } else { self.add(&path)? }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let facts = std::fs::symlink_metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        let changed = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        self.files.insert(path.to_owned(), format!("{} {}", facts.len(), changed.as_nanos()));
        Ok(())
    }

    /// A hash of the files.
    fn fingerprint(&self) -> String {
        let mut text = String::new();
        for seed in 0..2_u8 {
            let mut hasher = DefaultHasher::new();
            seed.hash(&mut hasher);
            self.files.hash(&mut hasher);
            // Writing to a string cannot fail.
            let _ = write!(text, "{:016x}", hasher.finish());
        }
        text
    }
}

fn entries(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let what = || format!("cannot read {}", directory.display());
    let paths = std::fs::read_dir(directory).with_context(what)?.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<Result<_, _>>().with_context(what)
}

/// The passed parts, by name.
#[derive(Debug)]
pub(super) struct Passed {
    path: PathBuf,
    notes: BTreeMap<String, Value>,
    run_all: bool,
    left_out: usize,
}

impl Passed {
    /// Reads the records of earlier runs. With `run_all` they are ignored and only written.
    pub(super) fn open(root: &Path, run_all: bool) -> Self {
        let path = root.join(NOTES);
        let text = std::fs::read(&path).unwrap_or_default();
        // Without readable records everything runs.
        let notes = serde_json::from_slice(&text).unwrap_or_default();
        Self { path, notes, run_all, left_out: 0 }
    }

    /// Whether this passed with exactly these files.
    pub(super) fn holds(&mut self, name: &str, seen: &Seen) -> bool {
        let note = self.notes.get(name).and_then(|note| note["seen"].as_str());
        let holds = !self.run_all && note == Some(seen.fingerprint().as_str());
        self.left_out += usize::from(holds);
        holds
    }

    /// The summary line of the pass.
    pub(super) fn closing_line(&self, name: &str) -> &str {
        self.notes.get(name).and_then(|note| note["closing"].as_str()).unwrap_or_default()
    }

    /// Records a pass and saves at once, so that a later failure does not lose it.
    pub(super) fn note(&mut self, name: &str, seen: &Seen, closing: Option<&str>) -> anyhow::Result<()> {
        self.notes.insert(name.to_owned(), json!({"seen": seen.fingerprint(), "closing": closing}));
        let text = serde_json::to_vec_pretty(&self.notes)?;
        std::fs::write(&self.path, text).with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Number of skipped parts.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn workspace() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for directory in ["target", "crates/one", "crates/two", "config"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for file in ["crates/one/a.rs", "crates/two/b.rs", "config/c.yaml", "target/d", "README.md"] {
            std::fs::write(root.path().join(file), "text").unwrap();
        }
        root
    }

    fn seen(root: &Path) -> Seen {
        Seen::default().directories(&[root.join("crates/one")]).unwrap().shared(root).unwrap()
    }

    #[test]
    fn a_part_stays_passed_until_one_of_its_inputs_changes() {
        let root = workspace();
        let root = root.path();
        let mut passed = Passed::open(root, false);
        assert!(!passed.holds("part", &seen(root)), "nothing has passed yet");
        passed.note("part", &seen(root), Some("9 passed")).unwrap();

        let mut later = Passed::open(root, false);
        assert!(later.holds("part", &seen(root)));
        assert_eq!(later.closing_line("part"), "9 passed");
        std::fs::write(root.join("crates/two/b.rs"), "another crate").unwrap();
        std::fs::write(root.join("target/d"), "a result").unwrap();
        std::fs::write(root.join("README.md"), "words").unwrap();
        assert!(later.holds("part", &seen(root)));
        for input in ["crates/one/a.rs", "config/c.yaml", "crates/one/new.rs"] {
            later.note("part", &seen(root), None).unwrap();
            std::fs::write(root.join(input), format!("changed {input}")).unwrap();
            assert!(!later.holds("part", &seen(root)), "{input}");
        }
        assert_eq!(later.left_out(), 2);
    }

    #[test]
    fn the_inputs_of_the_workspace_exclude_generated_files() {
        let root = workspace();
        let root = root.path();
        let before = Seen::default().workspace(root).unwrap().fingerprint();
        std::fs::write(root.join("target/d"), "another result").unwrap();
        assert_eq!(Seen::default().workspace(root).unwrap().fingerprint(), before);
        std::fs::write(root.join("README.md"), "other words").unwrap();
        assert_ne!(Seen::default().workspace(root).unwrap().fingerprint(), before);
    }

    #[test]
    fn with_all_every_part_runs() {
        let root = workspace();
        let mut passed = Passed::open(root.path(), true);
        passed.note("part", &seen(root.path()), None).unwrap();
        assert!(!passed.holds("part", &seen(root.path())));
    }

    #[test]
    fn an_unreadable_record_counts_as_missing() {
        let root = workspace();
        std::fs::write(root.path().join(NOTES), "{half").unwrap();
        assert!(!Passed::open(root.path(), false).holds("part", &seen(root.path())));
    }
}
