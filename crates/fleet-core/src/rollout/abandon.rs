//! What becomes of the resources on the clusters when their placement is deleted.
//!
//! Decides which bindings must say that their resources stay. That is noted on the bindings themselves, because the placement
//! may be gone before its Works are. Resources of a cluster that was given up earlier, or that are taken off it for another
//! reason than the placement's deletion, do not stay. Never deletes anything.

use super::observed::{BindingFacts, Observed};
use super::report::{Outcome, Report};
use super::{Plan, Write};

/// Whether every binding of a placement that is deleted says what becomes of its resources. Before that, none may be
/// deleted on the placement's behalf, and the placement may not vanish.
///
/// Of each binding counts whether it is being deleted, and whether it says that its resources stay.
pub fn is_settled(abandons: bool, bindings: impl IntoIterator<Item = (bool, bool)>) -> bool {
    !abandons || !bindings.into_iter().any(|(deleting, abandoned)| must_say_so(deleting, abandoned))
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report::without_clusters(Outcome::Releasing { abandoned: 0 }));
    if !observed.placement.abandons() {
        return plan;
    }
    let is_unmarked = |binding: &&BindingFacts<'_>| must_say_so(binding.deleting, binding.abandoned);
    let mut unmarked: Vec<_> = observed.bindings.iter().filter(is_unmarked).collect();
    unmarked.sort_unstable_by_key(|binding| binding.name);
    plan.writes.extend(unmarked.iter().map(|binding| Write::Abandon { binding: binding.name.to_owned() }));
    let marked = observed.bindings.iter().filter(|binding| binding.abandoned).count();
    plan.report.outcome = Outcome::Releasing { abandoned: marked + unmarked.len() };
    plan
}

fn must_say_so(deleting: bool, abandoned: bool) -> bool {
    !deleting && !abandoned
}
