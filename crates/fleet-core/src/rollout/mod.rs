//! Rolling updates: which bindings get the latest resources now, and which must wait.
//!
//! [`plan`] reads the placement's rollout strategy, its latest snapshot, the matching overrides and the bindings. It
//! requeues by time only while a binding waits for untrackable resources. It writes no condition other than
//! RolloutStarted.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the input of a plan |
//! | `health` | health of a cluster, from the binding's conditions |
//! | `limits` | maxUnavailable and maxSurge as numbers |
//! | `classify` | what each binding needs |
//! | `pick` | which bindings are served now |
//! | `writes` | the writes of a plan |
//! | `abandon` | deletion of the placement with `deleteStrategy: Abandon` |
//! | `report` | the result as values |
//!
//! Two rules are stricter than in other releases, so that the limits always hold. A failing cluster has resources and
//! counts against maxSurge. A cluster in unknown health, or one that is still applying, is not disturbed while too few
//! others are ready. Two rules are more lenient. A cluster that is known to be unavailable, never got resources, or has
//! left the fleet is removed without using the budget. A cluster that waits for its own cleanup does not block other
//! clusters.

mod abandon;
mod classify;
mod health;
mod limits;
mod observed;
mod pick;
mod report;
mod writes;

#[cfg(test)]
pub(crate) mod tests;

use fleet_api::kinds::NoStatus;
use fleet_api::types::RolloutStrategyType;
use jiff::Timestamp;

pub use abandon::is_abandonment_recorded;
pub use health::Health;
pub use limits::Budget;
pub use observed::{BindingFacts, ClusterOverrides, LatestSnapshot, Observed, Overrides, PlacementFacts};
pub use report::{ClusterPhase, ClusterReport, ContentWait, Fault, Outdated, Report, RolloutOutcome, Wait};
pub use writes::{Move, Write, set_rollout_started};

use crate::plan::{self, Wake};
use classify::{Case, Need};
use limits::Limits;

pub type Plan = plan::Plan<Write, NoStatus, Report>;

/// Plans the next step towards the latest resources on every binding, within the limits.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = if observed.placement.deleting {
        abandon::plan(observed)
    } else {
        match observed.placement.spec.strategy_type() {
            RolloutStrategyType::External => Plan::nothing(Report::without_clusters(RolloutOutcome::ManagedByRuns)),
            RolloutStrategyType::RollingUpdate => rolling_update(observed, now),
        }
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn rolling_update(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let mut bindings: Vec<_> = observed.bindings.iter().collect();
    bindings.sort_unstable_by_key(|binding| binding.name);
    let limits = match Limits::of(observed.placement.spec, &bindings) {
        Ok(limits) => limits,
        Err(fault) => return Plan::nothing(Report::without_clusters(RolloutOutcome::Stopped(fault))),
    };
    let strategy = classify::wanted_strategy(observed);
    let cases = classify::classify(observed, &bindings, &limits, &strategy, now);
    let budget = pick::budget(&limits, &cases);
    let picked = pick::pick(&budget, &cases);
    let clusters: Vec<_> = cases.iter().zip(&picked).map(|(case, picked)| cluster_report(case, *picked)).collect();
    let outcome = outcome(observed, &clusters);
    Plan {
        writes: writes::writes(&cases, &picked, &strategy),
        status: None,
        wake: wake(&clusters),
        report: Report { outcome, budget: Some(budget), clusters },
    }
}

fn cluster_report(case: &Case<'_>, picked: bool) -> ClusterReport {
    let phase = match &case.need {
        Need::Nothing => ClusterPhase::UpToDate,
        Need::Deleting => ClusterPhase::Deleting,
        Need::UnknownState => ClusterPhase::UnknownState,
        Need::Removal if picked => ClusterPhase::Removing,
        Need::First(_) if picked => ClusterPhase::Starting,
        Need::Update(_, outdated) if picked => ClusterPhase::Updating(*outdated),
        Need::Removal => ClusterPhase::Waiting(Wait::RemovalNeedsReady),
        Need::First(_) => ClusterPhase::Waiting(Wait::Surge),
        Need::Update(_, outdated) => ClusterPhase::Waiting(Wait::UpdateNeedsReady(*outdated)),
        Need::Blocked(wait) => ClusterPhase::Waiting(wait.clone()),
    };
    let binding = case.binding;
    ClusterReport { cluster: binding.cluster.to_owned(), binding: binding.name.to_owned(), health: case.health, phase }
}

fn outcome(observed: &Observed<'_>, clusters: &[ClusterReport]) -> RolloutOutcome {
    let count = |wanted: fn(&ClusterPhase) -> bool| clusters.iter().filter(|one| wanted(&one.phase)).count();
    let moved = count(|one| matches!(one, ClusterPhase::Removing | ClusterPhase::Starting | ClusterPhase::Updating(_)));
    let waiting = count(|one| matches!(one, ClusterPhase::Waiting(_)));
    match classify::content_wait(observed) {
        Some(wait) => RolloutOutcome::AwaitingContent(wait),
        None if moved > 0 => RolloutOutcome::Moving { moved, waiting },
        None if waiting > 0 => RolloutOutcome::Waiting { waiting },
        None => RolloutOutcome::UpToDate,
    }
}

/// Requeues by time only if a binding waits for others to become ready and one of them becomes ready by time.
fn wake(clusters: &[ClusterReport]) -> Wake {
    let needs_ready = |one: &ClusterReport| {
        matches!(one.phase, ClusterPhase::Waiting(Wait::UpdateNeedsReady(_) | Wait::RemovalNeedsReady))
    };
    if !clusters.iter().any(needs_ready) {
        return Wake::OnChange;
    }
    let period_ends = clusters.iter().filter_map(|one| match (&one.phase, one.health) {
        (
            ClusterPhase::UpToDate | ClusterPhase::Waiting(_) | ClusterPhase::UnknownState,
            Health::InUnavailablePeriod { until },
        ) => Some(until),
        _ => None,
    });
    period_ends.min().map_or(Wake::OnChange, Wake::At)
}
