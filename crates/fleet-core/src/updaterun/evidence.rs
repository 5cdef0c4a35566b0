//! What a binding proves about its cluster.
//!
//! Decides whether a binding carries what this run brings, and how far that got, from conditions of the binding's current
//! generation alone: an older True proves nothing. Never moves a binding.

use fleet_api::conditions::binding::{
    BindingAppliedReason, BindingAvailable, BindingAvailableReason, BindingDiffReported, BindingDiffReportedReason,
    BindingOverriddenReason, BindingRolloutStarted, BindingWorkSynchronizedReason,
};
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::run_fault::RunFault;
use fleet_api::conditions::{ConditionStatus, Reason as _, decode};
use fleet_api::names::{Index, ResourceSnapshotName, SnapshotPart};
use fleet_api::types::{ApplyStrategy, BindingState, ClusterUpdatingStatus};

use super::observed::BindingFacts;
use super::pass::Pass;

/// What a run brings to every cluster; overrides are noted per cluster.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Name of the master snapshot.
    pub snapshot: String,
    pub apply_strategy: ApplyStrategy,
}

impl Wanted {
    pub(super) fn of(pass: &Pass<'_>) -> Result<Self, RunFault> {
        let run = &pass.observed.run;
        let missing = || RunFault::NoMasterSnapshot { placement: run.key_of(&run.spec.placement_name) };
        let index = Index::parse(&pass.status.resource_snapshot_index_used).ok_or_else(missing)?;
        let placement = pass.observed.placement.ok_or_else(missing)?.key.name.clone();
        let snapshot = ResourceSnapshotName { placement, index, part: SnapshotPart::Master }.to_string();
        Ok(Self { snapshot, apply_strategy: pass.status.apply_strategy.clone().unwrap_or_default() })
    }

    /// Whether the binding asks for exactly this content.
    pub(super) fn is_in(&self, binding: &BindingFacts<'_>, cluster: &ClusterUpdatingStatus) -> bool {
        binding.resource_snapshot == self.snapshot
            && binding.overrides == cluster.resource_override_snapshots
            && binding.cluster_overrides == cluster.cluster_resource_override_snapshots
            && binding.apply_strategy == Some(&self.apply_strategy)
    }
}

/// How far a cluster got with the content of its binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    Arrived,
    /// Nothing current is known of this step yet, or it is under way.
    Underway(RolloutStep),
    Failing {
        step: RolloutStep,
        reason: String,
        message: String,
    },
}

pub(super) fn is_bound(binding: &BindingFacts<'_>) -> bool {
    *binding.state == BindingState::Bound
}

pub(super) fn has_rollout_started(binding: &BindingFacts<'_>) -> bool {
    decode::<BindingRolloutStarted>(binding.conditions, binding.generation).is_true()
}

/// Whether a False only says "not yet".
fn is_not_yet(reason: &str) -> bool {
    let words = [
        BindingOverriddenReason::Pending.word(),
        BindingWorkSynchronizedReason::NotYet.word(),
        BindingAppliedReason::Pending.word(),
        BindingAppliedReason::InProgress.word(),
        BindingAvailableReason::NotYet.word(),
        BindingDiffReportedReason::InProgress.word(),
    ];
    words.contains(&reason)
}

impl Progress {
    pub fn of(binding: &BindingFacts<'_>) -> Self {
        if !has_rollout_started(binding) {
            return Progress::Underway(RolloutStep::RolloutStarted);
        }
        let arrived = decode::<BindingAvailable>(binding.conditions, binding.generation).is_true()
            || decode::<BindingDiffReported>(binding.conditions, binding.generation).is_true();
        if arrived {
            return Progress::Arrived;
        }
        let steps = RolloutStep::expected(binding.apply_strategy);
        let pending = steps.iter().map(|step| (*step, step.current(binding.conditions, binding.generation)));
        let first = pending.into_iter().find(|(_, found)| found.is_none_or(|one| one.status != ConditionStatus::True));
        match first {
            Some((step, Some(found))) if found.status == ConditionStatus::False => {
                if is_not_yet(&found.reason) {
                    return Progress::Underway(step);
                }
                Progress::Failing { step, reason: found.reason.clone(), message: found.message.clone() }
            }
            Some((step, _)) => Progress::Underway(step),
            None => Progress::Underway(RolloutStep::Available),
        }
    }
}
