//! `run` and `rollback`: new staged update runs.
//!
//! Decides what the new run is called and, for a rollback, which version it brings: the one before what clusters have now.
//! What cannot work for certain is refused before anything is created. Never touches a run that there is.

use fleet_api::kinds::{Obj, Scope, UpdateRun, UpdateStrategy};
use fleet_api::names::RunName;
use fleet_api::types::{RolloutStrategyType, UpdateRunSpec, UpdateRunState};
use fleet_core::overview;
use fleet_core::updaterun::Outcome;
use fleet_runtime::Clock;

use super::changes::{Extent, render};
use super::connection::{Hub, HubFlags};
use super::difference::words_for;
use super::objects::in_scope;
use super::output::{Paint, confirm};
use super::picture::Surroundings;
use super::versions::{Side, Versions};
use super::words;
use crate::output::{Hinted, NothingDone, print, program, progress};

/// Roll a placement's resources out, stage by stage: creates a staged update run and starts it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet run web --strategy canary-first               what is on the hub now
  kubefleet run web --strategy canary-first --index 2     an older version
  kubefleet run web -s canary-first --prepare             only prepare; `kubefleet resume` starts it
  kubefleet run web -s canary-first -n shop --name friday

`kubefleet plan` shows beforehand what it would do.")]
pub(crate) struct RunArgs {
    /// The placement
    #[arg(value_name = "PLACEMENT")]
    placement: String,
    /// The strategy that has the stages
    #[arg(short, long, value_name = "STRATEGY")]
    strategy: String,
    /// Index of the version to bring; what is on the hub now if not given
    #[arg(long, value_name = "INDEX")]
    index: Option<u32>,
    /// What to call the run; PLACEMENT-NUMBER if not given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only prepare it: clusters and content are fixed, nothing is updated
    #[arg(long)]
    prepare: bool,
    #[command(flatten)]
    hub: HubFlags,
}

/// Roll a placement back to an older version of its resources, by a staged update run
///
/// Shows what changes and asks before it creates the run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubefleet rollback web                      to the version before what clusters have now
  kubefleet rollback web --to 1 --yes
  kubefleet rollback web -n shop --strategy canary-first

`kubefleet history` lists the versions.")]
pub(crate) struct RollbackArgs {
    /// The placement
    #[arg(value_name = "PLACEMENT")]
    placement: String,
    /// Index of the version to go back to
    #[arg(long, value_name = "INDEX")]
    to: Option<u32>,
    /// The strategy that has the stages; that of the newest run if not given
    #[arg(short, long, value_name = "STRATEGY")]
    strategy: Option<String>,
    /// What to call the run; PLACEMENT-NUMBER if not given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Do not ask
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
    check_external(&versions)?;
    hub.find::<UpdateStrategy, S>("strategy", &args.strategy).await?;
    if let Some(index) = args.index.filter(|index| !versions.all().iter().any(|one| one.index == *index))
        && !(index == 0 && versions.snapshots.is_empty())
    {
        return Err(nothing_done(versions.no_version(index)));
    }
    let state = if args.prepare { UpdateRunState::Initialize } else { UpdateRunState::Run };
    create(hub, &versions, args.name.as_deref(), &args.strategy, args.index, state).await
}

pub(crate) async fn rollback(args: &RollbackArgs) -> anyhow::Result<()> {
    let hub = args.hub.connect().await?;
    in_scope!(hub, go_back(&hub, args))
}

async fn go_back<S: Scope>(hub: &Hub, args: &RollbackArgs) -> anyhow::Result<()> {
    let versions = Versions::<S>::read(hub, &args.placement).await?;
    check_external(&versions)?;
    let strategy = strategy_for_rollback(&versions, args.strategy.as_deref())?;
    hub.find::<UpdateStrategy, S>("strategy", &strategy).await?;
    let (from, to) = versions_for_rollback(&versions, args.to)?;
    let before = versions.resources(hub, Side::Frozen(from)).await?;
    let after = versions.resources(hub, Side::Frozen(to)).await?;
    let differences = overview::changes(&before, &after);
    let way = if to > from { "forward" } else { "back" };
    let (from, target) = (words_for(Side::Frozen(from)), words_for(Side::Frozen(to)));
    let shown = render(&differences, Paint::for_stdout(), 1, Extent::Glance);
    let shown = if shown.is_empty() { "  nothing differs\n".to_owned() } else { shown };
    print(&format!("Placement {} goes {way} from {from} to {target}:\n{shown}", args.placement))?;
    if !args.yes && !confirm(&format!("Create a run with strategy {strategy}?"))? {
        let hint = "nothing was created".to_owned();
        return Err(NothingDone(Hinted { what: "not confirmed".to_owned(), hint }).into());
    }
    create(hub, &versions, args.name.as_deref(), &strategy, Some(to), UpdateRunState::Run).await
}

