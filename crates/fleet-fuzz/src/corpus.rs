//! The inputs that mutation starts from: small files, one directory per target.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Longest input in bytes. Quadratic work shows at this size, and a run stays short.
pub const INPUT_BYTES_MAX: usize = 64 << 10;

/// Where the corpora are.
pub fn directory() -> PathBuf {
    repository().join("fuzz/corpus")
}

/// The repository that this program was built in.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// All inputs of a target, in the order of their file names.
pub fn inputs(target: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let directory = directory().join(target);
    let what = || format!("cannot read the corpus {}", directory.display());
    let entries = std::fs::read_dir(&directory).with_context(what)?;
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().with_context(what)?;
    files.sort();
    let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    files.iter().map(read).collect()
}
