//! Picks the bindings that are served now, within maxUnavailable and maxSurge. A cluster that is known to be
//! unavailable is always served. Others are served by name, removals before updates.

use std::collections::BTreeSet;

use super::classify::{Case, Need};
use super::health::Health;
use super::limits::{Budget, Limits};

/// The limits and how much of them is used before this plan.
pub(super) fn budget(limits: &Limits, cases: &[Case<'_>]) -> Budget {
    let clusters = |wanted: fn(&Case<'_>) -> bool| {
        cases.iter().filter(|case| wanted(case)).map(|case| case.binding.cluster).collect::<BTreeSet<_>>().len()
    };
    Budget {
        target: limits.target,
        max_unavailable: limits.max_unavailable,
        max_surge: limits.max_surge,
        ready: clusters(|case| !case.binding.deleting && has_resources(case) && case.health == Health::Ready),
        carrying: clusters(counts_against_surge),
    }
}

/// A cluster with strategy ReportDiff has no resources. The spec of the binding decides, not its conditions, which are
/// outdated as soon as the binding changes. A binding that is being deleted counts until it is gone, because its
/// strategy may have changed just before.
fn counts_against_surge(case: &Case<'_>) -> bool {
    has_resources(case) && !case.reports_only
}

/// A cluster that left the fleet does not count.
fn has_resources(case: &Case<'_>) -> bool {
    case.binding.has_content() && !case.binding.cluster_gone
}

/// For each case, whether it is served now.
pub(super) fn pick(budget: &Budget, cases: &[Case<'_>]) -> Vec<bool> {
    let mut spare = budget.spare();
    let mut room = budget.room();
    let mut picked = vec![false; cases.len()];
    let serve = |picked: &mut Vec<bool>, wanted: fn(&Need<'_>) -> bool, allow: &mut dyn FnMut(&Case<'_>) -> bool| {
        for (case, picked) in cases.iter().zip(picked) {
            if wanted(&case.need) {
                *picked = allow(case);
            }
        }
    };
    serve(&mut picked, |need| matches!(need, Need::Removal), &mut |case| {
        !has_resources(case) || may_disturb(case, &mut spare)
    });
    serve(&mut picked, |need| matches!(need, Need::Update(..)), &mut |case| may_disturb(case, &mut spare));
    serve(&mut picked, |need| matches!(need, Need::First(_)), &mut |case| case.reports_only || take(&mut room));
    picked
}

/// If enough clusters are ready, clusters in unknown health may be disturbed. With too few ready clusters they may be
/// the ones that keep the service up. A cluster with untrackable resources is not disturbed before
/// `unavailablePeriodSeconds` is over, even if no cluster has to be ready: users rely on the period to notice a bad
/// version.
fn may_disturb(case: &Case<'_>, spare: &mut Option<usize>) -> bool {
    match (case.health, spare) {
        (Health::Unavailable(_), _) | (Health::Unknown, Some(_)) => true,
        (Health::Ready, Some(spare)) => take(spare),
        (Health::InUnavailablePeriod { .. }, _) | (Health::Ready | Health::Unknown, None) => false,
    }
}

fn take(left: &mut usize) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}
