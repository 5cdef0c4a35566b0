//! `plan`: what a staged update run would do, computed by `fleet_core::overview::forecast`. Writes nothing. Exit code 2: the
//! run could not start.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;

use fleet_api::conditions::run_message::reason;
use fleet_api::kinds::{Obj, Scope, UpdateRun, UpdateStrategy};
use fleet_api::safe_text::line;
use fleet_api::types::{UpdateRunSpec, UpdateRunState};
use fleet_core::overview::{Change, Contents, Forecast, Gate, GateTask, StageForecast, forecast};
use fleet_core::placement::{self, PlacementFacts, Propagation, ResourceSnapshotFacts, SnapshotIntervals};
use fleet_runtime::Clock;

use super::changes::{Extent, render};
use super::connection::{Hub, HubFlags};
use super::live::Live;
use super::objects::in_scope;
use super::output::{OutputFlags, Paint, Tone};
use super::overriding::{ForPlacement, Overriding};
use super::propagation::PropagationFlags;
use super::run_inputs::{RunInputs, placement_key};
use super::start::next_name;
use super::versions::Versions;
use crate::nearest::{alternatives, nearest};
use crate::output::{Hinted, NothingChanged, suggested_command};

/// Show what a staged update run would do: stages, clusters, gates and changes
///
/// Nothing is written. Envelopes are expanded and overrides applied as in a real run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet plan web --strategy canary-first              with the current resources on the hub
  kubefleet plan web --strategy canary-first --index 2    with an older version
  kubefleet plan web -s canary-first -n shop -o json

Exit code 2: the run could not start; the output has the reason.")]
pub(crate) struct Args {
    /// The placement
    #[arg(value_name = "PLACEMENT")]
    placement: String,
    /// The strategy with the stages
    #[arg(short, long, value_name = "STRATEGY")]
    strategy: String,
    /// Index of the version to roll out; defaults to the current resources on the hub
    #[arg(long, value_name = "INDEX")]
    index: Option<u32>,
    #[command(flatten)]
    propagation: PropagationFlags,
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
    let propagation = args.propagation.propagation();
    let seen = look_ahead::<S>(hub, (&args.placement, &args.strategy, args.index), &propagation).await?;
    args.output.show(&seen, |seen, paint| render_forecast(seen, args, paint))?;
    match seen.problem {
        None => Ok(()),
        Some(what) => {
            let what = format!("the run could not start: {}", reason(&what));
            let meant = meant::<S>(hub, &args.strategy).await?;
            Err(NothingChanged(Hinted {
                what,
                hint: meant.or(seen.remedy).unwrap_or_else(|| "try again later".to_owned()),
            })
            .into())
        }
    }
}

/// A hint with strategies of similar names.
async fn meant<S: Scope>(hub: &Hub, strategy: &str) -> anyhow::Result<Option<String>> {
    if hub.get::<UpdateStrategy, S>(strategy).await?.is_some() {
        return Ok(None);
    }
    let names = hub.names::<UpdateStrategy, S>().await;
    let near = nearest(strategy, names.iter().map(String::as_str));
    Ok((!near.is_empty()).then(|| format!("did you mean --strategy {}?", alternatives(&near))))
}

/// The forecast of a new run of a placement with a strategy, and the index of an older version.
pub(crate) async fn look_ahead<S: Scope>(
    hub: &Hub,
    (placement, strategy, index): (&str, &str, Option<u32>),
    propagation: &Propagation,
) -> anyhow::Result<Forecast> {
    let versions = Versions::<S>::read(hub, placement).await?;
    let Some(key) = placement_key::<S>(versions.placement.metadata.namespace.as_deref(), placement) else {
        return Err(anyhow::anyhow!("{placement:?} is not a valid placement name"));
    };
    let around = RunInputs::<S>::read(hub, Some(placement)).await?;
    let overriding = Overriding::read(hub).await?;
    let has_snapshot = index.is_some_and(|index| versions.all().iter().any(|version| version.index == index));
    let selectors = &versions.placement.spec.resource_selectors;
    let mut live =
        if has_snapshot { Live::kinds(hub).await? } else { Live::read(hub, &key, selectors, propagation).await? };
    let snapshots: Vec<ResourceSnapshotFacts<'_>> = versions.snapshots.iter().map(ResourceSnapshotFacts::of).collect();
    let content = placement::Observed {
        placement: PlacementFacts::of(&key, &versions.placement),
        policy_snapshots: Vec::new(),
        resource_snapshots: snapshots.clone(),
        bindings: Vec::new(),
        status_copy: placement::CopyFacts::default(),
        selection: None,
        inventory: &live,
        propagation,
        snapshot_intervals: SnapshotIntervals::NONE,
    };
    let facts = overriding.facts();
    let overrides = ForPlacement { placement: &key, snapshots: &facts, members: &around.members, scopes: &live };
    let contents = Contents { snapshots: &snapshots, overrides: &facts, members: &around.members, scopes: &live };
    let run = imagined::<S>(hub, &versions, strategy, index);
    let now = Clock::Real.now();
    let seen = around.look(&run, Some(&content), Some(&overrides), |observed| forecast(observed, &contents, now));
    if let (Some(_), Some(error)) = (seen.as_ref().and_then(|seen| seen.problem.as_ref()), live.error.take()) {
        return Err(error);
    }
    seen.ok_or_else(|| anyhow::anyhow!("{placement:?} is not a valid placement name"))
}

