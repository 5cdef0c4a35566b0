//! Detects that an API server was restored from a backup.
//!
//! The revisions of an API server only grow, except when it is restored to an older state. The first watch, list or write that
//! sees an older revision records the restore, so that all kinds of that server are listed again at once. Until a kind has been
//! listed again its cache does not count as synced, and controllers that read it wait: objects from before and after a restore
//! must not meet in one plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::flag::{Flag, WeakFlag};

/// Counts the detected restores of one server. Clones share the counter.
#[derive(Debug, Clone, Default)]
pub(crate) struct RestoreCounter(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: AtomicU64,
    changed: Notify,
    /// The `synced` flags of the server's caches.
    synced: Mutex<Vec<WeakFlag>>,
}

impl RestoreCounter {
    pub(crate) fn count(&self) -> u64 {
        self.0.count.load(Ordering::Acquire)
    }

    /// Records a restore detected by a caller that knew of `known` earlier ones, and returns the new count. A restore that
    /// several callers detect counts once.
    pub(crate) fn record(&self, known: u64) -> u64 {
        let more = known.saturating_add(1);
        match self.0.count.compare_exchange(known, more, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.0.synced.lock().retain(|flag| match flag.upgrade() {
                    Some(flag) => {
                        flag.set(false);
                        true
                    }
                    None => false,
                });
                self.0.changed.notify_waiters();
                more
            }
            Err(count) => count,
        }
    }

    /// Clears this flag at every restore.
    pub(crate) fn clear_on_restore(&self, synced: &Flag) {
        self.0.synced.lock().push(synced.downgrade());
    }

    /// Waits until the count differs from `known`.
    pub(crate) async fn changed_from(&self, known: u64) {
        loop {
            let changed = self.0.changed.notified();
            if self.count() != known {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_restore_that_several_detect_counts_once_and_wakes_all() {
        let restores = RestoreCounter::default();
        let waiting = tokio::spawn({
            let restores = restores.clone();
            async move { restores.changed_from(0).await }
        });
        tokio::task::yield_now().await;
        assert_eq!((restores.record(0), restores.record(0), restores.count()), (1, 1, 1));
        waiting.await.unwrap();
        restores.changed_from(0).await;
        assert_eq!(restores.record(1), 2, "a later one is another restore");
    }
}
