//! `stop` and `resume`: whether a staged update run goes on.
//!
//! Decides whether the wanted state makes sense where the run stands, and says what stands there if it does not. Only
//! `spec.state` is written; the run itself decides how it comes to rest.

use fleet_api::kinds::{Obj, Scope, UpdateRun};
use fleet_api::types::UpdateRunState;
use fleet_core::overview::RunOverview;
use fleet_core::updaterun::Outcome;
use fleet_runtime::Clock;
use serde_json::json;

use super::connection::{Hub, HubFlags};
use super::objects::{based_on, in_scope};
use super::picture::Surroundings;
use super::status::ago;
use super::words;
use crate::output::{Hinted, NothingDone, print, program};

/// Stop a staged update run: clusters that are being updated finish, no other starts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet stop web-1
  kubefleet stop web-1 -n shop

`kubefleet resume` lets it go on where it stopped.")]
pub(crate) struct StopArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    hub: HubFlags,
}

/// Let a staged update run go on that was stopped, or start one that was only prepared
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet resume web-1
  kubefleet resume web-1 -n shop")]
pub(crate) struct ResumeArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    hub: HubFlags,
}

pub(crate) async fn stop(args: &StopArgs) -> anyhow::Result<()> {
    let hub = args.hub.connect().await?;
    in_scope!(hub, turn(&hub, &args.run, UpdateRunState::Stop))
}

pub(crate) async fn resume(args: &ResumeArgs) -> anyhow::Result<()> {
    let hub = args.hub.connect().await?;
    in_scope!(hub, turn(&hub, &args.run, UpdateRunState::Run))
}

async fn turn<S: Scope>(hub: &Hub, name: &str, wanted: UpdateRunState) -> anyhow::Result<()> {
    loop {
        let run: Obj<UpdateRun, S> = hub.find("run", name).await?;
        let around = Surroundings::<S>::read(hub, Some(&run.spec.placement_name)).await?;
        let now = Clock::Real.now();
        if let Some(seen) = around.overview(&run, now) {
            check(&seen, wanted, &ago(seen.since, now))?;
        }
        if set_state(hub, &run, wanted).await? {
            return print(&match wanted {
                UpdateRunState::Stop => {
                    format!("run {name} stops: clusters that are being updated finish, no other starts\n")
                }
                UpdateRunState::Run | UpdateRunState::Initialize => format!("run {name} goes on\n"),
            });
        }
    }
}

/// `false` if somebody else changed the run meanwhile.
pub(crate) async fn set_state<S: Scope>(
    hub: &Hub,
    run: &Obj<UpdateRun, S>,
    state: UpdateRunState,
) -> anyhow::Result<bool> {
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let change = based_on(run, json!({"spec": {"state": state}}));
    Ok(hub.patch::<UpdateRun, S>(name, None, &change).await?.is_some())
}

/// Whether the state may be asked for; an error says what stands there.
fn check(run: &RunOverview, wanted: UpdateRunState, since: &str) -> anyhow::Result<()> {
    let place = run.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    let refused = |what: String, hint: String| -> anyhow::Result<()> { Err(NothingDone(Hinted { what, hint }).into()) };
    let name = &run.name;
    if run.state.is_final() {
        let state = words::of_run(run.state).text;
        let verb = if run.state == Outcome::Succeeded { "" } else { ", and cannot go on" };
        let what = format!("run {name:?} is over: it {state} {since} ago{verb}");
        return refused(
            what,
            format!("a new one: {} run {} --strategy {}{place}", program(), run.placement, run.strategy),
        );
    }
    match (wanted, run.asked) {
        (UpdateRunState::Stop, UpdateRunState::Initialize) => {
            refused(format!("run {name:?} was never started"), format!("{} resume {name}{place} starts it", program()))
        }
        (UpdateRunState::Stop, UpdateRunState::Stop) => {
            let state = words::of_run(run.state).text;
            refused(
                format!("run {name:?} was asked to stop already: it is {state}, for {since}"),
                format!("{} resume {name}{place} lets it go on", program()),
            )
        }
        (UpdateRunState::Run, UpdateRunState::Run) => {
            let state = words::of_run(run.state).text;
            refused(
                format!("run {name:?} is not stopped: it is {state}, for {since}"),
                format!("{} status {name}{place} shows what it waits for", program()),
            )
        }
        _ => Ok(()),
    }
}
