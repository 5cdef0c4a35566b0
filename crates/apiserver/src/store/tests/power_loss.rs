//! Power loss at every moment: acknowledged writes survive, and each sync is needed for that.

use super::simulated_disk::{Moment, SimulatedDisk, Site};
use super::*;
use crate::store::disk::Disk;
use crate::store::file_log::{CompactionLimits, FileLog, Stores, open_disk, restore};
use crate::store::recovery::{RecoveryError, recover};

pub(super) fn opened(disk: &SimulatedDisk) -> Result<(Arc<FileLog>, Stores), RecoveryError> {
    disk.make().unwrap();
    open_disk(Arc::new(disk.clone()), HistoryLimits::default(), CompactionLimits::default(), None)
}

/// Number of commits in what a disk has, or why it is refused.
fn recovered(disk: &dyn Disk) -> Result<u64, String> {
    let log: Arc<dyn Log> = Arc::new(MemoryLog);
    let (stores, _) = restore(&log, recover(disk).map_err(|e| e.to_string())?, HistoryLimits::default());
    Ok(stores.get("c").map_or(0, |store| commits(store)))
}

/// Number of commits that a store has seen. Each of them must be there.
fn commits(store: &Store) -> u64 {
    let count = store.revision() - 1;
    for number in count.saturating_sub(KEYS)..count {
        let entry = store.peek(&resource(), &key(number)).expect("the last writes of all keys");
        assert_eq!(entry.parse()["value"], number);
    }
    count
}

const KEYS: u64 = 3;

fn key(number: u64) -> String {
    format!("k{}", number % KEYS)
}

/// Commits that are acknowledged, each with a moment for a crash behind it.
async fn commit(disk: &SimulatedDisk, store: &Store, numbers: std::ops::Range<u64>) {
    for number in numbers {
        store.commit(vec![put(&key(number), number, Expect::Any)], &[]).await.unwrap();
        disk.acknowledged(number + 1);
    }
}

/// The life of a data directory: created, written, compacted while others write, opened again, compacted twice with nothing new
/// in between, written while the second snapshot is.
async fn workload(disk: &SimulatedDisk) {
    let (log, _) = opened(disk).unwrap();
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    commit(disk, &store, 0..4).await;
    disk.close_gate();
    log.compact();
    disk.await_arrivals(1);
    commit(disk, &store, 4..6).await;
    disk.open_gate();
    drop((store, log));
    let (log, stores) = opened(disk).unwrap();
    let store = stores["c"].clone();
    commit(disk, &store, 6..7).await;
    disk.close_gate();
    log.compact();
    disk.await_arrivals(1);
    log.compact();
    disk.let_one_pass();
    disk.await_arrivals(2);
    commit(disk, &store, 7..9).await;
    disk.open_gate();
    drop((store, stores, log));
}

/// Why a power loss at this moment, or a kill and then a power loss, loses something that was acknowledged or shown.
fn loss(moment: &Moment, ignored: Option<Site>) -> Option<String> {
    let short = |disk: &SimulatedDisk, promised: u64| match recovered(disk) {
        Ok(found) if found >= promised => None,
        other => Some(format!("{promised} commits were promised, found {other:?}")),
    };
    if let Some(problem) = moment.after_power_loss().find_map(|left| short(&left, moment.acknowledged)) {
        return Some(problem);
    }
    let next = moment.after_kill(ignored);
    let (log, stores) = match opened(&next) {
        Ok(opened) => opened,
        Err(error) => return Some(error.to_string()),
    };
    let store = stores.get("c").cloned().unwrap_or_else(|| Store::new("c", log.clone(), HistoryLimits::default()));
    let shown = commits(&store);
    let shown_moment = next.now();
    if let Some(problem) = shown_moment.after_power_loss().find_map(|left| short(&left, shown)) {
        return Some(problem);
    }
    store.commit_unsettled(vec![put(&key(shown), shown, Expect::Any)], &[]).unwrap();
    // Dropping the log finishes the write.
    drop((store, stores, log));
    next.now().after_power_loss().find_map(|left| short(&left, shown + 1))
}

async fn first_loss(ignored: Option<Site>) -> Option<String> {
    let disk = SimulatedDisk::new(ignored);
    workload(&disk).await;
    disk.moments().iter().find_map(|moment| loss(moment, ignored))
}

#[tokio::test]
async fn audit_16_a_power_loss_at_any_time_loses_no_acknowledged_write() {
    let disk = SimulatedDisk::new(None);
    workload(&disk).await;
    let synced = disk.synced();
    for site in Site::ALL {
        assert!(synced.contains(&site), "the workload never reaches {site:?}");
    }
    for (number, moment) in disk.moments().iter().enumerate() {
        assert_eq!(loss(moment, None), None, "moment {number}");
    }
}

/// Removes the syncs of one place in the code after the other: each time something is lost.
#[tokio::test]
async fn audit_16_each_sync_is_needed() {
    for site in Site::ALL {
        assert!(first_loss(Some(site)).await.is_some(), "nothing is lost without the sync of {site:?}");
    }
}
