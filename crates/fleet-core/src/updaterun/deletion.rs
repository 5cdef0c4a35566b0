//! What becomes of a run's approval requests when it is deleted.
//!
//! Decides the order: the requests that carry the run's label, then our finalizer. Bindings, snapshots and workloads stay
//! as they are. Never waits.

use super::observed::Observed;
use super::report::{Outcome, Report};
use super::{Plan, Write};

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::nothing(Report::of(Outcome::Releasing));
    if !observed.run.held {
        return plan;
    }
    let ours = observed.approvals.iter().filter(|one| one.labelled_with == Some(observed.run.name.as_str()));
    let mut requests: Vec<_> = ours.filter(|one| !one.deleting).map(|one| one.name.to_owned()).collect();
    requests.sort_unstable();
    plan.writes.extend(requests.into_iter().map(|request| Write::DeleteRequest { request }));
    plan.writes.push(Write::ReleaseRun);
    plan
}
