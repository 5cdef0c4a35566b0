//! When a Work is reconciled again without an event: soon after a change, then at growing intervals.
//!
//! A Work whose objects are all watched and that waits for nothing else is not requeued.

use std::time::Duration;

use fleet_api::conditions::work::ManifestAppliedReason;
use fleet_api::types::{ApplyStrategy, WhenToApply};
use jiff::Timestamp;

use super::process::ManifestOutcome;
use super::status::{ManifestResult, word_of};

/// How the intervals grow. `RequeueBackoff::checked` enforces the limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequeueBackoff {
    /// Number of first attempts with the interval `fixed_seconds`.
    pub attempts_with_fixed_delay: u32,
    pub fixed_seconds: f64,
    /// The first interval after those, and the base by which it grows up to `longest_slow_seconds`.
    pub initial_slow_seconds: f64,
    pub slow_base: f64,
    pub longest_slow_seconds: f64,
    /// The base from there on, and the longest interval.
    pub fast_base: f64,
    pub longest_seconds: f64,
    /// Whether the interval of a Work that is available, or has reported its diff, grows by the fast base at once.
    pub skip_to_fast_when_settled: bool,
}

impl Default for RequeueBackoff {
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

/// Limits of attempts with the fixed interval: more would be polling.
const FIXED_ATTEMPTS: std::ops::RangeInclusive<u32> = 1..=40;
const FIXED_ATTEMPTS_ELSE: u32 = 1;
/// Shorter intervals would be polling, too.
const SHORTEST_SECONDS: f64 = 2.0;
/// A smaller base hardly grows; a larger one reaches the longest interval at once.
const BASE_MIN: f64 = 1.05;
const BASE_MAX: f64 = 100.0;
const BASE_ELSE: f64 = 1.2;
/// An hour: longer intervals would be useless.
const LONGEST_SECONDS_MAX: f64 = 3600.0;
const LONGEST_SLOW_SECONDS_ELSE: f64 = 30.0;
const LONGEST_SECONDS_ELSE: f64 = 900.0;

impl RequeueBackoff {
    /// Replaces everything that is out of its limits.
    #[must_use]
    pub fn checked(self) -> Self {
        let mut backoff = self;
        if !FIXED_ATTEMPTS.contains(&backoff.attempts_with_fixed_delay) {
            backoff.attempts_with_fixed_delay = FIXED_ATTEMPTS_ELSE;
        }
        // Not `max`: NaN is replaced too.
        backoff.fixed_seconds =
            if backoff.fixed_seconds >= SHORTEST_SECONDS { backoff.fixed_seconds } else { SHORTEST_SECONDS };
        let (slow, fast) = (backoff.slow_base, backoff.fast_base);
        if !(BASE_MIN <= slow && slow <= fast && fast <= BASE_MAX) {
            (backoff.slow_base, backoff.fast_base) = (BASE_ELSE, BASE_ELSE);
        }
        let (first, slow, longest) =
            (backoff.initial_slow_seconds, backoff.longest_slow_seconds, backoff.longest_seconds);
        if !(SHORTEST_SECONDS <= first && first <= slow && slow <= longest && longest <= LONGEST_SECONDS_MAX) {
            (backoff.initial_slow_seconds, backoff.longest_slow_seconds, backoff.longest_seconds) =
                (SHORTEST_SECONDS, LONGEST_SLOW_SECONDS_ELSE, LONGEST_SECONDS_ELSE);
        }
        backoff
    }
}

/// The counter stops here, when the interval is at its longest.
const COUNTER_MAX: u32 = 199;

/// The requeue state of a Work.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Requeue {
    counter: u32,
    last_seconds: f64,
    generation: i64,
    results: String,
    /// When the next reconcile is due.
    due: Option<Timestamp>,
}

impl Requeue {
    /// When to reconcile next. Starts over when the Work or a result has changed. A reconcile for another reason
    /// before that time neither counts nor postpones it.
    pub fn next(
        &mut self,
        backoff: &RequeueBackoff,
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
        let delay = self.delay(backoff, settled).min(backoff.longest_seconds);
        self.counter = (self.counter + 1).min(COUNTER_MAX);
        self.last_seconds = delay;
        let delay = Duration::try_from_secs_f64(delay).unwrap_or(Duration::from_mins(1));
        *self.due.insert(now.checked_add(delay).unwrap_or(Timestamp::MAX))
    }

    fn delay(&self, backoff: &RequeueBackoff, settled: bool) -> f64 {
        let last = self.last_seconds;
        if self.counter < backoff.attempts_with_fixed_delay {
            return backoff.fixed_seconds;
        }
        if self.counter == backoff.attempts_with_fixed_delay {
            return backoff.initial_slow_seconds;
        }
        if last >= backoff.longest_seconds {
            return backoff.longest_seconds;
        }
        let fast = last * backoff.fast_base;
        if (backoff.skip_to_fast_when_settled && settled) || last >= backoff.longest_slow_seconds {
            return fast;
        }
        let slow = last * backoff.slow_base;
        if slow > backoff.longest_slow_seconds { fast } else { slow }
    }
}

/// What must stay the same for intervals to grow. Error texts are not part of it.
fn key_of(results: &[ManifestResult]) -> String {
    use super::availability::Availability;
    let word = |result: &ManifestResult| {
        let available = match &result.availability {
            None => "skipped",
            Some(Availability::Available) => "available",
            Some(Availability::NotYet) => "not yet",
            Some(Availability::NotTrackable) => "not trackable",
            Some(Availability::Failed(_)) => "failed",
        };
        format!("{},{available};", word_of(&result.processed.outcome))
    };
    results.iter().map(word).collect()
}

/// Whether the result must be retried because no watch event will signal that the problem is solved.
pub fn is_worth_a_retry(result: &ManifestResult, strategy: &ApplyStrategy) -> bool {
    use ManifestAppliedReason as Reason;
    let heeds_drift = strategy.when_to_apply() == WhenToApply::IfNotDrifted;
    match &result.processed.outcome {
        // What still differs after an apply is drift to the next reconcile, and stops it.
        ManifestOutcome::Applied if heeds_drift && !result.processed.drifts.is_empty() => true,
        ManifestOutcome::Applied
        | ManifestOutcome::NoDiffFound
        | ManifestOutcome::FoundDiff
        | ManifestOutcome::FoundDiffInDegradedMode => false,
        ManifestOutcome::AppliedWithFailedDriftDetection | ManifestOutcome::FailedToReportDiff { .. } => true,
        ManifestOutcome::NotApplied { reason, .. } => match reason {
            // Only a change of the Work, of the served kinds or of the live object can solve these.
            Reason::DecodingErred
            | Reason::Denied
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
