//! What of an object is luck: times, uids, revisions, random suffixes of names, and who of several comes first.
//!
//! Decides what two worlds that were asked for the same may differ in, and takes it out. Never reads a server.

use std::collections::BTreeMap;

use fleet_api::names::BindingName;
use fleet_api::well_known::{annotations, labels};
use serde_json::Value;

/// How often a workload was given another template.
pub(super) const ROLLOUT_COUNT: &str = "deployment.kubernetes.io/revision";

/// What a member applies by unless it is told otherwise.
pub(super) const CLIENT_SIDE_APPLY: &str = "ClientSideApply";

/// How Works are to be applied, by their names.
pub(super) type Strategies = BTreeMap<String, String>;

/// The same for an object on a member: what the member's own controllers say of it is luck too.
pub(super) fn normalise_on_member(object: &mut Value, told: &Strategies) {
    // Ledgers are told by the agent; everything else has a status of the member's own.
    let is_ledger = object["spec"].get("workNamespace").is_some();
    if let Some(fields) = object.as_object_mut().filter(|_| !is_ledger) {
        fields.remove("status");
    }
    forget_relic_of_client_side_apply(object, told);
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("generation");
        if let Some(notes) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            notes.remove(ROLLOUT_COUNT);
        }
    }
    normalise(object);
}

/// What was applied last is written down by client-side apply alone. On an object that has come over to another strategy it
/// stays as it was, and is not there at all if the object came after the change: a limit may have held it back until then.
/// Where client-side apply is what the hub asks for, it must be there; of a member that has left, nobody asks for anything.
fn forget_relic_of_client_side_apply(object: &mut Value, told: &Strategies) {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut works = owners.into_iter().flatten().filter(|owner| owner["kind"] == "AppliedWork");
    let strategy_of = |owner: &Value| told.get(owner["name"].as_str()?);
    if works.any(|owner| strategy_of(owner).is_some_and(|strategy| strategy == CLIENT_SIDE_APPLY)) {
        return;
    }
    let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if let Some(notes) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
        notes.remove(annotations::LAST_APPLIED);
        if notes.is_empty() {
            meta.remove("annotations");
        }
    }
}

/// Takes everything out of an object that is luck.
pub(super) fn normalise(object: &mut Value) {
    forget_old_explanations(object);
    forget_when_it_ended(object);
    forget_who_came_first(object);
    sort_clusters(object);
    forget_generations_on_members(object);
    forget_generation(object);
    forget_what_was_so_before_it_was_unbound(object);
    let is_binding = object["spec"].get("targetCluster").is_some();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink"] {
            meta.remove(field);
        }
        if let Some(found) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            found.remove(annotations::NEXT_SNAPSHOT_DETECTED_AT);
            if let Some(Value::String(applied)) = found.get_mut(annotations::LAST_APPLIED) {
                // It names its owner, identity included.
                let mut manifest: Value = serde_json::from_str(applied).unwrap_or_default();
                forget_luck(&mut manifest);
                *applied = manifest.to_string();
            }
            if let Some(Value::String(note)) = found.get_mut(annotations::MOVED_BY_RUN) {
                // Its last part is a generation.
                *note = note.rsplit_once('/').map_or("", |(front, _)| front).to_owned();
            }
        }
        if let Some(Value::String(binding)) = meta.get_mut("labels").and_then(|all| all.get_mut(labels::PARENT_BINDING))
        {
            *binding = without_suffix(binding);
        }
        if is_binding && let Some(name) = meta["name"].as_str() {
            meta.insert("name".to_owned(), without_suffix(name).into());
        }
    }
    forget_luck(object);
}

