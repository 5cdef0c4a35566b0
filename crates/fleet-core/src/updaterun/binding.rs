//! What a binding tells about a run: whether it has the run's content, how far its cluster is, and which run updated it
//! last.
//!
//! Only conditions of the binding's current generation count.

use std::fmt;

use fleet_api::conditions::binding::{
    BindingAppliedReason, BindingAvailable, BindingAvailableReason, BindingDiffReported, BindingDiffReportedReason,
    BindingOverriddenReason, BindingRolloutStarted, BindingWorkSynchronizedReason,
};
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::run_fault::RunFault;
use fleet_api::conditions::{ConditionStatus, Reason as _, decode};
use fleet_api::names::{Index, ResourceSnapshotName, SnapshotPart};
use fleet_api::types::{ApplyStrategy, BindingState, ClusterUpdatingStatus};

use super::context::PlanContext;
use super::observed::BindingFacts;

/// The content that a run rolls out to every cluster. Overrides are recorded per cluster.
#[derive(Debug, Clone)]
pub(super) struct RunContent {
    /// Name of the master snapshot.
    pub snapshot: String,
    pub apply_strategy: ApplyStrategy,
}

impl RunContent {
    pub(super) fn of(context: &PlanContext<'_>) -> Result<Self, RunFault> {
        let run = &context.observed.run;
        let missing = || RunFault::NoMasterSnapshot { placement: run.key_of(&run.spec.placement_name) };
        let index = Index::parse(&context.status.resource_snapshot_index_used).ok_or_else(missing)?;
        let placement = context.observed.placement.ok_or_else(missing)?.key.name.clone();
        let snapshot = ResourceSnapshotName { placement, index, part: SnapshotPart::Master }.to_string();
        Ok(Self { snapshot, apply_strategy: context.status.apply_strategy.clone().unwrap_or_default() })
    }

    /// Whether the spec of the binding has exactly this content.
    pub(super) fn is_in(&self, binding: &BindingFacts<'_>, cluster: &ClusterUpdatingStatus) -> bool {
        binding.resource_snapshot == self.snapshot
            && binding.overrides == cluster.resource_override_snapshots
            && binding.cluster_overrides == cluster.cluster_resource_override_snapshots
            && binding.apply_strategy == Some(&self.apply_strategy)
    }
}

/// Progress of a cluster, from conditions of the binding's current generation only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    Done,
    /// The step has no current condition yet, or has not finished.
    InProgress(RolloutStep),
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

/// Whether a False condition means "not yet" rather than a failure.
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
            return Progress::InProgress(RolloutStep::RolloutStarted);
        }
        let done = decode::<BindingAvailable>(binding.conditions, binding.generation).is_true()
            || decode::<BindingDiffReported>(binding.conditions, binding.generation).is_true();
        if done {
            return Progress::Done;
        }
        let steps = RolloutStep::expected(binding.apply_strategy);
        let pending = steps.iter().map(|step| (*step, step.current(binding.conditions, binding.generation)));
        let first = pending.into_iter().find(|(_, found)| found.is_none_or(|one| one.status != ConditionStatus::True));
        match first {
            Some((step, Some(found))) if found.status == ConditionStatus::False => {
                if is_not_yet(&found.reason) {
                    return Progress::InProgress(step);
                }
                Progress::Failing { step, reason: found.reason.clone(), message: found.message.clone() }
            }
            Some((step, _)) => Progress::InProgress(step),
            None => Progress::InProgress(RolloutStep::Available),
        }
    }
}

/// The annotation that a run writes on a binding together with the new spec: `<index in the run's
/// spec>/<run>/<generation of the binding>/<uid of the run>`. The index is empty if the run names none. Older releases
/// wrote no uid.
///
/// It survives a crash before the run could write its own status. When the binding changes again, the generation no
/// longer matches and the run must renew the annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedBy {
    pub snapshot_index: String,
    pub run: String,
    /// The generation of the binding after the run's update.
    pub generation: i64,
    /// Distinguishes the run from an earlier one with the same name.
    pub uid: Option<String>,
}

impl MovedBy {
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (snapshot_index, run) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let generation = parts.next()?.parse().ok()?;
        let uid = parts.next().map(str::to_owned);
        let is_whole = parts.next().is_none() && !run.is_empty() && uid.as_deref() != Some("");
        is_whole.then_some(Self { snapshot_index, run, generation, uid })
    }

    /// Whether the run with this name and uid wrote it. Without a recorded uid, the name decides.
    pub fn is_of(&self, name: &str, uid: Option<&str>) -> bool {
        let is_uid = |recorded: &String| uid.is_none_or(|uid| recorded == uid);
        self.run == name && self.uid.as_ref().is_none_or(is_uid)
    }

    /// The condition of the binding once the rollout has started.
    pub fn rollout_started(&self) -> BindingRolloutStarted {
        BindingRolloutStarted::StartedByRun { snapshot_index: self.snapshot_index.clone(), run: self.run.clone() }
    }
}

impl fmt::Display for MovedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.snapshot_index, self.run, self.generation)?;
        self.uid.as_ref().map_or(Ok(()), |uid| write!(f, "/{uid}"))
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::conditions::ConditionState;

    use super::*;

    #[test]
    fn moved_by_round_trips_and_names_the_run_that_started_the_rollout() {
        for (snapshot_index, uid, text) in
            [("1", Some("u-1"), "1/run-a/2/u-1"), ("", Some("u-1"), "/run-a/2/u-1"), ("1", None, "1/run-a/2")]
        {
            let (run, uid) = ("run-a".to_owned(), uid.map(str::to_owned));
            let moved_by = MovedBy { snapshot_index: snapshot_index.to_owned(), run, generation: 2, uid };
            assert_eq!(moved_by.to_string(), text);
            assert_eq!(MovedBy::parse(text), Some(moved_by.clone()));
            let tail = format!(", resourceSnapshotIndex: {snapshot_index}, updateRun: run-a");
            assert!(moved_by.rollout_started().message().ends_with(&tail));
        }
        for text in ["run-a", "1/run-a", "1//2", "1/run-a/x", "1/run-a/2/", "1/run-a/2/u/v"] {
            assert_eq!(MovedBy::parse(text), None, "{text}");
        }
    }

    #[test]
    fn moved_by_belongs_to_the_run_with_its_uid_and_not_to_a_namesake() {
        let moved_by = |text| MovedBy::parse(text).unwrap();
        assert!(moved_by("1/run-a/2/u-1").is_of("run-a", Some("u-1")));
        assert!(!moved_by("1/run-a/2/u-1").is_of("run-a", Some("u-2")), "deleted and recreated");
        assert!(!moved_by("1/run-a/2/u-1").is_of("run-b", Some("u-1")));
        assert!(moved_by("1/run-a/2").is_of("run-a", Some("u-2")), "older releases recorded no uid");
    }
}
