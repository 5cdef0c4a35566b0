//! How a rollout's decisions are written.
//!
//! Decides the writes and their order: first what changes bindings, then what their RolloutStarted says, so that leaving the
//! latter to a later plan is the same as stopping early. Never decides who moves.

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
    /// Replaces the apply strategy and nothing else.
    SetApplyStrategy { binding: String, strategy: ApplyStrategy },
    /// Deletes it, provided that it is still as observed.
    Remove { binding: String },
    /// Gives it content, provided that it is still as observed.
    Move(Move),
    /// Notes on it that its resources stay on the cluster (`annotations::DELETE_PROPAGATION`).
    Abandon { binding: String },
    /// Sets RolloutStarted for the generation that the binding then has.
    Announce { binding: String, started: BindingRolloutStarted },
}

impl Write {
    /// Whether it only tells how things stand. Such writes come last, and a caller may leave them to a plan a moment later,
    /// when they may have become needless.
    pub fn may_wait(&self) -> bool {
        matches!(self, Write::Announce { .. })
    }
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::SetApplyStrategy { binding, .. } | Write::Remove { binding } | Write::Abandon { binding } => {
                ("binding", binding)
            }
            Write::Move(change) => ("binding", &change.binding),
            Write::Announce { binding, .. } => ("status of binding", binding),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::Remove { .. })
    }
}

/// What a binding shall have.
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

/// Sets RolloutStarted in a list of conditions. Says whether anything changed.
pub fn announce(
    conditions: &mut Vec<Condition>,
    started: &BindingRolloutStarted,
    generation: i64,
    now: Timestamp,
) -> bool {
    put(conditions, started.finding(generation), now)
}

/// `picked` says for each case whether it is served now.
pub(super) fn writes(cases: &[Case<'_>], picked: &[bool], strategy: &ApplyStrategy) -> Vec<Write> {
    let served = || cases.iter().zip(picked);
    let mut writes: Vec<Write> = Vec::new();
    // All strategies come first: whoever gets another one has nothing current to say afterwards, and the rest of the plan
    // takes that for given.
    let kept = served().filter(|(case, picked)| case.strategy_changed && !**picked).map(|(case, _)| case);
    writes.extend(kept.map(|case| Write::SetApplyStrategy { binding: name(case), strategy: strategy.clone() }));
    for wanted in [is_removal, is_update, is_first] {
        let those = served().filter(|(case, picked)| **picked && wanted(&case.need)).map(|(case, _)| case);
        writes.extend(those.filter_map(|case| change(case, strategy)));
    }
    writes.extend(served().filter_map(|(case, picked)| announcement(case, *picked)));
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
        Need::First(content) | Need::Update(content, _) => Some(Write::Move(moved(case, content, strategy))),
        Need::Nothing | Need::Leaving | Need::Foreign | Need::Held(_) => None,
    }
}

fn moved(case: &Case<'_>, content: &Content<'_>, strategy: &ApplyStrategy) -> Move {
    Move {
        binding: name(case),
        snapshot: content.snapshot.to_owned(),
        overrides: content.overrides.clone(),
        strategy: strategy.clone(),
    }
}

/// A binding that is written has a new generation, for which nothing has been said yet. One whose content is not known now
/// has been given what it names.
fn announcement(case: &Case<'_>, picked: bool) -> Option<Write> {
    let said = decode::<BindingRolloutStarted>(case.binding.conditions, case.binding.generation);
    let said_held_back = said.reason() == Some(BindingRolloutStartedReason::NotStartedYet);
    let changed = picked || case.strategy_changed;
    let (started, said) = match &case.need {
        Need::Nothing => (BindingRolloutStarted::Started, said.is_true()),
        Need::First(_) | Need::Update(..) if picked => (BindingRolloutStarted::Started, false),
        Need::First(_) | Need::Update(..) => (BindingRolloutStarted::HeldBack, said_held_back),
        Need::Held(_) if case.binding.spec.state == BindingState::Bound => {
            (BindingRolloutStarted::Started, said.is_true() || said.is_false())
        }
        Need::Removal | Need::Leaving | Need::Foreign | Need::Held(_) => return None,
    };
    (changed || !said).then(|| Write::Announce { binding: name(case), started })
}

fn name(case: &Case<'_>) -> String {
    case.binding.name.to_owned()
}
