//! `approve`: opens a gate of a staged update run, by run and stage or by the name of the approval request. Never opens a gate
//! that the run has not reached.

use std::time::Duration;

use fleet_api::conditions::approval::{ApprovalAccepted, Approved};
use fleet_api::conditions::{ConditionState as _, Decoded, decode, put};
use fleet_api::kinds::{Approval, Obj, Scope, ScopeKind, UpdateRun};
use fleet_api::well_known::DELETE_STAGE;
use fleet_core::overview::state_labels;
use fleet_core::overview::{Gate, GateState, GateTask, RunOverview, StageOverview};
use fleet_runtime::Clock;
use jiff::Timestamp;
use serde_json::json;

use super::connection::{Hub, HubFlags};
use super::objects::{based_on, in_scope};
use super::output::since;
use super::run_inputs::RunInputs;
use crate::agent::flags::duration_of;
use crate::nearest::{alternatives, nearest};
use crate::output::{Hinted, NothingChanged, UsageError, print, program, suggested_command};

/// Approve a gate that a staged update run is waiting at
///
/// Specify the run, and the stage if the run is waiting at several gates; or, as in other releases, the approval request.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet approve web-1                        the gate that the run web-1 is waiting at
  kubefleet approve web-1 canary                 the gate of its stage canary
  kubefleet approve web-1 --all                  all gates that it is waiting at
  kubefleet approve web-1 -n shop                a StagedUpdateRun in the namespace shop
  kubefleet approve careq --name web-1-after-canary
  kubefleet approve areq --name web-1-after-canary -n shop")]
pub(crate) struct Args {
    /// The run; with --name, the kind of the request: clusterapprovalrequest, careq, approvalrequest, areq
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// A stage of the run
    #[arg(value_name = "STAGE", conflicts_with_all = ["name", "all"])]
    stage: Option<String>,
    /// Approve all gates that the run is waiting at
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Name of the approval request
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Give up after this time
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    timeout: Duration,
    #[command(flatten)]
    hub: HubFlags,
}

/// Parses a Go duration.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    duration_of(text).ok_or_else(|| "not a duration such as 30s, 5m or 1h30m".to_owned())
}

/// Lower-case names of the two kinds of requests.
const CLUSTER_KINDS: [&str; 3] = ["clusterapprovalrequest", "clusterapprovalrequests", "careq"];
const NAMESPACED_KINDS: [&str; 3] = ["approvalrequest", "approvalrequests", "areq"];

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let approving = async {
        if let Some(name) = by_kind(args)? {
            let hub = args.hub.connect().await?;
            return in_scope!(hub, approve_by_name(&hub, name));
        }
        let Some(run) = &args.run else { return Err(no_run()) };
        let hub = args.hub.connect().await?;
        in_scope!(hub, approve_run(&hub, run, args))
    };
    match tokio::time::timeout(args.timeout, approving).await {
        Ok(outcome) => outcome,
        Err(_) => Err(anyhow::anyhow!("the hub did not accept the approval within {:?}", args.timeout)),
    }
}

fn no_run() -> anyhow::Error {
    let hint = format!("specify a run: {0} approve RUN [STAGE]; {0} status lists the runs", program());
    UsageError(Hinted { what: "resource kind is required".to_owned(), hint }).into()
}

/// The request in the syntax of other releases.
fn by_kind(args: &Args) -> anyhow::Result<Option<&str>> {
    let kind = args.run.as_deref().map(str::to_lowercase);
    let is_cluster = kind.as_deref().is_some_and(|kind| CLUSTER_KINDS.contains(&kind));
    let is_namespaced = kind.as_deref().is_some_and(|kind| NAMESPACED_KINDS.contains(&kind));
    let refuse =
        |what: String, hint: &str| -> anyhow::Error { UsageError(Hinted { what, hint: hint.to_owned() }).into() };
    if !is_cluster && !is_namespaced {
        return match (&args.name, &args.run) {
            (None, _) => Ok(None),
            (Some(_), None) => Err(no_run()),
            (Some(_), Some(kind)) => Err(refuse(
                format!("unsupported resource kind {kind:?}"),
                "with --name: clusterapprovalrequest, careq, approvalrequest or areq",
            )),
        };
    }
    let Some(name) = args.name.as_deref().filter(|name| !name.is_empty()) else {
        return Err(refuse(
            "resource name is required".to_owned(),
            "use --name NAME; kubectl get careq lists the requests",
        ));
    };
    match (&args.hub.namespace, is_cluster) {
        (Some(_), true) => Err(refuse(
            "clusterapprovalrequest is cluster-scoped and does not accept a namespace".to_owned(),
            "omit -n, or approve an approvalrequest",
        )),
        (None, false) => Err(refuse(
            "namespace is required for approvalrequest (use --namespace or -n flag)".to_owned(),
            "add -n NAMESPACE, or approve a clusterapprovalrequest",
        )),
        _ => Ok(Some(name)),
    }
}

