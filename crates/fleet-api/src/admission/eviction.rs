//! Checks an eviction against its placement.
//!
//! If the placement does not exist (yet), every eviction is accepted: the controller checks again.

use super::decode_object;
use super::findings::Findings;
use super::lookups::{AdmissionLookups, Request};
use super::verdict::{Code, Verdict};
use crate::kinds::{ClusterResourcePlacement, ClusterResourcePlacementEviction};
use crate::types::PlacementType;

pub fn admit(request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    let eviction: ClusterResourcePlacementEviction = match decode_object(request) {
        Ok(eviction) => eviction,
        Err(refusal) => return refusal,
    };
    let name = &eviction.spec.placement_name;
    let findings = match lookups.cluster_resource_placement(name) {
        Err(error) => {
            let message = format!("cluster resource placement {name} could not be read: {error}");
            return Verdict::denied(Code::BadRequest, message);
        }
        Ok(None) => Findings::none(),
        Ok(Some(placement)) => check_evicted(&placement),
    };
    Verdict::from_findings(&findings, "the eviction is valid")
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

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
