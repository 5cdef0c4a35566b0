//! Random worlds: with faults they end where they end without, and the same seed gives the same trace.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};

use fleet_sim::trial::{stormy_trace, trial};

/// Seeds that every run of the tests tries. `cargo xtask sim` tries more.
const SEEDS: u64 = 200;

#[test]
fn faults_and_crashes_change_nothing_in_the_end() {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut failures = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= SEEDS {
                    return failures;
                }
                failures.extend(trial(seed).err().map(|failure| failure.to_string()));
            }
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|thread| thread.join().expect("a trial does not panic")).collect()
    });
    assert!(failures.is_empty(), "{} of {SEEDS} seeds failed; the first:\n{}", failures.len(), failures[0]);
}

#[test]
fn one_seed_gives_one_trace() {
    let (first, second) = (stormy_trace(11).unwrap(), stormy_trace(11).unwrap());
    let differing = first.lines().zip(second.lines()).position(|(one, other)| one != other);
    assert!(first == second, "the traces part at line {differing:?}");
    assert_ne!(first, stormy_trace(12).unwrap());
    assert!(first.contains("(fault)"));
}
