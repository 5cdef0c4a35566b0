//! `cargo xtask test`: everything that must hold before a change lands, in one command.
//!
//! Decides which parts there are and their order: the quick ones first. Each part prints its own summary; the first one
//! that fails ends the run with its name. It installs nothing: what a part needs, it builds. A part that has passed is
//! not run again until something changes that it is made of; it says so, and `--all` runs it anyway.

mod freshness;
mod programs;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::codegen::workspace_root;
use crate::{cargo, console, real};
use freshness::{Passed, Seen};

/// Runs all checks and tests, the quick ones first; stops at the first part that fails and names it
#[derive(Debug, Args)]
pub struct Test {
    /// Run only the parts whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Run also what is unchanged since it passed (the default where the environment has CI)
    #[arg(long)]
    all: bool,
}

/// One part of the test command.
struct Part {
    name: &'static str,
    work: Work,
}

enum Work {
    /// A command of cargo's that is quick when nothing has changed, because cargo keeps its own books.
    Cargo(&'static [&'static str]),
    /// A command of cargo's whose outcome depends on these directories of `crates` and on what all programs are built from.
    Kept { crates: &'static [&'static str], cargo: &'static [&'static str], needs: Needs },
    /// The test programs of the workspace, each with its own books.
    Programs,
}

/// What has to be there before a part can start.
#[derive(PartialEq, Eq)]
enum Needs {
    Rust,
    /// Kubernetes' own programs, which are built once, with Go, and kept.
    Kubernetes,
}

/// For what all crates together make.
const ALL_CRATES: &[&str] = &[""];
/// Crates that the embedded API server and its comparison are made of.
const PARITY_CRATES: &[&str] = &["apiserver", "fleet-api", "xtask"];

const PARTS: &[Part] = &[
    Part { name: "rustfmt", work: Work::Cargo(&["fmt", "--all", "--check"]) },
    Part {
        name: "clippy",
        work: Work::Cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]),
    },
    Part { name: "tests", work: Work::Programs },
    Part { name: "documentation-tests", work: Work::Cargo(&["test", "--workspace", "--locked", "--doc"]) },
    Part {
        name: "sim",
        work: Work::Kept {
            crates: ALL_CRATES,
            cargo: &["run", "--quiet", "--locked", "--bin", "xtask", "--", "sim", "--seeds", "200"],
            needs: Needs::Rust,
        },
    },
    Part {
        name: "real-servers",
        work: Work::Kept {
            crates: ALL_CRATES,
            cargo: &[
                "test",
                "--workspace",
                "--locked",
                "--test",
                "real",
                "--test",
                "whole_fleet",
                "--test",
                "applier",
                "--test",
                "charts",
                "--",
                "--ignored",
                "--nocapture",
            ],
            needs: Needs::Kubernetes,
        },
    },
    Part {
        name: "guides",
        work: Work::Kept {
            crates: ALL_CRATES,
            cargo: &[
                "test",
                "--workspace",
                "--locked",
                "--test",
                "staged_runs",
                "--test",
                "walk_through",
                "--test",
                "fixes",
                "--",
                "--ignored",
                "kubectl",
            ],
            needs: Needs::Kubernetes,
        },
    },
    Part {
        name: "parity",
        work: Work::Kept { crates: PARITY_CRATES, cargo: &["xtask", "parity"], needs: Needs::Kubernetes },
    },
];

/// Tells tests which kubectl to type their commands with.
const KUBECTL: &str = "KUBECTL";

/// Random cases are the same in every run of this command, so that a change never fails by somebody else's luck. A plain
/// `cargo test` draws new ones, and what it finds is kept in `proptest-regressions`.
const RANDOM_CASES: (&str, &str) = ("PROPTEST_RNG_SEED", "20261116");

impl Test {
    pub fn execute(&self) -> anyhow::Result<()> {
        let started = Instant::now();
        let wanted = |part: &&Part| self.only.as_ref().is_none_or(|text| part.name.contains(text.as_str()));
        let parts: Vec<&Part> = PARTS.iter().filter(wanted).collect();
        if parts.is_empty() {
            let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
            bail!("no part has that in its name; there are {}", names.join(", "));
        }
        let root = workspace_root();
        let mut passed = Passed::open(&root, self.all || std::env::var_os("CI").is_some());
        for part in &parts {
            run(part, &root, &mut passed)?;
        }
        console::line(format_args!("\nall {} parts passed in {} s", parts.len(), started.elapsed().as_secs()));
        if passed.left_out() > 0 {
            console::line(format_args!(
                "{} programs and parts are unchanged since they passed and were not run again; --all runs them",
                passed.left_out()
            ));
        }
        Ok(())
    }
}

fn run(part: &Part, root: &Path, passed: &mut Passed) -> anyhow::Result<()> {
    let started = Instant::now();
    match &part.work {
        Work::Cargo(arguments) => run_cargo(part.name, &mut cargo::command(arguments), root)?,
        Work::Kept { crates, cargo, needs } => {
            let directories: Vec<_> = crates.iter().map(|name| root.join("crates").join(name)).collect();
            let seen = Seen::default().directories(&directories)?.shared(root)?;
            if passed.holds(part.name, &seen) {
                console::line(format_args!("\n== {}: unchanged since it passed", part.name));
                return Ok(());
            }
            let mut command = cargo::command(cargo);
            if *needs == Needs::Kubernetes {
                command.env(KUBECTL, real::build::ensure()?.kubectl);
            }
            run_cargo(part.name, &mut command, root)?;
            passed.note(part.name, &seen, None)?;
        }
        Work::Programs => {
            console::line(format_args!("\n== {}: cargo test --workspace --locked", part.name));
            programs::run_all(root, passed).with_context(|| format!("{} failed", part.name))?;
        }
    }
    console::line(format_args!("== {} passed in {} s", part.name, started.elapsed().as_secs()));
    Ok(())
}

fn run_cargo(part: &str, command: &mut Command, root: &Path) -> anyhow::Result<()> {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    console::line(format_args!("\n== {part}: cargo {}", words.join(" ")));
    let status = command
        .current_dir(root)
        .env(RANDOM_CASES.0, RANDOM_CASES.1)
        .status()
        .with_context(|| format!("{part}: cannot start cargo"))?;
    if !status.success() {
        bail!("{part} failed ({status})");
    }
    Ok(())
}
