//! `status`: the state of a run or a placement on one screen; without a name, all of them.

pub(crate) mod tree;

use anyhow::Context as _;
use fleet_api::kinds::{Obj, Placement, Scope, ScopeKind, UpdateRun};
use fleet_core::overview::state_labels;
use fleet_core::overview::{PlacementOverview, RunOverview};
use fleet_runtime::Clock;
use jiff::Timestamp;
use serde::Serialize;

use super::connection::{Hub, HubFlags};
use super::objects::in_scope;
use super::output::{Cell, OutputFlags, Paint, Table, since};
use super::run_inputs::RunInputs;
use crate::nearest::{alternatives, nearest};
use crate::output::{Hinted, UsageError, program};

/// Show the state of runs and placements: stages, clusters, gates, what they are waiting for and since when
///
/// Without a name, lists all runs and placements.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet status                      all runs and placements
  kubefleet status web-1                the run web-1
  kubefleet status web                  the placement web, cluster by cluster
  kubefleet status run web              the run, if a placement has the same name
  kubefleet status web-1 -n shop        a StagedUpdateRun in the namespace shop
  kubefleet get web-1 -o json           for machines")]
pub(crate) struct Args {
    /// A run or a placement; `run NAME` or `placement NAME` if both have that name
    #[arg(value_name = "NAME", num_args = 0..=2)]
    name: Vec<String>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    hub: HubFlags,
}

/// The requested view.
enum Wanted<'a> {
    All,
    Run(&'a str),
    Placement(&'a str),
    Either(&'a str),
}

/// Names of kinds before a name.
const RUN_WORDS: [&str; 7] = ["run", "runs", "csur", "sur", "clusterstagedupdaterun", "stagedupdaterun", "updaterun"];
const PLACEMENT_WORDS: [&str; 6] =
    ["placement", "placements", "crp", "rp", "clusterresourceplacement", "resourceplacement"];

impl Args {
    fn wanted(&self) -> anyhow::Result<Wanted<'_>> {
        match &self.name[..] {
            [] => Ok(Wanted::All),
            [word] if word.contains('/') => {
                let (kind, name) = word.split_once('/').unwrap_or_default();
                of_kind(kind, name)
            }
            [name] => Ok(Wanted::Either(name)),
            [kind, name, ..] => of_kind(kind, name),
        }
    }
}

fn of_kind<'a>(kind: &str, name: &'a str) -> anyhow::Result<Wanted<'a>> {
    let kind = kind.to_lowercase();
    if RUN_WORDS.contains(&kind.as_str()) {
        return Ok(Wanted::Run(name));
    }
    if PLACEMENT_WORDS.contains(&kind.as_str()) {
        return Ok(Wanted::Placement(name));
    }
    let hint = "use `run NAME`, `placement NAME`, or just the name".to_owned();
    Err(UsageError(Hinted { what: format!("{kind:?} is neither a run nor a placement"), hint }).into())
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let wanted = args.wanted()?;
    let hub = args.hub.connect().await?;
    let now = Clock::Real.now();
    let seen = in_scope!(hub, read(&hub, &wanted, now))?;
    let wide = args.output.is_wide();
    args.output.show(&seen, |seen, paint| match seen {
        Seen::Run(run) => tree::of_run(run, now, paint, wide),
        Seen::Placement(placement) => tree::of_placement(placement, now, paint, wide),
        Seen::All(all) if all.runs.is_empty() && all.placements.is_empty() => nothing(&hub),
        Seen::All(all) => tables(all, now, paint, wide),
    })
}

/// What the command shows.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Seen {
    All(Everything),
    Run(RunOverview),
    Placement(PlacementOverview),
}

/// The run or placement of this name, or all of them.
pub(super) async fn either(hub: &Hub, name: Option<&str>) -> anyhow::Result<Seen> {
    let wanted = name.map_or(Wanted::All, Wanted::Either);
    in_scope!(hub, read(hub, &wanted, Clock::Real.now()))
}

async fn read<S: Scope>(hub: &Hub, wanted: &Wanted<'_>, now: Timestamp) -> anyhow::Result<Seen> {
    match *wanted {
        Wanted::All => read_all::<S>(hub, now).await,
        Wanted::Run(name) => read_run::<S>(hub, &hub.find("run", name).await?, now).await,
        Wanted::Placement(name) => read_placement::<S>(hub, &hub.find("placement", name).await?, now).await,
        Wanted::Either(name) => {
            if let Some(run) = hub.get::<UpdateRun, S>(name).await? {
                return read_run(hub, &run, now).await;
            }
            match hub.get::<Placement, S>(name).await? {
                Some(placement) => read_placement(hub, &placement, now).await,
                None => Err(neither::<S>(hub, name).await),
            }
        }
    }
}

