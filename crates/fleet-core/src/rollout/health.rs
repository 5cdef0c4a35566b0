//! Health of a cluster, from the conditions of its binding. Only conditions of the current generation count. A False
//! condition counts as a failure only if the step has failed; a cluster that is still applying may serve.

use fleet_api::conditions::binding::{BindingAvailable, BindingAvailableReason, BindingDiffReported};
use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::{Condition, decode};
use jiff::{SignedDuration, Timestamp};

/// Health of a cluster, from conditions of the binding's current generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Its resources are available, or its diff is reported.
    Ready,
    /// Applied, but not trackable; counts as ready from `until` on.
    InUnavailablePeriod { until: Timestamp },
    /// This step failed.
    Unavailable(RolloutStep),
    /// There is no current condition, or a step is in progress.
    Unknown,
}

/// Steps that may fail, in order.
const STEPS: [RolloutStep; 5] = [
    RolloutStep::Overridden,
    RolloutStep::WorkSynchronized,
    RolloutStep::Applied,
    RolloutStep::Available,
    RolloutStep::DiffReported,
];

/// `unavailable_period` is how long untrackable resources do not count as ready. It starts at the transition of
/// Available in this generation, so the work generator must not keep the transition time of older content.
pub(super) fn health(
    conditions: &[Condition],
    generation: i64,
    unavailable_period: SignedDuration,
    now: Timestamp,
) -> Health {
    if decode::<BindingDiffReported>(conditions, generation).is_true() {
        return Health::Ready;
    }
    let available = decode::<BindingAvailable>(conditions, generation);
    if let Some(condition) = available.current().filter(|_| available.is_true()) {
        let since = condition.last_transition_time.instant();
        let until = since.checked_add(unavailable_period).unwrap_or(Timestamp::MAX);
        let trackable = available.reason() != Some(BindingAvailableReason::NotTrackable);
        return if trackable || until <= now { Health::Ready } else { Health::InUnavailablePeriod { until } };
    }
    let has_failed = |step: &RolloutStep| step.current(conditions, generation).is_some_and(|one| step.has_failed(one));
    STEPS.into_iter().find(has_failed).map_or(Health::Unknown, Health::Unavailable)
}
