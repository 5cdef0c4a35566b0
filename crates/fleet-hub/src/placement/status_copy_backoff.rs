//! When failed status copies are retried.
//!
//! No event signals that the cause is gone (a quota is raised, a webhook is back), so the copy is retried with a
//! growing delay.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_api::names::PlacementKey;
use jiff::Timestamp;
use parking_lot::Mutex;

/// Short failures are retried soon.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// After the cause is gone, the copy must not take longer than this.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct StatusCopyBackoff(Mutex<BTreeMap<PlacementKey, Failed>>);

#[derive(Debug, Clone, Copy)]
struct Failed {
    pause: Duration,
    until: Timestamp,
}

impl StatusCopyBackoff {
    pub(super) fn failed(&self, key: &PlacementKey, now: Timestamp) {
        let mut all = self.0.lock();
        let pause = all.get(key).map_or(FIRST_PAUSE, |last| last.pause.saturating_mul(2).min(LONGEST_PAUSE));
        let until = now.checked_add(pause).unwrap_or(Timestamp::MAX);
        all.insert(key.clone(), Failed { pause, until });
    }

    /// Until when a failed copy is not retried.
    pub(super) fn failed_until(&self, key: &PlacementKey) -> Option<Timestamp> {
        self.0.lock().get(key).map(|failed| failed.until)
    }

    pub(super) fn forget(&self, key: &PlacementKey) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_with_every_failure() {
        let (copy_backoff, key, now) =
            (StatusCopyBackoff::default(), PlacementKey::parse("web").unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(copy_backoff.failed_until(&key), None);
        let pauses: Vec<i64> = (0..8)
            .map(|_| {
                copy_backoff.failed(&key, now);
                copy_backoff.failed_until(&key).unwrap().as_second()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        copy_backoff.forget(&key);
        copy_backoff.failed(&key, now);
        assert_eq!(copy_backoff.failed_until(&key).unwrap().as_second(), 1);
    }
}
