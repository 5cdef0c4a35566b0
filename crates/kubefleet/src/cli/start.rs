//! `run` and `rollback`: create staged update runs. A rollback rolls out the version before the deployed one. Runs that
//! certainly cannot work are rejected before anything is created.

use fleet_api::kinds::{Obj, Scope, UpdateRun, UpdateStrategy};
use fleet_api::names::RunName;
use fleet_api::safe_text;
use fleet_api::types::{RolloutStrategyType, UpdateRunSpec, UpdateRunState};
use fleet_core::overview::state_labels;
use fleet_core::overview::{self, Change, RunOverview};
use fleet_core::updaterun::RunOutcome;
use fleet_runtime::Clock;

use super::changes::{Extent, render};
use super::connection::{Hub, HubFlags};
use super::difference::describe_revision;
use super::objects::in_scope;
use super::output::{Paint, confirm};
use super::run_inputs::RunInputs;
use super::versions::{Revision, Versions};
use crate::output::{Hinted, NothingChanged, print, program, progress, suggested_command};

/// Create and start a staged update run for a placement
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet run web --strategy canary-first               with the current resources on the hub
  kubefleet run web --strategy canary-first --index 2     with an older version
  kubefleet run web -s canary-first --prepare             only initialize; `kubefleet resume` starts it
  kubefleet run web -s canary-first -n shop --name friday

`kubefleet plan` shows what the run would do.")]
pub(crate) struct RunArgs {
    /// The placement
    #[arg(value_name = "PLACEMENT")]
    placement: String,
    /// The strategy with the stages
    #[arg(short, long, value_name = "STRATEGY")]
    strategy: String,
    /// Index of the version to roll out; defaults to the current resources on the hub
    #[arg(long, value_name = "INDEX")]
    index: Option<u32>,
    /// Name of the run; defaults to PLACEMENT-NUMBER
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only initialize the run: clusters and content are fixed, but nothing is updated
    #[arg(long)]
    prepare: bool,
    #[command(flatten)]
    hub: HubFlags,
}

/// Roll a placement back to an older version with a staged update run
///
/// Shows the changes and asks for confirmation before it creates the run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet rollback web                      to the version before the deployed one
  kubefleet rollback web --to 1 --yes
  kubefleet rollback web -n shop --strategy canary-first

`kubefleet history` lists the versions.")]
pub(crate) struct RollbackArgs {
    /// The placement
    #[arg(value_name = "PLACEMENT")]
    placement: String,
    /// Index of the version to roll back to
    #[arg(long, value_name = "INDEX")]
    to: Option<u32>,
    /// The strategy with the stages; defaults to the strategy of the newest run
    #[arg(short, long, value_name = "STRATEGY")]
    strategy: Option<String>,
    /// Name of the run; defaults to PLACEMENT-NUMBER
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    hub: HubFlags,
}

pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<()> {
    let hub = args.hub.connect().await?;
    in_scope!(hub, start(&hub, args))
}

async fn start<S: Scope>(hub: &Hub, args: &RunArgs) -> anyhow::Result<()> {
    let versions = Versions::<S>::read(hub, &args.placement).await?;
    check_start(hub, &versions, &args.strategy, args.index).await?;
    let state = if args.prepare { UpdateRunState::Initialize } else { UpdateRunState::Run };
    create_and_print(hub, &versions, args.name.as_deref(), &args.strategy, args.index, state).await
}

/// Rejects a run that certainly cannot work.
pub(crate) async fn check_start<S: Scope>(
    hub: &Hub,
    versions: &Versions<S>,
    strategy: &str,
    index: Option<u32>,
) -> anyhow::Result<()> {
    check_external(versions)?;
    hub.find::<UpdateStrategy, S>("strategy", strategy).await?;
    if let Some(index) = index.filter(|index| !versions.all().iter().any(|one| one.index == *index))
        && !(index == 0 && versions.snapshots.is_empty())
    {
        return Err(nothing_done(versions.no_version(index)));
    }
    Ok(())
}

pub(crate) async fn rollback(args: &RollbackArgs) -> anyhow::Result<()> {
    let hub = args.hub.connect().await?;
    in_scope!(hub, go_back(&hub, args))
}

