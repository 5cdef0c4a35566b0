//! Backs off when another writer on the member keeps reverting the agent's changes.
//!
//! The first corrections are made at once. Without the backoff, two programs would overwrite each other as fast as
//! they can write. Never gives up, and never delays a new generation.

use jiff::{SignedDuration, Timestamp};

/// Consecutive corrections without a delay.
const AT_ONCE: u32 = 3;
/// The delay after those, doubled each time.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
/// The longest delay.
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_mins(5);
/// Corrections longer ago do not count. Must be longer than the longest delay.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// The corrections of one Work in its current generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Corrections {
    generation: i64,
    count: u32,
    last: Option<Timestamp>,
}

impl Corrections {
    /// Counts the correction of something that had been applied before.
    pub fn note(&mut self, generation: i64, now: Timestamp) {
        let fresh = self.last.and_then(|last| last.checked_add(FORGOTTEN_AFTER).ok()).is_some_and(|end| end > now);
        let count = if fresh && self.generation == generation { self.count.saturating_add(1) } else { 1 };
        *self = Self { generation, count, last: Some(now) };
    }

    /// Until when the Work is left alone; `None` if it may be reconciled now.
    pub fn backoff_until(&self, generation: i64, now: Timestamp) -> Option<Timestamp> {
        let beyond = self.count.checked_sub(AT_ONCE + 1).filter(|_| self.generation == generation)?;
        let doubled = 1_i32.checked_shl(beyond.min(16)).unwrap_or(i32::MAX);
        let rest = FIRST_BACKOFF.checked_mul(doubled).unwrap_or(LONGEST_BACKOFF).min(LONGEST_BACKOFF);
        self.last?.checked_add(rest).ok().filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn rest(corrections: &Corrections, generation: i64, now: i64) -> Option<i64> {
        corrections.backoff_until(generation, at(now)).map(|until| until.as_second() - now)
    }

    #[test]
    fn the_first_corrections_are_immediate_and_later_ones_back_off() {
        let mut corrections = Corrections::default();
        let mut now = 0;
        let mut rests = Vec::new();
        for _ in 0..14 {
            corrections.note(1, at(now));
            let pause = rest(&corrections, 1, now).unwrap_or_default();
            rests.push(pause);
            now += pause;
        }
        assert_eq!(rests, [0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(rest(&corrections, 1, now), None, "the rest is over");
    }

    #[test]
    fn a_new_version_or_a_quiet_time_ends_the_backoff() {
        let mut corrections = Corrections::default();
        for _ in 0..9 {
            corrections.note(1, at(0));
        }
        assert!(rest(&corrections, 1, 0).is_some());
        assert_eq!(rest(&corrections, 2, 0), None);
        corrections.note(1, at(601));
        assert_eq!(rest(&corrections, 1, 601), None);
    }
}
