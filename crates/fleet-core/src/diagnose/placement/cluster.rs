//! One cluster of a placement: the first step of the rollout that is not done there, and why.
//!
//! Decides which step it is, from the binding, or from the placement's entry where there is no binding. A step that is merely
//! not reported on yet is no finding, unless the member is not heard of. Each step has its rules in a file of its own.

use fleet_api::conditions::binding::{
    BindingApplied, BindingAppliedReason, BindingAvailable, BindingAvailableReason, BindingDiffReported,
    BindingDiffReportedReason, BindingOverridden, BindingOverriddenReason, BindingWorkSynchronized,
    BindingWorkSynchronizedReason,
};
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::{Condition, ConditionStatus, decode};
use fleet_api::types::{BindingState, DiffedResourcePlacement, DriftedResourcePlacement, FailedResourcePlacement};

use super::super::finding::{Finding, ObjectRef};
use super::super::members;
use super::super::picture::{Picture, quote};
use super::{applying, availability, enveloping, overriding, reference};

/// How a placement fares on one cluster.
pub(super) struct Standing<'p> {
    pub picture: &'p Picture,
    pub cluster: &'p str,
    /// Where that is said.
    pub object: ObjectRef,
    conditions: &'p [Condition],
    generation: i64,
    pub failed: &'p [FailedResourcePlacement],
    pub drifted: &'p [DriftedResourcePlacement],
    pub diffed: &'p [DiffedResourcePlacement],
}

/// What is wrong with the placement on this cluster, if anything is.
pub(in super::super) fn look(picture: &Picture, cluster: &str) -> Option<Finding> {
    let standing = Standing::of(picture, cluster)?;
    let step = RolloutStep::expected(picture.apply_strategy()).iter().copied().find(|step| {
        step.current(standing.conditions, standing.generation).is_none_or(|one| one.status != ConditionStatus::True)
    })?;
    let failed = match step {
        // What has not started is the business of the rules about rollouts.
        RolloutStep::RolloutStarted => return None,
        RolloutStep::Overridden => standing.not_overridden(),
        RolloutStep::WorkSynchronized => standing.not_synchronized(),
        RolloutStep::Applied => standing.not_applied(),
        RolloutStep::Available => standing.not_available(),
        RolloutStep::DiffReported => standing.not_reported(),
    };
    failed.or_else(|| standing.silent())
}

impl<'p> Standing<'p> {
    pub(super) fn of(picture: &'p Picture, cluster: &'p str) -> Option<Self> {
        if let Some(binding) = picture.binding_to(cluster) {
            let status = binding.status.as_ref()?;
            (binding.spec.state == BindingState::Bound && !binding.is_going()).then_some(())?;
            return Some(Self {
                picture,
                cluster,
                object: binding.reference(),
                conditions: &status.conditions,
                generation: binding.generation(),
                failed: &status.failed_placements,
                drifted: &status.drifted_placements,
                diffed: &status.diffed_placements,
            });
        }
        let placement = picture.placement.as_ref()?;
        let entry = placement.status.as_ref()?.placement_statuses.iter().find(|entry| entry.cluster_name == cluster)?;
        Some(Self {
            picture,
            cluster,
            object: reference(picture),
            conditions: &entry.conditions,
            generation: placement.generation(),
            failed: &entry.failed_placements,
            drifted: &entry.drifted_placements,
            diffed: &entry.diffed_placements,
        })
    }

    /// Begins a finding with what the binding says.
    pub(super) fn quoting(&self, finding: Finding, condition: &Condition) -> Finding {
        finding.seen(
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
        if let Some(trouble) = members::trouble(self.picture, self.cluster) {
            finding.title = trouble.title;
            finding.evidence.extend(trouble.evidence);
            finding.fixes.extend(trouble.fixes);
            return Some(finding);
        }
        let look = self.picture.kubectl.look("see what the binding says", &self.object);
        Some(enveloping::explained(self, &finding, &condition.message).unwrap_or_else(|| {
            finding.fix("see what the hub agent could not write; it is tried again by itself", vec![look])
        }))
    }

    fn not_applied(&self) -> Option<Finding> {
        let decoded = decode::<BindingApplied>(self.conditions, self.generation);
        // Releases before the current ones wrote other reasons for the same.
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
        Some(applying::differences_unknown(self, decoded.any()?))
    }

    /// Nothing is reported because nobody is there to do it.
    fn silent(&self) -> Option<Finding> {
        let trouble = members::trouble(self.picture, self.cluster)?;
        let last = self.conditions.iter().rfind(|one| one.status == ConditionStatus::True);
        Some(match last {
            Some(last) => {
                let mut finding =
                    self.quoting(Finding::error(trouble.entry, trouble.title), last).because(trouble.explanation);
                finding.evidence.extend(trouble.evidence);
                finding.fixes = trouble.fixes;
                finding
            }
            None => trouble,
        })
    }
}
