//! Objects that are changed back as often as they are put right: somebody else on the member wants them otherwise.
//!
//! Decides how long a Work rests before it is put right once more. The first corrections come at once; a fight would
//! otherwise go on as fast as two programs can write. Never gives up, and never delays a new version.

use jiff::{SignedDuration, Timestamp};

/// So many corrections in a row come at once.
const AT_ONCE: u32 = 3;
/// The rest after those, doubled each time.
const FIRST_REST: SignedDuration = SignedDuration::from_secs(1);
/// The longest rest.
const LONGEST_REST: SignedDuration = SignedDuration::from_mins(5);
/// Corrections that lie further back are no fight any more. Longer than the longest rest.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// The corrections of one Work in its present generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Corrections {
    generation: i64,
    count: u32,
    last: Option<Timestamp>,
}

impl Corrections {
    /// Something that had been applied before was put right.
    pub fn note(&mut self, generation: i64, now: Timestamp) {
        let fresh = self.last.and_then(|last| last.checked_add(FORGOTTEN_AFTER).ok()).is_some_and(|end| end > now);
        let count = if fresh && self.generation == generation { self.count.saturating_add(1) } else { 1 };
        *self = Self { generation, count, last: Some(now) };
    }

    /// Until when the Work is left alone; `None` if it need not be.
    pub fn rests_until(&self, generation: i64, now: Timestamp) -> Option<Timestamp> {
        let beyond = self.count.checked_sub(AT_ONCE + 1).filter(|_| self.generation == generation)?;
        let doubled = 1_i32.checked_shl(beyond.min(16)).unwrap_or(i32::MAX);
        let rest = FIRST_REST.checked_mul(doubled).unwrap_or(LONGEST_REST).min(LONGEST_REST);
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
        corrections.rests_until(generation, at(now)).map(|until| until.as_second() - now)
    }

    #[test]
    fn the_first_corrections_come_at_once_and_later_ones_rest_longer_and_longer() {
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
    fn a_new_version_and_a_quiet_time_end_the_fight() {
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
