//! Who gets what it needs now.
//!
//! Decides within the limits: at every moment so many clusters stay ready, and no more than so many have the resources. Whom
//! an update cannot harm, because it is known not to be available, waits for nobody. Others are served by name, removals
//! before updates. Never touches a binding.

use std::collections::BTreeSet;

use super::classify::{Case, Need};
use super::health::Health;
use super::limits::{Budget, Limits};

/// How much of the limits is used before this plan.
pub(super) fn budget(limits: &Limits, cases: &[Case<'_>]) -> Budget {
    let clusters = |wanted: fn(&Case<'_>) -> bool| {
        cases.iter().filter(|case| wanted(case)).map(|case| case.binding.cluster).collect::<BTreeSet<_>>().len()
    };
    Budget {
        target: limits.target,
        max_unavailable: limits.max_unavailable,
        max_surge: limits.max_surge,
        ready: clusters(|case| !case.binding.deleting && has_resources(case) && case.health == Health::Ready),
        carrying: clusters(takes_room),
    }
}

/// Where differences are only reported, the cluster has nothing. What the binding asks for counts, not what was reported: a
/// report is of the past as soon as the binding moves. One that goes takes room until it is gone, however it was applied:
/// its strategy may have been another one a moment ago.
fn takes_room(case: &Case<'_>) -> bool {
    has_resources(case) && !case.reports_only
}

/// A cluster that left the fleet counts for nothing.
fn has_resources(case: &Case<'_>) -> bool {
    case.binding.carries() && !case.binding.gone
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

/// As long as enough clusters are ready, those of which nothing is known add nothing to them and may be disturbed; with
/// fewer, they may be what keeps the service up.
fn may_disturb(case: &Case<'_>, spare: &mut Option<usize>) -> bool {
    match (case.health, spare) {
        (Health::Unavailable(_), _) | (Health::Unknown | Health::Settling { .. }, Some(_)) => true,
        (Health::Ready, Some(spare)) => take(spare),
        (_, None) => false,
    }
}

fn take(left: &mut usize) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}
