//! Ensures one process per data directory with the operating system's lock on its `LOCK` file, which a crash releases.
//! The file holds the owner's process id for the error message.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// Held for as long as the directory is in use.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    /// Kept open: closing it gives the lock up.
    _file: File,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    #[error("it is in use by process {owner}")]
    InUse { owner: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl DirectoryLock {
    pub(super) fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join("LOCK");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = file.read_to_string(&mut owner);
                let owner = owner.trim();
                return Err(LockError::InUse { owner: if owner.is_empty() { "(unknown)" } else { owner }.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let held = DirectoryLock::acquire(directory.path()).unwrap();
        let refused = DirectoryLock::acquire(directory.path()).unwrap_err();
        assert_eq!(refused.to_string(), format!("it is in use by process {}", std::process::id()));
        drop(held);
        assert!(DirectoryLock::acquire(directory.path()).is_ok());
    }
}
