//! Which clusters of the fleet fit, before anything is scored.
//!
//! Decides per cluster by the first rule that says no: affinity, eligibility, namespaces, taints; last whether it has been
//! picked already. The spread, which changes with every pick, is not looked at here. Never decides who is better.

use fleet_api::names::NamespaceName;

use super::Cycle;
use super::affinity::Required;
use super::eligibility::eligibility;
use super::observed::{ClusterFacts, Namespaces};
use super::report::{Fault, Rejection};
use super::taints::untolerated;

/// How far a cluster gets.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Screening {
    Fits,
    AlreadySelected,
    Rejected(Rejection),
}

/// In the order of the fleet.
pub(super) fn screen(cycle: &Cycle<'_>) -> Result<Vec<Screening>, Fault> {
    let required = Required::new(cycle.policy.policy);
    let clusters = cycle.fleet.clusters.iter().zip(&cycle.selected);
    clusters
        .map(|(cluster, already_selected)| {
            Ok(match rejection(cycle, &required, cluster)? {
                Some(rejection) => Screening::Rejected(rejection),
                None if *already_selected => Screening::AlreadySelected,
                None => Screening::Fits,
            })
        })
        .collect()
}

fn rejection(
    cycle: &Cycle<'_>,
    required: &Required<'_>,
    cluster: &ClusterFacts<'_>,
) -> Result<Option<Rejection>, Fault> {
    if !required.admits(cluster)? {
        return Ok(Some(Rejection::NoTermMatches));
    }
    if let Err(why) = eligibility(cluster, cycle.now, cycle.observed.limits) {
        return Ok(Some(Rejection::Ineligible(why)));
    }
    if let Some(rejection) = namespace_rejection(cycle.observed.placement.key.namespace.as_ref(), cluster.namespaces) {
        return Ok(Some(rejection));
    }
    Ok(untolerated(cluster.taints, cycle.policy.policy).map(|taint| Rejection::Taint(taint.clone())))
}

/// A namespaced placement goes only where its namespace is. Members that do not collect namespaces get the benefit of the
/// doubt.
fn namespace_rejection(wanted: Option<&NamespaceName>, known: Namespaces<'_>) -> Option<Rejection> {
    let wanted = wanted?;
    match known {
        Namespaces::NotCollected => None,
        Namespaces::Unknown => Some(Rejection::NamespacesUnknown),
        Namespaces::Known(namespaces) => {
            (!namespaces.contains_key(wanted.as_str())).then_some(Rejection::NamespaceMissing)
        }
    }
}
