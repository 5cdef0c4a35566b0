//! How many more clusters may lose a placement, from its disruption budget. An empty budget allows none.

use fleet_api::types::{IntOrString, PlacementDisruptionBudgetSpec, PlacementType, Rounding};

use super::observed::{BindingFacts, PlacementFacts};

/// The numbers that a budget is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Clusters whose binding is available and not being deleted.
    pub available: usize,
    /// All clusters with a binding.
    pub total: usize,
}

impl Counts {
    pub(super) fn of(bindings: &[BindingFacts<'_>]) -> Self {
        Self { available: bindings.iter().filter(|binding| binding.available).count(), total: bindings.len() }
    }
}

/// With PickAll the number of wanted clusters is unknown, so only an absolute minAvailable is valid.
pub(super) fn is_misconfigured(budget: &PlacementDisruptionBudgetSpec, placement: &PlacementFacts<'_>) -> bool {
    let in_percent = matches!(budget.min_available, Some(IntOrString::String(_)));
    placement.spec.placement_type() == PlacementType::PickAll && (budget.max_unavailable.is_some() || in_percent)
}

/// An invalid limit allows nothing.
pub(super) fn allows_one_more(
    budget: &PlacementDisruptionBudgetSpec,
    placement: &PlacementFacts<'_>,
    Counts { available, total }: Counts,
) -> bool {
    let scaled = |limit: &IntOrString| {
        limit.scaled(placement.desired(), Rounding::Up).ok().and_then(|number| usize::try_from(number).ok())
    };
    match (&budget.max_unavailable, &budget.min_available) {
        (Some(most), _) => scaled(most).is_some_and(|most| total.saturating_sub(available) < most),
        (None, Some(least)) => scaled(least).is_some_and(|least| available > least),
        (None, None) => false,
    }
}
