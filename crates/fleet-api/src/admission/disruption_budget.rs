//! Checks a disruption budget against the placement of the same name.
//!
//! If the placement does not exist (yet), every budget is accepted, and a placement that is created later is not
//! checked against it.

use super::decode_object;
use super::findings::Findings;
use super::lookups::{AdmissionLookups, Request};
use super::verdict::{Code, Verdict};
use crate::kinds::ClusterResourcePlacementDisruptionBudget;
use crate::types::{IntOrString, PlacementDisruptionBudgetSpec, PlacementType};

pub fn admit(request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    let budget: ClusterResourcePlacementDisruptionBudget = match decode_object(request) {
        Ok(budget) => budget,
        Err(refusal) => return refusal,
    };
    let name = budget.metadata.name.as_deref().unwrap_or(&request.name);
    let findings = match lookups.cluster_resource_placement(name) {
        Err(error) => {
            let message = format!("cluster resource placement {name} could not be read: {error}");
            return Verdict::denied(Code::BadRequest, message);
        }
        Ok(None) => Findings::none(),
        Ok(Some(placement)) => check(&budget.spec, placement.spec.placement_type()),
    };
    Verdict::from_findings(&findings, "the budget is valid")
}

/// The number of clusters of PickAll is not known, so maxUnavailable and percentages cannot be computed.
pub fn check(budget: &PlacementDisruptionBudgetSpec, placement_type: PlacementType) -> Findings {
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
