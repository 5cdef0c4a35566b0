//! The log: acknowledged writes survive, wherever the file is cut.

use std::fs;
use std::path::Path;

use super::*;
use crate::store::file_log::{CompactionLimits, FileLog, RecoveryError, Stores, open};

fn opened(path: &Path) -> (Arc<FileLog>, Stores) {
    open(path, HistoryLimits::default(), CompactionLimits::default()).unwrap()
}

fn everything(store: &Store) -> Vec<String> {
    printed(&store.peek_list(&resource(), None, None, usize::MAX, None).unwrap().entries)
}

fn last_log(path: &Path) -> std::path::PathBuf {
    let names = fs::read_dir(path).unwrap().map(|f| f.unwrap().path());
    names.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with("log-")).max().unwrap()
}

#[tokio::test]
async fn everything_acknowledged_is_there_after_a_restart_in_every_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = opened(directory.path());
    for cluster in ["one", "two"] {
        let store = Store::new(cluster, log.clone(), HistoryLimits::default());
        store.commit(vec![put("a", 1, Expect::Absent), put("b", 1, Expect::Absent)], &[]).await.unwrap();
        store.commit(vec![put("a", 2, Expect::Any)], &[]).await.unwrap();
        store.commit(vec![delete("b", Expect::Any)], &[]).await.unwrap();
    }
    drop(log);
    let (_log, stores) = opened(directory.path());
    assert_eq!(stores.keys().collect::<Vec<_>>(), ["one", "two"]);
    for store in stores.values() {
        assert_eq!((everything(store), store.revision()), (vec!["a=2@4".to_owned()], 5));
        let mut resumed = store.watch(&resource(), 3).unwrap();
        let events = resumed.ready().unwrap();
        assert_eq!(printed(events.iter().map(|e| &e.entry)), ["a=2@4", "b=1@5"], "watches resume across a restart");
    }
}

#[tokio::test]
async fn a_log_cut_at_any_byte_gives_a_prefix_of_the_writes() {
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = opened(directory.path());
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    let path = last_log(directory.path());
    let mut states = vec![(0, Vec::new(), 1)];
    for value in 0..6 {
        let changes = vec![put("a", value, Expect::Any), put(&format!("k{value}"), value, Expect::Any)];
        store.commit(changes, &[]).await.unwrap();
        states.push((fs::metadata(&path).unwrap().len(), everything(&store), store.revision()));
    }
    drop((store, log));
    let whole = fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join(path.file_name().unwrap()), &whole[..cut]).unwrap();
        let log: Arc<dyn Log> = Arc::new(MemoryLog);
        let disk = crate::store::disk::Directory(copy.path().to_owned());
        let recovered = crate::store::recovery::recover(&disk).unwrap();
        let (stores, _) = crate::store::file_log::restore(&log, recovered, HistoryLimits::default());
        let (_, expected, revision) = states.iter().rfind(|(length, _, _)| *length <= cut as u64).unwrap();
        let store = stores.get("c").cloned().unwrap_or_else(|| Store::new("c", log, HistoryLimits::default()));
        assert_eq!((&everything(&store), store.revision()), (expected, *revision), "cut at byte {cut}");
    }
}

#[tokio::test]
async fn writing_continues_after_a_torn_tail() {
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = opened(directory.path());
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    store.commit(vec![put("a", 1, Expect::Any)], &[]).await.unwrap();
    store.commit(vec![put("a", 2, Expect::Any)], &[]).await.unwrap();
    drop((store, log));
    let path = last_log(directory.path());
    let length = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 3).unwrap();
    let (log, stores) = opened(directory.path());
    let store = stores["c"].clone();
    assert_eq!(everything(&store), ["a=1@2"]);
    let torn = log.torn_tail().unwrap();
    assert_eq!((&torn.path, torn.at + torn.bytes + 3), (&path, usize::try_from(length).unwrap()), "it is reported");
    store.commit(vec![put("b", 5, Expect::Any)], &[]).await.unwrap();
    drop((store, stores, log));
    let (_log, stores) = opened(directory.path());
    assert_eq!(everything(&stores["c"]), ["a=1@2", "b=5@3"]);
}

