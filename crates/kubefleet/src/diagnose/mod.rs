//! `kubefleet diagnose`: reads the objects around a run, placement, cluster or eviction and prints what is wrong and how to fix it.
//!
//! The rules are in `fleet_core::diagnose`. The command never writes: it prints fixes. It exits with code 3 if it found a problem.
//!
//! | file | what |
//! |---|---|
//! | `subjects` | what a name can refer to |
//! | `read`, `member_inputs`, `server` | reads the objects that the rules need, from hub and members |
//! | `print` | human-readable output |

mod member_inputs;
mod print;
mod read;
mod server;
mod subjects;

#[cfg(test)]
mod tests;

use fleet_core::diagnose::{Diagnosis, Kubectl, Severity, Unread, explain_refusal};
use fleet_runtime::Clock;

use crate::cli::connection::{Hub, HubFlags};
use crate::cli::output::OutputFlags;
use crate::nearest::{alternatives, nearest};
use crate::output::{Hinted, ProblemsFound};
pub(crate) use print::fix as print_fix;
use read::{Members, Reader};
use server::Server;
pub(crate) use subjects::Answer;
use subjects::NotFound;

/// Find out what is wrong with a run, placement or cluster, and how to fix it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet diagnose                      all problems of the fleet
  kubefleet diagnose example-run          a run, and the clusters that it waits for
  kubefleet diagnose web -n shop          a namespaced placement or run
  kubefleet diagnose cluster/member2      a member cluster and what is placed on it
  kubefleet diagnose web -o json          for scripts, with fixes as data

Also reads members for which the kubeconfig has a context with the name of the cluster.
Exit codes: 0 no problem, 1 the diagnosis failed, 3 a problem was found.")]
pub(crate) struct Args {
    /// A run, placement, member cluster or eviction, optionally as KIND/NAME; omit it to check everything
    #[arg(value_name = "NAME")]
    subject: Option<String>,
    /// Explain an error message of the API server instead
    #[arg(long, value_name = "TEXT", conflicts_with = "subject")]
    refused: Option<String>,
    #[command(flatten)]
    hub: HubFlags,
    #[command(flatten)]
    output: OutputFlags,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(text) = &args.refused {
        return explain(args, text);
    }
    let hub = args.hub.connect().await?;
    let answer = answer(&hub, &args.hub, args.subject.as_deref()).await?;
    args.output.show(&answer, print::answer)?;
    let worst = answer.diagnoses.iter().filter_map(Diagnosis::severity).max();
    match answer.unread.first() {
        _ if worst.is_some_and(|worst| worst > Severity::Information) => Err(ProblemsFound.into()),
        // Unread objects may have problems.
        Some(first) => Err(unreadable(&hub, first)),
        None => Ok(()),
    }
}

/// The diagnoses of a subject, or of the whole fleet.
pub(crate) async fn answer(hub: &Hub, flags: &HubFlags, subject: Option<&str>) -> anyhow::Result<Answer> {
    let kubectl = Kubectl { hub_context: flags.context.clone() };
    let reader = Reader { hub: Server::new(hub.client.clone()), members: hub, now: Clock::Real.now(), kubectl };
    let namespace = hub.namespace.as_deref();
    let answer = match subject {
        Some(subject) => reader.about(namespace, subject).await.map_err(|error| not_found(hub, subject, error))?,
        None => reader.everything(namespace).await,
    };
    match answer.unread.first() {
        Some(first) if answer.diagnoses.is_empty() => Err(unreadable(hub, first)),
        _ => Ok(answer),
    }
}

fn explain(args: &Args, text: &str) -> anyhow::Result<()> {
    let Some(finding) = explain_refusal(text) else {
        return Err(Hinted {
            what: "no known API server error was recognised".to_owned(),
            hint: "paste the whole text that kubectl printed".to_owned(),
        }
        .into());
    };
    args.output.show(&finding, print::single)
}

fn not_found(hub: &Hub, subject: &str, NotFound { known, unread }: NotFound) -> anyhow::Error {
    if let Some(first) = unread.first() {
        return unreadable(hub, first);
    }
    let place = hub.namespace.as_ref().map_or_else(String::new, |namespace| format!(" in namespace {namespace:?}"));
    let what = format!("there is no run, placement, cluster or eviction {subject:?}{place}");
    let near = nearest(subjects::parse(subject).1, known.iter().map(String::as_str));
    let hint = match (&near[..], &hub.namespace) {
        ([], None) => "name a namespace with -n, or omit the name to check everything".to_owned(),
        ([], Some(_)) => "omit -n for cluster-scoped objects, or omit the name to check everything".to_owned(),
        (near, _) => format!("did you mean {}?", alternatives(near)),
    };
    Hinted { what, hint }.into()
}

fn unreadable(hub: &Hub, first: &Unread) -> anyhow::Error {
    Hinted {
        what: format!("cannot read {} of the hub {}: {}", first.what, hub.server, first.why),
        hint: "is it the right hub, is it running, may you read it? --context and --kubeconfig choose another"
            .to_owned(),
    }
    .into()
}

impl Members for Hub {
    async fn client(&self, cluster: &str) -> Result<Option<kube::Client>, String> {
        self.member(cluster).await.map_err(|error| format!("{error:#}"))
    }
}
