//! How many more clusters may lose a placement.
//!
//! Decides from a disruption budget and the placement's bindings. An empty budget allows nothing. Never decides about one
//! cluster.

use fleet_api::types::{IntOrString, PlacementDisruptionBudgetSpec, PlacementType, Rounding};

use super::observed::{BindingFacts, PlacementFacts};

/// What a budget is counted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    /// Clusters where everything is available and nothing is being removed.
    pub available: usize,
    /// All clusters that have a binding, in whatever state.
    pub total: usize,
}

impl Tally {
    pub(super) fn of(bindings: &[BindingFacts<'_>]) -> Self {
        Self { available: bindings.iter().filter(|binding| binding.available).count(), total: bindings.len() }
    }
}

/// Where every cluster is wanted, nobody knows how many that are: only a plain number of clusters that must stay makes sense.
pub(super) fn is_misconfigured(budget: &PlacementDisruptionBudgetSpec, placement: &PlacementFacts<'_>) -> bool {
    let in_percent = matches!(budget.min_available, Some(IntOrString::String(_)));
    placement.spec.placement_type() == PlacementType::PickAll && (budget.max_unavailable.is_some() || in_percent)
}

/// A limit that cannot be read allows nothing.
pub(super) fn allows_one_more(
    budget: &PlacementDisruptionBudgetSpec,
    placement: &PlacementFacts<'_>,
    Tally { available, total }: Tally,
) -> bool {
    let scaled = |limit: &IntOrString| {
        limit.of(placement.desired(), Rounding::Up).and_then(|number| usize::try_from(number).ok())
    };
    match (&budget.max_unavailable, &budget.min_available) {
        (Some(most), _) => scaled(most).is_some_and(|most| total.saturating_sub(available) < most),
        (None, Some(least)) => scaled(least).is_some_and(|least| available > least),
        (None, None) => false,
    }
}