async fn approve_by_name<S: Scope>(hub: &Hub, name: &str) -> anyhow::Result<()> {
    let subject = subject::<S>(hub, name);
    let Some(request) = hub.get::<Approval, S>(name).await? else {
        let names = hub.names::<Approval, S>().await;
        let info = Obj::<Approval, S>::INFO;
        let hint = match nearest(name, names.iter().map(String::as_str))[..] {
            [] => format!("kubectl get {} lists them", info.short_names.first().unwrap_or(&info.plural)),
            ref near => format!("did you mean {}?", alternatives(near)),
        };
        let missing = format!("{}.{} {name:?} not found", info.plural, info.group);
        let what = format!("failed to approve {subject}: failed to get {subject}: {missing}");
        return Err(Hinted { what, hint }.into());
    };
    print(&approve(hub, request).await?)
}

async fn approve_run<S: Scope>(hub: &Hub, name: &str, args: &Args) -> anyhow::Result<()> {
    for request in requests_of::<S>(hub, name, args.stage.as_deref(), args.all).await? {
        print(&approve_request::<S>(hub, &request).await?)?;
    }
    Ok(())
}

/// The requests that a run is waiting for, by stage if it is waiting for several.
pub(super) async fn requests_of<S: Scope>(
    hub: &Hub,
    name: &str,
    stage: Option<&str>,
    all: bool,
) -> anyhow::Result<Vec<String>> {
    let run: Obj<UpdateRun, S> = hub.find("run", name).await?;
    let around = RunInputs::<S>::read(hub, Some(&run.spec.placement_name)).await?;
    let now = Clock::Real.now();
    let Some(seen) = around.overview(&run, now) else {
        return Err(anyhow::anyhow!("{name:?} is not a valid run name"));
    };
    meant(&seen, stage, all, now)
}

/// Approves a request by its name; returns the message.
pub(crate) async fn approve_request<S: Scope>(hub: &Hub, name: &str) -> anyhow::Result<String> {
    approve(hub, hub.find::<Approval, S>("approval request", name).await?).await
}

/// Names of the requests to approve; an error describes the current state.
fn meant(run: &RunOverview, stage: Option<&str>, all: bool, now: Timestamp) -> anyhow::Result<Vec<String>> {
    if let Some(name) = stage {
        return gate_of(run, name, now).map(|request| vec![request]);
    }
    let waiting: Vec<(&str, String)> =
        run.stages.iter().flat_map(|stage| closed(stage).map(|request| (stage.name.as_str(), request))).collect();
    match &waiting[..] {
        [] => Err(refused(
            format!("run {:?} is not waiting for an approval: it is {}", run.name, standing(run, now)),
            run,
        )),
        [(_, request)] => Ok(vec![request.clone()]),
        _ if all => Ok(waiting.into_iter().map(|(_, request)| request).collect()),
        several => {
            let stages: Vec<&str> = several.iter().map(|(stage, _)| *stage).collect();
            Err(UsageError(Hinted {
                what: format!("run {:?} is waiting for approvals of several stages: {}", run.name, stages.join(", ")),
                hint: "specify a stage, or use --all".to_owned(),
            })
            .into())
        }
    }
}

