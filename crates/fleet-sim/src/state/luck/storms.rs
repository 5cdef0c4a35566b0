//! What only an agent that dies may say.
//!
//! Decides which words of a world with faults count as those of the world without: there nobody dies, so what is said there is
//! the whole truth. Never excuses the world without faults.

use fleet_api::conditions::ConditionState as _;
use fleet_api::conditions::eviction::EvictionExecuted;
use serde_json::Value;

use super::relics::has_got_all;
use crate::state::ClusterState;

pub(in crate::state) fn excuse(storm: &mut ClusterState, calm: &ClusterState) {
    excuse_evictions(storm, calm);
    for kind in ["ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot"] {
        excuse_explanations(storm.0.get_mut(kind).map_or(&mut [], Vec::as_mut_slice), calm.of_kind(kind));
    }
}

/// A policy that asks for a number of clusters and has got them is not looked at again. If the agent dies between the last
/// binding and its report, the report names those that were picked, and not why others were not.
fn excuse_explanations(storm: &mut [Value], calm: &[Value]) {
    let is_same = |one: &Value, other: &Value| {
        ["namespace", "name"].iter().all(|field| one["metadata"][field] == other["metadata"][field])
    };
    for snapshot in storm {
        let Some(twin) = calm.iter().find(|one| is_same(one, snapshot)) else { continue };
        if !has_got_all(snapshot) || !has_got_all(twin) {
            continue;
        }
        let Some(decisions) = snapshot.pointer_mut("/status/targetClusters").and_then(Value::as_array_mut) else {
            continue;
        };
        if decisions.iter().any(|one| one["selected"] != true) {
            continue;
        }
        let others = twin["status"]["targetClusters"].as_array().into_iter().flatten();
        decisions.extend(others.filter(|one| one["selected"] != true).cloned());
    }
}

/// An eviction that was cut short between the deletion and its report is told as what was found when it was taken up again:
/// that the placement is on its way out. Why it was allowed to begin with is known only in calm weather.
fn excuse_evictions(storm: &mut ClusterState, calm: &ClusterState) {
    let removed = EvictionExecuted::AlreadyBeingRemoved.message();
    let Some(evictions) = storm.0.get_mut("ClusterResourcePlacementEviction") else { return };
    for eviction in evictions {
        let name = eviction["metadata"]["name"].clone();
        let twin = calm.of_kind("ClusterResourcePlacementEviction").iter().find(|one| one["metadata"]["name"] == name);
        let Some(was) = twin.and_then(executed) else { continue };
        let conditions = eviction.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
        for condition in conditions.filter(|one| is_executed(one) && one["message"] == removed.as_str()) {
            condition["message"] = was["message"].clone();
        }
    }
}

fn executed(eviction: &Value) -> Option<&Value> {
    eviction["status"]["conditions"].as_array()?.iter().find(|one| is_executed(one))
}

fn is_executed(condition: &Value) -> bool {
    condition["type"] == EvictionExecuted::type_word(()) && condition["status"] == "True"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FAILED: &str = "Eviction is allowed, placement has failed";

    fn told(status: &str, message: &str) -> ClusterState {
        let condition = json!({"type": "Executed", "status": status, "message": message});
        let eviction = json!({"metadata": {"name": "ev1"}, "status": {"conditions": [condition]}});
        ClusterState([("ClusterResourcePlacementEviction".to_owned(), vec![eviction])].into())
    }

    #[test]
    fn who_has_got_all_clusters_need_not_know_why_others_were_not_picked() {
        let snapshot = |scheduled: &str, others: Value| {
            let mut decisions = vec![json!({"clusterName": "east", "selected": true})];
            decisions.extend(others.as_array().cloned().unwrap_or_default());
            let object = json!({
                "metadata": {"name": "web-0"}, "spec": {"policy": {"placementType": "PickN"}},
                "status": {"conditions": [{"type": "Scheduled", "status": scheduled}], "targetClusters": decisions},
            });
            ClusterState([("SchedulingPolicySnapshot".to_owned(), vec![object])].into())
        };
        let is_excused = |mut storm: ClusterState, calm: &ClusterState| {
            excuse(&mut storm, calm);
            storm == *calm
        };
        let west = |reason: &str| json!([{"clusterName": "west", "selected": false, "reason": reason}]);
        assert!(is_excused(snapshot("True", json!([])), &snapshot("True", west("full"))));
        assert!(!is_excused(snapshot("True", west("full")), &snapshot("True", json!([]))), "calm weather tells all");
        assert!(!is_excused(snapshot("True", west("full")), &snapshot("True", west("far"))));
        assert!(!is_excused(snapshot("False", json!([])), &snapshot("False", west("full"))));
    }

    #[test]
    fn an_eviction_that_was_cut_short_does_not_know_why_it_was_allowed() {
        let removed = EvictionExecuted::AlreadyBeingRemoved.message();
        let is_excused = |storm: &ClusterState, calm: &ClusterState| {
            let mut excused = storm.clone();
            excuse(&mut excused, calm);
            excused == *calm
        };
        assert!(is_excused(&told("True", &removed), &told("True", FAILED)));
        assert!(!is_excused(&told("True", FAILED), &told("True", &removed)), "nobody dies in calm weather");
        assert!(!is_excused(&told("True", FAILED), &told("True", "Eviction is allowed, no budget")));
        assert!(!is_excused(&told("True", &removed), &told("False", FAILED)));
        assert!(!is_excused(&told("False", &removed), &told("True", FAILED)));
    }
}
