//! Works that the API server rejected, and when each is tried again.
//!
//! A quota or a webhook may accept the same Work later without any event that the hub could watch, so a rejected Work
//! is retried with increasing delays.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_core::workgen::REJECTED_WORK_RETRY_MAX;
use fleet_runtime::{Error, ObjectKey};
use jiff::Timestamp;
use parking_lot::Mutex;

/// Delay of the first retry: a quota that was raised, or a webhook that was restarted, is noticed soon.
const FIRST_RETRY_AFTER: Duration = Duration::from_secs(10);
/// Factor of every further delay, up to `REJECTED_WORK_RETRY_MAX`.
const RETRY_FACTOR: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct Rejections(Mutex<BTreeMap<ObjectKey, Rejection>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejection {
    /// The generation of the binding that the rejected Works were made for.
    generation: i64,
    /// The API server's message.
    pub(super) answer: String,
    /// How often the Works of this generation were rejected.
    attempts: u32,
    /// When the Works are tried again.
    pub(super) until: Timestamp,
}

impl Rejections {
    pub(super) fn record(&self, binding: &ObjectKey, generation: i64, error: &Error, now: Timestamp) {
        let mut all = self.0.lock();
        let before = all.get(binding).filter(|rejection| rejection.generation == generation);
        let attempts = before.map_or(0, |rejection| rejection.attempts).saturating_add(1);
        let until = now.checked_add(retry_delay(attempts)).unwrap_or(Timestamp::MAX);
        all.insert(binding.clone(), Rejection { generation, answer: error.answer(), attempts, until });
    }

    /// The rejection for this generation; `None` once it is time to retry.
    pub(super) fn of(&self, binding: &ObjectKey, generation: i64, now: Timestamp) -> Option<Rejection> {
        let mut all = self.0.lock();
        let found = all.get(binding)?;
        if found.generation != generation {
            all.remove(binding);
            return None;
        }
        (now < found.until).then(|| found.clone())
    }

    /// Called when the Works were accepted or the binding is gone.
    pub(super) fn forget(&self, binding: &ObjectKey) {
        self.0.lock().remove(binding);
    }
}

fn retry_delay(attempts: u32) -> Duration {
    let factor = RETRY_FACTOR.saturating_pow(attempts.saturating_sub(1));
    FIRST_RETRY_AFTER.saturating_mul(factor).min(REJECTED_WORK_RETRY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected() -> Error {
        Error::Other("no".to_owned())
    }

    #[test]
    fn a_rejection_counts_for_one_generation_until_its_retry() {
        let rejections = Rejections::default();
        let binding = ObjectKey::cluster("b");
        let now = Timestamp::UNIX_EPOCH;
        rejections.record(&binding, 3, &rejected(), now);
        let found = rejections.of(&binding, 3, now).unwrap();
        assert_eq!(found.answer, "no");
        assert_eq!(rejections.of(&binding, 3, found.until), None, "the Works are tried again");
        assert_eq!(rejections.of(&binding, 4, now), None, "the binding asks for something else");
        assert_eq!(rejections.of(&binding, 3, now), None, "the rejection of the older generation is forgotten");
    }

    #[test]
    fn last_09_rejected_works_are_retried_with_growing_delays() {
        let rejections = Rejections::default();
        let binding = ObjectKey::cluster("b");
        let mut now = Timestamp::UNIX_EPOCH;
        let mut delays = Vec::new();
        for _ in 0..5 {
            rejections.record(&binding, 3, &rejected(), now);
            let until = rejections.of(&binding, 3, now).unwrap().until;
            delays.push(until.duration_since(now).as_secs());
            now = until;
        }
        assert_eq!(delays, [10, 60, 300, 300, 300]);
        rejections.forget(&binding);
        rejections.record(&binding, 3, &rejected(), now);
        let until = rejections.of(&binding, 3, now).unwrap().until;
        assert_eq!(until.duration_since(now).as_secs(), 10, "accepted Works start over");
    }
}
