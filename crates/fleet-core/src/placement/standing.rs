//! Where a placement stands: at the first of its conditions that is not True.
//!
//! Decides which condition that is; metrics, overviews and events of completion render from here. Never changes a status.

use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::placement::PlacementScheduled;
use fleet_api::conditions::{Condition, ConditionState, ConditionStatus};
use fleet_api::kinds::{Obj, Placement, Scope};
use fleet_api::types::{PlacementScope, PlacementSpec, PlacementStatus};

/// One of the things that must become true of a placement, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    Scheduled,
    Step(RolloutStep),
}

impl Milestone {
    /// Its condition's type, as the placement's kind spells it.
    pub fn type_word(self, scope: PlacementScope) -> &'static str {
        match self {
            Milestone::Scheduled => PlacementScheduled::type_word(scope),
            Milestone::Step(step) => step.placement_type_word(scope),
        }
    }

    /// Those of a placement that asks for this.
    fn of(spec: &PlacementSpec) -> impl Iterator<Item = Self> {
        let steps = RolloutStep::expected(spec.apply_strategy());
        std::iter::once(Milestone::Scheduled).chain(steps.iter().copied().map(Milestone::Step))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The first milestone that is not reached; `None` if all are.
    pub at: Option<Milestone>,
    /// What is said of it; absent if nothing was said of this generation.
    pub said: Option<&'a Condition>,
    /// What is said of the last one that is reached.
    pub reached: Option<&'a Condition>,
}

impl<'a> Standing<'a> {
    /// Where a placement stands if this is its status: the one it has, or the one it gets.
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