/// What a rollback would do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RollbackPlan {
    pub(crate) strategy: String,
    /// The deployed version.
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) changes: Vec<Change>,
}

/// Plans a rollback; by default to the version before the deployed one, with the strategy of the newest run.
pub(crate) async fn plan_rollback<S: Scope>(
    hub: &Hub,
    versions: &Versions<S>,
    to: Option<u32>,
    strategy: Option<&str>,
) -> anyhow::Result<RollbackPlan> {
    check_external(versions)?;
    let strategy = strategy_for_rollback(versions, strategy)?;
    hub.find::<UpdateStrategy, S>("strategy", &strategy).await?;
    let (from, to) = versions_for_rollback(versions, to)?;
    let before = versions.snapshot_resources(from)?;
    let after = versions.snapshot_resources(to)?;
    Ok(RollbackPlan { strategy, from, to, changes: overview::changes(&before, &after) })
}

async fn go_back<S: Scope>(hub: &Hub, args: &RollbackArgs) -> anyhow::Result<()> {
    let versions = Versions::<S>::read(hub, &args.placement).await?;
    let RollbackPlan { strategy, from, to, changes } =
        plan_rollback(hub, &versions, args.to, args.strategy.as_deref()).await?;
    let way = if to > from { "forward" } else { "back" };
    let (from, target) = (describe_revision(Revision::Snapshot(from)), describe_revision(Revision::Snapshot(to)));
    let shown = render(&changes, Paint::for_stdout(), 1, Extent::Glance);
    let shown = if shown.is_empty() { "  no differences\n".to_owned() } else { shown };
    print(&format!("Placement {} goes {way} from {from} to {target}:\n{shown}", args.placement))?;
    if !args.yes && !confirm(&format!("Create a run with strategy {strategy}?"))? {
        let hint = "nothing was created".to_owned();
        return Err(NothingChanged(Hinted { what: "not confirmed".to_owned(), hint }).into());
    }
    create_and_print(hub, &versions, args.name.as_deref(), &strategy, Some(to), UpdateRunState::Run).await
}

/// The deployed version and the version to roll back to.
fn versions_for_rollback<S: Scope>(versions: &Versions<S>, to: Option<u32>) -> anyhow::Result<(u32, u32)> {
    let name = versions.name();
    let refuse = |what: String, hint: String| nothing_done(Hinted { what, hint }.into());
    let history = format!("{} history {name}{} lists the versions", program(), versions.place());
    let Some(from) = versions.in_use() else {
        return Err(refuse(format!("placement {name:?} is not rolled out to any cluster yet"), history));
    };
    let all = versions.all();
    match to {
        None => {
            let before = all.iter().map(|version| version.index).filter(|index| *index < from).max();
            before
                .map(|to| (from, to))
                .ok_or_else(|| refuse(format!("there is no version before {from} to roll back to"), history))
        }
        Some(to) if !all.iter().any(|version| version.index == to) => Err(nothing_done(versions.no_version(to))),
        Some(to) => Ok((from, to)),
    }
}

fn strategy_for_rollback<S: Scope>(versions: &Versions<S>, given: Option<&str>) -> anyhow::Result<String> {
    let created = |run: &&Obj<UpdateRun, S>| run.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let newest = versions.runs.iter().max_by_key(created).map(|run| run.spec.staged_update_strategy_name.as_str());
    given.or(newest).map(str::to_owned).ok_or_else(|| {
        let what = format!("placement {:?} has no earlier run to take the strategy from", versions.name());
        nothing_done(Hinted { what, hint: "specify one with --strategy".to_owned() }.into())
    })
}

fn check_external<S: Scope>(versions: &Versions<S>) -> anyhow::Result<()> {
    let placement = &versions.placement;
    if placement.spec.strategy_type() == RolloutStrategyType::External {
        return Ok(());
    }
    let kind = Obj::<fleet_api::kinds::Placement, S>::INFO.short_names.first().copied().unwrap_or_default();
    let place = versions.place();
    let name = versions.name();
    Err(nothing_done(
        Hinted {
            what: format!("placement {name:?} is rolled out by the hub (RollingUpdate), not by staged update runs"),
            hint: format!(
                "to switch permanently: kubectl patch {kind} {name}{place} --type merge -p '{{\"spec\":{{\"strategy\":{{\"type\":\"External\"}}}}}}'"
            ),
        }
        .into(),
    ))
}

