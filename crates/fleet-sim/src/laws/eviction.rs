//! Whoever is wanted goes only by an eviction, and only if the disruption budget allows it.
//!
//! Decides at each deletion of a binding that is bound, while its placement stays. What the hub may not have heard of yet
//! counts in its favour.

use serde_json::Value;

use super::rollout::Rollouts;
use super::shadow::{Change, Id, SCOPES, Shadow, current, is_deleting, is_true, parent, text};
use crate::world::HUB;

pub(super) fn broken(shadow: &Shadow, rollouts: &Rollouts, change: &Change) -> Option<String> {
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
            && is_true(current(eviction, "Valid"))
    };
    let asked = id.namespace.is_empty()
        && shadow.on_hub("clusterresourceplacementevictions").any(|(_, eviction)| concerns(eviction));
    if !asked {
        return Some(format!("{} is taken off {cluster}, which nobody asked for", id.name));
    }
    if counts_as_failed(binding) || is_true(current(binding, "DiffReported")) {
        return None;
    }
    let budget = &shadow.get(&Id::on_hub("clusterresourceplacementdisruptionbudgets", "", &id.name))?["spec"];
    let others: Vec<_> = shadow.of_placement(scope.bindings, &id).filter(|(other, _)| **other != change.id).collect();
    let stays = |(other, one): &&(&Id, &Value)| !is_deleting(one) && rollouts.was_ready(other, one, change.at);
    let available = others.iter().filter(stays).count();
    let wanted = usize::try_from(placement["spec"]["policy"]["numberOfClusters"].as_i64().unwrap_or(0)).unwrap_or(0);
    let allowed = match (scaled(&budget["maxUnavailable"], wanted), scaled(&budget["minAvailable"], wanted)) {
        // The one that goes is unavailable from now on.
        (Some(most), _) => others.len() - available < most,
        (None, Some(least)) => available >= least,
        (None, None) => false,
    };
    (!allowed).then(|| format!("{} is taken off {cluster} with {available} others available: {budget}", id.name))
}

/// Evictions ask no budget for a binding of which anything is False, be it only that a step is under way.
fn counts_as_failed(binding: &Value) -> bool {
    let steps = ["Overridden", "WorkSynchronized", "Applied", "Available", "DiffReported"];
    steps.iter().any(|step| current(binding, step).is_some_and(|one| one["status"] == "False"))
}

fn scaled(value: &Value, of: usize) -> Option<usize> {
    if let Some(number) = value.as_u64() {
        return usize::try_from(number).ok();
    }
    let percent: usize = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    Some((percent * of).div_ceil(100))
}