/// The closed gate of one stage.
fn gate_of(run: &RunOverview, name: &str, now: Timestamp) -> anyhow::Result<String> {
    let Some(stage) = run.stages.iter().find(|stage| stage.name == name) else {
        let names = || run.stages.iter().map(|stage| stage.name.as_str()).filter(|name| *name != DELETE_STAGE);
        let hint = match nearest(name, names())[..] {
            [] => format!("its stages are {}", names().collect::<Vec<_>>().join(", ")),
            ref near => format!("did you mean {}?", alternatives(near)),
        };
        return Err(Hinted { what: format!("run {:?} has no stage {name:?}", run.name), hint }.into());
    };
    if let Some(request) = closed(stage).next() {
        return Ok(request);
    }
    let gates: Vec<&Gate> =
        stage.before.iter().chain(&stage.after).filter(|gate| matches!(gate.task, GateTask::Approval { .. })).collect();
    let what = match gates.iter().rev().find(|gate| gate.state == GateState::Open) {
        _ if gates.is_empty() => format!("stage {name:?} of run {:?} does not need an approval", run.name),
        Some(open) => {
            let ago = since(open.since.map(fleet_api::time::Time::instant), now);
            format!(
                "stage {name:?} of run {:?} was approved {ago} ago and is now {}",
                run.name,
                state_labels::of_stage(stage.state).text
            )
        }
        None => {
            let state = state_labels::of_stage(stage.state).text;
            format!("stage {name:?} of run {:?} is not waiting for an approval: it is {state}", run.name)
        }
    };
    Err(refused(what, run))
}

/// Pending requests of a stage.
fn closed(stage: &StageOverview) -> impl Iterator<Item = String> {
    stage.before.iter().chain(&stage.after).filter_map(|gate| match &gate.task {
        GateTask::Approval { request } if gate.state == GateState::Closed => Some(request.clone()),
        _ => None,
    })
}

fn standing(run: &RunOverview, now: Timestamp) -> String {
    let state = state_labels::of_run(run.state).text;
    let Some(then) = run.since else { return state.to_owned() };
    format!("{state}, for {}", since(Some(then.instant()), now))
}

fn refused(what: String, run: &RunOverview) -> anyhow::Error {
    let waiting = run.stages.iter().find(|stage| closed(stage).next().is_some());
    let command = |words: &[&str]| suggested_command(words, run.namespace.as_deref());
    let hint = match waiting {
        Some(stage) => {
            format!("stage {} is waiting for one: {}", stage.name, command(&["approve", &run.name, &stage.name]))
        }
        None => format!("{} shows what the run is waiting for", command(&["status", &run.name])),
    };
    NothingChanged(Hinted { what, hint }).into()
}

/// Approves a request, with retries on conflicts; returns the message.
async fn approve<S: Scope>(hub: &Hub, mut request: Obj<Approval, S>) -> anyhow::Result<String> {
    let name = request.metadata.name.clone().unwrap_or_default();
    let subject = subject::<S>(hub, &name);
    loop {
        let now = Clock::Real.now();
        let mut conditions = request.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let generation = request.generation();
        if let Decoded::Known(_, accepted) = decode::<ApprovalAccepted>(&conditions, generation) {
            let ago = since(Some(accepted.last_transition_time.instant()), now);
            return Ok(format!("{subject} was already approved: its run continued {ago} ago\n"));
        }
        let approved = decode::<Approved>(&conditions, generation);
        if let Some(at) = approved.current().filter(|_| approved.is_true()) {
            let ago = since(Some(at.last_transition_time.instant()), now);
            return Ok(format!("{subject} was already approved {ago} ago; its run has not continued yet\n"));
        }
        let said = match S::KIND {
            ScopeKind::Cluster => Approved::ClusterRequestApproved,
            ScopeKind::Namespaced => Approved::RequestApproved,
        };
        put(&mut conditions, said.finding(generation), now);
        let change = based_on(&request, json!({"status": {"conditions": conditions}}));
        if hub.patch::<Approval, S>(&name, Some("status"), &change).await?.is_some() {
            return Ok(format!("{subject} approved successfully\n"));
        }
        request = hub.find("approval request", &name).await?;
    }
}

/// `ClusterApprovalRequest "x"`, `ApprovalRequest "x" in namespace "y"`.
fn subject<S: Scope>(hub: &Hub, name: &str) -> String {
    let kind = Obj::<Approval, S>::INFO.kind;
    match (&hub.namespace, S::KIND) {
        (Some(namespace), ScopeKind::Namespaced) => format!("{kind} {name:?} in namespace {namespace:?}"),
        _ => format!("{kind} {name:?}"),
    }
}
