//! `cargo xtask test`: everything that must pass before a change lands, quick parts first. Stops at the first part that fails.
//! A part that has passed is skipped until its inputs change, unless `--all` is given.

mod dependencies;
mod freshness;
mod programs;
mod seeds;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::{cargo, console, real, workspace_root};
use freshness::{Passed, Seen};
use real::versions::{CHOICE, RELEASES, Release};
use seeds::Seed;

/// Runs all checks and tests, the quick ones first; stops at the first part that fails and names it
#[derive(Debug, Args)]
pub struct Test {
    /// Run only the parts whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Also run parts that are unchanged since they passed (the default if CI is set)
    #[arg(long)]
    all: bool,
    /// First seed of random tests, instead of the seed of the commit; runs all parts
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run parts with real Kubernetes programs on this minor version, such as 1.32
    #[arg(long, value_name = "MINOR")]
    kubernetes: Option<String>,
}

/// One part of the test command.
struct Part {
    name: &'static str,
    work: Work,
}

enum Work {
    /// A cargo command that is quick without changes, because cargo tracks them itself.
    Cargo(&'static [&'static str]),
    /// A cargo command whose result depends on these directories of `crates` and the common inputs.
    Kept { crates: &'static [&'static str], cargo: &'static [&'static str], needs: Needs },
    /// The test programs of the workspace, each tracked separately.
    Programs,
    /// `cargo deny`, which checks the dependencies of all crates.
    Dependencies,
}

/// Prerequisites of a part.
#[derive(PartialEq, Eq)]
enum Needs {
    Rust,
    /// The real Kubernetes programs, built once with Go.
    Kubernetes,
}

/// All crates.
const ALL_CRATES: &[&str] = &[""];
/// Crates of the embedded API server and the parity suite.
const PARITY_CRATES: &[&str] = &["apiserver", "fleet-api", "real-kubernetes", "xtask"];

const PARTS: &[Part] = &[
    Part { name: "rustfmt", work: Work::Cargo(&["fmt", "--all", "--check"]) },
    Part {
        name: "clippy",
        work: Work::Cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]),
    },
    Part {
        name: "features",
        work: Work::Cargo(&["check", "--package", "apiserver", "--no-default-features", "--locked"]),
    },
    Part { name: "dependencies", work: Work::Dependencies },
    Part { name: "tests", work: Work::Programs },
    Part { name: "documentation-tests", work: Work::Cargo(&["test", "--workspace", "--locked", "--doc"]) },
    Part {
        name: "sim",
        work: Work::Kept {
            crates: ALL_CRATES,
            cargo: &["xtask", "sim", "--seeds", "200", "--from", SEED],
            needs: Needs::Rust,
        },
    },
    Part {
        name: "fuzz",
        work: Work::Kept {
            crates: ALL_CRATES,
            cargo: &[
                "run",
                "--profile",
                "test",
                "--locked",
                "--bin",
                "fleet-fuzz",
                "--",
                "--seconds",
                "3",
                "--runs",
                "100000",
            ],
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
                "member",
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
                "hub",
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
        name: "client-go",
        work: Work::Kept {
            crates: PARITY_CRATES,
            cargo: &["test", "--workspace", "--locked", "--test", "client_go", "--", "--ignored", "--nocapture"],
            needs: Needs::Rust,
        },
    },
    Part {
        name: "parity",
        work: Work::Kept { crates: PARITY_CRATES, cargo: &["xtask", "parity"], needs: Needs::Kubernetes },
    },
];

/// The kubectl of tests.
const KUBECTL: &str = "KUBECTL";

/// Placeholder of the seed in arguments.
const SEED: &str = "{seed}";
/// The seed of property tests. A plain `cargo test` uses random seeds and records failures in `proptest-regressions`.
const RANDOM_CASES: &str = "PROPTEST_RNG_SEED";

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
        let release = self.kubernetes.as_deref().map(Release::of).transpose()?;
        let seed = Seed::choose(self.seed, &root);
        console::line(&seed);
        let mut passed = Passed::open(&root, self.all || self.seed.is_some() || std::env::var_os("CI").is_some());
        for (index, part) in parts.iter().enumerate() {
            console::line(format_args!(
                "\n== part {} of {}, {} s so far",
                index + 1,
                parts.len(),
                started.elapsed().as_secs()
            ));
            run(part, &root, &seed, release, &mut passed).with_context(|| seed.to_string())?;
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

fn run(part: &Part, root: &Path, seed: &Seed, release: Option<Release>, passed: &mut Passed) -> anyhow::Result<()> {
    let started = Instant::now();
    match &part.work {
        Work::Cargo(arguments) => run_cargo(part.name, &mut cargo::command(arguments), root, seed)?,
        Work::Kept { crates, cargo, needs } => {
            let directories: Vec<_> = crates.iter().map(|name| root.join("crates").join(name)).collect();
            let seen = Seen::default().directories(&directories)?.shared(root)?;
            let release = release.filter(|_| *needs == Needs::Kubernetes);
            let name = release.map_or_else(|| part.name.to_owned(), |one| format!("{} {}", part.name, one.version));
            if passed.holds(&name, &seen) {
                console::line(format_args!("== {}: unchanged since it passed", part.name));
                return Ok(());
            }
            let first = seed.number.to_string();
            let arguments: Vec<&str> =
                cargo.iter().map(|word| if *word == SEED { first.as_str() } else { *word }).collect();
            let mut command = cargo::command(&arguments);
            if *needs == Needs::Kubernetes {
                command.env(CHOICE, release.map(|one| one.minor()).unwrap_or_default());
                command.env(KUBECTL, real::build::ensure_release(release.unwrap_or(RELEASES[0]))?.kubectl);
            }
            run_cargo(part.name, &mut command, root, seed)?;
            passed.note(&name, &seen, None)?;
        }
        Work::Dependencies => {
            console::line(format_args!("== {}: cargo deny check", part.name));
            dependencies::check(root).with_context(|| format!("{} failed", part.name))?;
        }
        Work::Programs => {
            console::line(format_args!("== {}: cargo test --workspace --locked", part.name));
            programs::run_all(root, seed, passed).with_context(|| format!("{} failed", part.name))?;
        }
    }
    console::line(format_args!("== {} passed in {} s", part.name, started.elapsed().as_secs()));
    Ok(())
}

fn run_cargo(part: &str, command: &mut Command, root: &Path, seed: &Seed) -> anyhow::Result<()> {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    console::line(format_args!("== {part}: cargo {}", words.join(" ")));
    let status = command
        .current_dir(root)
        .env(RANDOM_CASES, seed.number.to_string())
        .status()
        .with_context(|| format!("{part}: cannot start cargo"))?;
    if !status.success() {
        bail!("{part} failed ({status})");
    }
    Ok(())
}
