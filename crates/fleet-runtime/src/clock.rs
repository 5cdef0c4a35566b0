//! What time it is, and where random bits come from.
//!
//! Decides how virtual time follows tokio's (paused) clock. The only file that reads a clock or makes a random number.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Sleeps on a real clock are cut into pieces of this length, so that a wall clock that was set is noticed.
const LONGEST_REAL_SLEEP: Duration = Duration::from_mins(1);

/// Where the present moment comes from.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The wall clock.
    Real,
    /// `origin` plus what tokio's clock has moved since `started`. With paused time, a test or a simulation drives it.
    Virtual { origin: Timestamp, started: Instant },
}

impl Clock {
    /// Virtual time that begins now at `origin`. Must be called within a tokio runtime.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self::Virtual { origin, started: Instant::now() }
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Self::Real => Timestamp::now(),
            Self::Virtual { origin, started } => later(*origin, started.elapsed()),
        }
    }

    /// Waits until `at` has come.
    pub async fn sleep_until(&self, at: Timestamp) {
        while let Some(left) = self.left_until(at) {
            let piece = match self {
                Self::Real => left.min(LONGEST_REAL_SLEEP),
                Self::Virtual { .. } => left,
            };
            tokio::time::sleep(piece).await;
        }
    }

    fn left_until(&self, at: Timestamp) -> Option<Duration> {
        let left = at.duration_since(self.now());
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }
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
            Self::Sequence(state) => mixed(state.fetch_add(GOLDEN_STEP, Ordering::Relaxed).wrapping_add(GOLDEN_STEP)),
        }
    }
}

/// The step of splitmix64: 2^64 divided by the golden ratio, odd, so that the state takes all values.
const GOLDEN_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of splitmix64.
fn mixed(state: u64) -> u64 {
    let a = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
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
