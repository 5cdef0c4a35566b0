//! The command line of the development tasks. Each task is a module of the library or a program of another crate.

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use xtask::cargo::become_program;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Development tasks")]
struct Xtask {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Test(xtask::test::Test),
    /// Writes the generated files that are committed: the CRDs under config/crd, to which the charts link
    Codegen(PassedOn),
    CodegenBuiltin(xtask::codegen_builtin::CodegenBuiltin),
    /// Build, cache and start real kube-apiserver, kube-controller-manager, kubectl, etcd and helm on loopback
    RealApiserver(PassedOn),
    /// Run one suite of scripts on a real kube-apiserver and on another server, and compare the answers
    Parity(PassedOn),
    /// Measures and prints figures
    Bench(PassedOn),
    Coverage(xtask::coverage::Coverage),
    /// Runs random scenarios without and with faults, and compares the final states
    Sim(PassedOn),
}

/// Arguments of a program of another crate, which also prints the help.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
struct PassedOn {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    let real = |profile, command, task: PassedOn| {
        become_program(&["--profile", profile, "--bin", "real-kubernetes", "--", command], &task.arguments)
    };
    let result = match Xtask::parse().task {
        Task::Test(task) => task.execute(),
        Task::Codegen(task) => become_program(&["--profile", "test", "--example", "codegen", "--"], &task.arguments),
        Task::CodegenBuiltin(task) => task.execute(),
        Task::RealApiserver(task) => real("test", "real-apiserver", task),
        Task::Parity(task) => real("test", "parity", task),
        Task::Bench(task) => real("release", "bench", task),
        Task::Coverage(task) => task.execute(),
        Task::Sim(task) => become_program(&["--profile", "test", "--bin", "fleet-sim", "--"], &task.arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            xtask::console::progress(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
