//! What was so when somebody last looked, and nobody looks again.
//!
//! Decides which words of an object are of the past and may be older or newer ones. What somebody still answers for stays.

use std::collections::BTreeSet;

use fleet_api::well_known::annotations;
use serde_json::Value;

use super::Strategies;

/// What a member applies by unless it is told otherwise.
pub const CLIENT_SIDE_APPLY: &str = "ClientSideApply";

/// A policy that asks for a number of clusters and has got them is not looked at again. What its status says about one that
/// has left since is what was so when the last one was found: that may be before or after its end.
pub(super) fn forget_old_explanations(object: &mut Value, left: &BTreeSet<String>) {
    if !has_got_all(object) {
        return;
    }
    if let Some(decisions) = object.pointer_mut("/status/targetClusters").and_then(Value::as_array_mut) {
        let has_left = |one: &Value| one["clusterName"].as_str().is_some_and(|name| left.contains(name));
        decisions.retain(|one| one["selected"] == true || !has_left(one));
    }
}

/// Whether this is a policy that asks for a number of clusters and has got them.
pub(super) fn has_got_all(object: &Value) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    object["spec"]["policy"]["placementType"] == "PickN"
        && conditions.any(|one| one["type"] == "Scheduled" && one["status"] == "True")
}

/// How far a binding had come when it was taken away from its rollout, nobody looks at again until another rollout reaches it.
/// Comes after `generations`, which says what is old.
pub(super) fn forget_what_was_so_before_it_was_unbound(object: &mut Value) {
    if object["spec"].get("targetCluster").is_none() {
        return;
    }
    let is_bound = object["spec"]["state"] == "Bound";
    let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else { return };
    let mut told = conditions.iter();
    let is_rolled_out = told.any(|one| one["type"] == "RolloutStarted" && one["observedGeneration"] == "current");
    if !is_bound || !is_rolled_out {
        conditions.retain(|condition| condition["observedGeneration"] != "old");
    }
}

/// Who leaves and soon comes back may find its old binding, given up and now picked again, or get a new one. Only the old one
/// says what it was before. Of one that is still given up it stays.
pub(super) fn forget_that_it_was_given_up(object: &mut Value, left: &BTreeSet<String>) {
    let has_left = object["spec"]["targetCluster"].as_str().is_some_and(|name| left.contains(name));
    if has_left && object["spec"]["state"] != "Unscheduled" {
        remove_note(object, annotations::PREVIOUS_BINDING_STATE);
    }
}

/// Ledgers are told by the agent; everything else on a member has a status of the member's own.
pub(super) fn forget_what_controllers_say(object: &mut Value) {
    let is_ledger = object["spec"].get("workNamespace").is_some();
    if let Some(fields) = object.as_object_mut().filter(|_| !is_ledger) {
        fields.remove("status");
    }
}

/// What was applied last is written down by client-side apply alone. On an object that has come over to another strategy it
/// stays as it was, and is not there at all if the object came after the change: a limit may have held it back until then.
/// `told` is how each Work was last to be applied, also those of a member that has left.
pub(super) fn forget_relic_of_client_side_apply(object: &mut Value, told: &Strategies) {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut works = owners.into_iter().flatten().filter(|owner| owner["kind"] == "AppliedWork");
    let strategy_of = |owner: &Value| told.get(owner["name"].as_str()?);
    if !works.any(|owner| strategy_of(owner).is_some_and(|strategy| strategy != CLIENT_SIDE_APPLY)) {
        return;
    }
    remove_note(object, annotations::LAST_APPLIED);
}

