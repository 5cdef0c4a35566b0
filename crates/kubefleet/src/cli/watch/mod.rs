//! `watch`: a staged update run, live. On a terminal a screen with keys, otherwise lines until the run ends; the exit code
//! then reports its result.

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
use fleet_core::updaterun::RunOutcome;
use fleet_runtime::Clock;

use super::connection::{Hub, HubFlags};
use super::objects::in_scope;
use super::run_inputs::RunInputs;
use crate::output::{Hinted, suggested_command};
pub(crate) use follow::Following;
pub(crate) use plain::news;

/// Watch a staged update run live: stages, clusters, gates
///
/// On a terminal: a approves, s stops, r resumes, Enter shows a cluster, q quits. Otherwise prints a line for every
/// change, until the run ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet watch web-1
  kubefleet watch web-1 -n shop
  kubefleet watch web-1 --plain | tee log

Exit code 0: the run succeeded, or you quit. 1: it failed.")]
pub(crate) struct Args {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    /// Print lines, even on a terminal
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
    let around = RunInputs::<S>::read(hub, Some(&run.spec.placement_name)).await?;
    let mut following = Following::start(hub, run, around);
    let on_screen = !args.plain && io::stdout().is_terminal() && io::stdin().is_terminal();
    if on_screen { screen::show(hub, &mut following).await } else { plain::show(&mut following).await }
}

/// The current overview; `None` if the run was deleted.
pub(crate) fn look<S: Scope>(following: &Following<S>) -> Option<RunOverview> {
    let run = following.run.as_ref()?;
    following.around.overview(run, Clock::Real.now())
}

/// The result of a watch whose run has ended.
fn outcome(run: &RunOverview) -> anyhow::Result<()> {
    match run.state {
        RunOutcome::Failed | RunOutcome::InitializationFailed => Err(Hinted {
            what: format!("run {:?} failed: {}", run.name, reason(&run.message)),
            hint: suggested_command(&["diagnose", &run.name], run.namespace.as_deref()),
        }
        .into()),
        _ => Ok(()),
    }
}

/// The error for a deleted run.
fn deleted() -> anyhow::Error {
    anyhow::anyhow!("the run was deleted")
}
