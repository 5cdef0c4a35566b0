//! Deletes the snapshots of a deleted placement, then removes our finalizer.
//!
//! Does not wait for bindings or Works: their controllers have finalizers of their own.

use fleet_api::conditions::events::PlacementEvent;

use super::observed::Observed;
use super::report::{PlacementOutcome, Report};
use super::{Plan, Write};

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report::of(PlacementOutcome::Deleting));
    if !observed.placement.has_finalizer {
        return plan;
    }
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let policies = sorted(observed.policy_snapshots.iter().map(|one| one.name).collect());
    plan.writes.extend(policies.into_iter().map(|snapshot| Write::DeletePolicySnapshot { snapshot }));
    let resources = sorted(observed.resource_snapshots.iter().map(|one| one.name).collect());
    plan.writes.extend(resources.into_iter().map(|snapshot| Write::DeleteResourceSnapshot { snapshot }));
    plan.writes.push(Write::RemovePlacementFinalizer);
    plan.report.events.push(PlacementEvent::CleanupFinalizerRemoved);
    plan
}
