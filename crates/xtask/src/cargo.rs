//! Starts cargo without the variables that `cargo xtask` inherits about the running package: they would cause build scripts to
//! run again.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;

use crate::workspace_root;

/// Prefixes of the variables that cargo sets for the program that it runs.
const SET_BY_CARGO: &[&str] = &["CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"];

/// A command that starts cargo with these arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments);
    for (name, _) in std::env::vars_os().filter(|(name, _)| set_by_cargo(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

/// Continues as `cargo run` with these arguments, in the same process: signals reach the program as if it had been started
/// directly. Returns only an error.
pub fn become_program(run: &[&str], arguments: &[OsString]) -> anyhow::Result<()> {
    let mut cargo = command(&["run", "--manifest-path"]);
    cargo.arg(workspace_root().join("Cargo.toml")).args(run).args(arguments);
    Err(cargo.exec()).context("cannot start cargo")
}

fn set_by_cargo(name: &str) -> bool {
    SET_BY_CARGO.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_variables_of_the_running_package_are_removed() {
        let removed: Vec<String> = command(&["--version"])
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect();
        assert!(removed.iter().any(|name| name == "CARGO_PKG_NAME"), "{removed:?}");
        assert!(removed.iter().any(|name| name == "CARGO_MANIFEST_DIR"), "{removed:?}");
        assert!(!set_by_cargo("CARGO_HOME") && !set_by_cargo("CARGO_TARGET_DIR"));
    }
}
