//! The programs: parses the command line and hands over to one module per verb. Decides nothing itself.
//!
//! `kubefleet` has all verbs. By its other name, `kubectl-fleet`, it is kubectl's plugin and has the verbs that speak with a
//! hub. `kubefleet-member-agent` is the verb `member-agent` alone, and `refresh-token` beside it.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _, FromArgMatches, Parser, Subcommand};

mod agent;
mod cli;
mod crds;
mod demo;
mod diagnose;
mod hub_agent;
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
    #[command(after_help = "Examples:\n  kubectl fleet version")]
    Version,
}

impl Cli {
    /// All verbs with their flags.
    fn tree() -> Command {
        Self::command()
    }
}

impl Plugin {
    /// All verbs with their flags; examples are as the user calls us.
    fn tree() -> Command {
        Self::command().mut_subcommands(|verb| match verb.get_after_help().map(ToString::to_string) {
            Some(text) => verb.after_help(text.replace("kubefleet ", "kubectl fleet ")),
            None => verb,
        })
    }
}

/// What a command line says; one that cannot be understood ends the process, with a word about why.
fn parsed<T: FromArgMatches>(tree: Command, arguments: Vec<OsString>) -> T {
    let matches = tree.get_matches_from(cli::flags_last(arguments));
    T::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The program `kubefleet`, and `kubectl-fleet` if it is called so.
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

/// The program `kubefleet-member-agent`: the agent, or its side-car if the first word says so.
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
