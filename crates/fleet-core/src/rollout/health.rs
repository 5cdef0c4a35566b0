//! What a binding's conditions say about its cluster now.
//!
//! Decides who counts as ready, who is known not to be, and from when an untrackable resource is trusted. Only conditions of
//! the current generation count, and of those that are False only what was tried and failed: a cluster that is not done with
//! a step may serve all the same. Never decides what follows from it.

use fleet_api::conditions::binding::{BindingAvailable, BindingAvailableReason, BindingDiffReported};
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::{Condition, decode};
use jiff::{SignedDuration, Timestamp};

/// How a cluster fares with what its binding asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Its resources are available, or its differences are reported.
    Ready,
    /// Applied, but whether it works cannot be seen; trusted from this instant on.
    Settling { until: Timestamp },
    /// Known not to be available: this step failed.
    Unavailable(RolloutStep),
    /// Nothing current says anything, or what it says is that a step is under way.
    Unknown,
}

/// Steps that may fail, in the order in which they are reached.
const STEPS: [RolloutStep; 5] = [
    RolloutStep::Overridden,
    RolloutStep::WorkSynchronized,
    RolloutStep::Applied,
    RolloutStep::Available,
    RolloutStep::DiffReported,
];

/// `settling` is how long resources that cannot be tracked are not trusted. It is counted from the moment when they were found
/// available in this generation; whoever reports must not carry a time over from older content.
pub(super) fn health(conditions: &[Condition], generation: i64, settling: SignedDuration, now: Timestamp) -> Health {
    if decode::<BindingDiffReported>(conditions, generation).is_true() {
        return Health::Ready;
    }
    let available = decode::<BindingAvailable>(conditions, generation);
    if let Some(condition) = available.current().filter(|_| available.is_true()) {
        let since = condition.last_transition_time.instant();
        let until = since.checked_add(settling).unwrap_or(Timestamp::MAX);
        let trackable = available.reason() != Some(BindingAvailableReason::NotTrackable);
        return if trackable || until <= now { Health::Ready } else { Health::Settling { until } };
    }
    let has_failed = |step: &RolloutStep| step.current(conditions, generation).is_some_and(|one| step.has_failed(one));
    STEPS.into_iter().find(has_failed).map_or(Health::Unknown, Health::Unavailable)
}