/// What clusters have now, and what they go back to.
fn versions_for_rollback<S: Scope>(versions: &Versions<S>, to: Option<u32>) -> anyhow::Result<(u32, u32)> {
    let name = versions.name();
    let refuse = |what: String, hint: String| nothing_done(Hinted { what, hint }.into());
    let history = format!("{} history {name}{} lists the versions", program(), versions.place());
    let Some(from) = versions.in_use() else {
        return Err(refuse(format!("no cluster has anything of placement {name:?} yet"), history));
    };
    let all = versions.all();
    match to {
        None => {
            let before = all.iter().map(|version| version.index).filter(|index| *index < from).max();
            before
                .map(|to| (from, to))
                .ok_or_else(|| refuse(format!("there is no version before {from} to go back to"), history))
        }
        Some(to) if !all.iter().any(|version| version.index == to) => Err(nothing_done(versions.no_version(to))),
        Some(to) => Ok((from, to)),
    }
}

fn strategy_for_rollback<S: Scope>(versions: &Versions<S>, given: Option<&str>) -> anyhow::Result<String> {
    let created = |run: &&Obj<UpdateRun, S>| run.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let newest = versions.runs.iter().max_by_key(created).map(|run| run.spec.staged_update_strategy_name.as_str());
    given.or(newest).map(str::to_owned).ok_or_else(|| {
        let what = format!("placement {:?} has no run yet whose strategy could be taken", versions.name());
        nothing_done(Hinted { what, hint: "name one with --strategy".to_owned() }.into())
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
            what: format!("placement {name:?} is rolled out by the hub itself (RollingUpdate), not by runs"),
            hint: format!(
                "for good: kubectl patch {kind} {name}{place} --type merge -p '{{\"spec\":{{\"strategy\":{{\"type\":\"External\"}}}}}}'"
            ),
        }
        .into(),
    ))
}

/// The same error with the exit code that says that nothing was done.
fn nothing_done(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Hinted>() {
        Ok(hinted) => NothingDone(hinted).into(),
        Err(other) => other,
    }
}

async fn create<S: Scope>(
    hub: &Hub,
    versions: &Versions<S>,
    name: Option<&str>,
    strategy: &str,
    index: Option<u32>,
    state: UpdateRunState,
) -> anyhow::Result<()> {
    let name = name.map_or_else(|| next_name(versions), str::to_owned);
    RunName::parse(&name)?;
    tell_of_others(hub, versions).await?;
    let spec = UpdateRunSpec {
        placement_name: versions.name().to_owned(),
        resource_snapshot_index: index.map(|index| index.to_string()),
        staged_update_strategy_name: strategy.to_owned(),
        state: Some(state),
    };
    let mut run: Obj<UpdateRun, S> = Obj::named(&name, spec);
    run.metadata.namespace.clone_from(&hub.namespace);
    hub.create(&run).await?;
    let place = hub.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    let (done, next) = match state {
        UpdateRunState::Run => ("started", "watch"),
        UpdateRunState::Initialize | UpdateRunState::Stop => ("prepared", "status"),
    };
    print(&format!("run {name} {done}\n→ {} {next} {name}{place}\n", program()))
}

/// Two runs of one placement can take clusters from each other.
async fn tell_of_others<S: Scope>(hub: &Hub, versions: &Versions<S>) -> anyhow::Result<()> {
    if versions.runs.is_empty() {
        return Ok(());
    }
    let around = Surroundings::<S>::read(hub, Some(versions.name())).await?;
    let now = Clock::Real.now();
    for seen in versions.runs.iter().filter_map(|run| around.overview(run, now)) {
        if !seen.state.is_final() && !matches!(seen.state, Outcome::Idle | Outcome::Releasing) {
            let state = words::of_run(seen.state).text;
            progress(&format!("note: run {} of the same placement is {state}", seen.name));
        }
    }
    Ok(())
}

/// Longest part of a placement's name in a run's: a number has to fit behind it.
const NAME_BYTES: usize = 55;

/// `PLACEMENT-NUMBER`, one more than there is.
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
    fn runs_are_numbered_and_their_names_are_never_too_long() {
        assert_eq!(numbered("web", [].into_iter()), "web-1");
        assert_eq!(numbered("web", ["web-1", "web-9", "web-x", "other-12"].into_iter()), "web-10");
        let long = "a".repeat(63);
        assert!(RunName::parse(&numbered(&long, [].into_iter())).is_ok());
    }
}
