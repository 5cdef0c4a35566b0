//! The command line of the development tasks. Each task is a module of the library.

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

#[path = "../../apiserver/tests/divergence.rs"]
mod divergence;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Development tasks")]
struct Xtask {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Test(xtask::test::Test),
    Codegen(xtask::codegen::Codegen),
    CodegenBuiltin(xtask::codegen_builtin::CodegenBuiltin),
    RealApiserver(xtask::real::command::RealApiserver),
    Parity(xtask::parity::command::Parity),
    Bench(xtask::bench::Bench),
    Coverage(xtask::coverage::Coverage),
    Sim(xtask::sim::Sim),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Xtask::parse().task {
        Task::Test(task) => task.execute(),
        Task::Codegen(task) => task.execute(),
        Task::CodegenBuiltin(task) => task.execute(),
        Task::RealApiserver(task) => task.execute().await,
        Task::Parity(task) => task.execute(divergence::KNOWN).await,
        Task::Bench(task) => task.execute().await,
        Task::Coverage(task) => task.execute(),
        Task::Sim(task) => task.execute(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            xtask::console::progress(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
