//! The kubeconfig that `kubefleet up` leaves for kubectl.
//!
//! Decides where it may be written: never over a file that something else wrote. It holds tokens, so only its owner may
//! read it.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;

use crate::output::Hinted;

/// The first line of every file of ours, by which we know it again.
const MARK: &str = "# Written by kubefleet up, and overwritten at its next start.\n";

/// Fails if the file exists and is not ours.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    match fs::read_to_string(path) {
        Ok(text) if text.starts_with(MARK) || text.is_empty() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) | Err(_) => Err(Hinted {
            what: format!("{} exists and was not written by kubefleet up", path.display()),
            hint: "choose another file with --kubeconfig FILE".to_owned(),
        }
        .into()),
    }
}

/// Writes the file. Whoever reads it sees all of it or what was there before.
pub(super) fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let temporary = path.with_extension("kubeconfig.new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary).with_context(failed)?;
    file.write_all(format!("{MARK}{content}").as_bytes()).with_context(failed)?;
    fs::rename(&temporary, path).with_context(failed)
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

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        write(&path, "x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
