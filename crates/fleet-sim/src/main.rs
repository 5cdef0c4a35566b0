//! `cargo xtask sim`: runs random scenarios with and without faults, by seed, on all cores. `fleet_sim::trial` has the
//! trials.

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt::Display;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Parser;
use fleet_sim::trial::{Failure, TrialStats, Trials};

/// How often progress is printed.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Runs random scenarios without and with faults, and compares the final states
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim")]
struct Sim {
    /// Number of seeds to run, starting with --from
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// First seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    from: u64,
    /// Run only this seed
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Write the trace of the first failing seed to this file: all requests with their faults
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write each failure with its trace to a file in this directory, as soon as it is found
    #[arg(long, value_name = "DIR")]
    failures: Option<PathBuf>,
}

fn main() -> ExitCode {
    match Sim::parse().execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            progress(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

impl Sim {
    fn execute(&self) -> anyhow::Result<()> {
        let seeds = match self.seed {
            Some(seed) => seed..seed.saturating_add(1),
            None => self.from..self.from.saturating_add(self.seeds),
        };
        let started = Instant::now();
        let trials = Trials::prepare()?;
        if let Some(directory) = &self.failures {
            std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        }
        let mut results = run_all(&trials, seeds, self.failures.as_deref());
        results.failures.sort_by_key(|failure| failure.seed);
        line(summary(&results, started.elapsed()));
        let Some(first) = results.failures.first() else { return Ok(()) };
        line(format_args!("\n{first}"));
        if let Some(path) = &self.trace {
            std::fs::write(path, &first.trace).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let seeds: Vec<String> = results.failures.iter().map(|failure| failure.seed.to_string()).collect();
        bail!("{} seeds failed: {}", seeds.len(), seeds.join(" "))
    }
}

/// Reports a failure at once, because a long run may be interrupted.
fn report(failure: &Failure, directory: Option<&Path>) {
    line(format_args!("seed {} failed: {}", failure.seed, failure.why));
    let Some(directory) = directory else { return };
    let path = directory.join(format!("seed-{}.txt", failure.seed));
    if let Err(error) = std::fs::write(&path, format!("{failure}\n\n{}", failure.trace)) {
        line(format_args!("cannot write {}: {error}", path.display()));
    }
}

/// The results of all trials.
#[derive(Debug, Default)]
struct Results {
    passed: usize,
    requests: usize,
    faults: usize,
    crashes: usize,
    failures: Vec<Failure>,
}

impl Results {
    fn add(&mut self, result: Result<TrialStats, Box<Failure>>) {
        match result {
            Ok(TrialStats { requests, faults, crashes }) => {
                self.passed += 1;
                self.requests += requests;
                self.faults += faults;
                self.crashes += crashes;
            }
            Err(failure) => self.failures.push(*failure),
        }
    }
}

fn run_all(trials: &Trials, seeds: Range<u64>, directory: Option<&Path>) -> Results {
    let (next, results) = (AtomicU64::new(seeds.start), Mutex::new((Results::default(), Instant::now())));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let result = trials.run(seed);
            if let Err(failure) = &result {
                report(failure, directory);
            }
            // A panic of another thread is printed already; its lock must not discard the results of the others.
            let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            results.0.add(result);
            if results.1.elapsed() >= PROGRESS_EVERY {
                results.1 = Instant::now();
                let done = results.0.passed + results.0.failures.len();
                let failed = results.0.failures.len();
                progress(format_args!("{done} of {} seeds, {failed} failed", seeds.end - seeds.start));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).0
}

fn summary(results: &Results, time: Duration) -> String {
    let Results { passed, requests, faults, crashes, failures } = results;
    format!(
        "{passed} seeds passed, {} failed, in {} s: {requests} requests, {faults} faults, {crashes} crashes",
        failures.len(),
        time.as_secs()
    )
}

/// One line of result, on standard output. A closed pipe (`| head`) is not an error.
fn line(text: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// One line of progress, on standard error.
fn progress(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn figures_are_summed_and_failures_are_collected() {
        let mut results = Results::default();
        results.add(Ok(TrialStats { requests: 10, faults: 2, crashes: 1 }));
        results.add(Ok(TrialStats { requests: 5, faults: 1, crashes: 0 }));
        let failure =
            Failure { seed: 7, why: "because".to_owned(), scenario: "  join m1".to_owned(), trace: String::new() };
        results.add(Err(Box::new(failure)));
        assert_eq!(
            summary(&results, Duration::from_secs(3)),
            "2 seeds passed, 1 failed, in 3 s: 15 requests, 3 faults, 1 crashes"
        );
        assert!(results.failures[0].to_string().ends_with("replay it: cargo xtask sim --seed 7"));
        let directory = tempfile::tempdir().unwrap();
        report(&results.failures[0], Some(directory.path()));
        let kept = std::fs::read_to_string(directory.path().join("seed-7.txt")).unwrap();
        assert!(kept.starts_with("seed 7 failed: because"));
    }
}
