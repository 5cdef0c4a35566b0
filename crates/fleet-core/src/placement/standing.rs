//! Where a placement stands, in one condition: the first that is not True.
//!
//! Decides which condition that is; metrics are labelled by it. Never changes a status.

use fleet_api::conditions::placement::PlacementScheduled;
use fleet_api::conditions::{ConditionState, ConditionStatus};
use fleet_api::types::PlacementStatus;

use super::observed::PlacementFacts;
use super::status::expected_steps;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Scheduled, and every expected step is True.
    Completed,
    At {
        /// The condition's type as the placement's kind spells it.
        condition: &'static str,
        /// Its status and reason; absent if nothing was said of this generation.
        said: Option<(ConditionStatus, String)>,
    },
}

impl Standing {
    pub(super) fn of(placement: &PlacementFacts<'_>, status: Option<&PlacementStatus>) -> Self {
        let scope = placement.scope();
        let steps = expected_steps(placement).iter().map(|step| step.placement_type_word(scope));
        for condition in std::iter::once(PlacementScheduled::type_word(scope)).chain(steps) {
            let found = status.into_iter().flat_map(|status| &status.conditions).find(|one| one.type_ == condition);
            let current = found.filter(|one| one.observed_generation == placement.generation);
            if current.is_none_or(|one| one.status != ConditionStatus::True) {
                return Standing::At { condition, said: current.map(|one| (one.status, one.reason.clone())) };
            }
        }
        Standing::Completed
    }
}
