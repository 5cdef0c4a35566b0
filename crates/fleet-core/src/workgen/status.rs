//! The conditions of a binding after RolloutStarted, and the lists of resources. A status write may be deferred while
//! the member is about to report more.

use std::time::Duration;

use fleet_api::conditions::binding::{
    BindingApplied, BindingAvailable, BindingDiffReported, BindingOverridden, BindingRolloutStarted,
    BindingWorkSynchronized,
};
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::work::{WorkApplied, WorkAvailable, WorkAvailableReason, WorkDiffReported};
use fleet_api::conditions::{ConditionState, ConditionStatus, decode, put, remove};
use fleet_api::types::ResourceBindingStatus;
use jiff::Timestamp;

use super::findings;
use super::observed::{Observed, WorkFacts};
use super::report::{SyncError, SyncOutcome};
use super::sync::WorkState;

/// How long a status may be deferred while the member is about to report more.
const STATUS_WINDOW: Duration = Duration::from_secs(1);

/// Builds a status.
pub(super) struct Draft<'a> {
    observed: &'a Observed<'a>,
    now: Timestamp,
    status: ResourceBindingStatus,
}

/// Steps whose conditions come from the member.
const MEMBER_STEPS: [RolloutStep; 3] = [RolloutStep::Applied, RolloutStep::Available, RolloutStep::DiffReported];

impl<'a> Draft<'a> {
    /// Starts from the stored status, so that transition times are kept.
    pub(super) fn new(observed: &'a Observed<'a>, now: Timestamp) -> Self {
        let mut status = observed.binding.status.cloned().unwrap_or_default();
        // A new generation means new content, and waits start when the member has it. Conditions of older generations
        // are removed here because the statuses in between may never have been written.
        for step in MEMBER_STEPS {
            if step.current(&status.conditions, observed.binding.generation).is_none() {
                remove(&mut status.conditions, step.type_word());
            }
        }
        status.failed_placements.clear();
        status.drifted_placements.clear();
        status.diffed_placements.clear();
        Self { observed, now, status }
    }

    fn put<T: ConditionState<Scope = ()>>(&mut self, state: &T) {
        put(&mut self.status.conditions, state.finding(self.observed.binding.generation), self.now);
    }

    fn remove(&mut self, steps: &[RolloutStep]) {
        for step in steps {
            remove(&mut self.status.conditions, step.type_word());
        }
    }

    pub(super) fn set_rollout_started(&mut self, started: &BindingRolloutStarted) {
        if matches!(started, BindingRolloutStarted::StartedByRun { .. }) {
            // Each run gets its own transition time.
            self.remove(&[RolloutStep::RolloutStarted]);
        }
        self.put(started);
    }

    /// The status if the Works cannot be synchronized.
    pub(super) fn failed(mut self, error: SyncError) -> (ResourceBindingStatus, SyncOutcome) {
        let detail = error.to_string();
        if error.step() == RolloutStep::Overridden {
            self.put(&BindingOverridden::Failed { detail });
            self.remove(&[RolloutStep::WorkSynchronized]);
        } else {
            self.set_overridden();
            self.put(&BindingWorkSynchronized::Failed { detail });
        }
        self.remove(&MEMBER_STEPS);
        (self.status, SyncOutcome::Failed(error))
    }

