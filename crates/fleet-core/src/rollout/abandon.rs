//! Deletion of a placement whose resources stay on the clusters (`deleteStrategy: Abandon`).
//!
//! The decision is stored as an annotation on the bindings, because the placement may be gone before its Works are.
//! Bindings that were unscheduled earlier or are deleted for another reason are cleaned up.

use super::observed::{BindingFacts, Observed};
use super::report::{Report, RolloutOutcome};
use super::{Plan, Write};

/// Whether every binding of a deleted placement has the annotation that it needs. Before that, no binding may be
/// deleted because of the placement, and the placement must keep its finalizer.
///
/// `bindings` has for each binding whether it is being deleted, and whether it has the Abandon annotation.
pub fn is_abandonment_recorded(abandons: bool, bindings: impl IntoIterator<Item = (bool, bool)>) -> bool {
    !abandons || !bindings.into_iter().any(|(deleting, abandoned)| needs_annotation(deleting, abandoned))
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report::without_clusters(RolloutOutcome::Deleting { abandoned: 0 }));
    if !observed.placement.abandons() {
        return plan;
    }
    let is_unmarked = |binding: &&BindingFacts<'_>| needs_annotation(binding.deleting, binding.abandoned);
    let mut unmarked: Vec<_> = observed.bindings.iter().filter(is_unmarked).collect();
    unmarked.sort_unstable_by_key(|binding| binding.name);
    plan.writes.extend(unmarked.iter().map(|binding| Write::Abandon { binding: binding.name.to_owned() }));
    let marked = observed.bindings.iter().filter(|binding| binding.abandoned).count();
    plan.report.outcome = RolloutOutcome::Deleting { abandoned: marked + unmarked.len() };
    plan
}

fn needs_annotation(deleting: bool, abandoned: bool) -> bool {
    !deleting && !abandoned
}
