//! Random worlds: the same seed gives the same trace, and faults change nothing in the end.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};

use fleet_sim::trial::Trials;

/// Few, because this program is not optimised; `cargo xtask test --only sim` tries two hundred.
const SEEDS: u64 = 12;

#[test]
fn one_seed_gives_one_trace() {
    let trials = Trials::prepare().unwrap();
    let (first, second) = (trials.stormy_trace(11).unwrap(), trials.stormy_trace(11).unwrap());
    let differing = first.lines().zip(second.lines()).position(|(one, other)| one != other);
    assert!(first == second, "the traces part at line {differing:?}");
    assert_ne!(first, trials.stormy_trace(12).unwrap());
    assert!(first.contains("(fault)"));
}

#[test]
fn faults_and_crashes_change_nothing_in_the_end() {
    let (trials, next) = (Trials::prepare().unwrap(), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                return;
            }
            if let Err(failure) = trials.run(seed) {
                panic!("{failure}");
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}

#[tokio::test]
async fn trials_may_be_prepared_within_a_runtime() {
    assert!(Trials::prepare().is_ok());
}
