//! What a binding's conditions say about its cluster now.
//!
//! Decides who counts as ready, who is known not to be, and from when an untrackable resource is trusted. Only conditions of
//! the current generation count. Never decides what follows from it.

use fleet_api::conditions::binding::{
    BindingApplied, BindingAppliedReason, BindingAvailable, BindingAvailableReason, BindingDiffReported,
    BindingOverridden, BindingOverriddenReason, BindingWorkSynchronized, BindingWorkSynchronizedReason,
};
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
    /// Known not to be available: this step failed or is going on.
    Unavailable(RolloutStep),
    /// Nothing current says anything.
    Unknown,
}

/// `settling` is how long resources that cannot be tracked are not trusted. It is counted from the moment when they were found
/// available in this generation; whoever reports must not carry a time over from older content.
pub(crate) fn health(conditions: &[Condition], generation: i64, settling: SignedDuration, now: Timestamp) -> Health {
    let diff = decode::<BindingDiffReported>(conditions, generation);
    if diff.is_true() {
        return Health::Ready;
    }
    let available = decode::<BindingAvailable>(conditions, generation);
    if let Some(condition) = available.current().filter(|_| available.is_true()) {
        let since = condition.last_transition_time.instant();
        let until = since.checked_add(settling).unwrap_or(Timestamp::MAX);
        let trackable = available.reason() != Some(BindingAvailableReason::NotTrackable);
        return if trackable || until <= now { Health::Ready } else { Health::Settling { until } };
    }
    if diff.is_false() {
        return Health::Unavailable(RolloutStep::DiffReported);
    }
    failure(conditions, generation).map_or(Health::Unknown, Health::Unavailable)
}

/// The first step that did not succeed. Reasons that no current release writes mean that it is still to be tried.
pub(crate) fn failure(conditions: &[Condition], generation: i64) -> Option<RolloutStep> {
    let overridden = decode::<BindingOverridden>(conditions, generation);
    let synchronized = decode::<BindingWorkSynchronized>(conditions, generation);
    let applied = decode::<BindingApplied>(conditions, generation);
    let available = decode::<BindingAvailable>(conditions, generation);
    if overridden.is_false() && overridden.reason() != Some(BindingOverriddenReason::Pending) {
        Some(RolloutStep::Overridden)
    } else if synchronized.is_false() && synchronized.reason() != Some(BindingWorkSynchronizedReason::NotYet) {
        Some(RolloutStep::WorkSynchronized)
    } else if applied.is_false() && applied.reason() != Some(BindingAppliedReason::Pending) {
        Some(RolloutStep::Applied)
    } else if available.is_false() && available.reason() != Some(BindingAvailableReason::NotYet) {
        Some(RolloutStep::Available)
    } else {
        None
    }
}

/// Whether differences are reported instead of resources applied; such a cluster is not changed at all.
pub(crate) fn is_diff_only(conditions: &[Condition], generation: i64) -> bool {
    decode::<BindingDiffReported>(conditions, generation).current().is_some()
}
