//! When a Work is looked at again although nothing was heard of its objects.
//!
//! Decides from the results of the runs so far: soon after something changed, then at growing intervals. A Work whose
//! objects are all watched and that waits for nothing else needs no such look. Never reads a clock.

use std::time::Duration;

use fleet_api::conditions::work::ManifestAppliedReason;

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

impl Pace {
    /// The same with everything that is out of its limits replaced.
    #[must_use]
    pub fn checked(self) -> Self {
        let mut pace = self;
        if !(1..=40).contains(&pace.attempts_with_fixed_delay) {
            pace.attempts_with_fixed_delay = 1;
        }
        pace.fixed_seconds = if pace.fixed_seconds >= 2.0 { pace.fixed_seconds } else { 2.0 };
        let (slow, fast) = (pace.slow_base, pace.fast_base);
        if !(1.05 <= slow && slow <= fast && fast <= 100.0) {
            (pace.slow_base, pace.fast_base) = (1.2, 1.2);
        }
        let (first, slow, longest) = (pace.initial_slow_seconds, pace.longest_slow_seconds, pace.longest_seconds);
        if !(2.0 <= first && first <= slow && slow <= longest && longest <= 3600.0) {
            (pace.initial_slow_seconds, pace.longest_slow_seconds, pace.longest_seconds) = (2.0, 30.0, 900.0);
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
}

impl Requeue {
    /// The interval until the next look. Starts over when the Work or what came of any manifest changed.
    pub fn next(&mut self, pace: &Pace, generation: i64, results: &[ManifestResult], settled: bool) -> Duration {
        let key = key_of(results);
        if self.generation != generation || self.results != key {
            *self = Self { counter: 0, last_seconds: 0.0, generation, results: key };
        }
        let delay = self.delay(pace, settled).min(pace.longest_seconds);
        self.counter = (self.counter + 1).min(COUNTER_MAX);
        self.last_seconds = delay;
        Duration::try_from_secs_f64(delay).unwrap_or(Duration::from_mins(1))
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
pub fn is_worth_a_retry(result: &ManifestResult) -> bool {
    use ManifestAppliedReason as Reason;
    match &result.processed.outcome {
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
