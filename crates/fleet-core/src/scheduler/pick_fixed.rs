//! PickFixed: the clusters that the policy names, if they exist and are eligible. Labels, taints, namespaces and
//! scores do not matter.

use std::collections::BTreeSet;

use fleet_api::conditions::policy_snapshot::PolicySnapshotScheduled;
use fleet_api::names::ClusterName;
use fleet_api::types::ClusterDecision;

use super::bindings::{Booking, Bookkeeper};
use super::decisions::{Explained, Findings, not_eligible, not_found, picked};
use super::eligibility::{Ineligible, eligibility};
use super::report::{Fault, Rejection, Report, SchedulingOutcome, Verdict};
use super::{Cycle, Decided};

pub(super) fn decide(cycle: &Cycle<'_>) -> Decided {
    let targets = Targets::new(cycle);
    if targets.wanted == 0 {
        return Decided::without_writes(SchedulingOutcome::NothingNamed);
    }
    plan(cycle, &targets).unwrap_or_else(Decided::stopped)
}

/// The named clusters by whether they can be used, in the order of the policy.
struct Targets<'c> {
    wanted: usize,
    /// Positions in the fleet.
    valid: Vec<usize>,
    invalid: Vec<(usize, Ineligible)>,
    not_found: Vec<&'c str>,
}

impl<'c> Targets<'c> {
    fn new(cycle: &Cycle<'c>) -> Self {
        let named = cycle.policy.policy.and_then(|policy| policy.cluster_names.as_deref()).unwrap_or_default();
        let mut targets = Self { wanted: 0, valid: Vec::new(), invalid: Vec::new(), not_found: Vec::new() };
        let mut seen = BTreeSet::new();
        for name in named.iter().filter(|name| seen.insert(name.as_str())) {
            targets.wanted += 1;
            match cycle.fleet.find(name) {
                None => targets.not_found.push(name),
                Some(index) => match eligibility(cycle.fleet.clusters[index], cycle.now, cycle.observed.limits) {
                    Ok(()) => targets.valid.push(index),
                    Err(why) => targets.invalid.push((index, why)),
                },
            }
        }
        targets
    }
}

fn plan(cycle: &Cycle<'_>, targets: &Targets<'_>) -> Result<Decided, Fault> {
    let name = |index: usize| &cycle.fleet.clusters[index].name;
    let decisions: Vec<ClusterDecision> =
        targets.valid.iter().map(|&index| picked(name(index).as_str(), None)).collect();
    let fresh = targets.valid.iter().zip(&decisions).filter(|(index, _)| !cycle.selected[**index]);
    let mut bookkeeper = Bookkeeper::new(cycle.observed, cycle.policy, &cycle.bindings);
    let booked = bookkeeper.book(fresh.map(|(&index, decision)| (name(index), decision.clone())).collect())?;
    let mut writes: Vec<_> = booked.iter().map(Booking::write).collect();
    // A cluster may have a binding of this policy besides an older one; the older one stays.
    let valid: BTreeSet<&str> = targets.valid.iter().map(|&index| name(index).as_str()).collect();
    let given_up = cycle.bindings.obsolete.iter().filter(|binding| !valid.contains(binding.cluster));
    writes.extend(given_up.map(|binding| super::bindings::unschedule(binding)));

    let (found, wanted) = (targets.valid.len(), targets.wanted);
    let scheduled = if found == wanted {
        PolicySnapshotScheduled::Fulfilled { clusters: found }
    } else {
        PolicySnapshotScheduled::Unfulfilled { clusters: found }
    };
    let invalid = targets.invalid.iter().map(|&(index, why)| not_eligible(name(index).as_str(), why));
    let missing = targets.not_found.iter().map(|name| not_found(name));
    let explained = invalid.chain(missing).collect();
    let findings = Findings { scheduled, selected: decisions.iter().collect(), explained: Explained::Anew(explained) };
    let report = Report {
        outcome: SchedulingOutcome::Decided { found, wanted: Some(wanted) },
        clusters: verdicts(cycle, targets),
        not_found: targets.not_found.iter().map(|&name| name.to_owned()).collect(),
    };
    Ok(Decided::with_status(cycle, writes, &findings, report))
}

fn verdicts(cycle: &Cycle<'_>, targets: &Targets<'_>) -> Vec<(ClusterName, Verdict)> {
    let valid = targets.valid.iter().map(|&index| {
        let verdict = if cycle.selected[index] { Verdict::Kept } else { Verdict::Picked(None) };
        (index, verdict)
    });
    let invalid = targets.invalid.iter().map(|&(index, why)| (index, Verdict::Rejected(Rejection::Ineligible(why))));
    let mut all: Vec<_> = valid.chain(invalid).collect();
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(index, verdict)| (cycle.fleet.clusters[index].name.clone(), verdict)).collect()
}
