//! The commands of xtask that need real Kubernetes: it runs this program, so that it is built without an API server itself.

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use clap::Parser;
use real_kubernetes::{bench, parity, run};
use std::process::ExitCode;
use xtask::console;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Development tasks with real Kubernetes")]
enum Task {
    RealApiserver(run::RealApiserver),
    Parity(parity::Parity),
    Bench(bench::Bench),
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::RealApiserver(task) => task.execute().await,
        Task::Parity(task) => task.execute().await,
        Task::Bench(task) => task.execute().await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console::progress(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
