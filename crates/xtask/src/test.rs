//! `cargo xtask test`: everything that must hold before a change lands, in one command.
//!
//! Decides which parts there are and their order: the quick ones first. Each part prints its own summary; the first one
//! that fails ends the run with its name. It installs nothing: what a part needs, it builds.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::codegen::workspace_root;
use crate::console;

/// Runs all checks and tests, the quick ones first; stops at the first part that fails and names it
#[derive(Debug, Args)]
pub struct Test {
    /// Run only the parts whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// One part of the test command.
struct Part {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const PARTS: &[Part] = &[
    Part { name: "rustfmt", program: "cargo", arguments: &["fmt", "--all", "--check"] },
    Part {
        name: "clippy",
        program: "cargo",
        arguments: &["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"],
    },
    Part { name: "tests", program: "cargo", arguments: &["test", "--workspace", "--locked"] },
    // The last two need Go once: they build Kubernetes' own binaries and keep them.
    Part {
        name: "real-servers",
        program: "cargo",
        arguments: &["test", "--package", "xtask", "--test", "real", "--locked", "--", "--include-ignored"],
    },
    Part { name: "parity", program: "cargo", arguments: &["xtask", "parity"] },
];

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
        for part in &parts {
            run(part)?;
        }
        console::line(format_args!("\nall {} parts passed in {} s", parts.len(), started.elapsed().as_secs()));
        Ok(())
    }
}

fn run(part: &Part) -> anyhow::Result<()> {
    let started = Instant::now();
    console::line(format_args!("\n== {}: {} {}", part.name, part.program, part.arguments.join(" ")));
    let status = Command::new(part.program)
        .args(part.arguments)
        .current_dir(workspace_root())
        .env(RANDOM_CASES.0, RANDOM_CASES.1)
        .status()
        .with_context(|| format!("{}: cannot start {}", part.name, part.program))?;
    if !status.success() {
        bail!("{} failed after {} s ({status})", part.name, started.elapsed().as_secs());
    }
    console::line(format_args!("== {} passed in {} s", part.name, started.elapsed().as_secs()));
    Ok(())
}