#[tokio::test]
async fn snapshots_replace_logs_and_keep_empty_clusters_revisions() {
    let directory = tempfile::tempdir().unwrap();
    let limits = CompactionLimits { minimum_bytes: 600, snapshot_factor: 1 };
    let (log, _) = open(directory.path(), HistoryLimits::default(), limits).unwrap();
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    let gone = Store::new("empty", log.clone(), HistoryLimits::default());
    gone.commit(vec![put("x", 1, Expect::Any)], &[]).await.unwrap();
    gone.commit(vec![delete("x", Expect::Any)], &[]).await.unwrap();
    for value in 0..200 {
        store.commit(vec![put(&format!("k{}", value % 7), value, Expect::Any)], &[]).await.unwrap();
    }
    log.compact();
    let (expected, revision) = (everything(&store), store.revision());
    drop((store, gone, log));
    let files: Vec<String> =
        fs::read_dir(directory.path()).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files.iter().filter(|f| f.starts_with("snapshot-")).count(), 1, "{files:?}");
    assert_eq!(files.iter().filter(|f| f.starts_with("log-")).count(), 1, "{files:?}");
    let (_log, stores) = opened(directory.path());
    assert_eq!((everything(&stores["c"]), stores["c"].revision()), (expected, revision));
    assert_eq!((everything(&stores["empty"]), stores["empty"].revision()), (Vec::new(), 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writes_are_all_acknowledged_and_recovered() {
    let directory = tempfile::tempdir().unwrap();
    let limits = CompactionLimits { minimum_bytes: 20_000, snapshot_factor: 1 };
    let (log, _) = open(directory.path(), HistoryLimits::default(), limits).unwrap();
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    let writers = (0..16).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for value in 0..25 {
                store.commit(vec![put(&format!("w{writer}/{value}"), value, Expect::Absent)], &[]).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let expected = everything(&store);
    assert_eq!(expected.len(), 400);
    drop((store, log));
    let (_log, stores) = opened(directory.path());
    assert_eq!(everything(&stores["c"]), expected);
}

#[tokio::test]
async fn a_directory_in_use_is_refused_with_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let _held = opened(directory.path());
    let refused = open(directory.path(), HistoryLimits::default(), CompactionLimits::default()).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("cannot be used: it is in use by process "), "{text}");
    assert!(text.contains(&std::process::id().to_string()), "{text}");
}

#[tokio::test]
async fn damage_before_the_end_is_reported_not_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = opened(directory.path());
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    store.commit(vec![put("a", 1, Expect::Any)], &[]).await.unwrap();
    drop((store, log));
    let first = last_log(directory.path());
    fs::write(directory.path().join("log-000000000001"), b"").unwrap();
    let mut bytes = fs::read(&first).unwrap();
    bytes[20] ^= 1;
    fs::write(&first, bytes).unwrap();
    let refused = open(directory.path(), HistoryLimits::default(), CompactionLimits::default()).unwrap_err();
    assert!(refused.to_string().contains("is damaged at byte 0"), "{refused}");
}

fn refused(path: &Path) -> RecoveryError {
    open(path, HistoryLimits::default(), CompactionLimits::default()).unwrap_err()
}

/// A directory with a log of three commits; gives the path of the log and where each record ends.
async fn three_commits(directory: &Path) -> (std::path::PathBuf, Vec<usize>) {
    let (log, _) = opened(directory);
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    let path = last_log(directory);
    let length = || usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
    let mut ends = vec![length()];
    for number in 1..=3 {
        store.commit(vec![put("a", number, Expect::Any)], &[]).await.unwrap();
        ends.push(length());
    }
    (path, ends)
}

