//! The verbs that speak with a hub: `kubefleet VERB`, and `kubectl fleet VERB` by the binary's other name.
//!
//! Decides which verbs there are. What is shown and decided is `fleet-core`'s; each verb reads objects, asks it, and says
//! or writes what it answers. A verb never repeats a decision of a controller in words of its own.
//!
//! | file | what |
//! |---|---|
//! | `connection`, `rights` | which hub, as whom, and what that user may not |
//! | `objects` | reading and writing objects of either scope |
//! | `output`, `changes` | tables, colours, JSON, YAML, questions; differences |
//! | `picture`, `versions` | the objects around a run, the versions of a placement, read once |
//! | `live`, `overriding` | what selectors and overrides would choose at this moment |
//! | `status`, `watch` | the views; `status/tree` is what both show |
//! | `words`, `bar` | states in words and progress as bars, the same in every view |

mod approve;
pub(crate) mod bar;
mod changes;
pub(crate) mod completion;
pub(crate) mod connection;
mod difference;
mod drain;
mod live;
pub(crate) mod objects;
pub(crate) mod output;
mod overriding;
pub(crate) mod picture;
mod plan;
pub(crate) mod rights;
mod start;
pub(crate) mod status;
mod stop;
mod uncordon;
mod versions;
pub(crate) mod watch;
pub(crate) mod words;

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
    /// The same as `drain` for scripts that were written for other releases
    ///
    /// Taints the cluster, then evicts every ClusterResourcePlacement from it. Disruption budgets are respected. What stays
    /// on the cluster is told and is no error.
    #[command(name = "draincluster", after_help = drain::EXAMPLE_OF_OTHER_RELEASES)]
    DrainCluster(drain::Args),
    #[command(visible_alias = "uncordoncluster")]
    Uncordon(uncordon::Args),
}

impl Verb {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        // One thread suffices: a verb waits for answers, it does not work.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(self.execute())
    }

    /// The same, where a runtime is there already.
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
        }
    }
}

/// Flags of the hub before the verb go behind it: people write them there, as with kubectl.
pub(crate) fn flags_last(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    const TAKING_A_VALUE: [&str; 6] =
        ["--context", "--hub-cluster-context", "--hubClusterContext", "--kubeconfig", "--namespace", "-n"];
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
    // Behind the verb, so that what follows a `--` stays what it is.
    sorted.extend(flags);
    sorted.extend(rest);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_before_the_verb_are_taken_as_if_they_came_after_it() {
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
