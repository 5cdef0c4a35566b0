//! When a Work is looked at again although nothing was heard of its objects.
//!
//! Decides from the results of the runs so far: soon after something changed, then at growing intervals. A Work whose
//! objects are all watched and that waits for nothing else needs no such look. Never reads a clock.

use std::time::Duration;

use fleet_api::conditions::work::ManifestAppliedReason;
use fleet_api::types::{ApplyStrategy, WhenToApply};
use jiff::Timestamp;

use super::process::Outcome;
use super::status::{ManifestResult, word_of};

/// How the intervals grow. `Pace::checked` holds its limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// So many first looks come after `fixed`.
    pub attempts_with_fixed_delay: u32,
    pub fixed_seconds: f64,
    /// The first interval after those, and the base by which it grows up to `longest_slow_seconds`.
    pub initial_slow_seconds: f64,
    pub slow_base: f64,
    pub longest_slow_seconds: f64,
    /// The base from there on, and the longest interval of all.
    pub fast_base: f64,
    pub longest_seconds: f64,
    /// Whether a Work that is available, or has reported its differences, grows by the fast base at once.
    pub skip_to_fast_when_settled: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            attempts_with_fixed_delay: 1,
            fixed_seconds: 5.0,
            initial_slow_seconds: 2.0,
            slow_base: 1.2,
            longest_slow_seconds: 15.0,
            fast_base: 1.5,
            longest_seconds: 900.0,
            skip_to_fast_when_settled: true,
        }
    }
}

/// First looks after the fixed interval: more would be polling.
const FIXED_ATTEMPTS: std::ops::RangeInclusive<u32> = 1..=40;
const FIXED_ATTEMPTS_ELSE: u32 = 1;
/// Shorter intervals would be polling, too.
const SHORTEST_SECONDS: f64 = 2.0;
/// A smaller base hardly grows; a larger one reaches the longest interval at once.
const BASE_MIN: f64 = 1.05;
const BASE_MAX: f64 = 100.0;
const BASE_ELSE: f64 = 1.2;
/// An hour: what is looked at less often might as well not be looked at.
const LONGEST_SECONDS_MAX: f64 = 3600.0;
const LONGEST_SLOW_SECONDS_ELSE: f64 = 30.0;
const LONGEST_SECONDS_ELSE: f64 = 900.0;

impl Pace {
    /// The same with everything that is out of its limits replaced.
    #[must_use]
    pub fn checked(self) -> Self {
        let mut pace = self;
        if !FIXED_ATTEMPTS.contains(&pace.attempts_with_fixed_delay) {
            pace.attempts_with_fixed_delay = FIXED_ATTEMPTS_ELSE;
        }
        // Not `max`: what is no number is replaced too.
        pace.fixed_seconds = if pace.fixed_seconds >= SHORTEST_SECONDS { pace.fixed_seconds } else { SHORTEST_SECONDS };
        let (slow, fast) = (pace.slow_base, pace.fast_base);
        if !(BASE_MIN <= slow && slow <= fast && fast <= BASE_MAX) {
            (pace.slow_base, pace.fast_base) = (BASE_ELSE, BASE_ELSE);
        }
        let (first, slow, longest) = (pace.initial_slow_seconds, pace.longest_slow_seconds, pace.longest_seconds);
        if !(SHORTEST_SECONDS <= first && first <= slow && slow <= longest && longest <= LONGEST_SECONDS_MAX) {
            (pace.initial_slow_seconds, pace.longest_slow_seconds, pace.longest_seconds) =
                (SHORTEST_SECONDS, LONGEST_SLOW_SECONDS_ELSE, LONGEST_SECONDS_ELSE);
        }
        pace
    }
}

/// The counter stops here; the interval is at its longest by then.
const COUNTER_MAX: u32 = 199;

/// What is remembered of a Work's runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Requeue {
    counter: u32,
    last_seconds: f64,
    generation: i64,
    results: String,
    /// When the next look is due.
    due: Option<Timestamp>,
}

impl Requeue {
    /// When to look next. Starts over when the Work or what came of any manifest changed. A look that came for another reason
    /// before it was due neither counts nor puts off the one that is.
    pub fn next(
        &mut self,
        pace: &Pace,
        generation: i64,
        results: &[ManifestResult],
        settled: bool,
        now: Timestamp,
    ) -> Timestamp {
        let key = key_of(results);
        if self.generation != generation || self.results != key {
            *self = Self { generation, results: key, ..Self::default() };
        }
        if let Some(due) = self.due.filter(|due| *due > now) {
            return due;
        }
        let delay = self.delay(pace, settled).min(pace.longest_seconds);
        self.counter = (self.counter + 1).min(COUNTER_MAX);
        self.last_seconds = delay;
        let delay = Duration::try_from_secs_f64(delay).unwrap_or(Duration::from_mins(1));
        *self.due.insert(now.checked_add(delay).unwrap_or(Timestamp::MAX))
    }

    fn delay(&self, pace: &Pace, settled: bool) -> f64 {
        let last = self.last_seconds;
        if self.counter < pace.attempts_with_fixed_delay {
            return pace.fixed_seconds;
        }
        if self.counter == pace.attempts_with_fixed_delay {
            return pace.initial_slow_seconds;
        }
        if last >= pace.longest_seconds {
            return pace.longest_seconds;
        }
        let fast = last * pace.fast_base;
        if (pace.skip_to_fast_when_settled && settled) || last >= pace.longest_slow_seconds {
            return fast;
        }
        let slow = last * pace.slow_base;
        if slow > pace.longest_slow_seconds { fast } else { slow }
    }
}

/// What must stay the same for intervals to grow. Texts of errors are no part of it.
fn key_of(results: &[ManifestResult]) -> String {
    use super::availability::Availability;
    let word = |result: &ManifestResult| {
        let available = match &result.availability {
            None => "Skipped",
            Some(Availability::Available) => "Available",
            Some(Availability::NotYet) => "NotYet",
            Some(Availability::NotTrackable) => "NotTrackable",
            Some(Availability::Failed(_)) => "Failed",
        };
        format!("{},{available};", word_of(&result.processed.outcome))
    };
    results.iter().map(word).collect()
}

/// Whether something is wrong that no watch of the object tells the end of, so that it has to be tried again.
pub fn is_worth_a_retry(result: &ManifestResult, strategy: &ApplyStrategy) -> bool {
    use ManifestAppliedReason as Reason;
    let heeds_drift = strategy.when_to_apply() == WhenToApply::IfNotDrifted;
    match &result.processed.outcome {
        // What still differs after an apply is drift to the next look, and stops it.
        Outcome::Applied if heeds_drift && !result.processed.drifts.is_empty() => true,
        Outcome::Applied | Outcome::NoDiffFound | Outcome::FoundDiff | Outcome::FoundDiffInDegradedMode => false,
        Outcome::AppliedWithFailedDriftDetection | Outcome::FailedToReportDiff { .. } => true,
        Outcome::NotApplied { reason, .. } => match reason {
            // Only another Work, another kind on the member or another live object can change these.
            Reason::DecodingErred
            | Reason::FoundGenerateName
            | Reason::Duplicated
            | Reason::NotTakenOver
            | Reason::FoundDrifts
            | Reason::FoundDriftsInDegradedMode => false,
            Reason::FailedToTakeOver => result.processed.diffs.is_empty(),
            Reason::FailedToFindObject
            | Reason::FailedToRunDriftDetection
            | Reason::ApplyFailed
            | Reason::Applied
            | Reason::AppliedWithFailedDriftDetection
            | Reason::PreparingToProcess => true,
        },
    }
}