fn remove_note(object: &mut Value, note: &str) {
    let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if let Some(notes) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
        notes.remove(note);
        if notes.is_empty() {
            meta.remove("annotations");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Leeway;
    use super::super::tests::{compared, compared_on_member, compared_with};
    use super::*;

    #[test]
    fn why_somebody_was_not_picked_is_luck_once_enough_are_and_it_has_left() {
        let left = Leeway { left: ["west".to_owned()].into(), ..Leeway::default() };
        let snapshot = |scheduled: &str, others: Value, leeway: &Leeway| {
            let mut decisions = vec![json!({"clusterName": "east", "selected": true})];
            decisions.extend(others.as_array().cloned().unwrap_or_default());
            let object = json!({
                "metadata": {"name": "web-0"},
                "spec": {"policy": {"placementType": "PickN", "numberOfClusters": 1}},
                "status": {"conditions": [{"type": "Scheduled", "status": scheduled}], "targetClusters": decisions},
            });
            compared_with(object, leeway)
        };
        let west = || json!([{"clusterName": "west", "selected": false, "reason": "has left"}]);
        assert_eq!(snapshot("True", json!([]), &left), snapshot("True", west(), &left));
        assert_ne!(snapshot("False", json!([]), &left), snapshot("False", west(), &left));
        let nobody = Leeway::default();
        assert_ne!(snapshot("True", json!([]), &nobody), snapshot("True", west(), &nobody));
    }

    #[test]
    fn that_a_binding_was_given_up_is_luck_once_its_cluster_has_left_and_is_picked_again() {
        let left = Leeway { left: ["west".to_owned()].into(), ..Leeway::default() };
        let binding = |cluster: &str, state: &str, notes: Value| {
            let object =
                json!({"metadata": {"annotations": notes}, "spec": {"targetCluster": cluster, "state": state}});
            compared_with(object, &left)
        };
        let given_up = || json!({annotations::PREVIOUS_BINDING_STATE: "Bound", "mine": "1"});
        let new = || json!({"mine": "1"});
        assert_eq!(binding("west", "Bound", given_up()), binding("west", "Bound", new()));
        assert_ne!(binding("west", "Unscheduled", given_up()), binding("west", "Unscheduled", new()));
        assert_ne!(binding("east", "Bound", given_up()), binding("east", "Bound", new()));
    }

    #[test]
    fn how_far_a_binding_had_come_is_luck_once_no_rollout_moves_it_any_more() {
        let binding = |bound: &str, started: i64, observed: i64, reason: &str| {
            let conditions = json!([
                {"type": "Applied", "reason": reason, "observedGeneration": observed},
                {"type": "RolloutStarted", "observedGeneration": started},
            ]);
            let spec = json!({"targetCluster": "east", "state": bound});
            let metadata = json!({"name": "web-east-0a1b2c3d", "generation": 2});
            compared(json!({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}))
        };
        let is_luck = |bound: &str, started: i64, observed: i64| {
            let with = |reason: &str| binding(bound, started, observed, reason);
            with("ApplyInProgress") == with("AllWorkHaveBeenApplied")
        };
        assert!(is_luck("Scheduled", 2, 1), "not bound any more");
        assert!(is_luck("Bound", 1, 1), "picked again, and no rollout has reached it");
        assert!(!is_luck("Bound", 2, 1), "a rollout has reached it");
        assert!(!is_luck("Scheduled", 2, 2), "said of what it is now");
    }

    #[test]
    fn what_controllers_say_on_a_member_is_luck_and_what_a_ledger_says_is_not() {
        let with = |spec: Value, ready: u32| {
            let object = json!({"metadata": {"name": "web"}, "spec": spec, "status": {"ready": ready}});
            compared_on_member(object, &Strategies::new(), &Leeway::default())
        };
        assert_eq!(with(json!({}), 1), with(json!({}), 2));
        let ledger = || json!({"workNamespace": "fleet-member-m1"});
        assert_ne!(with(ledger(), 1), with(ledger(), 2));
    }

    #[test]
    fn what_was_last_applied_is_luck_once_another_strategy_has_taken_over() {
        let object = |notes: Value, told: &Strategies| {
            let owners = json!([{"kind": "AppliedWork", "name": "w"}]);
            let metadata = json!({"name": "m", "annotations": notes, "ownerReferences": owners});
            compared_on_member(json!({"metadata": metadata}), told, &Leeway::default())
        };
        let told = |strategy: &str| Strategies::from([("w".to_owned(), strategy.to_owned())]);
        let is_luck = |told: &Strategies| {
            let relic = json!({annotations::LAST_APPLIED: "{}"});
            object(relic, told) == object(json!({}), told)
        };
        assert!(is_luck(&told("ServerSideApply")) && is_luck(&told("ReportDiff")));
        assert!(!is_luck(&told("ClientSideApply")));
        assert!(!is_luck(&Strategies::new()), "nobody ever told it to be applied otherwise");
        let by_server = told("ServerSideApply");
        assert_ne!(object(json!({"note": "5"}), &by_server), object(json!({}), &by_server));
    }
}
