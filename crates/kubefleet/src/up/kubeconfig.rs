//! The kubeconfig that `kubefleet up` leaves for kubectl.
//!
//! Decides where it may be written: never over a file that something else wrote. It holds tokens, so only its owner may
//! read it. What is added to the user's own file is `merge`'s.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::output::Hinted;

/// The first line of every file of ours, by which we know it again.
const MARK: &str = "# Written by kubefleet up, and overwritten at its next start.\n";

/// Fails if the file exists and is not ours, or cannot be written. Leaves everything as it was.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    let hinted = |what: String| Hinted { what, hint: "choose another file with --kubeconfig FILE".to_owned() };
    match fs::read_to_string(path) {
        Ok(text) if text.starts_with(MARK) || text.is_empty() => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Ok(_) => return Err(hinted(format!("{} exists and was not written by kubefleet up", path.display())).into()),
        Err(error) => return Err(hinted(format!("cannot read {}: {error}", path.display())).into()),
    }
    let aside = aside(path);
    let probe = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&aside);
    probe.map_err(|error| hinted(format!("cannot write {}: {error}", path.display())))?;
    fs::remove_file(&aside).with_context(|| format!("cannot remove {}", aside.display()))
}

/// Writes the file. Whoever reads it sees all of it or what was there before.
pub(crate) fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    replace(path, &format!("{MARK}{content}"))
}

/// Puts a text with secrets in the place of a file at once. One that is new is its owner's alone.
pub(super) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let aside = aside(path);
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&aside).with_context(failed)?;
    if let Ok(before) = fs::metadata(path) {
        file.set_permissions(before.permissions()).with_context(failed)?;
    }
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(failed)?;
    fs::rename(&aside, path).with_context(failed)
}

/// Where a file is written before it takes its place.
fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".kubefleet-new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_never_touched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        assert!(check(&path).is_ok(), "there is nothing yet");
        write(&path, "apiVersion: v1\n").unwrap();
        assert!(check(&path).is_ok(), "ours");
        write(&path, "kind: Config\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{MARK}kind: Config\n"));
        fs::write(&path, "apiVersion: v1\nkind: Config\n").unwrap();
        let error = check(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("{} exists and was not written by kubefleet up", path.display()));
        assert!(error.downcast_ref::<Hinted>().is_some());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_before_anything_starts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nowhere/config");
        let error = check(&path).unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot write {}: ", path.display())), "{error}");
        assert!(check(directory.path()).unwrap_err().to_string().starts_with("cannot read "), "a directory is no file");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        write(&path, "x").unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, "y").unwrap();
        assert_eq!(mode(), 0o640, "what the user has set stays");
    }
}
