//! `stop` and `resume`: set `spec.state` of a staged update run, if the transition makes sense in its current state.

use fleet_api::kinds::{Obj, Scope, UpdateRun};
use fleet_api::types::UpdateRunState;
use fleet_core::overview::RunOverview;
use fleet_core::overview::state_labels;
use fleet_core::updaterun::RunOutcome;
use fleet_runtime::Clock;
use serde_json::json;

use super::connection::{Hub, HubFlags};
use super::objects::{based_on, in_scope};
use super::run_inputs::RunInputs;
use super::status::ago;
use crate::output::{Hinted, NothingChanged, print, suggested_command};

/// Stop a staged update run: clusters being updated finish, no others start
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet stop web-1
  kubefleet stop web-1 -n shop

`kubefleet resume` continues it where it stopped.")]
pub(crate) struct StopArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    hub: HubFlags,
}

/// Resume a stopped staged update run, or start one that was only initialized
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
    print(&in_scope!(hub, turn(&hub, &args.run, UpdateRunState::Stop))?)
}

pub(crate) async fn resume(args: &ResumeArgs) -> anyhow::Result<()> {
    let hub = args.hub.connect().await?;
    print(&in_scope!(hub, turn(&hub, &args.run, UpdateRunState::Run))?)
}

/// Sets the state of a run; returns the message.
pub(crate) async fn turn<S: Scope>(hub: &Hub, name: &str, wanted: UpdateRunState) -> anyhow::Result<String> {
    loop {
        let run: Obj<UpdateRun, S> = hub.find("run", name).await?;
        let around = RunInputs::<S>::read(hub, Some(&run.spec.placement_name)).await?;
        let now = Clock::Real.now();
        if let Some(seen) = around.overview(&run, now) {
            check(&seen, wanted, &ago(seen.since, now))?;
        }
        if set_state(hub, &run, wanted).await? {
            return Ok(match wanted {
                UpdateRunState::Stop => {
                    format!("run {name} is stopping: clusters being updated finish, no others start\n")
                }
                UpdateRunState::Run | UpdateRunState::Initialize => format!("run {name} resumed\n"),
            });
        }
    }
}

/// `false` on a conflict.
pub(crate) async fn set_state<S: Scope>(
    hub: &Hub,
    run: &Obj<UpdateRun, S>,
    state: UpdateRunState,
) -> anyhow::Result<bool> {
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let change = based_on(run, json!({"spec": {"state": state}}));
    Ok(hub.patch::<UpdateRun, S>(name, None, &change).await?.is_some())
}

/// Checks the transition; an error describes the current state.
fn check(run: &RunOverview, wanted: UpdateRunState, since: &str) -> anyhow::Result<()> {
    let command = |words: &[&str]| suggested_command(words, run.namespace.as_deref());
    let refused =
        |what: String, hint: String| -> anyhow::Result<()> { Err(NothingChanged(Hinted { what, hint }).into()) };
    let name = &run.name;
    if run.state.is_final() {
        let state = state_labels::of_run(run.state).text;
        let verb = if run.state == RunOutcome::Succeeded { "" } else { ", and cannot be resumed" };
        let what = format!("run {name:?} is over: it {state} {since} ago{verb}");
        return refused(
            what,
            format!("create a new run: {}", command(&["run", &run.placement, "--strategy", &run.strategy])),
        );
    }
    match (wanted, run.asked) {
        (UpdateRunState::Stop, UpdateRunState::Initialize) => {
            refused(format!("run {name:?} was never started"), format!("{} starts it", command(&["resume", name])))
        }
        (UpdateRunState::Stop, UpdateRunState::Stop) => {
            let state = state_labels::of_run(run.state).text;
            refused(
                format!("run {name:?} was already asked to stop: it has been {state} for {since}"),
                format!("{} resumes it", command(&["resume", name])),
            )
        }
        (UpdateRunState::Run, UpdateRunState::Run) => {
            let state = state_labels::of_run(run.state).text;
            refused(
                format!("run {name:?} is not stopped: it has been {state} for {since}"),
                format!("{} shows what the run is waiting for", command(&["status", name])),
            )
        }
        _ => Ok(()),
    }
}
