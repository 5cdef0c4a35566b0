//! The commands that talk to a hub: `kubefleet COMMAND`, and `kubectl fleet COMMAND`. A command reads objects, calls
//! `fleet-core`, and prints or writes the result. It must not duplicate a decision of a controller.
//!
//! | file | what |
//! |---|---|
//! | `connection`, `rights` | the connection to the hub; missing permissions |
//! | `objects` | reading and writing objects of either scope |
//! | `output`, `changes` | tables, colours, JSON, YAML, confirmations; differences |
//! | `run_inputs`, `versions` | the objects around a run; the versions of a placement |
//! | `live`, `overriding`, `propagation` | objects that selectors and overrides would select now; flags for what is never placed |
//! | `status`, `watch` | the views; both use `status/tree` |
//! | `answers` | the results as values, for `kubefleet mcp` |
//! | `progress_bar` | progress bars of all views |

pub(crate) mod answers;
pub(crate) mod approve;
mod changes;
pub(crate) mod completion;
pub(crate) mod connection;
mod difference;
mod drain;
mod live;
pub(crate) mod objects;
pub(crate) mod output;
mod overriding;
pub(crate) mod plan;
pub(crate) mod progress_bar;
pub(crate) mod propagation;
pub(crate) mod rights;
pub(crate) mod run_inputs;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;
mod uncordon;
pub(crate) mod versions;
pub(crate) mod watch;

use std::ffi::OsString;
use std::pin::Pin;

use anyhow::Context as _;

use drain::WhatStays;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    #[command(visible_alias = "get")]
    Status(status::Args),
    Watch(watch::Args),
    Diagnose(crate::diagnose::Args),
    Approve(approve::Args),
    Plan(plan::Args),
    Run(start::RunArgs),
    Stop(stop::StopArgs),
    Resume(stop::ResumeArgs),
    Rollback(start::RollbackArgs),
    Diff(difference::DiffArgs),
    History(difference::HistoryArgs),
    Drain(drain::Args),
    /// Like `drain`, for scripts that were written for other releases
    ///
    /// Taints the cluster, then evicts every ClusterResourcePlacement from it. Disruption budgets are respected. Placements
    /// that stay on the cluster are reported, but are not an error.
    #[command(name = "draincluster", after_help = drain::EXAMPLE_OF_OTHER_RELEASES)]
    DrainCluster(drain::Args),
    #[command(visible_alias = "uncordoncluster")]
    Uncordon(uncordon::Args),
    #[command(flatten)]
    Install(crate::install::Verb),
    Doctor(crate::doctor::Args),
    Mcp(crate::mcp::Args),
    Dashboard(crate::dashboard::Args),
}

impl Verb {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        // One thread is enough: commands wait for responses.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(self.execute())
    }

    /// The same within a tokio runtime.
    pub(crate) fn execute(&self) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + '_>> {
        match self {
            Verb::Status(args) => Box::pin(status::run(args)),
            Verb::Watch(args) => Box::pin(watch::run(args)),
            Verb::Diagnose(args) => Box::pin(crate::diagnose::run(args)),
            Verb::Approve(args) => Box::pin(approve::run(args)),
            Verb::Plan(args) => Box::pin(plan::run(args)),
            Verb::Run(args) => Box::pin(start::run(args)),
            Verb::Stop(args) => Box::pin(stop::stop(args)),
            Verb::Resume(args) => Box::pin(stop::resume(args)),
            Verb::Rollback(args) => Box::pin(start::rollback(args)),
            Verb::Diff(args) => Box::pin(difference::diff(args)),
            Verb::History(args) => Box::pin(difference::history(args)),
            Verb::Drain(args) => Box::pin(drain::run(args, WhatStays::IsAnError)),
            Verb::DrainCluster(args) => Box::pin(drain::run(args, WhatStays::IsTold)),
            Verb::Uncordon(args) => Box::pin(uncordon::run(args)),
            Verb::Doctor(args) => Box::pin(crate::doctor::run(args)),
            Verb::Mcp(args) => Box::pin(crate::mcp::run(args)),
            Verb::Dashboard(args) => Box::pin(crate::dashboard::run(args)),
            Verb::Install(verb) => Box::pin(verb.execute()),
        }
    }
}

/// Moves hub flags before the command behind it: kubectl accepts them in both places.
pub(crate) fn flags_last(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    const TAKING_A_VALUE: [&str; 7] = [
        "--context",
        "--hub-context",
        "--hub-cluster-context",
        "--hubClusterContext",
        "--kubeconfig",
        "--namespace",
        "-n",
    ];
    let mut rest = arguments.into_iter();
    let mut sorted: Vec<OsString> = rest.next().into_iter().collect();
    let mut flags = Vec::new();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        let (name, has_value) = text.split_once('=').map_or((&*text, false), |(name, _)| (name, true));
        if !TAKING_A_VALUE.contains(&name) {
            sorted.push(argument);
            break;
        }
        let value = if has_value { None } else { rest.next() };
        flags.push(argument);
        flags.extend(value);
    }
    // Directly behind the command, so that arguments after `--` are unchanged.
    sorted.extend(flags);
    sorted.extend(rest);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_before_the_command_are_accepted() {
        let check = |line: &str, expected: &str| {
            let words = flags_last(line.split_whitespace().map(OsString::from));
            assert_eq!(words.join(std::ffi::OsStr::new(" ")), expected);
        };
        check("kubefleet --context hub -n shop status web", "kubefleet status --context hub -n shop web");
        check("kubefleet --context=hub get", "kubefleet get --context=hub");
        check("kubefleet up --kubeconfig x", "kubefleet up --kubeconfig x");
        check("kubefleet --help", "kubefleet --help");
        check("kubefleet", "kubefleet");
    }
}
