//! One target in a process of its own: every input of the corpus, then mutated ones, until the time or the count is used up.
//!
//! The current input is always in a file, so that the parent has it when the process ends in the middle of one.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::corpus;
use crate::failure;
use crate::mutate::Mutator;
use crate::targets::Target;
use crate::watchdog::Watchdog;

/// How long a failing input is made smaller.
const MINIMISE_FOR: Duration = Duration::from_secs(20);

/// What to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub seed: u64,
    pub time: Duration,
    /// Inputs beyond the corpus.
    pub runs: u64,
}

/// How a target was run.
#[derive(Debug)]
pub(crate) struct TargetResult {
    pub corpus: usize,
    pub runs: u64,
    pub took: Duration,
    pub slowest: Duration,
    pub longest_input: usize,
    pub failure: Option<Failure>,
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub input: Vec<u8>,
    pub why: String,
}

/// Runs a target. Stops at the first input that fails.
pub(crate) fn work(target: &Target, plan: Plan, current: &Path) -> anyhow::Result<TargetResult> {
    let inputs = corpus::inputs(target.name)?;
    let mut file = File::create(current).with_context(|| format!("cannot write {}", current.display()))?;
    failure::note_panics();
    let watchdog = Watchdog::start();
    let started = Instant::now();
    let mut outcome = TargetResult {
        corpus: inputs.len(),
        runs: 0,
        took: Duration::ZERO,
        slowest: Duration::ZERO,
        longest_input: 0,
        failure: None,
    };
    let mut one = |input: &[u8], outcome: &mut TargetResult| -> anyhow::Result<bool> {
        file.rewind()?;
        file.set_len(0)?;
        file.write_all(input)?;
        watchdog.begin_input();
        let (took, why) = failure::run(target.check, input);
        outcome.runs += 1;
        outcome.slowest = outcome.slowest.max(took);
        outcome.longest_input = outcome.longest_input.max(input.len());
        outcome.failure = why.map(|why| Failure { input: input.to_vec(), why });
        Ok(outcome.failure.is_none())
    };
    let mut going = true;
    for input in &inputs {
        going = going && one(input, &mut outcome)?;
    }
    let mut mutator = Mutator::new(plan.seed, target, &inputs);
    let mut left = plan.runs;
    while going && left > 0 && started.elapsed() < plan.time {
        going = one(&mutator.next_input(), &mut outcome)?;
        left -= 1;
    }
    outcome.took = started.elapsed();
    if let Some(found) = &mut outcome.failure {
        let smaller = failure::minimised(target.check, &found.input, MINIMISE_FOR);
        if let Some(why) = failure::run(target.check, &smaller).1 {
            *found = Failure { input: smaller, why };
        }
    }
    Ok(outcome)
}