#[tokio::test]
async fn audit_16_a_flipped_bit_anywhere_in_a_log_is_refused_with_its_position() {
    let directory = tempfile::tempdir().unwrap();
    let (path, ends) = three_commits(directory.path()).await;
    let whole = fs::read(&path).unwrap();
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 1 << (position % 8);
        fs::write(&path, &damaged).unwrap();
        let error = refused(directory.path());
        let start = ends.iter().rfind(|end| **end <= position).copied().unwrap_or(0);
        let part = if start == ends[2] { "in its last write" } else { "before its end" };
        let place = format!("{} is damaged at byte {start}, {part}", path.display());
        assert_eq!(error.to_string(), place, "byte {position}");
        assert!(error.recovery_hint().unwrap().starts_with("nothing was changed"), "byte {position}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "nothing was changed");
    }
    // The documented recovery for the last write.
    fs::write(&path, &whole[..ends[2]]).unwrap();
    assert_eq!(everything(&opened(directory.path()).1["c"]), ["a=2@3"]);
}

#[tokio::test]
async fn audit_16_a_last_write_whose_blocks_did_not_reach_the_disk_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let (path, ends) = three_commits(directory.path()).await;
    let whole = fs::read(&path).unwrap();
    assert!(ends[3] < 1024 && ends[2] < 512 && ends[3] > 512, "{ends:?}");
    // The file has its new length, but one of the two sectors of the last record, or both, or more, read as zeros.
    for (unwritten, length) in
        [(ends[2]..512, ends[3]), (512..ends[3], ends[3]), (ends[2]..ends[3], ends[3]), (ends[2]..8192, 8192)]
    {
        let mut torn = whole.clone();
        torn.resize(length, 0);
        torn[unwritten.clone()].fill(0);
        fs::write(&path, &torn).unwrap();
        let (log, stores) = opened(directory.path());
        assert_eq!(everything(&stores["c"]), ["a=2@3"], "{unwritten:?}");
        drop((log, stores));
        assert_eq!(usize::try_from(fs::metadata(&path).unwrap().len()).unwrap(), ends[2]);
    }
}

#[tokio::test]
async fn audit_16_a_torn_log_before_an_empty_one_is_truncated_for_good() {
    for header in [0, 9] {
        let directory = tempfile::tempdir().unwrap();
        let (path, ends) = three_commits(directory.path()).await;
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..ends[3] - 1]).unwrap();
        let newer = directory.path().join("log-000000000001");
        fs::write(&newer, &crate::store::format::FileKind::Log.header(1)[..header]).unwrap();
        let (log, stores) = opened(directory.path());
        assert_eq!(log.torn_tail().map(|torn| (&torn.path, torn.at)), Some((&path, ends[2])));
        stores["c"].commit(vec![put("b", 1, Expect::Any)], &[]).await.unwrap();
        drop((log, stores));
        let (log, stores) = opened(directory.path());
        assert_eq!((everything(&stores["c"]), log.torn_tail()), (vec!["a=2@3".to_owned(), "b=1@4".to_owned()], None));
    }
}

#[tokio::test]
async fn audit_16_a_missing_file_is_refused_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = opened(directory.path());
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    store.commit(vec![put("a", 1, Expect::Any)], &[]).await.unwrap();
    log.compact();
    drop((store, log));
    let (snapshot, log) = ("snapshot-000000000001", "log-000000000001");
    for (missing, because) in
        [(snapshot, "log-000000000001 continues it"), (log, "snapshot-000000000001 is continued by it")]
    {
        let path = directory.path().join(missing);
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(refused(directory.path()).to_string(), format!("{} is missing: {because}", path.display()));
        fs::write(&path, content).unwrap();
    }
    // Its header was on disk before the snapshot was written.
    let path = directory.path().join(log);
    let content = fs::read(&path).unwrap();
    fs::write(&path, &content[..9]).unwrap();
    let error = refused(directory.path()).to_string();
    assert_eq!(error, format!("{} is damaged at byte 0, before its end", path.display()));
    fs::write(&path, content).unwrap();
    fs::write(directory.path().join("log-000000000003"), b"").unwrap();
    assert!(
        refused(directory.path()).to_string().contains("log-000000000002 is missing: log-000000000003 continues it")
    );
    fs::remove_file(directory.path().join("log-000000000003")).unwrap();

    // A snapshot is whole or refused, wherever it is cut or changed.
    let path = directory.path().join(snapshot);
    let whole = fs::read(&path).unwrap();
    for position in 0..whole.len() {
        fs::write(&path, &whole[..position]).unwrap();
        assert!(matches!(refused(directory.path()), RecoveryError::Damaged { .. }), "cut at byte {position}");
        let mut damaged = whole.clone();
        damaged[position] ^= 1;
        fs::write(&path, damaged).unwrap();
        let error = refused(directory.path());
        assert!(
            matches!(error, RecoveryError::Damaged { .. } | RecoveryError::Format { .. }),
            "byte {position}: {error}"
        );
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(everything(&opened(directory.path()).1["c"]), ["a=1@2"]);
}

