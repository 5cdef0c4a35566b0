//! The order of keys and their retries: tables, and a property over random histories.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

/// Commands: `change k`, `batch k due-ms`, `initial k`, `take`, `ok k [wake at ms]`, `flush k`, `flushed k`, `fail k`, `conflict k`,
/// `cancel k`, `at ms`. Prints the result of each `take`, and what is due next at the end.
fn check(commands: &str, expected: Expect) {
    let mut queue = Queue::default();
    let mut now = 0;
    let mut out = Vec::new();
    for command in commands.split([';', '\n']).map(str::trim).filter(|command| !command.is_empty()) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let number = |at: usize| words.get(at).map(|word| word.parse::<i64>().unwrap());
        let done = |queue: &mut Queue<String>, done| queue.done(&words[1].to_owned(), done, at(now));
        match words[0] {
            "at" => now = number(1).unwrap(),
            "change" => queue.enqueue(words[1].to_owned(), Reason::Change, at(now)),
            "batch" => queue.enqueue_by(words[1].to_owned(), at(number(2).unwrap())),
            "initial" => queue.enqueue(words[1].to_owned(), Reason::Initial, at(now)),
            "ok" => done(&mut queue, Done::Settled { wake: number(2).map(at) }),
            "flush" => out.push(format!("flush {}", queue.take_idle(&words[1].to_owned(), at(now)))),
            "flushed" => done(&mut queue, Done::Flushed),
            "fail" => done(&mut queue, Done::Failed),
            "conflict" => done(&mut queue, Done::Conflict),
            "cancel" => done(&mut queue, Done::Cancelled),
            "take" => out.push(queue.take(at(now)).map_or("-".to_owned(), |taken| {
                format!("{} {} +{}", taken.key, taken.reason.label(), now - taken.since.as_millisecond())
            })),
            other => panic!("no such command: {other}"),
        }
    }
    let due = queue.next_due().map_or("nothing".to_owned(), |due| due.as_millisecond().to_string());
    out.push(format!("due {due}, {} waiting, {}", queue.depth(), if queue.is_idle() { "idle" } else { "busy" }));
    expected.assert_eq(&out.join("; "));
}

#[test]
fn a_clock_that_is_set_back_fires_all_timers_and_a_correction_does_not() {
    check(
        "at 5000; change a; take; ok a 9000; change b; take; fail b; at 2000; take; take; ok a 6000; fail b",
        expect!["a change +0; b change +0; b wake +0; a wake +0; due 2200, 0 waiting, idle"],
    );
    check(
        "at 5000; change a; take; ok a 9000; at 4500; take; at 9000; take",
        expect!["a change +0; -; a wake +0; due nothing, 0 waiting, busy"],
    );
}

#[test]
fn changes_come_before_wake_ups_and_the_first_list_comes_last() {
    check(
        "initial c; initial a; change z; change b; take; take; take; take; take",
        expect!["z change +0; b change +0; c initial +0; a initial +0; -; due nothing, 0 waiting, busy"],
    );
    check(
        "change a; take; ok a 1000; initial i; at 1000; change c; take; take; take",
        expect!["a change +0; c change +0; a wake +0; i initial +1000; due nothing, 0 waiting, busy"],
    );
}

#[test]
fn a_key_that_is_enqueued_twice_is_reconciled_once_for_the_more_urgent_reason() {
    check(
        "initial a; initial b; at 5; change b; change b; initial b; take; take; take",
        expect!["b change +5; a initial +5; -; due nothing, 0 waiting, busy"],
    );
}

#[test]
fn a_key_in_flight_is_not_handed_out_again_but_reconciled_once_more_if_it_changed() {
    check(
        "change a; take; change a; at 3; change a; take; at 7; ok a; take; ok a; take",
        expect!["a change +0; -; a change +7; -; due nothing, 0 waiting, idle"],
    );
    check("change a; take; initial a; ok a; take", expect!["a change +0; a initial +0; due nothing, 0 waiting, busy"]);
}

#[test]
fn a_burst_of_changes_is_reconciled_once() {
    check(
        "batch a 100; at 50; batch a 150; take; at 100; take; ok a; at 200; take",
        expect!["-; a change +0; -; due nothing, 0 waiting, idle"],
    );
    check("batch a 100; take", expect!["-; due 100, 0 waiting, busy"]);
    // An urgent change includes the batched ones.
    check(
        "batch a 100; at 10; change a; take; ok a; at 100; take",
        expect!["a change +0; -; due nothing, 0 waiting, idle"],
    );
    // Changes that arrive in flight are batched too, and an earlier wake-up includes them.
    check(
        "change a; take; batch a 100; ok a 1000; take; at 100; take",
        expect!["a change +0; -; a change +0; due nothing, 0 waiting, busy"],
    );
    check(
        "change a; take; batch a 100; ok a 50; at 50; take",
        expect!["a change +0; a change +0; due nothing, 0 waiting, busy"],
    );
    check(
        "change a; take; ok a 1000; batch a 100; take; at 100; take; ok a",
        expect!["a change +0; -; a change +0; due nothing, 0 waiting, idle"],
    );
    check(
        "change a; take; batch a 100; cancel a; take",
        expect!["a change +0; a change +0; due nothing, 0 waiting, busy"],
    );
}

