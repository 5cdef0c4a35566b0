//! The `kubefleet` binary: parses the command line and hands over to one module per verb. Decides nothing itself.
//!
//! By its other name, `kubectl-fleet`, it is kubectl's plugin and has the verbs that speak with a hub.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

mod agent;
mod cli;
mod crds;
mod demo;
mod diagnose;
mod hub_agent;
mod member_agent;
mod nearest;
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
    Demo(demo::Args),
    Up(up::Args),
    #[command(flatten)]
    Fleet(cli::Verb),
    Completion(cli::completion::Args),
    HubAgent(hub_agent::Args),
    MemberAgent(member_agent::Args),
    Crds(crds::Args),
}

/// See how changes roll out through a fleet, and direct them.
#[derive(Debug, Parser)]
#[command(name = "kubectl-fleet", bin_name = "kubectl fleet", version, about, long_about = None)]
#[command(arg_required_else_help = true)]
struct Plugin {
    #[command(subcommand)]
    verb: PluginVerb,
}

#[derive(Debug, Subcommand)]
enum PluginVerb {
    #[command(flatten)]
    Fleet(cli::Verb),
    Completion(cli::completion::Args),
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    let arguments = cli::flags_last(std::env::args_os());
    let outcome = if output::is_plugin() {
        match Plugin::parse_from(arguments).verb {
            PluginVerb::Fleet(verb) => verb.run(),
            PluginVerb::Completion(args) => cli::completion::run(&args, Plugin::command(), "kubectl-fleet"),
            PluginVerb::Version => output::print(&format!("kubectl-fleet {}\n", env!("CARGO_PKG_VERSION"))),
        }
    } else {
        match Cli::parse_from(arguments).verb {
            Verb::Demo(args) => demo::run(&args),
            Verb::Up(args) => up::run(&args),
            Verb::Fleet(verb) => verb.run(),
            Verb::Completion(args) => cli::completion::run(&args, Cli::command(), "kubefleet"),
            Verb::HubAgent(args) => hub_agent::run(&args),
            Verb::MemberAgent(args) => member_agent::run(&args),
            Verb::Crds(args) => crds::run(&args),
        }
    };
    output::report(outcome)
}
