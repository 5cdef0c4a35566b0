//! The per-cluster conditions of a placement: whether the cluster was picked, and the order of the rollout steps.

use super::binding::{
    BindingApplied, BindingAvailable, BindingDiffReported, BindingOverridden, BindingRolloutStarted,
    BindingWorkSynchronized,
};
use super::placement::{
    PlacementApplied, PlacementAvailable, PlacementDiffReported, PlacementOverridden, PlacementRolloutStarted,
    PlacementScope, PlacementWorkSynchronized,
};
use super::state::condition;
use super::{Condition, ConditionState, ConditionStatus, Finding, list};
use crate::types::{ApplyStrategy, ApplyStrategyType};

condition! {
    /// Whether the scheduler picked this cluster; the message is the scheduler's decision.
    ClusterScheduled, ClusterScheduledReason: "Scheduled" {
        True "Scheduled" | "ScheduleSucceeded" => Scheduled {
            Scheduled { decision: String }: "{decision}";
        }
        False "ScheduleFailed" => Failed {
            Failed { decision: String }: "{decision}";
        }
    }
}

/// One step of a rollout in one cluster. A step counts only if all earlier ones are True.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RolloutStep {
    RolloutStarted,
    Overridden,
    WorkSynchronized,
    Applied,
    Available,
    DiffReported,
}

/// The number of a placement's clusters with the status that decides a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub status: ConditionStatus,
    pub clusters: usize,
    /// Whether any cluster has an override: decides the reason for success of `Overridden`.
    pub any_override: bool,
}

/// Passes the state types of a step to an expression: steps are values at run time but types in code.
macro_rules! with_step {
    ($step:expr, $binding:ident, $placement:ident => $body:expr) => {
        match $step {
            RolloutStep::RolloutStarted => {
                type $binding = BindingRolloutStarted;
                type $placement = PlacementRolloutStarted;
                $body
            }
            RolloutStep::Overridden => {
                type $binding = BindingOverridden;
                type $placement = PlacementOverridden;
                $body
            }
            RolloutStep::WorkSynchronized => {
                type $binding = BindingWorkSynchronized;
                type $placement = PlacementWorkSynchronized;
                $body
            }
            RolloutStep::Applied => {
                type $binding = BindingApplied;
                type $placement = PlacementApplied;
                $body
            }
            RolloutStep::Available => {
                type $binding = BindingAvailable;
                type $placement = PlacementAvailable;
                $body
            }
            RolloutStep::DiffReported => {
                type $binding = BindingDiffReported;
                type $placement = PlacementDiffReported;
                $body
            }
        }
    };
}

impl RolloutStep {
    /// The steps of a cluster under this strategy, in order; without a strategy, resources are applied.
    pub fn expected(strategy: Option<&ApplyStrategy>) -> &'static [Self] {
        match strategy.map(ApplyStrategy::strategy_type).unwrap_or_default() {
            ApplyStrategyType::ReportDiff => Self::REPORTING_DIFF,
            ApplyStrategyType::ClientSideApply | ApplyStrategyType::ServerSideApply => Self::APPLYING,
        }
    }

    /// The steps if resources are applied.
    pub const APPLYING: &'static [Self] =
        &[Self::RolloutStarted, Self::Overridden, Self::WorkSynchronized, Self::Applied, Self::Available];

    /// The steps if only differences are reported.
    pub const REPORTING_DIFF: &'static [Self] =
        &[Self::RolloutStarted, Self::Overridden, Self::WorkSynchronized, Self::DiffReported];

    /// The condition type on bindings and in per-cluster entries.
    pub fn type_word(self) -> &'static str {
        with_step!(self, B, _P => B::type_word(()))
    }

    /// The condition type on the placement itself.
    pub fn placement_type_word(self, scope: PlacementScope) -> &'static str {
        with_step!(self, _B, P => P::type_word(scope))
    }

    /// The condition of this step on a binding or in an entry, if it belongs to `generation`.
    pub fn current(self, conditions: &[Condition], generation: i64) -> Option<&Condition> {
        list::find(conditions, self.type_word()).filter(|condition| condition.observed_generation == generation)
    }

    /// Whether a condition of this step on a binding means failure. False may also mean that the step has not been
    /// tried or that the member is not done.
    pub fn has_failed(self, condition: &Condition) -> bool {
        condition.status == ConditionStatus::False && !with_step!(self, B, _P => B::is_under_way(condition))
    }

    /// The condition of an entry if the binding has no current one.
    pub fn undecided(self, generation: i64) -> Finding {
        with_step!(self, B, _P => B::Undecided.finding(generation))
    }

    /// The condition of an entry if the binding has decided: a copy.
    pub fn copied(self, from_binding: &Condition, generation: i64) -> Finding {
        with_step!(self, B, _P => Finding::copied::<B>((), from_binding, generation))
    }

    /// The condition of the placement over all its clusters.
    pub fn summed_up(self, scope: PlacementScope, tally: Tally, generation: i64) -> Finding {
        let Tally { status, clusters, any_override } = tally;
        macro_rules! by_status {
            ($state:ident: $when_false:ident, $when_true:ident) => {
                match status {
                    ConditionStatus::Unknown => $state::Undecided { clusters },
                    ConditionStatus::False => $state::$when_false { clusters },
                    ConditionStatus::True => $state::$when_true { clusters },
                }
                .finding_in(scope, generation)
            };
        }
        match self {
            Self::RolloutStarted => by_status!(PlacementRolloutStarted: NotStartedYet, Started),
            Self::Overridden if status == ConditionStatus::True && !any_override => {
                PlacementOverridden::NoOverride.finding_in(scope, generation)
            }
            Self::Overridden => by_status!(PlacementOverridden: Failed, Succeeded),
            Self::WorkSynchronized => by_status!(PlacementWorkSynchronized: NotYet, Synchronized),
            Self::Applied => by_status!(PlacementApplied: Failed, Succeeded),
            Self::Available => by_status!(PlacementAvailable: NotYet, Available),
            Self::DiffReported => by_status!(PlacementDiffReported: IncompleteOrFailed, Completed),
        }
    }
}
