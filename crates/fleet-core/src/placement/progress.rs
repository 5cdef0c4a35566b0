//! The progress of a placement: the first of its conditions that is not True. Metrics, overviews and events use it.

use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::placement::PlacementScheduled;
use fleet_api::conditions::{Condition, ConditionState, ConditionStatus};
use fleet_api::kinds::{Obj, Placement, Scope};
use fleet_api::types::{PlacementScope, PlacementSpec, PlacementStatus};

/// One of the conditions that must become True, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    Scheduled,
    Step(RolloutStep),
}

impl Milestone {
    /// The type of its condition for this scope.
    pub fn type_word(self, scope: PlacementScope) -> &'static str {
        match self {
            Milestone::Scheduled => PlacementScheduled::type_word(scope),
            Milestone::Step(step) => step.placement_type_word(scope),
        }
    }

    /// The milestones of a placement.
    fn of(spec: &PlacementSpec) -> impl Iterator<Item = Self> {
        let steps = RolloutStep::expected(spec.apply_strategy());
        std::iter::once(Milestone::Scheduled).chain(steps.iter().copied().map(Milestone::Step))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacementProgress<'a> {
    /// The first milestone that is not reached; `None` if all are.
    pub at: Option<Milestone>,
    /// The condition of that milestone in the current generation, if there is one.
    pub said: Option<&'a Condition>,
    /// The condition of the last reached milestone.
    pub reached: Option<&'a Condition>,
}

impl<'a> PlacementProgress<'a> {
    /// The progress of a placement with this status.
    pub fn of<S: Scope>(placement: &Obj<Placement, S>, status: Option<&'a PlacementStatus>) -> Self {
        Self::in_status(&placement.spec, S::KIND.into(), placement.generation(), status)
    }

    pub(super) fn in_status(
        spec: &PlacementSpec,
        scope: PlacementScope,
        generation: i64,
        status: Option<&'a PlacementStatus>,
    ) -> Self {
        let conditions: &[Condition] = status.map_or(&[], |status| &status.conditions);
        let mut reached = None;
        for milestone in Milestone::of(spec) {
            let word = milestone.type_word(scope);
            let found = conditions.iter().find(|one| one.type_ == word && one.observed_generation == generation);
            if found.is_none_or(|one| one.status != ConditionStatus::True) {
                return Self { at: Some(milestone), said: found, reached };
            }
            reached = found;
        }
        Self { at: None, said: None, reached }
    }
}
