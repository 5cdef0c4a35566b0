//! Random worlds: the same seed gives the same trace.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use fleet_sim::trial::stormy_trace;

#[test]
fn one_seed_gives_one_trace() {
    let (first, second) = (stormy_trace(11).unwrap(), stormy_trace(11).unwrap());
    let differing = first.lines().zip(second.lines()).position(|(one, other)| one != other);
    assert!(first == second, "the traces part at line {differing:?}");
    assert_ne!(first, stormy_trace(12).unwrap());
    assert!(first.contains("(fault)"));
}
