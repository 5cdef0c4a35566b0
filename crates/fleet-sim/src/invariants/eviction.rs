//! A bound binding is deleted only by an eviction, and only if the disruption budget allows it, unless its placement is
//! deleted.
//!
//! The hub decides an eviction on a fresh list, so only changes between that list and the deletion are tolerated.

use std::time::Duration;

use fleet_api::well_known::annotations;
use k8s_values::int_or_string::{IntOrString, Rounding};
use serde_json::Value;

use super::rollout::Rollouts;
use super::shadow_model::{Change, Id, SCOPES, ShadowModel, current, is_deleting, is_true, parent, text};
use crate::simulation::HUB;

/// Longest time from the list of bindings to the deletion: four more requests of at most six seconds each. A slower
/// request fails, and the hub decides again.
const LOOK_TO_DELETION: Duration = Duration::from_secs(24);

pub(super) fn violation(shadow: &ShadowModel, rollouts: &Rollouts, change: &Change) -> Option<String> {
    let scope = SCOPES.iter().find(|scope| change.id.is_on_hub() && change.id.plural == scope.bindings)?;
    let binding = change.before.as_deref().filter(|_| change.actor == HUB && change.begins_deletion())?;
    if binding["spec"]["state"] != "Bound" {
        return None;
    }
    let id = Id::on_hub(scope.placements, &change.id.namespace, parent(binding));
    let placement = shadow.get(&id).filter(|placement| !is_deleting(placement))?;
    let cluster = text(&binding["spec"]["targetCluster"]);
    let concerns = |eviction: &Value| {
        eviction["spec"]["placementName"] == id.name.as_str()
            && eviction["spec"]["clusterName"] == cluster
            && eviction["metadata"]["annotations"][annotations::EVICTED_BINDING_UID] == binding["metadata"]["uid"]
    };
    let asked = id.namespace.is_empty()
        && shadow.on_hub("clusterresourceplacementevictions").any(|(_, eviction)| concerns(eviction));
    if !asked {
        return Some(format!("{} is removed from {cluster} without an eviction", id.name));
    }
    if counts_as_failed(binding) || is_true(current(binding, "DiffReported")) {
        return None;
    }
    let budget = &shadow.get(&Id::on_hub("clusterresourceplacementdisruptionbudgets", "", &id.name))?["spec"];
    let others: Vec<_> = shadow.of_placement(scope.bindings, &id).filter(|(other, _)| **other != change.id).collect();
    let stays = |(other, one): &&(&Id, &Value)| {
        !is_deleting(one) && rollouts.was_ready(other, one, change.at, LOOK_TO_DELETION)
    };
    let available = others.iter().filter(stays).count();
    let wanted = usize::try_from(placement["spec"]["policy"]["numberOfClusters"].as_i64().unwrap_or(0)).unwrap_or(0);
    let allowed = match (scaled(&budget["maxUnavailable"], wanted), scaled(&budget["minAvailable"], wanted)) {
        // The cluster of the deleted binding is unavailable from now on.
        (Some(most), _) => others.len() - available < most,
        (None, Some(least)) => available >= least,
        (None, None) => false,
    };
    (!allowed)
        .then(|| format!("{} is removed from {cluster} with {available} other clusters available: {budget}", id.name))
}

/// The budget does not protect a binding with any condition that is False, even if a step is only in progress.
fn counts_as_failed(binding: &Value) -> bool {
    let steps = ["Overridden", "WorkSynchronized", "Applied", "Available", "DiffReported"];
    steps.iter().any(|step| current(binding, step).is_some_and(|one| one["status"] == "False"))
}

fn scaled(value: &Value, of: usize) -> Option<usize> {
    usize::try_from(IntOrString::of_value(value)?.scaled(of, Rounding::Up).ok()?).ok()
}
