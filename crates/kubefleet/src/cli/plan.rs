//! `plan`: what a staged update run would do, without doing it.
//!
//! Reads what the run's controller would look at and asks `fleet_core::overview::forecast`. Writes nothing. Exit code 2
//! says that the run could not start.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;

use fleet_api::conditions::run_message::reason;
use fleet_api::kinds::{Obj, Scope, UpdateRun, UpdateStrategy};
use fleet_api::types::{UpdateRunSpec, UpdateRunState};
use fleet_core::overview::{Change, Contents, Forecast, Gate, GateTask, StageForecast, forecast};
use fleet_core::placement::{self, PlacementFacts, Propagation, ResourceSnapshotFacts, SnapshotPace};
use fleet_runtime::Clock;

use super::changes::{Extent, render};
use super::connection::{Hub, HubFlags};
use super::live::Live;
use super::objects::in_scope;
use super::output::{OutputFlags, Paint, Tone};
use super::overriding::{ForPlacement, Overriding};
use super::picture::{Surroundings, placement_key};
use super::start::next_name;
use super::versions::Versions;
use crate::nearest::{alternatives, nearest};
use crate::output::{Hinted, NothingDone, program};

/// Show what a staged update run would do: clusters by stage, gates, what changes where
///
/// Nothing is written. Overrides are applied as the run would apply them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet plan web --strategy canary-first              with what is on the hub now
  kubefleet plan web --strategy canary-first --index 2    with an older version
  kubefleet plan web -s canary-first -n shop -o json

Exit code 2: such a run could not start, and why is told.")]
pub(crate) struct Args {
    /// The placement
    #[arg(value_name = "PLACEMENT")]
    placement: String,
    /// The strategy that has the stages
    #[arg(short, long, value_name = "STRATEGY")]
    strategy: String,
    /// Index of the version to bring; what is on the hub now if not given
    #[arg(long, value_name = "INDEX")]
    index: Option<u32>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    hub: HubFlags,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let hub = args.hub.connect().await?;
    in_scope!(hub, show(&hub, args))
}

async fn show<S: Scope>(hub: &Hub, args: &Args) -> anyhow::Result<()> {
    let seen = look_ahead::<S>(hub, &args.placement, &args.strategy, args.index).await?;
    args.output.show(&seen, |seen, paint| told(seen, args, paint))?;
    match seen.problem {
        None => Ok(()),
        Some(what) => {
            let what = format!("such a run could not start: {}", reason(&what));
            let meant = meant::<S>(hub, &args.strategy).await?;
            Err(NothingDone(Hinted {
                what,
                hint: meant.or(seen.remedy).unwrap_or_else(|| "try again in a moment".to_owned()),
            })
            .into())
        }
    }
}

/// Which strategies may have been meant by a name that none has, as a hint.
async fn meant<S: Scope>(hub: &Hub, strategy: &str) -> anyhow::Result<Option<String>> {
    if hub.get::<UpdateStrategy, S>(strategy).await?.is_some() {
        return Ok(None);
    }
    let names = hub.names::<UpdateStrategy, S>().await;
    let near = nearest(strategy, names.iter().map(String::as_str));
    Ok((!near.is_empty()).then(|| format!("did you mean --strategy {}?", alternatives(&near))))
}

/// What a run that is created now would do.
async fn look_ahead<S: Scope>(
    hub: &Hub,
    placement: &str,
    strategy: &str,
    index: Option<u32>,
) -> anyhow::Result<Forecast> {
    let versions = Versions::<S>::read(hub, placement).await?;
    let Some(key) = placement_key::<S>(versions.placement.metadata.namespace.as_deref(), placement) else {
        return Err(anyhow::anyhow!("{placement:?} is no name of a placement that the hub acts on"));
    };
    let around = Surroundings::<S>::read(hub, Some(placement)).await?;
    let overriding = Overriding::read(hub).await?;
    let propagation = Propagation::default();
    let is_frozen = index.is_some_and(|index| versions.all().iter().any(|version| version.index == index));
    let selectors = &versions.placement.spec.resource_selectors;
    let mut live =
        if is_frozen { Live::kinds(hub).await? } else { Live::read(hub, &key, selectors, &propagation).await? };
    let snapshots: Vec<ResourceSnapshotFacts<'_>> = versions.snapshots.iter().map(ResourceSnapshotFacts::of).collect();
    let content = placement::Observed {
        placement: PlacementFacts::of(&key, &versions.placement),
        policy_snapshots: Vec::new(),
        resource_snapshots: snapshots.clone(),
        bindings: Vec::new(),
        status_copy: placement::CopyFacts::default(),
        selection: None,
        inventory: &live,
        propagation: &propagation,
        pace: SnapshotPace::AT_ONCE,
    };
    let facts = overriding.facts();
    let overrides = ForPlacement { placement: &key, snapshots: &facts, members: &around.members, scopes: &live };
    let contents = Contents { snapshots: &snapshots, overrides: &facts, members: &around.members, scopes: &live };
    let run = imagined::<S>(hub, &versions, strategy, index);
    let now = Clock::Real.now();
    let seen = around.look(&run, Some(&content), Some(&overrides), |observed| forecast(observed, &contents, now));
    if let (Some(_), Some(error)) = (seen.as_ref().and_then(|seen| seen.problem.as_ref()), live.trouble.take()) {
        return Err(error);
    }
    seen.ok_or_else(|| anyhow::anyhow!("{placement:?} is no name of a placement that the hub acts on"))
}