#[test]
fn a_wake_up_comes_at_its_time_and_the_next_result_replaces_it() {
    check(
        "change a; take; ok a 1000; at 999; take; at 1000; take",
        expect!["a change +0; -; a wake +0; due nothing, 0 waiting, busy"],
    );
    check(
        "change a; take; ok a 1000; at 10; change a; take; ok a; at 1000; take",
        expect!["a change +0; a change +0; -; due nothing, 0 waiting, idle"],
    );
    check("at 500; change a; take; ok a 100; take", expect!["a change +0; -; due 510, 0 waiting, idle"]);
}

#[test]
fn the_backoff_grows_with_failures_and_resets_after_a_success() {
    check(
        "change a; take; fail a; at 100; take; fail a; at 300; take; fail a",
        expect!["a change +0; a wake +0; a wake +0; due 700, 0 waiting, idle"],
    );
    check(
        "change a; take; fail a; at 100; take; ok a; change a; take; fail a",
        expect!["a change +0; a wake +0; a change +0; due 200, 0 waiting, idle"],
    );
    let delays = [1, 2, 9, 10, 11, 40, u32::MAX].map(|failures| Retry::default().delay(failures).as_millis());
    assert_eq!(delays, [100, 200, 25_600, 51_200, 60_000, 60_000, 60_000]);
    let quick = Retry { first: Duration::from_millis(5), longest: Duration::from_secs(1) };
    assert_eq!([1, 2, 8, 9, 30].map(|failures| quick.delay(failures).as_millis()), [5, 10, 640, 1000, 1000]);
    let mut queue = Queue::new(quick);
    queue.enqueue("a", Reason::Change, at(0));
    queue.take(at(0));
    queue.done(&"a", Done::Failed, at(0));
    assert_eq!(queue.next_due(), Some(at(5)));
}

#[test]
fn audit_20_a_change_after_a_failure_or_during_it_shortens_the_backoff_but_does_not_end_it() {
    check(
        "change a; take; fail a; at 50; change a; take; at 100; take",
        expect!["a change +0; -; a change +0; due nothing, 0 waiting, busy"],
    );
    // A failing key that causes changes itself cannot keep a worker busy.
    check(
        "change a; take; fail a; change a; take; at 100; take; fail a; change a; take; at 200; take",
        expect!["a change +0; -; a change +0; -; -; due 300, 0 waiting, busy"],
    );
    let failing = (1..=10).map(|time| format!("at {time}00000; take; fail a; ")).collect::<Vec<_>>().concat();
    let failing = format!("change a; take; fail a; {failing}");
    check(
        &format!("{failing} change a; at 1000999; take; at 1001000; take"),
        expect![
            "a change +0; a wake +99900; a wake +99800; a wake +99600; a wake +99200; a wake +98400; a wake +96800; a wake +93600; a wake +87200; a wake +74400; a wake +48800; -; a change +0; due nothing, 0 waiting, busy"
        ],
    );
    check(
        &format!("{failing} at 1100000; take; change a; fail a"),
        expect![
            "a change +0; a wake +99900; a wake +99800; a wake +99600; a wake +99200; a wake +98400; a wake +96800; a wake +93600; a wake +87200; a wake +74400; a wake +48800; a wake +40000; due 1101000, 0 waiting, idle"
        ],
    );
}

#[test]
fn conflicts_are_retried_at_once_but_not_forever() {
    let fight = "change a; ".to_owned() + &"take; conflict a; ".repeat(6) + "take";
    check(
        &fight,
        expect![
            "a change +0; a change +0; a change +0; a change +0; a change +0; a change +0; -; due 100, 0 waiting, idle"
        ],
    );
}

#[test]
fn a_cancelled_key_returns_to_its_position() {
    check("initial a; take; at 5; cancel a; take", expect!["a initial +0; a initial +5; due nothing, 0 waiting, busy"]);
    check(
        "initial a; take; change a; at 5; cancel a; take",
        expect!["a initial +0; a change +5; due nothing, 0 waiting, busy"],
    );
}

#[test]
fn a_flush_takes_a_key_only_if_it_is_idle_and_keeps_its_timer() {
    check(
        "change a; take; flush a; ok a 500; flush a; at 500; take; flushed a; take; ok a",
        expect!["a change +0; flush false; flush true; -; a wake +0; due nothing, 0 waiting, idle"],
    );
    check(
        "change a; flush a; take; ok a; flush a; change a; flushed a; take",
        expect!["flush false; a change +0; flush true; a change +0; due nothing, 0 waiting, busy"],
    );
    check(
        "flush a; batch a 100; flushed a; at 100; take; ok a; flush a; fail a",
        expect!["flush true; a change +0; flush true; due 200, 0 waiting, idle"],
    );
}

