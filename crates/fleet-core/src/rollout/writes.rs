//! The writes of a rollout. Changes of bindings come first, then their RolloutStarted conditions, so that deferring the
//! conditions is the same as a plan that stopped early.

use fleet_api::conditions::binding::{BindingRolloutStarted, BindingRolloutStartedReason};
use fleet_api::conditions::{Condition, ConditionState, decode, put};
use fleet_api::types::{ApplyStrategy, BindingState, ResourceBindingSpec};
use jiff::Timestamp;

use super::classify::{Case, Content, Need};
use crate::overrides::Pins;
use crate::plan::ObjectWrite;

/// One write to a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Replaces only the apply strategy.
    SetApplyStrategy { binding: String, strategy: ApplyStrategy },
    /// Deletes the observed version of the binding.
    Remove { binding: String },
    /// Sets the content of the observed version of the binding.
    Move(Move),
    /// Sets `annotations::DELETE_PROPAGATION`: the resources stay on the cluster.
    Abandon { binding: String },
    /// Sets RolloutStarted for the binding's generation after this plan.
    SetRolloutStarted { binding: String, started: BindingRolloutStarted },
}

impl Write {
    /// Whether the write only sets a condition. Such writes come last. A caller may defer them; a later plan may no
    /// longer need them.
    pub fn is_deferrable(&self) -> bool {
        matches!(self, Write::SetRolloutStarted { .. })
    }
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::SetApplyStrategy { binding, .. } | Write::Remove { binding } | Write::Abandon { binding } => {
                ("binding", binding)
            }
            Write::Move(change) => ("binding", &change.binding),
            Write::SetRolloutStarted { binding, .. } => ("status of binding", binding),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::Remove { .. })
    }
}

/// The new content of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub binding: String,
    pub snapshot: String,
    pub overrides: Pins,
    pub strategy: ApplyStrategy,
}

impl Move {
    pub fn apply_to(&self, spec: &mut ResourceBindingSpec) {
        let Pins { cluster_overrides, overrides } = self.overrides.clone();
        spec.state = BindingState::Bound;
        spec.resource_snapshot_name.clone_from(&self.snapshot);
        spec.cluster_resource_override_snapshots = Some(cluster_overrides).filter(|names| !names.is_empty());
        spec.resource_override_snapshots = Some(overrides).filter(|names| !names.is_empty());
        spec.apply_strategy = Some(self.strategy.clone());
    }
}

/// Sets RolloutStarted in a list of conditions. Returns whether anything changed.
pub fn set_rollout_started(
    conditions: &mut Vec<Condition>,
    started: &BindingRolloutStarted,
    generation: i64,
    now: Timestamp,
) -> bool {
    put(conditions, started.finding(generation), now)
}

/// `picked` tells for each case whether it is served now.
pub(super) fn writes(cases: &[Case<'_>], picked: &[bool], strategy: &ApplyStrategy) -> Vec<Write> {
    let served = || cases.iter().zip(picked);
    let mut writes: Vec<Write> = Vec::new();
    // Strategies come first: a binding with a new strategy has no current conditions, and the rest of the plan relies
    // on that.
    let kept = served().filter(|(case, picked)| case.strategy_changed && !**picked).map(|(case, _)| case);
    writes.extend(kept.map(|case| Write::SetApplyStrategy { binding: name(case), strategy: strategy.clone() }));
    for wanted in [is_removal, is_update, is_first] {
        let those = served().filter(|(case, picked)| **picked && wanted(&case.need)).map(|(case, _)| case);
        writes.extend(those.filter_map(|case| change(case, strategy)));
    }
    writes.extend(served().filter_map(|(case, picked)| rollout_started_write(case, *picked)));
    writes
}

fn is_removal(need: &Need<'_>) -> bool {
    matches!(need, Need::Removal)
}

fn is_update(need: &Need<'_>) -> bool {
    matches!(need, Need::Update(..))
}

fn is_first(need: &Need<'_>) -> bool {
    matches!(need, Need::First(_))
}

fn change(case: &Case<'_>, strategy: &ApplyStrategy) -> Option<Write> {
    match &case.need {
        Need::Removal => Some(Write::Remove { binding: name(case) }),
        Need::First(content) | Need::Update(content, _) => Some(Write::Move(binding_move(case, content, strategy))),
        Need::Nothing | Need::Deleting | Need::UnknownState | Need::Blocked(_) => None,
    }
}

fn binding_move(case: &Case<'_>, content: &Content<'_>, strategy: &ApplyStrategy) -> Move {
    Move {
        binding: name(case),
        snapshot: content.snapshot.to_owned(),
        overrides: content.overrides.clone(),
        strategy: strategy.clone(),
    }
}

/// A changed binding has a new generation without a RolloutStarted condition. A bound binding whose latest content is
/// unknown counts as started with the content that it has.
fn rollout_started_write(case: &Case<'_>, picked: bool) -> Option<Write> {
    let reported = decode::<BindingRolloutStarted>(case.binding.conditions, case.binding.generation);
    let is_reported_held_back = reported.reason() == Some(BindingRolloutStartedReason::NotStartedYet);
    let changed = picked || case.strategy_changed;
    let (started, reported) = match &case.need {
        Need::Nothing => (BindingRolloutStarted::Started, reported.is_true()),
        Need::First(_) | Need::Update(..) if picked => (BindingRolloutStarted::Started, false),
        Need::First(_) | Need::Update(..) => (BindingRolloutStarted::HeldBack, is_reported_held_back),
        Need::Blocked(_) if case.binding.spec.state == BindingState::Bound => {
            (BindingRolloutStarted::Started, reported.is_true() || reported.is_false())
        }
        Need::Removal | Need::Deleting | Need::UnknownState | Need::Blocked(_) => return None,
    };
    (changed || !reported).then(|| Write::SetRolloutStarted { binding: name(case), started })
}

fn name(case: &Case<'_>) -> String {
    case.binding.name.to_owned()
}
