//! `watch`: a staged update run as it goes, live.
//!
//! Decides where it is shown: on a terminal as a screen with keys, otherwise as lines of what changes. Follows the hub by
//! watches. Ends with the run when nobody can press a key; the exit code says how it ended.

mod follow;
mod plain;
#[cfg(test)]
pub(crate) mod samples;
mod screen;
mod view;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use fleet_api::conditions::run_message::reason;
use fleet_api::kinds::{Obj, Scope, UpdateRun};
use fleet_core::overview::RunOverview;
use fleet_core::updaterun::Outcome;
use fleet_runtime::Clock;

use super::connection::{Hub, HubFlags};
use super::objects::in_scope;
use super::picture::Surroundings;
use crate::output::{Hinted, program};
pub(crate) use follow::Following;
pub(crate) use plain::news;

/// Watch a staged update run live: stages, clusters, gates
///
/// On a terminal: a approves, s stops, r resumes, Enter looks into a cluster, q leaves. Otherwise lines are printed as
/// things change, until the run is over.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet watch web-1
  kubefleet watch web-1 -n shop
  kubefleet watch web-1 --plain | tee log

Exit code 0: the run succeeded, or you left. 1: it failed.")]
pub(crate) struct Args {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    /// Print lines, also on a terminal
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    hub: HubFlags,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let hub = Arc::new(args.hub.connect().await?);
    in_scope!(hub, watch(&hub, args))
}

async fn watch<S: Scope>(hub: &Arc<Hub>, args: &Args) -> anyhow::Result<()> {
    let run: Obj<UpdateRun, S> = hub.find("run", &args.run).await?;
    let around = Surroundings::<S>::read(hub, Some(&run.spec.placement_name)).await?;
    let mut following = Following::start(hub, run, around);
    let on_screen = !args.plain && io::stdout().is_terminal() && io::stdin().is_terminal();
    if on_screen { screen::show(hub, &mut following).await } else { plain::show(&mut following).await }
}

/// What is to be seen now; `None` when the run was deleted.
pub(crate) fn look<S: Scope>(following: &Following<S>) -> Option<RunOverview> {
    let run = following.run.as_ref()?;
    following.around.overview(run, Clock::Real.now())
}

/// How a watch ends that saw the end of its run.
fn outcome(run: &RunOverview) -> anyhow::Result<()> {
    match run.state {
        Outcome::Failed | Outcome::InitializationFailed => {
            let place = run.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
            Err(Hinted {
                what: format!("run {:?} failed: {}", run.name, reason(&run.message)),
                hint: format!("{} diagnose {}{place}", program(), run.name),
            }
            .into())
        }
        _ => Ok(()),
    }
}

/// What is said when the run is gone.
fn deleted() -> anyhow::Error {
    anyhow::anyhow!("the run was deleted")
}
