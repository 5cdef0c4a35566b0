//! Requeue intervals and the delete budget.

use fleet_api::conditions::work::ManifestAppliedReason;
use fleet_api::types::{ApplyStrategy, PatchDetail, WhenToApply};
use jiff::{SignedDuration, Timestamp};

use super::reporting::result;
use crate::apply::availability::Availability;
use crate::apply::budget::{Budget, Limit, is_current};
use crate::apply::process::ManifestOutcome;
use crate::apply::requeue::{Requeue, RequeueBackoff, is_worth_a_retry};

fn gaps(backoff: &RequeueBackoff, settled: bool, runs: usize) -> Vec<f64> {
    let availability = if settled { Availability::Available } else { Availability::NotYet };
    let results = [result(0, "a", ManifestOutcome::Applied, Some(availability))];
    let (mut requeue, mut now) = (Requeue::default(), at(0));
    let mut gap = || {
        let next = requeue.next(backoff, 1, &results, settled, now);
        let gap = next.duration_since(now).as_secs_f64();
        now = next;
        (gap * 1000.0).round() / 1000.0
    };
    (0..runs).map(|_| gap()).collect()
}

fn steep() -> RequeueBackoff {
    RequeueBackoff {
        attempts_with_fixed_delay: 1,
        fixed_seconds: 10.0,
        slow_base: 1.5,
        initial_slow_seconds: 20.0,
        longest_slow_seconds: 30.0,
        fast_base: 2.0,
        longest_seconds: 90.0,
        skip_to_fast_when_settled: true,
    }
}

#[test]
fn applier_s66_a_work_that_never_becomes_available_is_reconciled_less_often() {
    assert_eq!(gaps(&steep(), false, 6), [10.0, 20.0, 30.0, 60.0, 90.0, 90.0]);
    assert_eq!(
        gaps(&RequeueBackoff::default(), false, 25),
        [
            5.0, 2.0, 2.4, 2.88, 3.456, 4.147, 4.977, 5.972, 7.166, 8.6, 10.32, 12.383, 14.86, 22.29, 33.435, 50.153,
            75.23, 112.844, 169.267, 253.9, 380.85, 571.275, 856.912, 900.0, 900.0
        ]
    );
}

#[test]
fn applier_s67_an_available_work_skips_the_slow_backoff() {
    assert_eq!(gaps(&steep(), true, 5), [10.0, 20.0, 40.0, 80.0, 90.0]);
    assert_eq!(
        gaps(&RequeueBackoff::default(), true, 18),
        [
            5.0, 2.0, 3.0, 4.5, 6.75, 10.125, 15.188, 22.781, 34.172, 51.258, 76.887, 115.33, 172.995, 259.493,
            389.239, 583.859, 875.788, 900.0
        ]
    );
}

#[test]
fn applier_s68_a_change_restarts_the_backoff() {
    let available = [result(0, "a", ManifestOutcome::Applied, Some(Availability::Available))];
    let waiting = [result(0, "a", ManifestOutcome::Applied, Some(Availability::NotYet))];
    let failed = |error: &str| {
        let reason = ManifestAppliedReason::ApplyFailed;
        [result(0, "a", ManifestOutcome::NotApplied { reason, error: error.into() }, None)]
    };
    let (mut requeue, mut now) = (Requeue::default(), at(0));
    let mut next = |generation, results: &[_]| {
        let next = requeue.next(&RequeueBackoff::default(), generation, results, true, now);
        let gap = next.duration_since(now).as_secs();
        now = next;
        gap
    };
    for _ in 0..40 {
        next(1, &available);
    }
    assert_eq!(next(1, &available), 900);
    assert_eq!([next(2, &available), next(2, &available)], [5, 2], "a new generation");
    assert_eq!([next(2, &waiting), next(2, &waiting)], [5, 2], "another result");
    assert_eq!([next(2, &failed("a")), next(2, &failed("b"))], [5, 2], "other words are no other result");
}

