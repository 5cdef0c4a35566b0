//! The command: which targets are run, for how long, and what is printed about each.
//!
//! Every target runs in a process of its own, because an input may overflow the stack, hang or take all memory. A failing
//! input is kept below `target/fuzz`, and the command that runs it again is printed.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Parser;

use crate::targets::{self, Target};
use crate::worker::{self, Failure, Plan, TargetResult};
use crate::{corpus, failure, watchdog};

/// Default seconds per target.
const SECONDS: u64 = 3;
/// Default number of mutated inputs per target.
const RUNS: u64 = 200_000;
/// A failing input that is longer is not printed, only kept.
const SHOWN_BYTES_MAX: usize = 2000;

/// Run fuzz targets on the stable toolchain: the corpus, then inputs mutated from it by seed
#[derive(Debug, Parser)]
#[command(name = "fleet-fuzz", version, about, long_about = None)]
pub struct Command {
    /// Run only the targets whose name contains this text
    #[arg(long, value_name = "TEXT")]
    target: Option<String>,
    /// Where mutation starts; the same seed makes the same inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds per target
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
    /// Mutated inputs per target; 0 runs the corpus alone
    #[arg(long, default_value_t = RUNS)]
    runs: u64,
    /// Print the targets and end
    #[arg(long)]
    list: bool,
    /// Run this file through the target named by --target
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Run one target in this process; the current input is written to the file
    #[arg(long, value_name = "FILE", hide = true)]
    worker: Option<PathBuf>,
}

impl Command {
    pub fn execute(&self) -> anyhow::Result<ExitCode> {
        if self.list {
            for target in targets::TARGETS {
                print(&format!("{}\n", target.name));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(file) = &self.replay {
            return replay(self.only_target()?, file);
        }
        if let Some(current) = &self.worker {
            return self.work(self.only_target()?, current);
        }
        self.run_all()
    }

    fn only_target(&self) -> anyhow::Result<&'static Target> {
        let name = self.target.as_deref().unwrap_or_default();
        targets::find(name).with_context(|| format!("{name:?} is no target; --list prints them"))
    }

    fn run_all(&self) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        let wanted = |target: &&Target| self.target.as_ref().is_none_or(|text| target.name.contains(text.as_str()));
        let chosen: Vec<&Target> = targets::TARGETS.iter().filter(wanted).collect();
        if chosen.is_empty() {
            bail!("no target has that in its name; --list prints them");
        }
        print(&format!("seed {}: {} targets, at most {} s each\n", self.seed, chosen.len(), self.seconds));
        let mut failed = Vec::new();
        for target in &chosen {
            if !self.run_apart(target)? {
                failed.push(target.name);
            }
        }
        let took = started.elapsed().as_secs();
        if failed.is_empty() {
            print(&format!("{} targets passed in {took} s\n", chosen.len()));
            return Ok(ExitCode::SUCCESS);
        }
        print(&format!("{} of {} targets failed in {took} s: {}\n", failed.len(), chosen.len(), failed.join(", ")));
        Ok(ExitCode::FAILURE)
    }

    /// Runs a target in a process of its own; whether it passed.
    fn run_apart(&self, target: &Target) -> anyhow::Result<bool> {
        let directory = kept_in(target)?;
        let current = directory.join(format!("current-{}", std::process::id()));
        let program = std::env::current_exe().context("cannot find this program")?;
        let number = |number: u64| number.to_string();
        let status = Process::new(program)
            .args(["--target", target.name, "--seed", &number(self.seed), "--seconds", &number(self.seconds)])
            .args(["--runs", &number(self.runs), "--worker"])
            .arg(&current)
            .status()
            .with_context(|| format!("cannot run {}", target.name))?;
        let ended = match status.code() {
            Some(0) => None,
            Some(1) => Some(None),
            Some(code) if code == i32::from(watchdog::HANGS) => Some(Some("the input hangs".to_owned())),
            Some(code) if code == i32::from(watchdog::NEEDS_MEMORY) => {
                Some(Some("the input takes too much memory".to_owned()))
            }
            _ => Some(Some(format!("the process ended in the middle of the input ({status})"))),
        };
        if let Some(Some(why)) = &ended {
            let input = std::fs::read(&current).with_context(|| format!("cannot read {}", current.display()))?;
            report(target, &Failure { input, why: why.clone() })?;
        }
        // It is there only if the process got as far as its first input.
        let _ = std::fs::remove_file(&current);
        Ok(ended.is_none())
    }

    fn work(&self, target: &Target, current: &Path) -> anyhow::Result<ExitCode> {
        let plan = Plan { seed: self.seed, time: Duration::from_secs(self.seconds), runs: self.runs };
        let outcome = worker::work(target, plan, current)?;
        print(&summary(target, self.seed, &outcome));
        let Some(failure) = &outcome.failure else { return Ok(ExitCode::SUCCESS) };
        report(target, failure)?;
        Ok(ExitCode::FAILURE)
    }
}

fn summary(target: &Target, seed: u64, outcome: &TargetResult) -> String {
    let word = if outcome.failure.is_none() { "ok" } else { "FAILED" };
    let per_second = u128::from(outcome.runs) * 1000 / outcome.took.as_millis().max(1);
    format!(
        "{:<20} {word}: {} runs ({} of the corpus) in {:.1} s, {per_second} per second, slowest {} ms, longest input {} bytes, seed {seed}\n",
        target.name,
        outcome.runs,
        outcome.corpus,
        outcome.took.as_secs_f64(),
        outcome.slowest.as_millis(),
        outcome.longest_input,
    )
}

/// Keeps a failing input and says what it did and how to run it again.
fn report(target: &Target, failure: &Failure) -> anyhow::Result<()> {
    let mut hasher = DefaultHasher::new();
    failure.input.hash(&mut hasher);
    let path = kept_in(target)?.join(format!("failed-{:016x}", hasher.finish()));
    std::fs::write(&path, &failure.input).with_context(|| format!("cannot write {}", path.display()))?;
    let mut text = format!("{}: {}\n", target.name, failure.why);
    if failure.input.len() <= SHOWN_BYTES_MAX {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "input: {:?}", String::from_utf8_lossy(&failure.input));
    }
    let path = path.display();
    let _ =
        writeln!(text, "again: cargo run --profile test --bin fleet-fuzz -- --target {} --replay {path}", target.name);
    print(&text);
    Ok(())
}

fn replay(target: &Target, file: &Path) -> anyhow::Result<ExitCode> {
    let input = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    failure::note_panics();
    let (took, why) = failure::run(target.check, &input);
    print(&format!("{}: {} in {} ms\n", target.name, why.as_deref().unwrap_or("passed"), took.as_millis()));
    Ok(if why.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where failing inputs of a target are kept.
fn kept_in(target: &Target) -> anyhow::Result<PathBuf> {
    let directory = corpus::repository().join("target/fuzz").join(target.name);
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}

fn print(text: &str) {
    // Nothing can be printed if standard output is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
