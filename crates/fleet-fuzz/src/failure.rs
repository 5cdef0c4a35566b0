//! Failures of an input: a panic in any thread, or a timeout.
//!
//! A hook records panics, so that panics which the product catches (in a request handler or task) count as well.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// CPU time that one input may take. Inputs are at most 64 KiB, and the slowest legitimate one needs a tenth of it in a
/// build with little optimisation.
pub(crate) const CPU_TIME_MAX: Duration = Duration::from_secs(2);

/// The first panic of the current input.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Records panics instead of printing them.
pub(crate) fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        PANIC.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| panic.to_string());
    }));
}

fn take_panic() -> Option<String> {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Runs an input; how long it took and what went wrong.
pub(crate) fn run(check: fn(&[u8]), input: &[u8]) -> (Duration, Option<String>) {
    let _ = take_panic();
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| check(input)));
    let took = started.elapsed();
    let panic = take_panic();
    if outcome.is_err() || panic.is_some() {
        return (took, Some(panic.unwrap_or_else(|| "a panic without a message".to_owned())));
    }
    // On a busy machine any input may wait long, so repeat it and measure CPU time.
    if took < CPU_TIME_MAX {
        return (took, None);
    }
    let before = cpu_time();
    let _ = catch_unwind(AssertUnwindSafe(|| check(input)));
    let cpu = cpu_time().saturating_sub(before);
    let slow = || format!("{} bytes took {} ms of CPU time", input.len(), cpu.as_millis());
    (took, (cpu >= CPU_TIME_MAX).then(slow))
}

/// CPU time of this thread; zero on systems without this measure.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// Shrinks a failing input: removes parts while it still fails.
pub(crate) fn minimised(check: fn(&[u8]), input: &[u8], time: Duration) -> Vec<u8> {
    let started = Instant::now();
    let mut best = input.to_vec();
    let mut size = best.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < best.len() {
            if started.elapsed() >= time {
                return best;
            }
            let mut shorter = best.clone();
            shorter.drain(at..(at + size).min(best.len()));
            if run(check, &shorter).1.is_some() {
                best = shorter;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dislikes_x(input: &[u8]) {
        assert!(!input.contains(&b'x'), "there is an x");
    }

    #[test]
    fn a_failure_is_printed_with_a_minimized_input() {
        note_panics();
        assert_eq!(run(dislikes_x, b"fine").1, None);
        let failure = run(dislikes_x, b"some text with an x in it").1.unwrap_or_default();
        assert!(failure.contains("there is an x"), "{failure}");
        assert_eq!(minimised(dislikes_x, b"some text with an x in it", Duration::from_secs(5)), b"x");
    }
}