/// The run as it would be created, asked only to prepare.
fn imagined<S: Scope>(hub: &Hub, versions: &Versions<S>, strategy: &str, index: Option<u32>) -> Obj<UpdateRun, S> {
    let spec = UpdateRunSpec {
        placement_name: versions.name().to_owned(),
        resource_snapshot_index: index.map(|index| index.to_string()),
        staged_update_strategy_name: strategy.to_owned(),
        state: Some(UpdateRunState::Initialize),
    };
    let mut run: Obj<UpdateRun, S> = Obj::named(next_name(versions), spec);
    run.metadata.namespace.clone_from(&hub.namespace);
    run.metadata.generation = Some(1);
    run
}

fn told(seen: &Forecast, args: &Args, paint: Paint) -> String {
    let resources = match (seen.resource_index, seen.captures) {
        (Some(index), true) => format!(", what is on the hub now (to be version {index})"),
        (Some(index), false) => format!(", version {index}"),
        (None, _) => String::new(),
    };
    let mut out = format!(
        "A run of placement {} with strategy {}{resources}\n",
        paint.paint(Tone::Strong, &seen.placement),
        seen.strategy
    );
    let mut told = Told { shown: BTreeMap::new(), paint, extent: args.output.extent() };
    for stage in &seen.stages {
        out.push('\n');
        out.push_str(&told.stage(stage, seen));
    }
    if seen.problem.is_none() {
        let index = args.index.map_or_else(String::new, |index| format!(" --index {index}"));
        let place = args.hub.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
        let run = format!("{} run {} --strategy {}{index}{place}", program(), seen.placement, seen.strategy);
        let _ = writeln!(out, "\n→ {}", paint.paint(Tone::Strong, &run));
    }
    out
}

/// What was told so far, and how.
struct Told {
    /// The first cluster with these changes.
    shown: BTreeMap<String, String>,
    paint: Paint,
    extent: Extent,
}

impl Told {
    fn stage(&mut self, stage: &StageForecast, seen: &Forecast) -> String {
        let name = if stage.removes { "removal".to_owned() } else { format!("stage {}", stage.name) };
        let count = match stage.clusters.len() {
            0 => "no clusters, skipped".to_owned(),
            1 => "1 cluster".to_owned(),
            many => format!("{many} clusters, {} at a time", stage.max_concurrency.as_deref().unwrap_or("1")),
        };
        let mut out = format!("{}: {count}\n", self.paint.paint(Tone::Strong, &name));
        for gate in &stage.before {
            let _ = writeln!(out, "  before: {}", gate_told(gate));
        }
        for cluster in &stage.clusters {
            let from = cluster.from.map_or_else(|| "nothing".to_owned(), |index| index.to_string());
            let to = match (stage.removes, seen.resource_index) {
                (true, _) => "removed".to_owned(),
                (false, Some(index)) => index.to_string(),
                (false, None) => "?".to_owned(),
            };
            let overrides = match &cluster.overrides[..] {
                [] => String::new(),
                names => format!(", overrides {}", names.join(", ")),
            };
            let _ = write!(out, "  {}: {from} → {to}{overrides}", cluster.name);
            if let Some(problem) = &cluster.problem {
                let _ = writeln!(out, "\n    {}", self.paint.paint(Tone::Bad, problem));
            } else if stage.removes || seen.resource_index.is_none() {
                out.push('\n');
            } else {
                out.push_str(&self.changes(&cluster.name, &cluster.changes));
            }
        }
        for gate in &stage.after {
            let _ = writeln!(out, "  after: {}", gate_told(gate));
        }
        out
    }

    /// What changes on a cluster; what was told of another one is not told again.
    fn changes(&mut self, cluster: &str, changes: &[Change]) -> String {
        if changes.is_empty() {
            return ", nothing changes\n".to_owned();
        }
        // By everything that changes: what is shown at a glance may look the same.
        match self.shown.entry(render(changes, self.paint, 2, Extent::Whole)) {
            Entry::Occupied(first) => format!(", the same changes as {}\n", first.get()),
            Entry::Vacant(new) => {
                new.insert(cluster.to_owned());
                format!("\n{}", render(changes, self.paint, 2, self.extent))
            }
        }
    }
}

fn gate_told(gate: &Gate) -> String {
    match &gate.task {
        GateTask::Approval { .. } => "approval".to_owned(),
        GateTask::TimedWait { wait_time } => format!("wait {wait_time}"),
    }
}
