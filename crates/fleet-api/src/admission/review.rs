//! Runs a request through all installed checks: defaults first, then every entry of the table in `webhooks`. The
//! first refusal ends it.
//!
//! An API server calls `mutate` before its schemas and `validate` after them; a webhook server calls `judge` with the
//! handler of the requested path; callers without schemas call `review`.

use serde_json::Value;

use super::lookups::{AdmissionLookups, Operation, Request};
use super::verdict::Verdict;
use super::webhooks::{Configuration, Handler, is_installed, table};
use super::workloads;
use super::{defaults, disruption_budget, eviction, guard_rail, member_cluster, overrides, placement, reserved};
use crate::kinds::{Cluster, Namespaced};

/// Defaults, then checks of the result.
pub fn review(request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    match mutate(request, lookups) {
        Verdict::Allowed { patched: Some(object), .. } => {
            let filled = Request { object: Some(object.clone()), ..request.clone() };
            match validate(&filled, lookups) {
                Verdict::Allowed { message, .. } => Verdict::Allowed { message, patched: Some(object) },
                denied @ Verdict::Denied { .. } => denied,
            }
        }
        Verdict::Allowed { .. } => validate(request, lookups),
        denied @ Verdict::Denied { .. } => denied,
    }
}

/// The defaults that are applied before schemas.
pub fn mutate(request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    run(request, lookups, |configuration| configuration.mutating)
}

/// The checks after the schemas. Refusals name their webhook entry.
pub fn validate(request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    run(request, lookups, |configuration| !configuration.mutating)
}

fn run(request: &Request, lookups: &dyn AdmissionLookups, wanted: impl Fn(&Configuration) -> bool) -> Verdict {
    let mut current = request.clone();
    let mut last_message = String::new();
    let entries = table().iter().filter(|one| wanted(one)).flat_map(|one| &one.entries);
    for entry in
        entries.filter(|entry| is_installed(entry.handler, lookups.settings()) && entry.matches(request, lookups))
    {
        match judge(entry.handler, &current, lookups).from_entry(&entry.name) {
            Verdict::Allowed { message, patched } => {
                last_message = message;
                current.object = patched.or(current.object);
            }
            denied @ Verdict::Denied { .. } => return denied,
        }
    }
    let patched = current.object.filter(|object| Some(object) != request.object.as_ref());
    Verdict::Allowed { message: last_message, patched }
}

/// The answer of one check, without the prefix that an API server adds.
pub fn judge(handler: Handler, request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    if is_update_while_deleting(handler, request) {
        return Verdict::allowed("the object is being deleted, and nothing else about it changes");
    }
    match handler {
        Handler::FillPlacement => fill_placement(request),
        Handler::ClusterResourcePlacement => check_placement::<Cluster>(request, lookups),
        Handler::ResourcePlacement => check_placement::<Namespaced>(request, lookups),
        Handler::MemberCluster => member_cluster::admit(request, lookups),
        Handler::ClusterResourceOverride => overrides::admit_cluster_resource_override(request, lookups),
        Handler::ResourceOverride => overrides::admit_resource_override(request, lookups),
        Handler::Eviction => eviction::admit(request, lookups),
        Handler::DisruptionBudget => disruption_budget::admit(request, lookups),
        Handler::Workload(workload) => workloads::admit(workload, request),
        Handler::ReservedNamespaces => reserved::admit(request),
        Handler::GuardRail => guard_rail::admit(request, lookups),
    }
}

/// Whether this is an update of an object that is being deleted, such as the removal of a finalizer. That must be
/// possible even if the spec is invalid or lookups fail: otherwise the object could never be deleted. The guard rail
/// is not affected, and placements have their own texts for this.
pub fn is_update_while_deleting(handler: Handler, request: &Request) -> bool {
    let is_about_spec = !matches!(
        handler,
        Handler::GuardRail | Handler::FillPlacement | Handler::ClusterResourcePlacement | Handler::ResourcePlacement
    );
    let both = request.object.as_ref().zip(request.old_object.as_ref());
    let leaves_as_it_is =
        |(new, old): (&Value, &Value)| !new["metadata"]["deletionTimestamp"].is_null() && new["spec"] == old["spec"];
    is_about_spec && request.operation == Operation::Update && both.is_some_and(leaves_as_it_is)
}

fn fill_placement(request: &Request) -> Verdict {
    let filled = request.object.as_ref().map(defaults::filled_placement);
    let patched = filled.filter(|filled| Some(filled) != request.object.as_ref());
    Verdict::Allowed { message: String::new(), patched }
}

fn check_placement<S: crate::kinds::Scope>(request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    let stored = request.old_object.as_ref().filter(|_| request.operation == Operation::Update);
    match &request.object {
        Some(object) if request.operation != Operation::Delete => placement::admit::<S>(object, stored, lookups),
        _ => Verdict::allowed(""),
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
