//! One cluster of a placement: the first step of the rollout that is not done there, and why.
//!
//! The state is taken from the binding, or from the placement's status if there is no binding. A step without a condition is not a
//! finding, unless the member sends no heartbeats.

use fleet_api::conditions::binding::{
    BindingApplied, BindingAppliedReason, BindingAvailable, BindingAvailableReason, BindingDiffReported,
    BindingDiffReportedReason, BindingOverridden, BindingOverriddenReason, BindingWorkSynchronized,
    BindingWorkSynchronizedReason,
};
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::{Condition, ConditionStatus, decode};
use fleet_api::types::{BindingState, DiffedResourcePlacement, DriftedResourcePlacement, FailedResourcePlacement};

use super::super::finding::{Finding, ObjectRef};
use super::super::inputs::{Inputs, quote};
use super::super::members;
use super::{applying, availability, enveloping, overriding, reference};

/// The rollout of a placement on one cluster.
pub(super) struct ClusterRollout<'p> {
    pub inputs: &'p Inputs,
    pub cluster: &'p str,
    /// The object that has the conditions.
    pub object: ObjectRef,
    conditions: &'p [Condition],
    generation: i64,
    pub failed: &'p [FailedResourcePlacement],
    pub drifted: &'p [DriftedResourcePlacement],
    pub diffed: &'p [DiffedResourcePlacement],
}

/// What is wrong with the placement on this cluster, if anything is.
pub(in super::super) fn cause(inputs: &Inputs, cluster: &str) -> Option<Finding> {
    let rollout = ClusterRollout::of(inputs, cluster)?;
    let step = RolloutStep::expected(inputs.apply_strategy()).iter().copied().find(|step| {
        step.current(rollout.conditions, rollout.generation).is_none_or(|one| one.status != ConditionStatus::True)
    })?;
    let failed = match step {
        // The rules in `rollout` cover this step.
        RolloutStep::RolloutStarted => return None,
        RolloutStep::Overridden => rollout.not_overridden(),
        RolloutStep::WorkSynchronized => rollout.not_synchronized(),
        RolloutStep::Applied => rollout.not_applied(),
        RolloutStep::Available => rollout.not_available(),
        RolloutStep::DiffReported => rollout.not_reported(),
    };
    failed.or_else(|| rollout.silent())
}

impl<'p> ClusterRollout<'p> {
    pub(super) fn of(inputs: &'p Inputs, cluster: &'p str) -> Option<Self> {
        if let Some(binding) = inputs.binding_to(cluster) {
            let status = binding.status.as_ref()?;
            (binding.spec.state == BindingState::Bound && !binding.is_deleting()).then_some(())?;
            return Some(Self {
                inputs,
                cluster,
                object: binding.reference(),
                conditions: &status.conditions,
                generation: binding.generation(),
                failed: &status.failed_placements,
                drifted: &status.drifted_placements,
                diffed: &status.diffed_placements,
            });
        }
        let placement = inputs.placement.as_ref()?;
        let entry = placement.status.as_ref()?.placement_statuses.iter().find(|entry| entry.cluster_name == cluster)?;
        Some(Self {
            inputs,
            cluster,
            object: reference(inputs),
            conditions: &entry.conditions,
            generation: placement.generation(),
            failed: &entry.failed_placements,
            drifted: &entry.drifted_placements,
            diffed: &entry.diffed_placements,
        })
    }

    /// Adds the condition of the binding as evidence.
    pub(super) fn quoting(&self, finding: Finding, condition: &Condition) -> Finding {
        finding.with_evidence(
            &self.object,
            format!("status.conditions[{}] for {}", condition.type_, self.cluster),
            quote(condition),
        )
    }

    fn not_overridden(&self) -> Option<Finding> {
        let decoded = decode::<BindingOverridden>(self.conditions, self.generation);
        (decoded.reason() == Some(BindingOverriddenReason::Failed)).then_some(())?;
        Some(overriding::failed(self, decoded.any()?))
    }

    fn not_synchronized(&self) -> Option<Finding> {
        let decoded = decode::<BindingWorkSynchronized>(self.conditions, self.generation);
        (decoded.reason() == Some(BindingWorkSynchronizedReason::Failed)).then_some(())?;
        let condition = decoded.any()?;
        let finding = Finding::error("PL-W1", format!("The Works for cluster {} could not be written", self.cluster))
            .because(format!("The hub agent says: {}", condition.message));
        let mut finding = self.quoting(finding, condition);
        if let Some(problem) = members::problem(self.inputs, self.cluster) {
            finding.title = problem.title;
            finding.evidence.extend(problem.evidence);
            finding.fixes.extend(problem.fixes);
            return Some(finding);
        }
        let look = self.inputs.kubectl.get("see what the binding says", &self.object);
        Some(enveloping::explained(self, &finding, &condition.message).unwrap_or_else(|| {
            finding.fix("see what the hub agent could not write; it retries automatically", vec![look])
        }))
    }

    fn not_applied(&self) -> Option<Finding> {
        let decoded = decode::<BindingApplied>(self.conditions, self.generation);
        // Older releases used other reasons.
        let failed = decoded.reason() == Some(BindingAppliedReason::NotAllApplied)
            || (decoded.reason().is_none() && decoded.is_false());
        (failed && !self.failed.is_empty()).then_some(())?;
        Some(applying::failed(self, decoded.any()?))
    }

    fn not_available(&self) -> Option<Finding> {
        let decoded = decode::<BindingAvailable>(self.conditions, self.generation);
        let failed = decoded.reason() == Some(BindingAvailableReason::NotAllAvailable)
            || (decoded.reason().is_none() && decoded.is_false());
        (failed && !self.failed.is_empty()).then_some(())?;
        availability::missing(self, decoded.any()?)
    }

    fn not_reported(&self) -> Option<Finding> {
        let decoded = decode::<BindingDiffReported>(self.conditions, self.generation);
        (decoded.reason() == Some(BindingDiffReportedReason::NotAllReported)).then_some(())?;
        Some(applying::diff_not_reported(self, decoded.any()?))
    }

    /// Nothing is reported because the member's agent is not running.
    fn silent(&self) -> Option<Finding> {
        let problem = members::problem(self.inputs, self.cluster)?;
        let last = self.conditions.iter().rfind(|one| one.status == ConditionStatus::True);
        Some(match last {
            Some(last) => {
                let mut finding =
                    self.quoting(Finding::error(problem.entry, problem.title), last).because(problem.explanation);
                finding.evidence.extend(problem.evidence);
                finding.fixes = problem.fixes;
                finding
            }
            None => problem,
        })
    }
}
