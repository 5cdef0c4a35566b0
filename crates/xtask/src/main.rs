//! The project's own chores from the command line. Each chore is a module of the library; this file only dispatches.

#[path = "../../apiserver/tests/divergence.rs"]
mod divergence;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The project's own chores")]
struct Xtask {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
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
    let outcome = match Xtask::parse().chore {
        Chore::Test(chore) => chore.execute(),
        Chore::Codegen(chore) => chore.execute(),
        Chore::CodegenBuiltin(chore) => chore.execute(),
        Chore::RealApiserver(chore) => chore.execute().await,
        Chore::Parity(chore) => chore.execute(divergence::KNOWN).await,
        Chore::Bench(chore) => chore.execute().await,
        Chore::Coverage(chore) => chore.execute(),
        Chore::Sim(chore) => chore.execute(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            xtask::console::progress(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