#[test]
fn an_early_reconcile_neither_counts_nor_delays_the_next() {
    let results = [result(0, "a", ManifestOutcome::Applied, Some(Availability::Available))];
    let mut requeue = Requeue::default();
    let mut next = |second| requeue.next(&RequeueBackoff::default(), 1, &results, true, at(second)).as_second();
    assert_eq!([next(0), next(1), next(4), next(5), next(6), next(7)], [5, 5, 5, 7, 7, 10]);
}

#[test]
fn intervals_outside_their_limits_are_replaced() {
    let odd = RequeueBackoff {
        attempts_with_fixed_delay: 41,
        fixed_seconds: 1.0,
        slow_base: 3.0,
        fast_base: 2.0,
        initial_slow_seconds: 40.0,
        longest_slow_seconds: 30.0,
        longest_seconds: 9000.0,
        skip_to_fast_when_settled: false,
    };
    let checked = odd.checked();
    assert_eq!((checked.attempts_with_fixed_delay, checked.fixed_seconds), (1, 2.0));
    assert_eq!((checked.slow_base, checked.fast_base), (1.2, 1.2));
    let intervals = (checked.initial_slow_seconds, checked.longest_slow_seconds, checked.longest_seconds);
    assert_eq!(intervals, (2.0, 30.0, 900.0));
    assert_eq!(steep().checked(), steep());
    let nan =
        RequeueBackoff { fixed_seconds: f64::NAN, slow_base: f64::NAN, initial_slow_seconds: f64::NAN, ..steep() };
    assert!(gaps(&nan.checked(), false, 30).iter().all(|gap| *gap >= 1.0));
}

