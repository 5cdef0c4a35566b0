//! Random scenarios: the same seed gives the same trace, and faults do not change the final state.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};

use fleet_sim::trial::Trials;

/// Few, because this program is not optimised; `cargo xtask test --only sim` runs two hundred.
const SEEDS: u64 = 12;

/// One of each kind.
const TRACED: std::ops::Range<u64> = 8..12;

#[test]
fn one_seed_gives_one_trace() {
    let trials = Trials::prepare().unwrap();
    let mut faults = 0;
    for seed in TRACED {
        let (first, second) = (trials.trace_with_faults(seed).unwrap(), trials.trace_with_faults(seed).unwrap());
        let differing = first.lines().zip(second.lines()).position(|(one, other)| one != other);
        assert!(first == second, "the traces of {seed} part at line {differing:?}");
        faults += first.lines().filter(|line| line.contains("(fault)")).count();
    }
    assert!(faults > 0);
    assert_ne!(trials.trace_with_faults(12).unwrap(), trials.trace_with_faults(16).unwrap());
}

/// In simulations the hub agent could: all servers are in one process.
#[test]
fn audit_19_only_members_and_users_send_requests_to_the_servers_of_members() {
    let trials = Trials::prepare().unwrap();
    let mut to_members = 0;
    for seed in TRACED {
        for line in trials.trace_with_faults(seed).unwrap().lines() {
            let [actor, verb, target] = line.split_whitespace().skip(2).take(3).collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let Some((server, _)) = target.split_once(":/") else { continue };
            to_members += 1;
            assert!([server, "user", "setup"].contains(&actor), "{actor} sends {verb} to {server}: {line}");
        }
    }
    assert!(to_members > 100, "{to_members} requests to members");
}

#[test]
fn faults_and_crashes_do_not_change_the_final_state() {
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
async fn trials_may_be_prepared_inside_a_runtime() {
    assert!(Trials::prepare().is_ok());
}
