//! The filter: which clusters fit, before scoring. The first rule that rejects a cluster decides: affinity,
//! eligibility, namespaces, taints.
//!
//! Topology spread is checked later, because it changes with every pick.

use fleet_api::names::NamespaceName;

use super::Cycle;
use super::affinity::Required;
use super::eligibility::eligibility;
use super::observed::{ClusterFacts, Namespaces};
use super::properties::Holds;
use super::report::{Fault, Rejection};
use super::taints::untolerated;

/// The result of filtering one cluster.
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
    match required.admits(cluster)? {
        Holds::Yes => {}
        Holds::No => return Ok(Some(Rejection::NoTermMatches)),
        Holds::Unusable(value) => return Ok(Some(Rejection::Unusable(value))),
    }
    if let Err(why) = eligibility(cluster, cycle.now, cycle.observed.limits) {
        return Ok(Some(Rejection::Ineligible(why)));
    }
    if let Some(rejection) = namespace_rejection(cycle.observed.placement.key.namespace.as_ref(), cluster.namespaces) {
        return Ok(Some(rejection));
    }
    Ok(untolerated(cluster.taints, cycle.policy.policy).map(|taint| Rejection::Taint(taint.clone())))
}

/// A namespaced placement is scheduled only on clusters that have its namespace. Members that do not collect
/// namespaces are accepted.
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
