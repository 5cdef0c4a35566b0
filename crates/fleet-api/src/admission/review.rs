//! One request through all checks that are installed for it.
//!
//! Decides the order: defaults first, then every entry of the table in `webhooks`; the first refusal ends it. An API
//! server calls `mutate` before its schemas and `validate` after them, a webhook server calls `judge` with what is served at the
//! path that was asked for, and who has no schemas calls `review`.

use serde_json::Value;

use super::verdict::Verdict;
use super::webhooks::{Configuration, Handler, is_installed, table};
use super::workloads;
use super::world::{Operation, Request, World};
use super::{defaults, disruption_budget, eviction, guard_rail, member_cluster, overrides, placement};
use crate::kinds::{Cluster, Namespaced};

/// Defaults, then checks of the result.
pub fn review(request: &Request, world: &dyn World) -> Verdict {
    match mutate(request, world) {
        Verdict::Allowed { patched: Some(object), .. } => {
            let filled = Request { object: Some(object.clone()), ..request.clone() };
            match validate(&filled, world) {
                Verdict::Allowed { message, .. } => Verdict::Allowed { message, patched: Some(object) },
                denied @ Verdict::Denied { .. } => denied,
            }
        }
        Verdict::Allowed { .. } => validate(request, world),
        denied @ Verdict::Denied { .. } => denied,
    }
}

/// The defaults that are filled in before schemas are applied.
pub fn mutate(request: &Request, world: &dyn World) -> Verdict {
    run(request, world, |configuration| configuration.mutating)
}

/// The checks that come after the schemas. Refusals name the entry that they come from.
pub fn validate(request: &Request, world: &dyn World) -> Verdict {
    run(request, world, |configuration| !configuration.mutating)
}

fn run(request: &Request, world: &dyn World, wanted: impl Fn(&Configuration) -> bool) -> Verdict {
    let mut current = request.clone();
    let mut last_message = String::new();
    let entries = table().iter().filter(|one| wanted(one)).flat_map(|one| &one.entries);
    for entry in entries.filter(|entry| is_installed(entry.handler, world.settings()) && entry.matches(request, world))
    {
        match judge(entry.handler, &current, world).from_entry(&entry.name) {
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

/// The answer of one check, without the prefix that an API server adds itself.
pub fn judge(handler: Handler, request: &Request, world: &dyn World) -> Verdict {
    if is_let_go(handler, request) {
        return Verdict::allowed("the object is being deleted, and nothing else about it changes");
    }
    match handler {
        Handler::FillPlacement => fill_placement(request),
        Handler::ClusterResourcePlacement => check_placement::<Cluster>(request, world),
        Handler::ResourcePlacement => check_placement::<Namespaced>(request, world),
        Handler::MemberCluster => member_cluster::admit(request, world),
        Handler::ClusterResourceOverride => overrides::admit_cluster_resource_override(request, world),
        Handler::ResourceOverride => overrides::admit_resource_override(request, world),
        Handler::Eviction => eviction::admit(request, world),
        Handler::DisruptionBudget => disruption_budget::admit(request, world),
        Handler::Workload(workload) => workloads::admit(workload, request),
        Handler::GuardRail => guard_rail::admit(request, world),
    }
}

/// Whether this is about an object on its way out that loses what holds it back, or the like. However wrong its spec is, and
/// whatever cannot be looked up at the moment, that must be possible: it could never be deleted otherwise. Who may touch an object
/// is another matter, and placements have words of their own for this.
pub fn is_let_go(handler: Handler, request: &Request) -> bool {
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

fn check_placement<S: crate::kinds::Scope>(request: &Request, world: &dyn World) -> Verdict {
    let stored = request.old_object.as_ref().filter(|_| request.operation == Operation::Update);
    match &request.object {
        Some(object) if request.operation != Operation::Delete => placement::admit::<S>(object, stored, world),
        _ => Verdict::allowed(""),
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
