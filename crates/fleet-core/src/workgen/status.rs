//! What a binding's status says about its Works.
//!
//! Decides the conditions after RolloutStarted and the lists beside them. Undecided Works come before failed ones: they
//! may still fail. A status is marked as interim while the next word is the member's, so that it need not be written if
//! that word comes soon. Never decides whether a rollout has started, except to repeat what the binding means.

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
use super::report::{Outcome, SyncError};
use super::sync::Standing;

/// A status to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStatus {
    pub status: ResourceBindingStatus,
    /// Whether it may be held back for a moment, and dropped if a newer one comes in that time.
    pub interim: bool,
}

/// A status in the making.
pub(super) struct Draft<'a> {
    observed: &'a Observed<'a>,
    now: Timestamp,
    status: ResourceBindingStatus,
}

/// Steps whose conditions are about what the member did with one version of the content.
const STEPS_OF_THE_MEMBER: [RolloutStep; 3] = [RolloutStep::Applied, RolloutStep::Available, RolloutStep::DiffReported];

impl<'a> Draft<'a> {
    /// Starts from what is there, so that transition times stay.
    pub(super) fn new(observed: &'a Observed<'a>, now: Timestamp) -> Self {
        let mut status = observed.binding.status.cloned().unwrap_or_default();
        // With the binding the content changes, and waits are counted from when the member has the new one. The statuses
        // in between may never have been written.
        for step in STEPS_OF_THE_MEMBER {
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

    pub(super) fn say_started(&mut self, started: &BindingRolloutStarted) {
        if matches!(started, BindingRolloutStarted::StartedByRun { .. }) {
            // Every run starts anew.
            self.remove(&[RolloutStep::RolloutStarted]);
        }
        self.put(started);
    }

    /// What is said if the Works could not be brought in line.
    pub(super) fn failed(mut self, error: SyncError) -> (ResourceBindingStatus, Outcome) {
        let detail = error.to_string();
        if error.step() == RolloutStep::Overridden {
            self.put(&BindingOverridden::Failed { detail });
            self.remove(&[RolloutStep::WorkSynchronized]);
        } else {
            self.say_overridden();
            self.put(&BindingWorkSynchronized::Failed { detail });
        }
        self.remove(&STEPS_OF_THE_MEMBER);
        (self.status, Outcome::Failed(error))
    }

    /// What is said of Works that are in line.
    pub(super) fn synchronized(mut self, works: &[Standing<'_>]) -> (ResourceBindingStatus, Outcome) {
        self.say_overridden();
        self.put(&BindingWorkSynchronized::Synchronized);
        let outcome = if self.observed.binding.only_reports_diff() {
            self.remove(&[RolloutStep::Applied, RolloutStep::Available]);
            self.say_reported(works)
        } else {
            self.remove(&[RolloutStep::DiffReported]);
            self.say_applied(works)
        };
        (self.status, outcome)
    }

    fn say_overridden(&mut self) {
        let binding = &self.observed.binding;
        let is_none = binding.overrides.is_empty() && binding.cluster_overrides.is_empty();
        self.put(if is_none { &BindingOverridden::NoOverride } else { &BindingOverridden::Succeeded });
    }

    fn say_reported(&mut self, works: &[Standing<'_>]) -> Outcome {
        let step = RolloutStep::DiffReported;
        match verdict::<WorkDiffReported>(works) {
            Verdict::Undecided { work, decided: 0 } => {
                self.put(&BindingDiffReported::InProgress);
                Outcome::AwaitingMember { step, work }
            }
            Verdict::Undecided { work, .. } => {
                self.put(&BindingDiffReported::WorkUndecided { work: work.clone() });
                Outcome::AwaitingMember { step, work }
            }
            Verdict::Failed { work } => {
                self.put(&BindingDiffReported::WorkFailed { work: work.clone() });
                Outcome::Failing { step, work }
            }
            Verdict::Holds => {
                self.put(&BindingDiffReported::AllReported);
                self.status.diffed_placements = findings::diffed(&same(works));
                Outcome::Complete
            }
        }
    }

    fn say_applied(&mut self, works: &[Standing<'_>]) -> Outcome {
        let step = RolloutStep::Applied;
        let outcome = match verdict::<WorkApplied>(works) {
            Verdict::Undecided { work, decided: 0 } => {
                self.put(&BindingApplied::InProgress);
                Outcome::AwaitingMember { step, work }
            }
            Verdict::Undecided { work, .. } => {
                self.put(&BindingApplied::WorkUndecided { work: work.clone() });
                Outcome::AwaitingMember { step, work }
            }
            Verdict::Failed { work } => {
                self.put(&BindingApplied::WorkFailed { work: work.clone() });
                let works = same(works);
                self.status.failed_placements = findings::failed(&works);
                self.status.drifted_placements = findings::drifted(&works);
                self.status.diffed_placements = findings::diffed(&works);
                Outcome::Failing { step, work }
            }
            Verdict::Holds => {
                self.put(&BindingApplied::AllApplied);
                return self.say_available(works);
            }
        };
        self.remove(&[RolloutStep::Available]);
        outcome
    }

    fn say_available(&mut self, works: &[Standing<'_>]) -> Outcome {
        let step = RolloutStep::Available;
        self.status.drifted_placements = findings::drifted(&same(works));
        match verdict::<WorkAvailable>(works) {
            Verdict::Undecided { work, .. } => {
                self.put(&BindingAvailable::WorkUndecided { work: work.clone() });
                Outcome::AwaitingMember { step, work }
            }
            Verdict::Failed { work } => {
                self.put(&BindingAvailable::WorkNotAvailable { work: work.clone() });
                self.status.failed_placements = findings::failed(&same(works));
                Outcome::Failing { step, work }
            }
            Verdict::Holds => {
                let untrackable = same(works).into_iter().find(|work| {
                    let available = decode::<WorkAvailable>(work.conditions(), work.generation);
                    available.reason() == Some(WorkAvailableReason::NotTrackable)
                });
                self.put(&match untrackable {
                    Some(work) => BindingAvailable::WorkNotTrackable { work: work.name.to_owned() },
                    None => BindingAvailable::AllAvailable,
                });
                Outcome::Complete
            }
        }
    }
}

/// Whether what comes next is likely to come soon, and from the member.
pub(super) fn is_interim(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(error) => error.is_passing(),
        Outcome::AwaitingMember { .. } | Outcome::Failing { step: RolloutStep::Available, .. } => true,
        _ => false,
    }
}

/// Works that stay as they are.
fn same<'a>(works: &[Standing<'a>]) -> Vec<&'a WorkFacts<'a>> {
    let same = works.iter().filter_map(|work| match work {
        Standing::Same(work) => Some(*work),
        Standing::Written { .. } => None,
    });
    same.collect()
}

/// What all Works together say about one condition.
enum Verdict {
    /// The first undecided one, and how many others are decided.
    Undecided {
        work: String,
        decided: usize,
    },
    Failed {
        work: String,
    },
    Holds,
}

fn verdict<T: ConditionState<Scope = ()>>(works: &[Standing<'_>]) -> Verdict {
    let status_of = |work: &Standing<'_>| match work {
        Standing::Same(work) => decode::<T>(work.conditions(), work.generation).status(),
        Standing::Written { .. } => ConditionStatus::Unknown,
    };
    let first = |wanted| works.iter().find(|work| status_of(work) == wanted).map(|work| work.name().to_owned());
    if let Some(work) = first(ConditionStatus::Unknown) {
        let decided = works.iter().filter(|work| status_of(work) != ConditionStatus::Unknown).count();
        return Verdict::Undecided { work, decided };
    }
    first(ConditionStatus::False).map_or(Verdict::Holds, |work| Verdict::Failed { work })
}