/// The run as it would be created, in the state `Initialize`.
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

fn render_forecast(seen: &Forecast, args: &Args, paint: Paint) -> String {
    let resources = match (seen.resource_index, seen.captures) {
        (Some(index), true) => format!(", current resources on the hub (will be version {index})"),
        (Some(index), false) => format!(", version {index}"),
        (None, _) => String::new(),
    };
    let mut out = format!(
        "A run of placement {} with strategy {}{resources}\n",
        paint.paint(Tone::Strong, &seen.placement),
        line(&seen.strategy)
    );
    let mut renderer = Renderer { shown: BTreeMap::new(), paint, extent: args.output.extent() };
    for stage in &seen.stages {
        out.push('\n');
        out.push_str(&renderer.stage(stage, seen));
    }
    if seen.problem.is_none() {
        let index = args.index.map(|index| index.to_string());
        let mut words = vec!["run", &seen.placement, "--strategy", &seen.strategy];
        words.extend(index.iter().flat_map(|index| ["--index", index]));
        let run = suggested_command(&words, args.hub.namespace.as_deref());
        let _ = writeln!(out, "\n→ {}", paint.paint(Tone::Strong, &run));
    }
    out
}

/// Renders stages and remembers the changes that were shown.
struct Renderer {
    /// The first cluster with the same changes.
    shown: BTreeMap<String, String>,
    paint: Paint,
    extent: Extent,
}

impl Renderer {
    fn stage(&mut self, stage: &StageForecast, seen: &Forecast) -> String {
        let name = if stage.removes { "removal".to_owned() } else { format!("stage {}", stage.name) };
        let count = match stage.clusters.len() {
            0 => "no clusters, skipped".to_owned(),
            1 => "1 cluster".to_owned(),
            many => format!("{many} clusters, {} at a time", stage.max_concurrency.as_deref().unwrap_or("1")),
        };
        let mut out = format!("{}: {count}\n", self.paint.paint(Tone::Strong, &name));
        for gate in &stage.before {
            let _ = writeln!(out, "  before: {}", describe_gate(gate));
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
                names => format!(", overrides {}", line(&names.join(", "))),
            };
            let _ = write!(out, "  {}: {from} → {to}{overrides}", line(&cluster.name));
            if let Some(problem) = &cluster.problem {
                let _ = writeln!(out, "\n    {}", self.paint.paint(Tone::Bad, problem));
            } else if stage.removes || seen.resource_index.is_none() {
                out.push('\n');
            } else {
                out.push_str(&self.changes(&cluster.name, &cluster.changes));
            }
        }
        for gate in &stage.after {
            let _ = writeln!(out, "  after: {}", describe_gate(gate));
        }
        out
    }

    /// The changes on a cluster; refers to the first cluster with the same changes.
    fn changes(&mut self, cluster: &str, changes: &[Change]) -> String {
        if changes.is_empty() {
            return ", no changes\n".to_owned();
        }
        // Compare the full changes: truncated ones may look the same.
        match self.shown.entry(render(changes, self.paint, 2, Extent::Whole)) {
            Entry::Occupied(first) => format!(", the same changes as {}\n", first.get()),
            Entry::Vacant(new) => {
                new.insert(cluster.to_owned());
                format!("\n{}", render(changes, self.paint, 2, self.extent))
            }
        }
    }
}

fn describe_gate(gate: &Gate) -> String {
    match &gate.task {
        GateTask::Approval { .. } => "approval".to_owned(),
        GateTask::TimedWait { wait_time } => format!("wait {}", line(wait_time)),
    }
}
