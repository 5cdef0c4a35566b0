//! The kubeconfig that `kubefleet up` writes. Never overwrites a file of another program. The file contains tokens, so only
//! its owner may read it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use apiserver::replace_private_file;

use crate::output::Hinted;

/// The first line of every file that `kubefleet up` writes.
const MARK: &str = "# Written by kubefleet up, and overwritten at its next start.\n";

/// Fails if the file belongs to another program or cannot be written. Changes nothing.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    let hinted = |what: String| Hinted { what, hint: "choose another file with --kubeconfig FILE".to_owned() };
    match fs::read_to_string(path) {
        Ok(text) if text.starts_with(MARK) || text.is_empty() => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Ok(_) => return Err(hinted(format!("{} exists and was not written by kubefleet up", path.display())).into()),
        Err(error) => return Err(hinted(format!("cannot read {}: {error}", path.display())).into()),
    }
    let aside = aside(path);
    replace_private_file(&aside).map_err(|error| hinted(format!("cannot write {}: {error}", path.display())))?;
    fs::remove_file(&aside).with_context(|| format!("cannot remove {}", aside.display()))
}

/// Writes the file atomically.
pub(crate) fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    replace(path, &format!("{MARK}{content}"))
}

/// Replaces a file with secrets atomically. A new file is readable only by its owner. Group permissions of an existing file are
/// kept, permissions of others are removed.
pub(super) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let aside = aside(path);
    let mut file = replace_private_file(&aside).with_context(failed)?;
    #[cfg(unix)]
    if let Ok(before) = fs::metadata(path) {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = before.permissions().mode() & 0o770;
        file.set_permissions(fs::Permissions::from_mode(mode)).with_context(failed)?;
    }
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(failed)?;
    fs::rename(&aside, path).with_context(failed)
}

/// The temporary file, which is then renamed.
fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".kubefleet-new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_programs_are_not_overwritten() {
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
    fn an_unwritable_path_is_reported_before_anything_starts() {
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
        assert_eq!(mode(), 0o640, "what the user has given to a group stays");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, "z").unwrap();
        assert_eq!(mode(), 0o640, "others must not read tokens");
    }

    #[cfg(unix)]
    #[test]
    fn audit_12_a_planted_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("config"), directory.path().join("other"));
        fs::write(&other, "theirs").unwrap();
        for attempt in 0..2 {
            std::os::unix::fs::symlink(&other, aside(&path)).unwrap();
            if attempt == 0 {
                check(&path).unwrap();
            } else {
                write(&path, "tokens").unwrap();
            }
            assert_eq!(fs::read_to_string(&other).unwrap(), "theirs", "attempt {attempt}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{MARK}tokens"));
    }
}
