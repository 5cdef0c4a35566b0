//! When copies of statuses that could not be written are tried again.
//!
//! Decides how long a failure stands. What was refused may be taken later (a quota is raised, a webhook is back), and
//! nothing tells of that; the waiting time grows, because the same request mostly fails again. Never decides what is copied.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_api::names::PlacementKey;
use jiff::Timestamp;
use parking_lot::Mutex;

/// What fails for a moment is tried again soon.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Somebody who has made room does not wait longer than this.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Copying(Mutex<BTreeMap<PlacementKey, Failed>>);

#[derive(Debug, Clone, Copy)]
struct Failed {
    pause: Duration,
    until: Timestamp,
}

impl Copying {
    pub(super) fn failed(&self, key: &PlacementKey, now: Timestamp) {
        let mut all = self.0.lock();
        let pause = all.get(key).map_or(FIRST_PAUSE, |last| (last.pause * 2).min(LONGEST_PAUSE));
        let until = now.checked_add(pause).unwrap_or(Timestamp::MAX);
        all.insert(key.clone(), Failed { pause, until });
    }

    /// Until when the placement's copy is not tried again, if it failed.
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
    fn what_fails_again_and_again_is_tried_less_and_less() {
        let (copying, key, now) = (Copying::default(), PlacementKey::parse("web").unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(copying.failed_until(&key), None);
        let pauses: Vec<i64> = (0..8)
            .map(|_| {
                copying.failed(&key, now);
                copying.failed_until(&key).unwrap().as_second()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        copying.forget(&key);
        copying.failed(&key, now);
        assert_eq!(copying.failed_until(&key).unwrap().as_second(), 1);
    }
}