async fn neither<S: Scope>(hub: &Hub, name: &str) -> anyhow::Error {
    let mut names = hub.names::<UpdateRun, S>().await;
    names.extend(hub.names::<Placement, S>().await);
    let place = hub.namespace.as_ref().map_or_else(String::new, |namespace| format!(" in namespace {namespace:?}"));
    let elsewhere = match hub.elsewhere::<UpdateRun, S>(name).await {
        Some(hint) => Some(hint),
        None => hub.elsewhere::<Placement, S>(name).await,
    };
    let hint = match nearest(name, names.iter().map(String::as_str))[..] {
        _ if elsewhere.is_some() => elsewhere.unwrap_or_default(),
        [] if S::KIND == ScopeKind::Cluster => {
            format!("{} status lists cluster-scoped ones; add -n NAMESPACE for namespaced ones", program())
        }
        [] => format!("without -n the command looks for cluster-scoped ones; {} status lists them", program()),
        ref near => format!("did you mean {}?", alternatives(near)),
    };
    Hinted { what: format!("no run or placement {name:?} found{place}"), hint }.into()
}

async fn read_run<S: Scope>(hub: &Hub, run: &Obj<UpdateRun, S>, now: Timestamp) -> anyhow::Result<Seen> {
    let around = RunInputs::<S>::read(hub, Some(&run.spec.placement_name)).await?;
    let seen = around.overview(run, now).context("the name of the run or of its placement is invalid")?;
    Ok(Seen::Run(seen))
}

async fn read_placement<S: Scope>(hub: &Hub, placement: &Obj<Placement, S>, now: Timestamp) -> anyhow::Result<Seen> {
    let around = RunInputs::<S>::read(hub, placement.metadata.name.as_deref()).await?;
    let runs = hub.list::<UpdateRun, S>(None).await?;
    Ok(Seen::Placement(around.placement_overview(placement, &runs, now)))
}

#[derive(Debug, Serialize)]
pub(super) struct Everything {
    runs: Vec<RunOverview>,
    placements: Vec<PlacementOverview>,
}

async fn read_all<S: Scope>(hub: &Hub, now: Timestamp) -> anyhow::Result<Seen> {
    let around = RunInputs::<S>::read(hub, None).await?;
    let runs = hub.list::<UpdateRun, S>(None).await?;
    Ok(Seen::All(Everything {
        runs: runs.iter().filter_map(|run| around.overview(run, now)).collect(),
        placements: around.placements.iter().map(|one| around.placement_overview(one, &runs, now)).collect(),
    }))
}

/// A message for an empty list, which mentions the other scope.
fn nothing(hub: &Hub) -> String {
    match &hub.namespace {
        None => "No cluster-scoped placements or runs found; use -n NAMESPACE for namespaced ones.\n".to_owned(),
        Some(namespace) => {
            format!("No placements or runs found in namespace {namespace}; omit -n for cluster-scoped ones.\n")
        }
    }
}

fn tables(all: &Everything, now: Timestamp, paint: Paint, wide: bool) -> String {
    let mut parts = Vec::new();
    if !all.placements.is_empty() {
        parts.push(placements(&all.placements, now, wide).render(paint));
    }
    if !all.runs.is_empty() {
        parts.push(runs(&all.runs, now, wide).render(paint));
    }
    parts.join("\n")
}

fn placements(all: &[PlacementOverview], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new(if wide {
        &["PLACEMENT", "ROLLOUT", "CLUSTERS", "RESOURCES", "STATE", "FOR", "AGE", "PICKS", "SAYS"]
    } else {
        &["PLACEMENT", "ROLLOUT", "CLUSTERS", "RESOURCES", "STATE", "FOR", "AGE"]
    });
    for one in all {
        let label = state_labels::of_placement(one.state);
        let ready =
            one.clusters.iter().filter(|cluster| cluster.state == fleet_core::overview::ClusterState::Available);
        let mut cells = vec![
            Cell::from(one.name.as_str()),
            Cell::from(one.rollout.to_string()),
            Cell::from(format!("{}/{}", ready.count(), one.clusters.len())),
            Cell::from(tree::indices(one.clusters.iter().filter_map(|cluster| cluster.resource_index))),
            Cell::toned(label.tone, label.text),
            Cell::from(ago(one.since, now)),
            Cell::from(ago(one.created, now)),
        ];
        if wide {
            cells.extend([Cell::from(one.picks.to_string()), Cell::from(one.message.as_str())]);
        }
        table.row(cells);
    }
    table
}

fn runs(all: &[RunOverview], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new(if wide {
        &["RUN", "PLACEMENT", "RESOURCES", "DONE", "STATE", "FOR", "AGE", "STRATEGY", "WAITS FOR"]
    } else {
        &["RUN", "PLACEMENT", "RESOURCES", "DONE", "STATE", "FOR", "AGE"]
    });
    for one in all {
        let label = state_labels::of_run(one.state);
        let mut cells = vec![
            Cell::from(one.name.as_str()),
            Cell::from(one.placement.as_str()),
            Cell::from(one.resource_index.map_or_else(String::new, |index| index.to_string())),
            Cell::from(format!("{}/{}", one.clusters_done, one.clusters)),
            Cell::toned(label.tone, label.text),
            Cell::from(ago(one.since, now)),
            Cell::from(ago(one.created, now)),
        ];
        if wide {
            let waits: Vec<String> = one.waits.iter().map(|wait| tree::describe_wait(wait, now)).collect();
            cells.extend([Cell::from(one.strategy.as_str()), Cell::from(waits.join("; "))]);
        }
        table.row(cells);
    }
    table
}

/// The age; empty if unknown.
pub(crate) fn ago(then: Option<fleet_api::time::Time>, now: Timestamp) -> String {
    then.map_or_else(String::new, |then| since(Some(then.instant()), now))
}
