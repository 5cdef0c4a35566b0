//! The log: what was acknowledged is there again, wherever the file is cut.

use std::fs;
use std::path::Path;

use super::*;
use crate::store::file_log::{CompactionLimits, FileLog, Stores, open};

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
        let recovered = crate::store::snapshot::recover(copy.path()).unwrap();
        let stores = crate::store::file_log::restore(&log, recovered, HistoryLimits::default());
        let (_, expected, revision) = states.iter().rfind(|(length, _, _)| *length <= cut as u64).unwrap();
        let store = stores.get("c").cloned().unwrap_or_else(|| Store::new("c", log, HistoryLimits::default()));
        assert_eq!((&everything(&store), store.revision()), (expected, *revision), "cut at byte {cut}");
    }
}

#[tokio::test]
async fn writing_goes_on_behind_a_torn_tail() {
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
async fn concurrent_writers_are_all_acknowledged_and_all_found_again() {
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

#[tokio::test]
async fn damage_in_the_last_log_is_told_from_an_unfinished_write() {
    let directory = tempfile::tempdir().unwrap();
    let (log, _) = opened(directory.path());
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    let path = last_log(directory.path());
    let mut ends = vec![0];
    for number in 1..=3 {
        store.commit(vec![put("a", number, Expect::Any)], &[]).await.unwrap();
        ends.push(usize::try_from(fs::metadata(&path).unwrap().len()).unwrap());
    }
    drop((store, log));
    let whole = fs::read(&path).unwrap();
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 1;
        fs::write(&path, damaged).unwrap();
        let start = *ends.iter().rfind(|end| **end <= position).unwrap();
        let opened = open(directory.path(), HistoryLimits::default(), CompactionLimits::default());
        if start == ends[2] {
            // The last write may be one that a crash interrupted.
            assert_eq!(opened.unwrap().1["c"].revision(), 3, "byte {position}");
        } else {
            let refused = opened.unwrap_err().to_string();
            assert!(refused.contains(&format!("is damaged at byte {start},")), "byte {position}: {refused}");
        }
    }
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
        &[("log-000000000000", &old_log), ("log-000000000001", &new_log), ("snapshot.tmp", &snapshot[..9])],
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
