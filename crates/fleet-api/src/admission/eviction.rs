//! Whether an eviction, or a budget for evictions, makes sense for the placement that it names.
//!
//! Decides from that placement's policy. A placement that does not exist (yet) makes everything acceptable: the
//! controller judges again. Never looks at clusters.

use super::decode_object;
use super::findings::Findings;
use super::verdict::{Code, Verdict};
use super::world::{Request, World};
use crate::kinds::{
    ClusterResourcePlacement, ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction,
};
use crate::types::{IntOrString, PlacementDisruptionBudgetSpec, PlacementType};

pub fn admit_eviction(request: &Request, world: &dyn World) -> Verdict {
    let eviction: ClusterResourcePlacementEviction = match decode_object(request) {
        Ok(eviction) => eviction,
        Err(refusal) => return refusal,
    };
    let name = &eviction.spec.placement_name;
    let findings = match world.cluster_resource_placement(name) {
        Err(error) => {
            let message = format!("failed to get clusterResourcePlacement {name}: {error}");
            return Verdict::denied(Code::BadRequest, message);
        }
        Ok(None) => Findings::none(),
        Ok(Some(placement)) => check_evicted(&placement),
    };
    answer(&findings, "clusterResourcePlacementEviction has valid fields")
}

pub fn admit_disruption_budget(request: &Request, world: &dyn World) -> Verdict {
    let budget: ClusterResourcePlacementDisruptionBudget = match decode_object(request) {
        Ok(budget) => budget,
        Err(refusal) => return refusal,
    };
    let name = budget.metadata.name.as_deref().unwrap_or(&request.name);
    let findings = match world.cluster_resource_placement(name) {
        Err(error) => {
            let message = format!(
                "failed to get clusterResourcePlacement {name} for clusterResourcePlacementDisruptionBudget {name}: {error}"
            );
            return Verdict::denied(Code::BadRequest, message);
        }
        Ok(None) => Findings::none(),
        Ok(Some(placement)) => check_budget(&budget.spec, placement.spec.placement_type()),
    };
    answer(&findings, "clusterResourcePlacementDisruptionBudget has valid fields")
}

fn answer(findings: &Findings, fine: &str) -> Verdict {
    if findings.is_empty() { Verdict::allowed(fine) } else { Verdict::forbidden(findings.to_string()) }
}

fn check_evicted(placement: &ClusterResourcePlacement) -> Findings {
    let mut findings = Findings::none();
    if placement.metadata.deletion_timestamp.is_some() {
        let name = placement.metadata.name.as_deref().unwrap_or_default();
        findings.add(format!("cluster resource placement {name} is being deleted"));
    }
    if placement.spec.placement_type() == PlacementType::PickFixed {
        findings.add("cluster resource placement policy type PickFixed is not supported");
    }
    findings
}

/// How many clusters PickAll wants is not known, so nothing can be counted from above or in percent.
pub fn check_budget(budget: &PlacementDisruptionBudgetSpec, placement_type: PlacementType) -> Findings {
    let mut findings = Findings::none();
    if placement_type != PlacementType::PickAll {
        return findings;
    }
    let unsupported = "cluster resource placement policy type PickAll is not supported with";
    if let Some(most) = &budget.max_unavailable {
        findings.add(format!("{unsupported} any specified max unavailable {most}"));
    }
    if let Some(least @ IntOrString::String(_)) = &budget.min_available {
        findings.add(format!("{unsupported} min available as a percentage {least}"));
    }
    findings
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
