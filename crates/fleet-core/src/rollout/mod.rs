//! Which bindings move to the latest resources now, and which must wait.
//!
//! Decides from the placement's rollout strategy, its latest snapshot, the overrides that match per cluster and its bindings.
//! A plan wakes by time only while somebody waits for resources that cannot be tracked. Never picks a cluster, never writes
//! a Work, and never touches a condition other than RolloutStarted.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts |
//! | `health` | what a binding's conditions say now |
//! | `limits` | maxUnavailable and maxSurge in numbers |
//! | `classify` | what each binding needs |
//! | `pick` | who gets it now |
//! | `writes` | how that is written |
//! | `abandon` | what becomes of the resources when the placement is deleted |
//! | `report` | what was found out, as values |
//!
//! Two things are stricter than in other releases, so that the limits hold whatever happens in between: a cluster has the
//! resources, and counts against maxSurge, also while it fails; and one of which nothing is known, or which is not done with
//! what it was given, is never disturbed while too few others are ready. Two are kinder: what is known not to be available, or not wanted and never placed, or on a
//! cluster that left the fleet, is removed without a charge; and a cluster that must wait for its own cleanup holds back no other.

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

pub use abandon::is_settled as abandonment_is_settled;
pub use health::Health;
pub use limits::Budget;
pub use observed::{BindingFacts, ClusterOverrides, LatestSnapshot, Observed, Overrides, PlacementFacts};
pub use report::{ClusterReport, ContentWait, Fault, Outcome, Outdated, Report, Standing, Wait};
pub use writes::{Move, Write, announce};

use crate::plan::{self, Wake};
use classify::{Case, Need};
use limits::Limits;

pub type Plan = plan::Plan<Write, NoStatus, Report>;

/// What to do so that every binding comes to the latest resources within the limits.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = if observed.placement.deleting {
        abandon::plan(observed)
    } else {
        match observed.placement.spec.strategy_type() {
            RolloutStrategyType::External => Plan::nothing(Report::without_clusters(Outcome::LeftToRuns)),
            RolloutStrategyType::RollingUpdate => roll(observed, now),
        }
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn roll(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let mut bindings: Vec<_> = observed.bindings.iter().collect();
    bindings.sort_unstable_by_key(|binding| binding.name);
    let limits = match Limits::of(observed.placement.spec, &bindings) {
        Ok(limits) => limits,
        Err(fault) => return Plan::nothing(Report::without_clusters(Outcome::Stopped(fault))),
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
    let standing = match &case.need {
        Need::Nothing => Standing::UpToDate,
        Need::Leaving => Standing::Leaving,
        Need::Foreign => Standing::Foreign,
        Need::Removal if picked => Standing::Removing,
        Need::First(_) if picked => Standing::Starting,
        Need::Update(_, outdated) if picked => Standing::Updating(*outdated),
        Need::Removal => Standing::Waiting(Wait::RemovalNeedsReady),
        Need::First(_) => Standing::Waiting(Wait::Surge),
        Need::Update(_, outdated) => Standing::Waiting(Wait::UpdateNeedsReady(*outdated)),
        Need::Held(wait) => Standing::Waiting(wait.clone()),
    };
    let binding = case.binding;
    ClusterReport {
        cluster: binding.cluster.to_owned(),
        binding: binding.name.to_owned(),
        health: case.health,
        standing,
    }
}

fn outcome(observed: &Observed<'_>, clusters: &[ClusterReport]) -> Outcome {
    let count = |wanted: fn(&Standing) -> bool| clusters.iter().filter(|one| wanted(&one.standing)).count();
    let moved = count(|one| matches!(one, Standing::Removing | Standing::Starting | Standing::Updating(_)));
    let waiting = count(|one| matches!(one, Standing::Waiting(_)));
    match classify::content_wait(observed) {
        Some(wait) => Outcome::AwaitingContent(wait),
        None if moved > 0 => Outcome::Moving { moved, waiting },
        None if waiting > 0 => Outcome::Waiting { waiting },
        None => Outcome::UpToDate,
    }
}

/// Time matters only where somebody waits for others to become ready, and one of them does so by itself.
fn wake(clusters: &[ClusterReport]) -> Wake {
    let needs_ready = |one: &ClusterReport| {
        matches!(one.standing, Standing::Waiting(Wait::UpdateNeedsReady(_) | Wait::RemovalNeedsReady))
    };
    if !clusters.iter().any(needs_ready) {
        return Wake::OnChange;
    }
    let settled = clusters.iter().filter_map(|one| match (&one.standing, one.health) {
        (Standing::UpToDate | Standing::Waiting(_) | Standing::Foreign, Health::Settling { until }) => Some(until),
        _ => None,
    });
    settled.min().map_or(Wake::OnChange, Wake::At)
}
