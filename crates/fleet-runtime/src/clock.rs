//! The current time and random bits, real or simulated.
//!
//! No other file reads the wall clock or draws a random number. Other files measure durations with tokio's clock, which
//! simulations control.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use fleet_api::bits::{STEP, mixed};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Sleeps are split into pieces of this length, so that a change of the wall clock is noticed.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);
/// A clock that goes back by less than this was adjusted (NTP), not set.
const SET_BACK: SignedDuration = SignedDuration::from_secs(1);

/// The source of the current time.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The wall clock.
    Real,
    /// `origin`, plus the time on tokio's clock since `started`, plus the offset. With paused time, a test or a simulation
    /// controls it.
    Virtual { origin: Timestamp, started: Instant, offset: ClockOffset },
}

/// Sets virtual clocks ahead or back. Clones share the offset.
#[derive(Debug, Clone, Default)]
pub struct ClockOffset(Arc<AtomicI64>);

impl ClockOffset {
    /// Sets the offset, to the millisecond. A positive offset sets clocks ahead.
    pub fn set(&self, offset: SignedDuration) {
        self.0.store(i64::try_from(offset.as_millis()).unwrap_or_default(), Ordering::Relaxed);
    }

    fn get(&self) -> SignedDuration {
        SignedDuration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl Clock {
    /// Virtual time that starts at `origin` now. Must be called within a tokio runtime.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self::Virtual { origin, started: Instant::now(), offset: ClockOffset::default() }
    }

    /// The same clock with this offset. Does not change the wall clock.
    #[must_use]
    pub fn with_offset(&self, offset: &ClockOffset) -> Self {
        match self {
            Self::Real => Self::Real,
            Self::Virtual { origin, started, .. } => {
                Self::Virtual { origin: *origin, started: *started, offset: offset.clone() }
            }
        }
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Self::Real => Timestamp::now(),
            Self::Virtual { origin, started, offset } => {
                let true_time = later(*origin, started.elapsed());
                true_time.checked_add(offset.get()).unwrap_or(true_time)
            }
        }
    }

    /// Waits until `at`. Returns early if the clock was set back, because the wait would become much longer.
    pub async fn sleep_until(&self, at: Timestamp) {
        let mut latest = self.now();
        while let Some(left) = left_until(at, latest) {
            tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
            let now = self.now();
            if is_set_back(latest, now) {
                return;
            }
            latest = now;
        }
    }
}

/// Whether the clock was set back between two readings.
pub(crate) fn is_set_back(before: Timestamp, now: Timestamp) -> bool {
    before.duration_since(now) >= SET_BACK
}

fn left_until(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(at.duration_since(now)).ok().filter(|left| !left.is_zero())
}

/// `from + by`, saturating.
pub(crate) fn later(from: Timestamp, by: Duration) -> Timestamp {
    from.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Random bits for plans. Clones share the sequence.
#[derive(Debug, Clone)]
pub enum Seeds {
    /// Different in every process.
    Random,
    /// The n-th value is a function of the first seed and n.
    Sequence(Arc<AtomicU64>),
}

impl Seeds {
    pub fn starting_with(seed: u64) -> Self {
        Self::Sequence(Arc::new(AtomicU64::new(seed)))
    }

    pub fn next(&self) -> u64 {
        match self {
            // Every `RandomState` has its own keys from the system's randomness.
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
        assert_eq!(clock.now(), at, "a time in the past returns at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_back_ends_a_sleep_within_a_minute() {
        let (offset, begun) = (ClockOffset::default(), Instant::now());
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()).with_offset(&offset);
        let at = later(clock.now(), Duration::from_mins(10));
        let set_back = async {
            tokio::time::sleep(Duration::from_secs(90)).await;
            offset.set(SignedDuration::from_hours(-1));
        };
        tokio::join!(clock.sleep_until(at), set_back);
        assert_eq!(begun.elapsed(), Duration::from_mins(2));
        assert_eq!(clock.now(), "2025-12-31T23:02:00Z".parse().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_ahead_ends_a_sleep_within_a_minute() {
        let (offset, begun) = (ClockOffset::default(), Instant::now());
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()).with_offset(&offset);
        let at = later(clock.now(), Duration::from_hours(5));
        offset.set(SignedDuration::from_hours(4));
        let set_ahead = async {
            tokio::time::sleep(Duration::from_secs(90)).await;
            offset.set(SignedDuration::from_hours(6));
        };
        tokio::join!(clock.sleep_until(at), set_ahead);
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
    fn later_saturates_instead_of_overflowing() {
        assert_eq!(later(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
    }
}
