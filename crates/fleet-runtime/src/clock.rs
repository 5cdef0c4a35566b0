//! What time it is, and where random bits come from.
//!
//! Decides how virtual time follows tokio's (paused) clock, and what a clock that was turned back means for those who sleep
//! by it. The only file that asks what time it is or draws a random number; how much time has passed (timeouts, durations) is
//! measured elsewhere too, by tokio's clock.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use fleet_api::bits::{STEP, mixed};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Sleeps are cut into pieces of this length, so that a clock that was set is noticed.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);
/// A clock that goes back by less is being kept right, not set.
const TURNED_BACK: SignedDuration = SignedDuration::from_secs(1);

/// Where the present moment comes from.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The wall clock.
    Real,
    /// `origin` plus what tokio's clock has moved since `started`, and what the hand adds. With paused time, a test or a
    /// simulation drives it.
    Virtual { origin: Timestamp, started: Instant, hand: Hand },
}

/// Sets virtual clocks. Clones move the same clocks.
#[derive(Debug, Clone, Default)]
pub struct Hand(Arc<AtomicI64>);

impl Hand {
    /// From now on the clock is fast by so much, to the millisecond.
    pub fn set(&self, fast: SignedDuration) {
        self.0.store(i64::try_from(fast.as_millis()).unwrap_or_default(), Ordering::Relaxed);
    }

    fn fast(&self) -> SignedDuration {
        SignedDuration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl Clock {
    /// Virtual time that begins now at `origin`. Must be called within a tokio runtime.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self::Virtual { origin, started: Instant::now(), hand: Hand::default() }
    }

    /// Another clock that is as this one but for its hand. The wall clock has none.
    #[must_use]
    pub fn moved_by(&self, hand: &Hand) -> Self {
        match self {
            Self::Real => Self::Real,
            Self::Virtual { origin, started, .. } => {
                Self::Virtual { origin: *origin, started: *started, hand: hand.clone() }
            }
        }
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Self::Real => Timestamp::now(),
            Self::Virtual { origin, started, hand } => {
                let true_time = later(*origin, started.elapsed());
                true_time.checked_add(hand.fast()).unwrap_or(true_time)
            }
        }
    }

    /// Waits until `at` has come, or until the clock is found to have been turned back: what was to happen after a while
    /// would then happen much later.
    pub async fn sleep_until(&self, at: Timestamp) {
        let mut latest = self.now();
        while let Some(left) = left_until(at, latest) {
            tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
            let now = self.now();
            if is_turned_back(latest, now) {
                return;
            }
            latest = now;
        }
    }
}

/// Whether a clock that showed `before` and shows `now` was set back.
pub(crate) fn is_turned_back(before: Timestamp, now: Timestamp) -> bool {
    before.duration_since(now) >= TURNED_BACK
}

fn left_until(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(at.duration_since(now)).ok().filter(|left| !left.is_zero())
}

/// `from + by`; the end of time instead of an overflow.
pub(crate) fn later(from: Timestamp, by: Duration) -> Timestamp {
    from.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Random bits for plans. Clones share the sequence.
#[derive(Debug, Clone)]
pub enum Seeds {
    /// Different in every process.
    Random,
    /// A function of the first seed and of how many were taken before.
    Sequence(Arc<AtomicU64>),
}

impl Seeds {
    pub fn starting_with(seed: u64) -> Self {
        Self::Sequence(Arc::new(AtomicU64::new(seed)))
    }

    pub fn next(&self) -> u64 {
        match self {
            // Every `RandomState` hashes with keys of its own, drawn from the system's randomness.
            Self::Random => RandomState::new().build_hasher().finish(),
            Self::Sequence(state) => mixed(state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_moves_with_the_runtime_and_sleeps_end_exactly() {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let at: Timestamp = "2026-01-01T03:00:00.25Z".parse().unwrap();
        clock.sleep_until(at).await;
        assert_eq!(clock.now(), at);
        clock.sleep_until("2025-01-01T00:00:00Z".parse().unwrap()).await;
        assert_eq!(clock.now(), at, "the past needs no sleep");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_turned_back_ends_a_sleep_within_a_minute() {
        let (hand, begun) = (Hand::default(), Instant::now());
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()).moved_by(&hand);
        let at = later(clock.now(), Duration::from_mins(10));
        let turn_back = async {
            tokio::time::sleep(Duration::from_secs(90)).await;
            hand.set(SignedDuration::from_hours(-1));
        };
        tokio::join!(clock.sleep_until(at), turn_back);
        assert_eq!(begun.elapsed(), Duration::from_mins(2));
        assert_eq!(clock.now(), "2025-12-31T23:02:00Z".parse().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_put_forward_ends_a_sleep_within_a_minute() {
        let (hand, begun) = (Hand::default(), Instant::now());
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()).moved_by(&hand);
        let at = later(clock.now(), Duration::from_hours(5));
        hand.set(SignedDuration::from_hours(4));
        let put_forward = async {
            tokio::time::sleep(Duration::from_secs(90)).await;
            hand.set(SignedDuration::from_hours(6));
        };
        tokio::join!(clock.sleep_until(at), put_forward);
        assert_eq!(begun.elapsed(), Duration::from_mins(2));
    }

    #[test]
    fn a_sequence_repeats_and_random_seeds_do_not() {
        let take = |seeds: Seeds| [seeds.next(), seeds.next(), seeds.clone().next()];
        let first = take(Seeds::starting_with(7));
        assert_eq!(first, take(Seeds::starting_with(7)));
        assert_ne!(first, take(Seeds::starting_with(8)));
        assert!(first[0] != first[1] && first[1] != first[2]);
        assert_ne!(take(Seeds::Random), take(Seeds::Random));
    }

    #[test]
    fn time_has_an_end_instead_of_an_overflow() {
        assert_eq!(later(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
    }
}