/// The same error with the exit code for "nothing was changed".
fn nothing_done(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Hinted>() {
        Ok(hinted) => NothingChanged(hinted).into(),
        Err(other) => other,
    }
}

async fn create_and_print<S: Scope>(
    hub: &Hub,
    versions: &Versions<S>,
    name: Option<&str>,
    strategy: &str,
    index: Option<u32>,
    state: UpdateRunState,
) -> anyhow::Result<()> {
    let name = name.map_or_else(|| next_name(versions), str::to_owned);
    RunName::parse(&name)?;
    for seen in active_runs(hub, versions).await? {
        let state = state_labels::of_run(seen.state).text;
        progress(&format!("note: run {} of the same placement is {state}", safe_text::line(&seen.name)));
    }
    create(hub, versions, &name, strategy, index, state).await?;
    let (done, next) = match state {
        UpdateRunState::Run => ("started", "watch"),
        UpdateRunState::Initialize | UpdateRunState::Stop => ("prepared", "status"),
    };
    print(&format!("run {name} {done}\n→ {}\n", suggested_command(&[next, &name], hub.namespace.as_deref())))
}

/// Creates a run.
pub(crate) async fn create<S: Scope>(
    hub: &Hub,
    versions: &Versions<S>,
    name: &str,
    strategy: &str,
    index: Option<u32>,
    state: UpdateRunState,
) -> anyhow::Result<()> {
    let spec = UpdateRunSpec {
        placement_name: versions.name().to_owned(),
        resource_snapshot_index: index.map(|index| index.to_string()),
        staged_update_strategy_name: strategy.to_owned(),
        state: Some(state),
    };
    let mut run: Obj<UpdateRun, S> = Obj::named(name, spec);
    run.metadata.namespace.clone_from(&hub.namespace);
    hub.create(&run).await?;
    Ok(())
}

/// Active runs of the same placement, which can interfere with a new one.
pub(crate) async fn active_runs<S: Scope>(hub: &Hub, versions: &Versions<S>) -> anyhow::Result<Vec<RunOverview>> {
    if versions.runs.is_empty() {
        return Ok(Vec::new());
    }
    let around = RunInputs::<S>::read(hub, Some(versions.name())).await?;
    let now = Clock::Real.now();
    let is_active =
        |seen: &RunOverview| !seen.state.is_final() && !matches!(seen.state, RunOutcome::Idle | RunOutcome::Releasing);
    Ok(versions.runs.iter().filter_map(|run| around.overview(run, now)).filter(is_active).collect())
}

/// Maximum length of the placement name in the name of a run, so that a number fits.
const NAME_BYTES: usize = 55;

/// `PLACEMENT-NUMBER` with the next free number.
pub(crate) fn next_name<S: Scope>(versions: &Versions<S>) -> String {
    let runs = versions.runs.iter().filter_map(|run| run.metadata.name.as_deref());
    numbered(versions.name(), runs)
}

fn numbered<'a>(placement: &str, runs: impl Iterator<Item = &'a str>) -> String {
    let base = placement.get(..NAME_BYTES).unwrap_or(placement).trim_end_matches(['-', '.']);
    let number = |name: &str| name.strip_prefix(base)?.strip_prefix('-')?.parse::<u32>().ok();
    let last = runs.filter_map(number).max().unwrap_or(0);
    format!("{base}-{}", last.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_names_are_numbered_and_never_too_long() {
        assert_eq!(numbered("web", [].into_iter()), "web-1");
        assert_eq!(numbered("web", ["web-1", "web-9", "web-x", "other-12"].into_iter()), "web-10");
        let long = "a".repeat(63);
        assert!(RunName::parse(&numbered(&long, [].into_iter())).is_ok());
    }
}