/// A policy that asks for a number of clusters and has got them is not looked at again. What its status says about others
/// is what was so when the last one was found: with one of them on its way out, that may be before or after its end.
fn forget_old_explanations(object: &mut Value) {
    let has_got_all = |object: &Value| {
        let scheduled =
            object["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "Scheduled");
        object["spec"]["policy"]["placementType"] == "PickN" && scheduled.is_some_and(|one| one["status"] == "True")
    };
    if !has_got_all(object) {
        return;
    }
    if let Some(decisions) = object.pointer_mut("/status/targetClusters").and_then(Value::as_array_mut) {
        decisions.retain(|decision| decision["selected"] == true);
    }
}

/// A run that ended while it was stopped and resumed does not look at that any more. An eviction that was cut short is told as
/// what was found when it was taken up again.
fn forget_when_it_ended(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let is_eviction = kind.ends_with("Eviction");
    if kind.ends_with("StagedUpdateRun")
        && let Some(status) = object.get_mut("status")
    {
        return forget_observed_generations(status);
    }
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions {
        if is_eviction && condition["type"] == "Executed" && condition["status"] == "True" {
            condition["message"] = "some".into();
        }
    }
}

/// A stage that was stopped and resumed in a hurry says that it stops until another cluster starts, and one whose hub was away
/// for that time never said so.
pub(super) fn forget_stops_that_may_not_have_been_seen(object: &mut Value) {
    let stages = object.pointer_mut("/status/stagesStatus").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in stages.filter_map(|stage| stage.get_mut("conditions")?.as_array_mut()).flatten() {
        if condition["reason"] == "StageUpdatingStopping" {
            condition["reason"] = "StageUpdatingStarted".into();
            condition["status"] = "True".into();
            condition["message"] = "Clusters in the stage started updating".into();
        }
    }
}

fn forget_observed_generations(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("observedGeneration");
            map.values_mut().for_each(forget_observed_generations);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_observed_generations),
        _ => {}
    }
}

/// Lists that tell of objects on members. How many writes it took to get those where they are, is luck as well.
const OF_MEMBERS: [&str; 2] = ["manifestConditions", "failedPlacements"];

fn forget_generations_on_members(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let forget = if OF_MEMBERS.contains(&key.as_str()) {
                    forget_observed_generations
                } else {
                    forget_generations_on_members
                };
                forget(inner);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forget_generations_on_members),
        _ => {}
    }
}

/// How many writes it took to get a binding or a Work where it is, is luck. What is said of it must be said of its last one.
fn forget_generation(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default();
    if !(kind == "Work" || kind.ends_with("ResourceBinding") || object["spec"].get("targetCluster").is_some()) {
        return;
    }
    let generation = object["metadata"]["generation"].clone();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("generation");
    }
    judge_generations(object, &generation);
}