#[tokio::test]
async fn audit_16_files_of_another_version_are_refused_and_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    // As the first version wrote it: length and checksum, without magic.
    let path = directory.path().join("log-000000000000");
    let old = b"\x05\x00\x00\x00\x86\xa6\x10\x36hello, and then some more records";
    fs::write(&path, old).unwrap();
    let error = refused(directory.path());
    let says = "cannot be read: it has no format version: it is of a version before 1, or of another program";
    assert!(error.to_string().ends_with(says), "{error}");
    assert!(error.recovery_hint().unwrap().contains("use the version that wrote it"));
    assert_eq!(fs::read(&path).unwrap(), old);
}

#[tokio::test]
async fn a_crash_at_any_step_of_a_compaction_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = opened(directory.path());
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    for value in 0..20 {
        store.commit(vec![put(&format!("k{}", value % 3), value, Expect::Any)], &[]).await.unwrap();
    }
    let old_log = fs::read(last_log(directory.path())).unwrap();
    log.compact();
    // A write that comes earlier shares a group with the request and still goes to the old log.
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !directory.path().join("log-000000000001").exists() {
        assert!(std::time::Instant::now() < deadline, "the compaction never began");
        std::thread::yield_now();
    }
    store.commit(vec![delete("k0", Expect::Any), put("late", 1, Expect::Any)], &[]).await.unwrap();
    let (expected, revision) = (everything(&store), store.revision());
    drop((store, log));
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    let (snapshot, new_log) = (read("snapshot-000000000001"), read("log-000000000001"));
    let steps: [&[(&str, &[u8])]; 3] = [
        // The new log is begun, the snapshot is half written.
        &[
            ("log-000000000000", &old_log),
            ("log-000000000001", &new_log),
            ("snapshot-000000000001.tmp", &snapshot[..9]),
        ],
        // The snapshot has its name, the old log is still there.
        &[("log-000000000000", &old_log), ("log-000000000001", &new_log), ("snapshot-000000000001", &snapshot)],
        &[("log-000000000001", &new_log), ("snapshot-000000000001", &snapshot)],
    ];
    for files in steps {
        let copy = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(copy.path().join(name), content).unwrap();
        }
        let (log, stores) = opened(copy.path());
        let store = stores["c"].clone();
        assert_eq!((everything(&store), store.revision()), (expected.clone(), revision));
        store.commit(vec![put("after", 1, Expect::Absent)], &[]).await.unwrap();
        drop((store, stores, log));
        let (_log, stores) = opened(copy.path());
        assert_eq!(stores["c"].revision(), revision + 1);
    }
}

/// A member of the log that only lets records through.
struct Nobody;

impl crate::store::log::Member for Nobody {
    fn durable(&self, _: u64) {}

    fn failed(&self, why: &Arc<str>) {
        panic!("{why}");
    }

    fn epoch(&self) -> usize {
        0
    }

    fn image(&self) -> crate::store::Image {
        crate::store::Image::default()
    }
}

