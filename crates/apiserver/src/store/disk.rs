//! The file operations of durability, for one directory.
//!
//! The log, snapshots and recovery use a directory only through `Disk`, so that tests can crash between any two
//! operations and drop what was not synced.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::private;

/// A directory of files. A name is durable once `sync_names` has returned, content once `DiskFile::sync` has.
pub(super) trait Disk: Send + Sync + fmt::Debug {
    /// Creates the directory and those above it, as far as they do not exist, durably.
    fn make(&self) -> io::Result<()>;
    fn names(&self) -> io::Result<Vec<String>>;
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// A new, empty file. Fails if the name exists.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// A file that exists, to append to its first `length` bytes. What is behind them is cut off.
    fn open(&self, name: &str, length: u64) -> io::Result<Box<dyn DiskFile>>;
    /// Replaces what has the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes created, renamed and removed names durable.
    fn sync_names(&self) -> io::Result<()>;
    /// Where a file is, for messages.
    fn path(&self, name: &str) -> PathBuf;
}

/// An open file at whose end bytes are written.
pub(super) trait DiskFile: Send {
    /// After a failure some of the bytes may be there.
    fn append(&mut self, data: &[u8]) -> io::Result<()>;
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Makes the content durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A directory of the file system.
#[derive(Debug, Clone)]
pub(super) struct Directory(pub(super) PathBuf);

impl Disk for Directory {
    fn make(&self) -> io::Result<()> {
        let missing = self.0.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).count();
        let mut paths: Vec<&Path> = self.0.ancestors().take(missing + 1).collect();
        paths.reverse();
        for (number, path) in paths.into_iter().enumerate() {
            let Some(above) = path.parent() else { continue };
            private::create_directory(path)?;
            match sync_directory(above) {
                // The first one exists. It is synced because a process that was killed may have created it, which could
                // not have done so in a directory that it may not open.
                Err(error) if number == 0 && error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let name = |file: io::Result<fs::DirEntry>| file.map(|file| file.file_name().to_string_lossy().into_owned());
        fs::read_dir(&self.0)?.map(name).collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path(name))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(private::create_file(&self.path(name))?))
    }

    fn open(&self, name: &str, length: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut file = OpenOptions::new().write(true).open(self.path(name))?;
        file.truncate(length)?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        sync_directory(&self.0)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl DiskFile for File {
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.write_all(data)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(drop)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

/// Writes a whole file durably: under another name first, so that a crash leaves all of it or nothing.
pub(super) fn write_whole(
    disk: &dyn Disk,
    name: &str,
    fill: impl FnOnce(&mut dyn DiskFile) -> io::Result<()>,
) -> io::Result<()> {
    let aside = format!("{name}{ASIDE}");
    let written = write_aside(disk, &aside, fill).and_then(|()| disk.rename(&aside, name));
    if written.is_err() {
        // Frees the space; the next attempt would remove the file anyway.
        let _ = disk.remove(&aside);
    }
    written?;
    disk.sync_names()
}

/// How the name of a file ends that is not complete.
pub(super) const ASIDE: &str = ".tmp";

fn write_aside(disk: &dyn Disk, aside: &str, fill: impl FnOnce(&mut dyn DiskFile) -> io::Result<()>) -> io::Result<()> {
    match disk.remove(aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = disk.create(aside)?;
    fill(&mut *file)?;
    file.sync()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Files and directories of `/dev` and `/proc` cannot be synced. That the operating system says so shows that it is asked.
    #[test]
    fn audit_16_each_sync_reaches_the_operating_system() {
        let mut device = OpenOptions::new().write(true).open("/dev/null").unwrap();
        assert!(DiskFile::sync(&mut device).is_err());
        assert!(Directory(PathBuf::from("/proc")).sync_names().is_err());
        assert!(Directory(PathBuf::from("/proc/self")).make().is_err());
    }

    #[test]
    fn a_directory_is_created_with_those_above_it_and_may_exist() {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory(parent.path().join("one/two"));
        directory.make().unwrap();
        directory.make().unwrap();
        assert!(parent.path().join("one/two").is_dir());
    }
}
