//! No binding is duplicated or orphaned, and no snapshot is lost.

use serde_json::Value;

use super::shadow_model::{Change, Id, SCOPES, Scope, ShadowModel, is_deleting, parent, text};
use crate::simulation::HUB;

/// The default of `revisionHistoryLimit`.
const HISTORY: i64 = 10;

pub(super) fn violations(shadow: &ShadowModel, change: &Change) -> Vec<String> {
    if change.actor != HUB || !change.id.is_on_hub() {
        return Vec::new();
    }
    let plural = change.id.plural.as_str();
    let judge = |scope: &Scope| {
        if plural == scope.bindings {
            doubled(shadow, scope, change)
        } else if plural == scope.snapshots || plural == scope.policies {
            lost(shadow, scope, change)
        } else {
            None
        }
    };
    SCOPES.iter().filter_map(judge).collect()
}

fn doubled(shadow: &ShadowModel, scope: &Scope, change: &Change) -> Option<String> {
    let (None, Some(binding)) = (&change.before, &change.after) else { return None };
    let placement = Id::on_hub(scope.placements, &change.id.namespace, parent(binding));
    if shadow.get(&placement).is_none() {
        return Some(format!("a binding is created for {}, which does not exist", placement.name));
    }
    let cluster = text(&binding["spec"]["targetCluster"]);
    let is_rival = |id: &Id, other: &Value| {
        *id != change.id && !is_deleting(other) && other["spec"]["targetCluster"] == binding["spec"]["targetCluster"]
    };
    let rival = shadow.of_placement(scope.bindings, &placement).find(|(id, other)| is_rival(id, other));
    rival.map(|(id, _)| format!("{} has a second binding for {cluster} beside {}", placement.name, id.name))
}

fn lost(shadow: &ShadowModel, scope: &Scope, change: &Change) -> Option<String> {
    let snapshot = change.before.as_ref().filter(|_| change.begins_deletion())?;
    let id = Id::on_hub(scope.placements, &change.id.namespace, parent(snapshot));
    let placement = shadow.get(&id).filter(|placement| !is_deleting(placement))?;
    let kept = placement["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(HISTORY);
    let left = shadow.of_placement(&change.id.plural, &id).filter(|(_, one)| !is_deleting(one)).count();
    (i64::try_from(left).unwrap_or(i64::MAX) < kept)
        .then(|| format!("{} has only {left} of {kept} snapshots left", id.name))
}
