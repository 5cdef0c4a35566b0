//! The `kubefleet` binary: parses the command line and hands over to one module per verb. Decides nothing itself.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod agent;
mod crds;
mod hub_agent;
mod member_agent;
mod output;
mod up;

/// Place resources on many Kubernetes clusters, and roll changes out in stages.
#[derive(Debug, Parser)]
#[command(name = "kubefleet", version, about, long_about = None, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Up(up::Args),
    HubAgent(hub_agent::Args),
    MemberAgent(member_agent::Args),
    Crds(crds::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Up(args) => up::run(&args),
        Verb::HubAgent(args) => hub_agent::run(&args),
        Verb::MemberAgent(args) => member_agent::run(&args),
        Verb::Crds(args) => crds::run(&args),
    };
    output::report(outcome)
}
