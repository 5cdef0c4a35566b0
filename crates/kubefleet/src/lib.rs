//! The programs: parse the command line and call the module of the command.
//!
//! `kubefleet` has all commands. Invoked as `kubectl-fleet` it is a kubectl plugin with the commands that talk to a hub.
//! `kubefleet-member-agent` has only `member-agent` and `refresh-token`.

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _, FromArgMatches, Parser, Subcommand};

mod agent;
mod cli;
mod crds;
mod dashboard;
mod demo;
mod diagnose;
mod doctor;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hub_agent;
mod install;
mod mcp;
mod member_agent;
mod nearest;
mod output;
mod refresh_token;
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
    RefreshToken(refresh_token::Args),
    Crds(crds::Args),
}

/// Watch and control rollouts across a fleet.
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
    Fleet(Box<cli::Verb>),
    Completion(cli::completion::Args),
    /// Print the version
    #[command(after_help = "Examples:\n  kubectl fleet version")]
    Version,
}

impl Cli {
    /// All commands with their flags.
    fn tree() -> Command {
        Self::command()
    }
}

impl Plugin {
    /// All commands with their flags; examples use `kubectl fleet`.
    fn tree() -> Command {
        Self::command().mut_subcommands(|verb| match verb.get_after_help().map(ToString::to_string) {
            Some(text) => verb.after_help(text.replace("kubefleet ", "kubectl fleet ")),
            None => verb,
        })
    }
}

/// Parses a command line; prints the error and exits if it is invalid.
fn parsed<T: FromArgMatches>(tree: Command, arguments: Vec<OsString>) -> T {
    let matches = tree.get_matches_from(cli::flags_last(arguments));
    T::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The program `kubefleet`, or `kubectl-fleet` by its name.
pub fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let is_plugin = output::is_plugin();
    if let Some(words) = cli::completion::asked(&arguments) {
        let tree = if is_plugin { Plugin::tree() } else { Cli::tree() };
        return output::report(cli::completion::answer(tree, &words));
    }
    let outcome = if is_plugin {
        match parsed::<Plugin>(Plugin::tree(), arguments).verb {
            PluginVerb::Fleet(verb) => verb.run(),
            PluginVerb::Completion(args) => cli::completion::run(&args, Plugin::tree(), "kubectl-fleet"),
            PluginVerb::Version => output::print(&format!("kubectl-fleet {}\n", env!("CARGO_PKG_VERSION"))),
        }
    } else {
        match parsed::<Cli>(Cli::tree(), arguments).verb {
            Verb::Demo(args) => demo::run(&args),
            Verb::Up(args) => up::run(&args),
            Verb::Fleet(verb) => verb.run(),
            Verb::Completion(args) => cli::completion::run(&args, Cli::tree(), "kubefleet"),
            Verb::HubAgent(args) => hub_agent::run(&args),
            Verb::MemberAgent(args) => member_agent::run(&args),
            Verb::RefreshToken(args) => refresh_token::run(&args),
            Verb::Crds(args) => crds::run(&args),
        }
    };
    output::report(outcome)
}

/// The program `kubefleet-member-agent`: the agent, or its side-car if the first argument is `refresh-token`.
pub fn run_member_agent() -> ExitCode {
    let words: Result<Vec<String>, OsString> = std::env::args_os().skip(1).map(OsString::into_string).collect();
    output::report(match words {
        Ok(words) if words.first().is_some_and(|word| word == refresh_token::VERB) => {
            refresh_token::run(&refresh_token::Args { words: words.into_iter().skip(1).collect() })
        }
        Ok(flags) => member_agent::run(&member_agent::Args { flags }),
        Err(word) => Err(member_agent::unreadable(&word)),
    })
}