#[test]
fn problems_whose_end_a_watch_shows_are_not_retried() {
    let outcome = |reason| ManifestOutcome::NotApplied { reason, error: String::new() };
    let retried = |reason| is_worth_a_retry(&result(0, "a", outcome(reason), None), &ApplyStrategy::default());
    for reason in [
        ManifestAppliedReason::FoundDrifts,
        ManifestAppliedReason::NotTakenOver,
        ManifestAppliedReason::Duplicated,
        ManifestAppliedReason::DecodingErred,
    ] {
        assert!(!retried(reason), "{reason}");
    }
    assert!(retried(ManifestAppliedReason::ApplyFailed) && retried(ManifestAppliedReason::FailedToTakeOver));
    let always = ApplyStrategy::default();
    let mut applied = result(0, "a", ManifestOutcome::Applied, Some(Availability::NotYet));
    assert!(!is_worth_a_retry(&applied, &always));
    applied.processed.drifts = vec![PatchDetail { path: "/spec/x".into(), ..PatchDetail::default() }];
    assert!(!is_worth_a_retry(&applied, &always), "what is left on the member stays as it is");
    let heeding = ApplyStrategy { when_to_apply: Some(WhenToApply::IfNotDrifted), ..ApplyStrategy::default() };
    assert!(is_worth_a_retry(&applied, &heeding), "to the next look it is drift");
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn deletions_within_a_minute_are_limited() {
    let mut budget = Budget::default();
    assert_eq!(budget.take_some(3, 5, at(0)), 3);
    assert_eq!(budget.take_some(9, 5, at(10)), 2);
    assert_eq!(budget.take_some(9, 5, at(59)), 0);
    assert_eq!(budget.next_room(at(59)), Some(at(60)));
    assert_eq!(Budget::default().next_room(at(59)), None);
    assert_eq!(budget.take_some(9, 5, at(60)), 3);
    assert_eq!(budget.take_some(9, 5, at(70)), 2);
    assert!(!budget.take_all(1, 5, at(71)));
    assert!(!budget.take_all(6, 5, at(71 + 60)), "what is larger than the limit does not go at once, ever");
    assert_eq!(budget.room(5, at(71 + 60)), 5, "what is refused is not counted");
    assert!(budget.take_all(4, 5, at(71 + 60)));
    assert!(!budget.take_all(2, 5, at(71 + 61)) && budget.take_all(1, 5, at(71 + 61)));
    assert_eq!(Budget::default().take_some(4, 0, at(0)), 1, "a limit of nothing would keep everything for ever");
}

#[test]
fn the_limit_is_the_larger_of_number_and_share() {
    let limit = Limit { objects: 10, percent: 20 };
    assert_eq!((limit.of(0), limit.of(50), limit.of(1000)), (10, 10, 200));
    assert_eq!(Limit::default().of(0), 200);
    assert_eq!(crate::apply::budget::WINDOW, SignedDuration::from_mins(1));
}

/// The budget that an agent resumes from these records at this second.
fn resumed(records: &[&str], unrecorded: usize, second: i64) -> Budget {
    Budget::resumed(records.iter().copied(), unrecorded, at(second), at(second))
}

#[test]
fn audit_04_a_budget_is_resumed_from_its_record() {
    let mut budget = Budget::default();
    assert_eq!(budget.take_some(2, 5, at(0)), 2);
    budget.take_some(1, 5, at(0));
    let first = budget.due_record(at(0)).unwrap();
    assert_eq!(first.text, "1970-01-01T00:00:00Z=3");
    budget.recorded(&first);
    assert_eq!(budget.due_record(at(0)), None, "nothing new");
    budget.take_some(1, 5, Timestamp::from_millisecond(30_001).unwrap());
    let second = budget.due_record(at(31)).unwrap();
    assert_eq!(second.text, "1970-01-01T00:00:00Z=3 1970-01-01T00:00:31Z=1");
    let records = [first.text.as_str(), second.text.as_str()];
    assert_eq!(resumed(&records, 0, 40).room(5, at(40)), 1, "the same deletion in two records counts once");
    assert_eq!(resumed(&records, 0, 40).room(5, at(60)), 4);
    assert_eq!(resumed(&records, 0, 40).room(5, at(91)), 5);
    assert_eq!(budget.record(at(91)), None, "what is over is no longer recorded");
}

#[test]
fn audit_04_possibly_unrecorded_deletions_count_after_a_restart() {
    assert_eq!((Limit::default().unrecorded(), Limit { objects: 9, percent: 50 }.unrecorded()), (20, 0));
    let mut budget = resumed(&[], 20, 0);
    assert_eq!(budget.room(200, at(0)), 180);
    budget.take_some(1, 200, at(1));
    let record = budget.due_record(at(1)).unwrap();
    assert_eq!(record.text, "1970-01-01T00:00:00Z=20 1970-01-01T00:00:01Z=1", "a third agent must know of the first");
    budget.recorded(&record);
    assert_eq!((budget.take_some(20, 200, at(2)), budget.due_record(at(2))), (20, None), "few enough");
    assert_eq!((budget.take_some(1, 200, at(3)), budget.due_record(at(3)).is_some()), (1, true));
    let mut usual = resumed(&[], 20, 0);
    assert_eq!((usual.take_some(20, 200, at(60)), usual.due_record(at(60))), (20, None), "the first minute is over");
}

#[test]
fn audit_04_failed_deletions_return_to_the_budget() {
    let mut budget = resumed(&[], 0, 0);
    budget.take_some(3, 5, at(1));
    budget.give_back(3, at(1));
    assert_eq!(budget.room(5, at(1)), 5);
    budget.give_back(3, at(1));
    assert_eq!(budget.room(5, at(1)), 5);
}

#[test]
fn audit_04_a_forged_record_does_no_lasting_harm() {
    let future = "2999-01-01T00:00:00Z=9";
    assert_eq!(resumed(&[future], 0, 10).room(5, at(10)), 0);
    assert_eq!(resumed(&[future], 0, 10).room(5, at(70)), 5, "a clock that was set back costs a minute");
    let huge = format!("1970-01-01T00:00:09Z={max} 1970-01-01T00:00:10Z={max}", max = usize::MAX);
    assert_eq!(resumed(&[&huge], 0, 10).room(5, at(10)), 0);
    for broken in ["", "x", "=", "a=b 1970-01-01T00:00:09Z=-1", "1970-01-01T00:00:09Z"] {
        assert_eq!(resumed(&[broken], 0, 10).room(5, at(10)), 5, "{broken}");
    }
    assert!(is_current("1970-01-01T00:00:09Z=1", at(68)) && !is_current("1970-01-01T00:00:09Z=1", at(69)));
}