#[derive(Debug, Clone)]
enum Step {
    Enqueue(u8, Reason),
    Batch(u8, u16),
    Take,
    Done(u8, u8, u16),
    Pass(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let reason = prop_oneof![Just(Reason::Change), Just(Reason::Initial)];
    let step = prop_oneof![
        3 => (0..6u8, reason).prop_map(|(key, reason)| Step::Enqueue(key, reason)),
        1 => (0..6u8, any::<u16>()).prop_map(|(key, delay)| Step::Batch(key, delay)),
        3 => Just(Step::Take),
        3 => (any::<u8>(), 0..5u8, any::<u16>()).prop_map(|(which, how, wake)| Step::Done(which, how, wake)),
        1 => any::<u16>().prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}

fn is_backing_off(queue: &Queue<u8>, key: u8) -> bool {
    queue.keys.get(&key).is_some_and(State::is_backing_off)
}

fn done_of(how: u8, wake: u16, now: i64) -> Done {
    match how {
        0 => Done::Settled { wake: None },
        1 => Done::Settled { wake: Some(at(now + i64::from(wake))) },
        2 => Done::Failed,
        3 => Done::Conflict,
        _ => Done::Cancelled,
    }
}

proptest! {
    /// A key is never handed out twice at the same time, the most urgent comes first, and every enqueued key is handed out.
    #[test]
    fn no_key_is_lost_doubled_or_overtaken(steps in steps()) {
        let mut queue = Queue::default();
        let mut now = 0i64;
        let mut in_flight: BTreeSet<u8> = BTreeSet::new();
        // Keys to be reconciled, with the most urgent reason; only those enqueued before a take.
        let mut owed: BTreeMap<u8, Reason> = BTreeMap::new();
        // Keys to be reconciled at some later time.
        let mut batched: BTreeSet<u8> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Enqueue(key, reason) if reason == Reason::Change && is_backing_off(&queue, key) => {
                    queue.enqueue(key, reason, at(now));
                    batched.insert(key);
                }
                Step::Enqueue(key, reason) => {
                    queue.enqueue(key, reason, at(now));
                    let most = owed.entry(key).or_insert(reason);
                    *most = reason.min(*most);
                }
                Step::Batch(key, delay) => {
                    queue.enqueue_by(key, at(now + i64::from(delay)));
                    batched.insert(key);
                }
                Step::Take => {
                    let taken = queue.take(at(now));
                    let due: Vec<_> = owed.iter().filter(|(key, _)| !in_flight.contains(key)).collect();
                    let most_urgent = due.iter().map(|(_, reason)| **reason).min();
                    if let Some(taken) = taken {
                        prop_assert!(in_flight.insert(taken.key), "{} was handed out twice", taken.key);
                        prop_assert!(most_urgent.is_none_or(|most| taken.reason <= most), "{taken:?} overtook {due:?}");
                        owed.remove(&taken.key);
                        batched.remove(&taken.key);
                    }
                }
                Step::Done(which, how, wake) => {
                    let Some(key) = in_flight.iter().copied().nth(usize::from(which) % in_flight.len().max(1)) else { continue };
                    in_flight.remove(&key);
                    queue.done(&key, done_of(how, wake, now), at(now));
                    // A failed key backs off; a conflict or a cancelled reconcile enqueues the key itself.
                    if how >= 2 {
                        owed.remove(&key);
                    }
                }
                Step::Pass(millis) => now += i64::from(millis),
            }
        }
        for key in std::mem::take(&mut in_flight) {
            queue.done(&key, Done::Settled { wake: None }, at(now));
        }
        now += 3_600_000;
        while let Some(taken) = queue.take(at(now)) {
            owed.remove(&taken.key);
            batched.remove(&taken.key);
            queue.done(&taken.key, Done::Settled { wake: None }, at(now));
        }
        prop_assert!(owed.is_empty() && batched.is_empty(), "never reconciled: {owed:?} {batched:?}");
        prop_assert!(queue.is_idle() && queue.next_due().is_none() && queue.keys.is_empty(), "{queue:?}");
    }
}

#[test]
fn keys_with_the_same_reason_are_ordered_by_rank_and_then_by_time() {
    let now = Timestamp::UNIX_EPOCH;
    let mut queue = Queue::default();
    for (key, rank) in [("old", 90), ("older", 100), ("fresh", 0), ("also fresh", 0)] {
        queue.enqueue_ranked(key, Reason::Change, rank, now);
    }
    queue.enqueue("woken", Reason::Wake, now);
    queue.enqueue_ranked("older", Reason::Change, 50, now);
    queue.enqueue_ranked("fresh", Reason::Change, 80, now);
    let taken: Vec<&str> = std::iter::from_fn(|| queue.take(now).map(|taken| taken.key)).collect();
    assert_eq!(taken, ["fresh", "also fresh", "older", "old", "woken"]);
}
