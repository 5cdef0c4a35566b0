//! A data directory after a crash or after damage: it opens with a prefix of the acknowledged writes and reports what it cut off,
//! or it is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use apiserver::internals::DataDirectory;
use serde_json::{Value, json};

use super::{field, parsed, text};

pub(super) const WORDS: &[&str] =
    &["writes", "damage", "name", "object", "delete", "compact", "file", "at", "xor", "truncate", "remove", "append"];

/// Writes of one input at most: each waits for the disk.
const WRITES_MAX: usize = 8;
/// Damages of one input at most: fewer changed bytes than the zeros that make a record look like an interrupted write.
const DAMAGES_MAX: usize = 8;

/// Names of objects and their bytes.
type State = BTreeMap<String, Vec<u8>>;

/// The acknowledged writes.
#[derive(Default)]
struct Written {
    /// The states after each write, the empty one first.
    states: Vec<State>,
    /// Names and lengths that logs had behind a header or a record. A log that is cut there looks like one that was not
    /// written further.
    ends: BTreeSet<(PathBuf, u64)>,
    /// Length of the header of a log, in bytes.
    header: Option<u64>,
}

/// The result of opening a directory.
#[derive(Debug, PartialEq, Eq)]
struct Opened {
    state: State,
    is_torn: bool,
}

/// A JSON object: `writes` are made and acknowledged, then `damage` is done to the files, then the directory is opened.
pub(super) fn reopened(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let Ok(directory) = directory() else { return };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let written = runtime.block_on(written(directory.path(), &input));
    let Some(last) = written.states.last() else { return };
    let damage = field(&input, "damage");
    let damage = damage.as_array().into_iter().flatten().take(DAMAGES_MAX);
    let done: Vec<Damage> = damage.filter_map(|one| Damage::does(directory.path(), one)).collect();
    let before = contents(directory.path());
    match opened(directory.path()) {
        Err(error) => {
            assert!(!done.is_empty() && !error.is_empty(), "an undamaged directory is refused: {error}");
            assert_eq!(contents(directory.path()), before, "a refused directory was changed");
            assert_eq!(opened(directory.path()), Err(error), "the second opening differs");
        }
        Ok(Opened { state, is_torn }) => {
            assert!(written.states.contains(&state), "what is left is not a prefix of the acknowledged writes");
            let resized = |path: &PathBuf| done.contains(&Damage::Resized(path.clone()));
            let ends = before.iter().map(|(path, bytes)| (path.clone(), bytes.len() as u64));
            let is_cut_at_an_end = ends.filter(|(path, _)| resized(path)).any(|end| written.ends.contains(&end));
            let is_excused = is_torn || is_cut_at_an_end || done.contains(&Damage::RemovedNewestLog);
            assert!(&state == last || is_excused, "acknowledged writes are missing, and nothing is reported");
            let is_changed = |damage: &Damage| *damage == Damage::Changed;
            assert!(&state == last || !done.iter().all(is_changed), "changed bytes were taken for a crash");
            // What has been opened once opens again, as it was.
            assert_eq!(opened(directory.path()), Ok(Opened { state, is_torn: false }), "the second opening differs");
        }
    }
}

/// A directory in memory where the system has one: there a write that is synced costs nothing.
fn directory() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Makes the writes, each acknowledged before the next.
async fn written(directory: &Path, input: &Value) -> Written {
    let mut written = Written::default();
    let Ok(mut opened) = DataDirectory::open(directory) else {
        return written;
    };
    written.note(directory, &opened);
    for write in field(input, "writes").as_array().into_iter().flatten().take(WRITES_MAX) {
        let object = field(write, "object");
        let object = Some(&object).filter(|_| write.get("delete") != Some(&json!(true)));
        if opened.write(text(write, "name"), object).await {
            written.note(directory, &opened);
        }
        if write.get("compact") == Some(&json!(true)) {
            opened.compact();
        }
    }
    written
}

impl Written {
    fn note(&mut self, directory: &Path, opened: &DataDirectory) {
        self.states.push(opened.objects());
        let logs =
            logs(directory).into_iter().map(|path| (std::fs::metadata(&path).map_or(0, |file| file.len()), path));
        let logs: Vec<(u64, PathBuf)> = logs.collect();
        // Before the first write there is one log, and it has only its header.
        let header = *self.header.get_or_insert(logs.first().map_or(0, |(length, _)| *length));
        self.ends.extend(logs.into_iter().flat_map(|(length, path)| [(path.clone(), header), (path, length)]));
    }
}

fn opened(directory: &Path) -> Result<Opened, String> {
    let opened = DataDirectory::open(directory)?;
    Ok(Opened { state: opened.objects(), is_torn: opened.is_torn() })
}

/// Damage to a file.
#[derive(Debug, PartialEq, Eq)]
enum Damage {
    /// Bytes differ, and the length is the same.
    Changed,
    /// Bytes at the end are gone, or there are more: a crash does this, too.
    Resized(PathBuf),
    Removed,
    /// The file is gone without a trace.
    RemovedNewestLog,
}

impl Damage {
    /// Applies one part of the input; `None` if it has no effect.
    fn does(directory: &Path, what: &Value) -> Option<Self> {
        let number =
            |name: &str| what.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
        let files = files(directory);
        let path = files.get(number("file")? % files.len().max(1))?;
        let mut bytes = std::fs::read(path).ok()?;
        let length = bytes.len();
        if what.get("remove") == Some(&json!(true)) {
            let is_newest_log = logs(directory).last() == Some(path);
            std::fs::remove_file(path).ok()?;
            return Some(if is_newest_log { Self::RemovedNewestLog } else { Self::Removed });
        }
        let damage = if let Some(left_out) = number("truncate") {
            bytes.truncate(length.saturating_sub(1 + left_out % length.max(1)));
            (bytes.len() < length).then(|| Self::Resized(path.clone()))
        } else if let Some(Value::String(more)) = what.get("append") {
            bytes.extend(more.bytes());
            (bytes.len() > length).then(|| Self::Resized(path.clone()))
        } else {
            let (at, xor) = (number("at")?, u8::try_from(number("xor")? % 256).ok()?);
            *bytes.get_mut(at % length.max(1))? ^= xor;
            (xor != 0).then_some(Self::Changed)
        };
        std::fs::write(path, bytes).ok()?;
        damage
    }
}

/// Files with records, in the order of their names.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains('-'));
    let mut files: Vec<PathBuf> = entries.filter(is_ours).collect();
    files.sort();
    files
}

fn logs(directory: &Path) -> Vec<PathBuf> {
    let is_log = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"));
    files(directory).into_iter().filter(is_log).collect()
}

fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(directory).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap_or_default())).collect()
}
