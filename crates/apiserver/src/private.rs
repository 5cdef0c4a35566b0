//! Creates files and directories that only their owner may read, for tokens and keys. On systems without Unix permissions
//! the parent directory decides.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a directory and those above it, as far as they do not exist.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Creates a file. Fails if the name exists, also as a link, so that another user cannot choose in advance where the content goes.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Removes what has the name, for example a file that a crash has left, and creates a file that only its owner may read.
pub fn replace_private_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => create_file(path),
    }
}

/// The permissions of a file or directory, if others than the owner have any.
pub(crate) fn permissions_of_others(path: &Path) -> io::Result<Option<u32>> {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path)?.permissions()) & 0o777;
        Ok((mode & 0o077 != 0).then_some(mode))
    }
    #[cfg(not(unix))]
    {
        fs::metadata(path).map(|_| None)
    }
}

/// Removes the permissions that others have. Returns those that were there, if any. Does not follow links.
pub(crate) fn restrict_to_owner(path: &Path) -> io::Result<Option<u32>> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Ok(None);
    }
    let found = permissions_of_others(path)?;
    #[cfg(unix)]
    if found.is_some() {
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    }
    Ok(found)
}
