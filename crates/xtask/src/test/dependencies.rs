//! `cargo deny`: licences, banned crates, sources and known vulnerabilities of all dependencies. Runs all checks of
//! `deny.toml`, and advisories if their database can be fetched. The pinned program is installed once into the cache.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::{cargo, console, real};

/// The version of cargo-deny that is installed.
const VERSION: &str = "0.20.2";
/// Timeout of the fetch of the database, which has a few megabytes.
const FETCH_WITHIN: Duration = Duration::from_mins(1);
/// Polling interval of the fetch.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Checks that work offline.
const WITHOUT_DATABASE: &[&str] = &["--locked", "check", "bans", "licenses", "sources"];

/// Checks all dependencies.
pub(super) fn check(root: &Path) -> anyhow::Result<()> {
    let deny = ensure()?;
    run(&deny, root, WITHOUT_DATABASE)?;
    if fetched(&deny, root)? {
        return run(&deny, root, &["--locked", "--offline", "check", "advisories"]);
    }
    console::line("   advisories were NOT checked: their database cannot be fetched from here");
    Ok(())
}

/// The program; installs it if the cache does not have it.
fn ensure() -> anyhow::Result<PathBuf> {
    let directory = real::build::cache_dir()?.join("tools").join(format!("cargo-deny-{VERSION}"));
    let program = directory.join("bin/cargo-deny");
    if !program.is_file() {
        console::line(format_args!("   cargo-deny {VERSION} is installed into {}", directory.display()));
        install(&directory)?;
    }
    Ok(program)
}

/// Without optimization: it builds in a third of the time and runs for a second.
fn install(directory: &Path) -> anyhow::Result<()> {
    let target = directory.join("build");
    let status = cargo::command(&["install", "--locked", "--debug", "--quiet", "cargo-deny", "--version", VERSION])
        .arg("--root")
        .arg(directory)
        .arg("--target-dir")
        .arg(&target)
        // Symbols would be most of the binary.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .status()
        .context("cannot start cargo install")?;
    if !status.success() {
        bail!("cargo-deny {VERSION} could not be installed ({status})");
    }
    std::fs::remove_dir_all(&target).with_context(|| format!("cannot remove {}", target.display()))
}

fn run(deny: &Path, root: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    console::line(format_args!("   cargo deny {}", arguments.join(" ")));
    let status = command(deny, root, arguments).status().context("cannot start cargo-deny")?;
    if !status.success() {
        bail!("cargo deny {} failed ({status})", arguments.join(" "));
    }
    Ok(())
}

fn command(deny: &Path, root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(deny);
    command.args(["--log-level", "error"]).args(arguments).current_dir(root);
    command
}

/// Whether the advisory database could be fetched.
fn fetched(deny: &Path, root: &Path) -> anyhow::Result<bool> {
    let fetch = command(deny, root, &["fetch", "db"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    ended_well(fetch.context("cannot start cargo-deny")?, FETCH_WITHIN)
}

/// Whether a program succeeds in time; kills it otherwise.
fn ended_well(mut child: Child, within: Duration) -> anyhow::Result<bool> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if started.elapsed() > within {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_22_a_failed_or_hanging_fetch_is_no_success() {
        let ends = |script: &str, within| {
            ended_well(Command::new("sh").args(["-c", script]).spawn().unwrap(), within).unwrap()
        };
        assert!(ends("exit 0", FETCH_WITHIN));
        assert!(!ends("exit 1", FETCH_WITHIN));
        assert!(!ends("exec sleep 600", Duration::ZERO));
    }
}