/// How far a binding had come when it was taken away from its rollout, nobody looks at again until another rollout reaches it.
fn forget_what_was_so_before_it_was_unbound(object: &mut Value) {
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

fn judge_generations(value: &mut Value, generation: &Value) {
    match value {
        Value::Object(map) => {
            if let Some(observed) = map.get_mut("observedGeneration") {
                *observed = if observed == generation { "current".into() } else { "old".into() };
            }
            map.values_mut().for_each(|inner| judge_generations(inner, generation));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| judge_generations(inner, generation)),
        _ => {}
    }
}

/// Of several clusters or checks that would do, a message tells of the first: of clusters in the order in which they were found, of
/// a run's checks in the order in which they learn that a member is on its way out.
fn forget_who_came_first(object: &mut Value) {
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions {
        let Some(Value::String(message)) = condition.get_mut("message") else { continue };
        let told = message.split_once(A_CLUSTER_IS).and_then(|(front, rest)| Some((front, rest.split_once(' ')?.1)));
        if let Some((front, state)) = told.filter(|(_, state)| state.starts_with("is in RolloutStarted")) {
            *message = format!("{front}{A_CLUSTER_IS}some {state}");
        } else if message.starts_with(CANNOT_CONTINUE) {
            CANNOT_CONTINUE.clone_into(message);
        }
    }
}

/// Behind this comes the name of a cluster that waits for others than the hub's rolling update.
const A_CLUSTER_IS: &str = "controlled by an external controller and cluster ";
/// Behind this comes why a run failed on its way.
const CANNOT_CONTINUE: &str = "cannot continue the updateRun";

/// Clusters that are equally good stand in the order in which they were found.
fn sort_clusters(object: &mut Value) {
    for list in ["targetClusters", "placementStatuses"] {
        if let Some(clusters) = object.get_mut("status").and_then(|status| status.get_mut(list)?.as_array_mut()) {
            clusters.sort_by_cached_key(|one| one["clusterName"].as_str().unwrap_or_default().to_owned());
        }
    }
}

fn without_suffix(binding: &str) -> String {
    match (BindingName::suffix(binding), binding.rsplit_once('-')) {
        (Some(_), Some((front, _))) => format!("{front}-*"),
        _ => binding.to_owned(),
    }
}

/// Fields that hold instants or identities, wherever they are.
const LUCK: [&str; 13] = [
    "lastTransitionTime",
    "startTime",
    "endTime",
    "firstDriftedObservedTime",
    "firstDiffedObservedTime",
    "observedInMemberClusterGeneration",
    "targetClusterObservedGeneration",
    "observationTime",
    "lastReceivedHeartbeat",
    "lastUpdatedTime",
    "uid",
    "resourceVersion",
    "creationTimestamp",
];

fn forget_luck(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !LUCK.contains(&key.as_str()));
            // They are told apart by their types; which of their writers came first is luck.
            if let Some(Value::Array(conditions)) = map.get_mut("conditions") {
                conditions.sort_by_cached_key(|one| one["type"].as_str().unwrap_or_default().to_owned());
            }
            if let Some(when) = map.get_mut("deletionTimestamp") {
                *when = "some time".into();
            }
            map.values_mut().for_each(forget_luck);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_luck),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::{HubState, difference};
    use super::*;

    /// Of the member `m1`, for the Work `w`.
    fn hub_that_asks_for(strategy: &str) -> HubState {
        let metadata = json!({"name": "w", "namespace": "fleet-member-m1"});
        let work = json!({"metadata": metadata, "spec": {"applyStrategy": {"type": strategy}}});
        HubState([("Work".to_owned(), vec![work])].into())
    }

    fn state(objects: Vec<Value>) -> HubState {
        HubState(BTreeMap::from([("ClusterResourceBinding".to_owned(), objects)]))
    }

    #[test]
    fn luck_makes_no_difference_and_everything_else_does() {
        let binding = |suffix: &str, second: &str, state: &str| {
            json!({
                "metadata": {"name": format!("web-east-{suffix}"), "uid": suffix, "resourceVersion": second, "generation": 2},
                "spec": {"targetCluster": "east", "state": state},
                "status": {"conditions": [{"type": "Applied", "lastTransitionTime": second}]},
            })
        };
        let one = state(vec![binding("0a1b2c3d", "1", "Bound")]).without_luck();
        let same = state(vec![binding("99999999", "2", "Bound")]).without_luck();
        assert_eq!(difference(&one, &same), None);
        let other = state(vec![binding("0a1b2c3d", "1", "Scheduled")]).without_luck();
        assert!(difference(&one, &other).is_some_and(|text| text.contains("Scheduled")));
    }

    #[test]
    fn why_others_were_not_picked_is_luck_once_enough_are() {
        let snapshot = |scheduled: &str, others: Value| {
            let mut decisions = vec![json!({"clusterName": "east", "selected": true})];
            decisions.extend(others.as_array().cloned().unwrap_or_default());
            let object = json!({
                "metadata": {"name": "web-0"},
                "spec": {"policy": {"placementType": "PickN", "numberOfClusters": 1}},
                "status": {"conditions": [{"type": "Scheduled", "status": scheduled}], "targetClusters": decisions},
            });
            state(vec![object]).without_luck()
        };
        let left = || json!([{"clusterName": "west", "selected": false, "reason": "has left"}]);
        assert_eq!(snapshot("True", json!([])), snapshot("True", left()));
        assert_ne!(snapshot("False", json!([])), snapshot("False", left()));
    }

    #[test]
    fn how_often_a_work_was_written_is_luck_and_what_is_said_of_an_older_one_is_not() {
        let work = |generation: i64, observed: i64, suffix: &str| {
            let object = json!({
                "kind": "Work",
                "metadata": {
                    "name": "web-work", "generation": generation,
                    "labels": {labels::PARENT_BINDING: format!("web-east-{suffix}")},
                },
                "status": {"conditions": [{"type": "Applied", "observedGeneration": observed}]},
            });
            state(vec![object]).without_luck()
        };
        assert_eq!(work(1, 1, "0a1b2c3d"), work(2, 2, "99999999"));
        assert_ne!(work(2, 2, "0a1b2c3d"), work(2, 1, "0a1b2c3d"));
    }

    #[test]
    fn how_often_an_object_on_the_member_was_written_is_luck() {
        let work = |generation: i64, status: &str| {
            let condition = json!({"type": "Applied", "status": status, "observedGeneration": 1});
            let manifests = json!([{"identifier": {"ordinal": 0}, "conditions": [condition]}]);
            let metadata = json!({"name": "web-work", "generation": generation});
            let object = json!({"kind": "Work", "metadata": metadata, "status": {"manifestConditions": manifests}});
            state(vec![object]).without_luck()
        };
        assert_eq!(work(1, "True"), work(2, "True"));
        assert_ne!(work(1, "True"), work(1, "False"));
        let placement = |observed: i64, status: &str| {
            let condition = json!({"type": "Available", "status": status, "observedGeneration": observed});
            let clusters =
                json!([{"clusterName": "east", "failedPlacements": [{"name": "web", "condition": condition}]}]);
            let object = json!({"metadata": {"name": "web"}, "status": {"placementStatuses": clusters}});
            state(vec![object]).without_luck()
        };
        assert_eq!(placement(6, "False"), placement(7, "False"));
        assert_ne!(placement(6, "False"), placement(6, "Unknown"));
    }

    #[test]
    fn the_order_of_clusters_is_luck() {
        let placement = |names: [&str; 2]| {
            let entries = names.map(|name| json!({"clusterName": name}));
            state(vec![json!({"metadata": {"name": "web"}, "status": {"placementStatuses": entries}})]).without_luck()
        };
        assert_eq!(placement(["east", "west"]), placement(["west", "east"]));
        assert_ne!(placement(["east", "west"]), placement(["east", "north"]));
    }

    #[test]
    fn how_an_eviction_was_allowed_is_luck_and_that_it_was_is_not() {
        let eviction = |status: &str, message: &str| {
            let condition = json!({"type": "Executed", "status": status, "message": message});
            let kind = "ClusterResourcePlacementEviction";
            state(vec![json!({"kind": kind, "metadata": {}, "status": {"conditions": [condition]}})]).without_luck()
        };
        assert_eq!(eviction("True", "no budget"), eviction("True", "being removed"));
        assert_ne!(eviction("False", "no budget"), eviction("False", "being removed"));
        assert_ne!(eviction("True", "no budget"), eviction("False", "no budget"));
    }

    #[test]
    fn what_was_last_applied_counts_without_the_identity_of_its_owner() {
        let object = |uid: &str, value: &str| {
            let applied = json!({"metadata": {"ownerReferences": [{"name": "w", "uid": uid}]}, "data": value});
            let notes = json!({annotations::LAST_APPLIED: applied.to_string()});
            let owners = json!([{"kind": "AppliedWork", "name": "w"}]);
            let object = json!({"metadata": {"name": "m", "annotations": notes, "ownerReferences": owners}});
            state(vec![object]).of_member_without_luck("m1", &hub_that_asks_for("ClientSideApply"))
        };
        assert_eq!(object("1", "a"), object("2", "a"));
        assert_ne!(object("1", "a"), object("1", "b"));
    }

    #[test]
    fn what_was_last_applied_is_luck_once_another_strategy_has_taken_over() {
        let object = |notes: Value, hub: &HubState| {
            let owners = json!([{"kind": "AppliedWork", "name": "w"}]);
            let metadata = json!({"name": "m", "annotations": notes, "ownerReferences": owners});
            state(vec![json!({"metadata": metadata})]).of_member_without_luck("m1", hub)
        };
        let is_luck = |hub: &HubState| {
            let relic = json!({annotations::LAST_APPLIED: "{}"});
            object(relic, hub) == object(json!({}), hub)
        };
        assert!(is_luck(&hub_that_asks_for("ServerSideApply")) && is_luck(&hub_that_asks_for("ReportDiff")));
        assert!(!is_luck(&hub_that_asks_for("ClientSideApply")));
        assert!(is_luck(&HubState::default()), "nobody asks for it any more");
        let by_server = hub_that_asks_for("ServerSideApply");
        assert_ne!(object(json!({"note": "5"}), &by_server), object(json!({}), &by_server));
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
            state(vec![json!({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}})])
                .without_luck()
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
    fn a_stop_that_was_taken_back_in_a_hurry_is_luck() {
        let run = |reason: &str, status: &str, message: &str| {
            let condition = json!({"type": "Progressing", "reason": reason, "status": status, "message": message});
            let stages = json!([{"stageName": "prod", "conditions": [condition]}]);
            state(vec![json!({"metadata": {"name": "run"}, "status": {"stagesStatus": stages}})])
        };
        let stopping = || run("StageUpdatingStopping", "Unknown", "Waiting for all");
        let started = || run("StageUpdatingStarted", "True", "Clusters in the stage started updating");
        let waiting = || run("StageUpdatingWaiting", "False", "All clusters");
        assert_ne!(stopping().without_luck(), started().without_luck());
        let hurried = |state: HubState| state.without_counts().without_luck();
        assert_eq!(hurried(stopping()), hurried(started()));
        assert_ne!(hurried(stopping()), hurried(waiting()));
    }

    #[test]
    fn names_that_only_look_like_bindings_stay() {
        let other = json!({"metadata": {"name": "a-b-0a1b2c3d"}, "spec": {}});
        assert!(state(vec![other]).without_luck().contains("a-b-0a1b2c3d"));
    }

    #[test]
    fn the_order_of_conditions_is_luck() {
        let with = |types: [&str; 2]| {
            let conditions = types.map(|type_| json!({"type": type_}));
            state(vec![json!({"metadata": {"name": "web"}, "status": {"conditions": conditions}})]).without_luck()
        };
        assert_eq!(with(["Applied", "Overridden"]), with(["Overridden", "Applied"]));
        assert_ne!(with(["Applied", "Overridden"]), with(["Available", "Overridden"]));
    }

    #[test]
    fn which_cluster_and_which_check_is_told_of_is_luck_and_that_something_is_told_is_not() {
        let said = |message: &str| {
            let status = json!({"conditions": [{"type": "RolloutStarted", "message": message}]});
            state(vec![json!({"metadata": {"name": "web"}, "status": status})]).without_luck()
        };
        let waits = |cluster: &str| {
            said(&format!(
                "Rollout is controlled by an external controller and cluster {cluster} is in RolloutStarted Unknown state"
            ))
        };
        assert_eq!(waits("east"), waits("west"));
        let aborted = |why: &str| said(&format!("cannot continue the updateRun: {why}"));
        assert_eq!(aborted("the number of clusters has changed"), aborted("some clusters are not placed"));
        assert_ne!(waits("east"), said("Rollout is controlled by an external controller and all is well"));
        assert_ne!(aborted("the number of clusters has changed"), said("all is well"));
    }
}