    /// The status of synchronized Works.
    pub(super) fn synchronized(mut self, works: &[WorkState<'_>]) -> (ResourceBindingStatus, SyncOutcome) {
        self.set_overridden();
        self.put(&BindingWorkSynchronized::Synchronized);
        let outcome = if self.observed.binding.only_reports_diff() {
            self.remove(&[RolloutStep::Applied, RolloutStep::Available]);
            self.set_diff_reported(works)
        } else {
            self.remove(&[RolloutStep::DiffReported]);
            self.set_applied(works)
        };
        (self.status, outcome)
    }

    fn set_overridden(&mut self) {
        let binding = &self.observed.binding;
        let is_none = binding.overrides.is_empty() && binding.cluster_overrides.is_empty();
        self.put(if is_none { &BindingOverridden::NoOverride } else { &BindingOverridden::Succeeded });
    }

    fn set_diff_reported(&mut self, works: &[WorkState<'_>]) -> SyncOutcome {
        let step = RolloutStep::DiffReported;
        match aggregate::<WorkDiffReported>(works) {
            Aggregate::Undecided { work, decided: 0 } => {
                self.put(&BindingDiffReported::InProgress);
                SyncOutcome::AwaitingMember { step, work }
            }
            Aggregate::Undecided { work, .. } => {
                self.put(&BindingDiffReported::WorkUndecided { work: work.clone() });
                SyncOutcome::AwaitingMember { step, work }
            }
            Aggregate::Failed { work } => {
                self.put(&BindingDiffReported::WorkFailed { work: work.clone() });
                SyncOutcome::Failing { step, work }
            }
            Aggregate::AllTrue => {
                self.put(&BindingDiffReported::AllReported);
                self.status.diffed_placements = findings::diffed(&unchanged(works));
                SyncOutcome::Complete
            }
        }
    }

    fn set_applied(&mut self, works: &[WorkState<'_>]) -> SyncOutcome {
        let step = RolloutStep::Applied;
        let outcome = match aggregate::<WorkApplied>(works) {
            Aggregate::Undecided { work, decided: 0 } => {
                self.put(&BindingApplied::InProgress);
                SyncOutcome::AwaitingMember { step, work }
            }
            Aggregate::Undecided { work, .. } => {
                self.put(&BindingApplied::WorkUndecided { work: work.clone() });
                SyncOutcome::AwaitingMember { step, work }
            }
            Aggregate::Failed { work } => {
                self.put(&BindingApplied::WorkFailed { work: work.clone() });
                let works = unchanged(works);
                self.status.failed_placements = findings::failed(&works);
                self.status.drifted_placements = findings::drifted(&works);
                self.status.diffed_placements = findings::diffed(&works);
                SyncOutcome::Failing { step, work }
            }
            Aggregate::AllTrue => {
                self.put(&BindingApplied::AllApplied);
                return self.set_available(works);
            }
        };
        self.remove(&[RolloutStep::Available]);
        outcome
    }

    fn set_available(&mut self, works: &[WorkState<'_>]) -> SyncOutcome {
        let step = RolloutStep::Available;
        self.status.drifted_placements = findings::drifted(&unchanged(works));
        match aggregate::<WorkAvailable>(works) {
            Aggregate::Undecided { work, .. } => {
                self.put(&BindingAvailable::WorkUndecided { work: work.clone() });
                SyncOutcome::AwaitingMember { step, work }
            }
            Aggregate::Failed { work } => {
                self.put(&BindingAvailable::WorkNotAvailable { work: work.clone() });
                self.status.failed_placements = findings::failed(&unchanged(works));
                SyncOutcome::Failing { step, work }
            }
            Aggregate::AllTrue => {
                let untrackable = unchanged(works).into_iter().find(|work| {
                    let available = decode::<WorkAvailable>(work.conditions(), work.generation);
                    available.reason() == Some(WorkAvailableReason::NotTrackable)
                });
                self.put(&match untrackable {
                    Some(work) => BindingAvailable::WorkNotTrackable { work: work.name.to_owned() },
                    None => BindingAvailable::AllAvailable,
                });
                SyncOutcome::Complete
            }
        }
    }
}

/// How long the write may be deferred: the next change is likely to come soon.
pub(super) fn defer(outcome: &SyncOutcome) -> Option<Duration> {
    match outcome {
        SyncOutcome::Failed(error) if error.is_transient() => Some(STATUS_WINDOW),
        SyncOutcome::AwaitingMember { .. } | SyncOutcome::Failing { step: RolloutStep::Available, .. } => {
            Some(STATUS_WINDOW)
        }
        _ => None,
    }
}

/// Works that this plan does not change.
fn unchanged<'a>(works: &[WorkState<'a>]) -> Vec<&'a WorkFacts<'a>> {
    let unchanged = works.iter().filter_map(|work| match work {
        WorkState::Unchanged(work) => Some(*work),
        WorkState::Written { .. } => None,
    });
    unchanged.collect()
}

/// One condition, aggregated over all Works.
enum Aggregate {
    /// The first undecided Work, and the number of decided ones. Undecided comes before failed, because the Work may
    /// still fail.
    Undecided {
        work: String,
        decided: usize,
    },
    Failed {
        work: String,
    },
    AllTrue,
}

fn aggregate<T: ConditionState<Scope = ()>>(works: &[WorkState<'_>]) -> Aggregate {
    let status_of = |work: &WorkState<'_>| match work {
        WorkState::Unchanged(work) => decode::<T>(work.conditions(), work.generation).status(),
        WorkState::Written { .. } => ConditionStatus::Unknown,
    };
    let first = |wanted| works.iter().find(|work| status_of(work) == wanted).map(|work| work.name().to_owned());
    if let Some(work) = first(ConditionStatus::Unknown) {
        let decided = works.iter().filter(|work| status_of(work) != ConditionStatus::Unknown).count();
        return Aggregate::Undecided { work, decided };
    }
    first(ConditionStatus::False).map_or(Aggregate::AllTrue, |work| Aggregate::Failed { work })
}
