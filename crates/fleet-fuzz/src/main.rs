//! The program `fleet-fuzz`: runs fuzz targets, or one input again.

// Arithmetic that can panic, above all on times: `clippy.toml` names the types for which it is fine.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> anyhow::Result<ExitCode> {
    fleet_fuzz::run::Command::parse().execute()
}
