//! Checks an override against itself and all other overrides of its kind: two overrides must not select the same
//! resource, unless one is being deleted.

use super::findings::Findings;
use super::lookups::{AdmissionLookups, Operation, Request};
use super::override_policy;
use super::verdict::{Code, Verdict};
use super::{decode_object, go_print};
use crate::kinds::{ClusterResourceOverride, ResourceOverride};
use crate::types::ResourceSelectorTerm;

/// Maximum number of ClusterResourceOverrides on a hub, and of ResourceOverrides in a namespace: all of them are
/// searched for conflicts.
pub const OVERRIDES_MAX: usize = 100;

const OVERRIDE_IS_VALID: &str = "the override is valid";

pub fn admit_cluster_resource_override(request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    let object: ClusterResourceOverride = match decode_object(request) {
        Ok(object) => object,
        Err(refusal) => return refusal,
    };
    let others = match lookups.cluster_resource_overrides() {
        Ok(others) => others,
        Err(error) => {
            let message = format!("the existing clusterResourceOverrides could not be listed, please retry: {error}");
            return Verdict::denied(Code::BadRequest, message);
        }
    };
    if request.operation == Operation::Create && others.len() >= OVERRIDES_MAX {
        return Verdict::forbidden(format!(
            "clusterResourceOverride limit has been reached: at most {OVERRIDES_MAX} cluster resources can be created."
        ));
    }
    Verdict::from_findings(&validate_cluster_resource_override(&object, &others), OVERRIDE_IS_VALID)
}

pub fn admit_resource_override(request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    let object: ResourceOverride = match decode_object(request) {
        Ok(object) => object,
        Err(refusal) => return refusal,
    };
    let others = match lookups.resource_overrides(&request.namespace) {
        Ok(others) => others,
        Err(error) => {
            let message = format!("the existing resourceOverrides could not be listed, please retry: {error}");
            return Verdict::denied(Code::Internal, message);
        }
    };
    if request.operation == Operation::Create && others.len() >= OVERRIDES_MAX {
        return Verdict::forbidden(format!(
            "resourceOverride limit has been reached: at most {OVERRIDES_MAX} resources can be created."
        ));
    }
    Verdict::from_findings(&validate_resource_override(&object, &others), OVERRIDE_IS_VALID)
}

/// An invalid selector ends the check: only selectors of a single resource can be compared.
pub fn validate_cluster_resource_override(
    object: &ClusterResourceOverride,
    others: &[ClusterResourceOverride],
) -> Findings {
    let selectors = &object.spec.cluster_resource_selectors;
    let findings = check_terms(selectors);
    if !findings.is_empty() {
        return findings;
    }
    let staying = others.iter().filter(|other| other.metadata.deletion_timestamp.is_none());
    let others: Vec<Holder<_>> =
        staying.map(|other| (other.metadata.name.as_deref(), &other.spec.cluster_resource_selectors[..])).collect();
    let this = object.metadata.name.as_deref();
    let mut findings = check_conflicts(this, selectors, &others, go_print::resource_selector_term);
    findings.absorb(override_policy::check(&object.spec.policy));
    findings
}

/// As for a ClusterResourceOverride, among those of one namespace.
pub fn validate_resource_override(object: &ResourceOverride, others: &[ResourceOverride]) -> Findings {
    let selectors = &object.spec.resource_selectors;
    let mut findings = Findings::none();
    for (position, selector) in selectors.iter().enumerate() {
        if selectors[..position].contains(selector) {
            findings.add(already_there(&go_print::resource_selector(selector)));
        }
    }
    if !findings.is_empty() {
        return findings;
    }
    let staying = others.iter().filter(|other| other.metadata.deletion_timestamp.is_none());
    let others: Vec<Holder<_>> =
        staying.map(|other| (other.metadata.name.as_deref(), &other.spec.resource_selectors[..])).collect();
    let this = object.metadata.name.as_deref();
    let mut findings = check_conflicts(this, selectors, &others, go_print::resource_selector);
    findings.absorb(override_policy::check(&object.spec.policy));
    findings
}

fn check_terms(selectors: &[ResourceSelectorTerm]) -> Findings {
    let mut findings = Findings::none();
    for (position, selector) in selectors.iter().enumerate() {
        let printed = go_print::resource_selector_term(selector);
        if selector.label_selector.is_some() {
            findings.add(format!("label selector is not supported for resource selection {printed}"));
        } else if selector.name.is_empty() {
            findings.add(format!("resource name is required for resource selection {printed}"));
        } else if selectors[..position].contains(selector) {
            findings.add(already_there(&printed));
        }
    }
    findings
}

fn already_there(printed: &str) -> String {
    format!("resource selector {printed} already exists, and must be unique")
}

/// Name and selectors of an existing override.
type Holder<'a, T> = (Option<&'a str>, &'a [T]);

/// If several others select the same resource, the last one is named.
fn check_conflicts<T: PartialEq>(
    this: Option<&str>,
    selectors: &[T],
    others: &[Holder<'_, T>],
    print: impl Fn(&T) -> String,
) -> Findings {
    let this = this.unwrap_or_default();
    let mut findings = Findings::none();
    for selector in selectors {
        let holders = others.iter().filter(|(_, theirs)| theirs.contains(selector));
        let other = holders.filter_map(|(name, _)| *name).rfind(|name| *name != this && !name.is_empty());
        if let Some(other) = other {
            findings.add(format!(
                "invalid resource selector {}: the resource has been selected by both {this} and {other}, which is not supported",
                print(selector),
            ));
        }
    }
    findings
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