/// Records a version of an object without the checks of a store, as an earlier release could.
fn append(log: &FileLog, key: &str, revision: u64, value: &str) {
    let bytes = format!(r#"{{"metadata":{{"resourceVersion":"{revision}"}},"value":{value}}}"#);
    let index = Index::default();
    let entry = Entry { key: key.into(), revision, bytes: bytes.into(), revision_at: 32, shape: 0, index };
    let event = Arc::new(Event { kind: ChangeKind::Put, entry: Arc::new(entry), previous: None });
    let record = crate::store::log::Record { cluster: "c".into(), epoch: 0, changes: vec![(resource(), event)] };
    let member: Arc<dyn crate::store::log::Member> = Arc::new(Nobody);
    log.append(record, &member);
}

/// First lines of the files that say what was set aside.
fn set_aside(path: &Path) -> Vec<String> {
    let files = fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|file| file.file_name().unwrap().to_string_lossy().starts_with("set-aside-"));
    let first = |text: String| text.lines().next().unwrap().to_owned();
    files.map(|file| first(fs::read_to_string(file).unwrap())).collect()
}

#[tokio::test]
async fn audit_03_an_object_that_cannot_be_read_is_set_aside_and_nothing_else_is_lost() {
    let too_deep = "[".repeat(500) + &"]".repeat(500);
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = opened(directory.path());
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    store.commit(vec![put("before", 1, Expect::Absent), put("deep", 1, Expect::Absent)], &[]).await.unwrap();
    append(&log, "deep", 4, &too_deep);
    append(&log, "replaced", 5, &too_deep);
    append(&log, "replaced", 6, "1");
    drop((store, log));
    for restart in 0..3 {
        let (log, stores) = opened(directory.path());
        let store = stores["c"].clone();
        let found = everything(&store);
        assert_eq!(&found[found.len() - 2..], ["before=1@2", "replaced=1@6"], "start {restart}");
        assert_eq!((found.len(), store.revision()), (if restart == 0 { 2 } else { 3 }, 6 + restart));
        assert!(store.watch(&resource(), 3).is_err(), "what came before cannot be shown any more");
        let [file] = set_aside(directory.path()).try_into().unwrap();
        assert_eq!(
            file,
            r#"{"cluster":"c","object":"deep","problem":"recursion limit exceeded at line 1 column 171","resource":"things","revision":4}"#
        );
        assert_eq!(store.set_aside(), 1, "also when no log has the object any more");
        store.commit(vec![put("after", restart, Expect::Any)], &[]).await.unwrap();
        log.compact();
        drop((store, stores, log));
    }
}

#[cfg(unix)]
mod permissions {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test]
    async fn audit_12_only_the_owner_may_read_a_data_directory_and_its_files() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("made/data");
        let (log, _) = opened(&path);
        let store = Store::new("c", log.clone(), HistoryLimits::default());
        store.commit(vec![put("a", 1, Expect::Any)], &[]).await.unwrap();
        log.compact();
        store.commit(vec![put("a", 2, Expect::Any)], &[]).await.unwrap();
        drop((store, log));
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
        for file in fs::read_dir(&path).unwrap() {
            let file = file.unwrap().path();
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }

        // As an earlier version left it.
        set_mode(&path, 0o755);
        let files = || fs::read_dir(&path).unwrap().map(|file| file.unwrap().path());
        files().for_each(|file| set_mode(&file, 0o644));
        let (log, stores) = opened(&path);
        assert_eq!(mode(&path), 0o700);
        files().for_each(|file| assert_eq!(mode(&file), 0o600, "{}", file.display()));
        drop((log, stores));
    }

    #[tokio::test]
    async fn audit_12_an_open_directory_with_files_of_others_is_refused_and_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        set_mode(directory.path(), 0o755);
        drop(opened(directory.path()));
        assert_eq!(mode(directory.path()), 0o700, "an empty one is taken");
        set_mode(directory.path(), 0o755);
        fs::write(directory.path().join("notes.txt"), "").unwrap();
        let error = refused(directory.path());
        let says = "can be read by others (mode 755) and holds files that are not of this server";
        assert!(error.to_string().ends_with(says), "{error}");
        assert!(error.recovery_hint().unwrap().contains("chmod 700 "), "{:?}", error.recovery_hint());
        assert_eq!(mode(directory.path()), 0o755);
        set_mode(directory.path(), 0o700);
        drop(opened(directory.path()));
    }
}
