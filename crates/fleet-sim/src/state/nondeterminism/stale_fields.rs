//! Fields that no controller refreshes any more, so that they may show an older or a newer state.

use std::collections::BTreeSet;

use fleet_api::conditions::ConditionState;
use fleet_api::conditions::member::MemberPropertiesUsable;
use fleet_api::conditions::update_run::StageProgressing;
use fleet_api::well_known::annotations;
use serde_json::Value;

use super::Strategies;

/// The default apply strategy.
pub const CLIENT_SIDE_APPLY: &str = "ClientSideApply";

/// The conditions of a binding are not refreshed after it was unbound, until another rollout reaches it. Must run after
/// `generations`, which marks outdated conditions.
pub(super) fn remove_outdated_conditions_of_bindings(object: &mut Value) {
    if object["spec"].get("targetCluster").is_none() {
        return;
    }
    let is_bound = object["spec"]["state"] == "Bound";
    let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else { return };
    let mut strategies = conditions.iter();
    let is_rolled_out = strategies.any(|one| one["type"] == "RolloutStarted" && one["observedGeneration"] == "current");
    if !is_bound || !is_rolled_out {
        conditions.retain(|condition| condition["observedGeneration"] != "old");
    }
}

/// A member that leaves and rejoins may get its old binding, which was unscheduled and is now scheduled again, or a new
/// one. Only the old one has the annotation with the previous state. On an unscheduled binding the annotation is
/// compared.
pub(super) fn remove_previous_binding_state(object: &mut Value, left: &BTreeSet<String>) {
    let has_left = object["spec"]["targetCluster"].as_str().is_some_and(|name| left.contains(name));
    if has_left && object["spec"]["state"] != "Unscheduled" {
        remove_annotation(object, annotations::PREVIOUS_BINDING_STATE);
    }
}

/// A stage whose run is resumed while it stops keeps `Stopping` until another cluster starts or the stage ends. If a
/// cluster never finishes, the stage shows for good whether the hub saw the stop while that cluster was updating. Then
/// `Stopping` counts as `Started`: in a run that was interrupted and is in state Run, in a stage with such a cluster.
pub(super) fn remove_stop_of_resumed_stages(object: &mut Value, interrupted_runs: &BTreeSet<String>) {
    let is_run = object["kind"].as_str().is_some_and(|kind| kind.ends_with("StagedUpdateRun"));
    let is_resumed = object["spec"]["state"] == "Run";
    let is_interrupted = object["metadata"]["name"].as_str().is_some_and(|name| interrupted_runs.contains(name));
    if !is_run || !is_resumed || !is_interrupted {
        return;
    }
    for stage in object.pointer_mut("/status/stagesStatus").and_then(Value::as_array_mut).into_iter().flatten() {
        if !stage["clusters"].as_array().into_iter().flatten().any(is_updating) {
            continue;
        }
        for condition in stage["conditions"].as_array_mut().into_iter().flatten() {
            let (stopping, started) = (texts(&StageProgressing::Stopping), texts(&StageProgressing::Started));
            if stopping.iter().all(|(field, text)| condition[*field] == *text) {
                for (field, text) in started {
                    condition[field] = text.into();
                }
            }
        }
    }
}

/// Whether a cluster of a run has started and has neither succeeded nor failed.
fn is_updating(cluster: &Value) -> bool {
    let conditions = || cluster["conditions"].as_array().into_iter().flatten();
    conditions().any(|one| one["type"] == "Started" && one["status"] == "True")
        && !conditions().any(|one| one["type"] == "Succeeded")
}

/// The fields of a condition that depend on its state.
fn texts(state: &impl ConditionState<Scope = ()>) -> [(&'static str, String); 4] {
    let finding = state.finding(0);
    [
        ("type", finding.type_word().to_owned()),
        ("status", finding.status().to_string()),
        ("reason", finding.reason_word().to_owned()),
        ("message", state.message()),
    ]
}

/// Type and reason of the conditions that intruders write into statuses. They also use types that agents write.
pub const FORGED_CONDITION: &str = "sim.kubefleet.dev/Forged";
pub const FORGED_REASON: &str = "Forged";
/// Types in `status.agentStatus[].conditions`. No controller writes them to `status.conditions` of an
/// InternalMemberCluster.
const AGENT_CONDITIONS: [&str; 2] = ["Joined", "Healthy"];

/// A forged condition stays in a list if no controller writes its type there: agents keep foreign conditions, and the
/// hub copies them to the MemberCluster, where it writes `Joined` itself. All other forged values must be gone.
pub(super) fn remove_forged_conditions(object: &mut Value) {
    let unwritten: &[&str] = match object["kind"].as_str() {
        Some("InternalMemberCluster") => &AGENT_CONDITIONS,
        Some("MemberCluster") => &["Healthy"],
        Some("Work") => &[],
        _ => return,
    };
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else { return };
    remove_forged(status, unwritten);
    for agent in status.get_mut("agentStatus").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(agent) = agent.as_object_mut() {
            remove_forged(agent, &[]);
        }
    }
}

/// After a member has reported a property that is not a quantity, the hub sets the condition to True when all are
/// usable again. Otherwise the condition is absent, which means the same. The status False is compared.
pub(super) fn remove_usable_properties_condition(object: &mut Value) {
    if object["kind"] != "MemberCluster" {
        return;
    }
    if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.retain(|one| one["type"] != MemberPropertiesUsable::type_word(()) || one["status"] != "True");
    }
}

fn remove_forged(map: &mut serde_json::Map<String, Value>, unwritten: &[&str]) {
    let Some(Value::Array(conditions)) = map.get_mut("conditions") else { return };
    conditions.retain(|one| {
        let is_unwritten = one["type"] == FORGED_CONDITION || unwritten.iter().any(|type_| one["type"] == *type_);
        one["reason"] != FORGED_REASON || !is_unwritten
    });
    if conditions.is_empty() {
        map.remove("conditions");
    }
}

/// The member's own controllers write the statuses of all kinds but AppliedWork, which the agent writes.
pub(super) fn remove_status_of_controllers(object: &mut Value) {
    let is_applied_work = object["spec"].get("workNamespace").is_some();
    if let Some(fields) = object.as_object_mut().filter(|_| !is_applied_work) {
        fields.remove("status");
    }
}

/// A restarted agent does not know its recent deletions and records the next one on the AppliedWork. The record expires
/// after a minute and is never removed.
pub(super) fn remove_recorded_deletions(object: &mut Value) {
    if object["spec"].get("workNamespace").is_some() {
        remove_annotation(object, annotations::RECENT_DELETIONS);
    }
}

/// Only client-side apply writes the last-applied annotation. After a change of the strategy the annotation stays,
/// unless the object was created after the change. `strategies` has the last strategy of each Work, including members
/// that left.
pub(super) fn remove_outdated_last_applied(object: &mut Value, strategies: &Strategies) {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut works = owners.into_iter().flatten().filter(|owner| owner["kind"] == "AppliedWork");
    let strategy_of = |owner: &Value| strategies.get(owner["name"].as_str()?);
    if !works.any(|owner| strategy_of(owner).is_some_and(|strategy| strategy != CLIENT_SIDE_APPLY)) {
        return;
    }
    remove_annotation(object, annotations::LAST_APPLIED);
}

fn remove_annotation(object: &mut Value, note: &str) {
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

    use super::super::Tolerance;
    use super::super::tests::{compared, compared_on_member, compared_with};
    use super::*;

    #[test]
    fn the_previous_state_of_a_binding_is_ignored_if_its_member_left_and_is_selected_again() {
        let left = Tolerance { left_members: ["west".to_owned()].into(), ..Tolerance::default() };
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
    fn outdated_conditions_of_a_binding_are_ignored_while_no_rollout_moves_it() {
        let binding = |bound: &str, started: i64, observed: i64, reason: &str| {
            let conditions = json!([
                {"type": "Applied", "reason": reason, "observedGeneration": observed},
                {"type": "RolloutStarted", "observedGeneration": started},
            ]);
            let spec = json!({"targetCluster": "east", "state": bound});
            let metadata = json!({"name": "web-east-0a1b2c3d", "generation": 2});
            compared(json!({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}))
        };
        let is_ignored = |bound: &str, started: i64, observed: i64| {
            let with = |reason: &str| binding(bound, started, observed, reason);
            with("ApplyInProgress") == with("AllWorkHaveBeenApplied")
        };
        assert!(is_ignored("Scheduled", 2, 1), "no longer bound");
        assert!(is_ignored("Bound", 1, 1), "selected again, and no rollout has reached it");
        assert!(!is_ignored("Bound", 2, 1), "a rollout has reached it");
        assert!(!is_ignored("Scheduled", 2, 2), "the condition is current");
    }

    #[test]
    fn audit_20_a_resumed_stage_may_show_the_stop_while_a_cluster_is_updating_and_nothing_else_is_ignored() {
        let progressing = |state: &StageProgressing| {
            let texts = texts(state).map(|(field, text)| (field.to_owned(), Value::from(text)));
            Value::Object(texts.into_iter().collect())
        };
        let interrupted = Tolerance { interrupted_runs: ["run1".to_owned()].into(), ..Tolerance::default() };
        let compared = |name: &str, state: &str, stage: &Value, cluster: &[&str]| {
            let conditions: Vec<Value> = cluster.iter().map(|type_| json!({"type": type_, "status": "True"})).collect();
            let stages =
                json!([{"clusters": [{"clusterName": "m1", "conditions": conditions}], "conditions": [stage]}]);
            let run = json!({"kind": "ClusterStagedUpdateRun", "metadata": {"name": name}, "spec": {"state": state},
                "status": {"stagesStatus": stages}});
            compared_with(run, &interrupted)
        };
        let (started, stopping) = (progressing(&StageProgressing::Started), progressing(&StageProgressing::Stopping));
        let is_ignored = |name: &str, state: &str, other: &Value, cluster: &[&str]| {
            compared(name, state, &started, cluster) == compared(name, state, other, cluster)
        };
        assert!(is_ignored("run1", "Run", &stopping, &["Started"]));
        assert!(!is_ignored("run2", "Run", &stopping, &["Started"]), "the run was not interrupted");
        assert!(!is_ignored("run1", "Stop", &stopping, &["Started"]), "the run is not resumed");
        assert!(!is_ignored("run1", "Run", &stopping, &[]), "no cluster has started");
        assert!(!is_ignored("run1", "Run", &stopping, &["Started", "Succeeded"]), "no cluster is updating");
        for other in [StageProgressing::Stopped, StageProgressing::WaitingAfterStage, StageProgressing::Failed] {
            assert!(!is_ignored("run1", "Run", &progressing(&other), &["Started"]), "{other}");
        }
        let mut wrong = stopping.clone();
        wrong["status"] = "False".into();
        assert!(!is_ignored("run1", "Run", &wrong, &["Started"]), "an invalid condition");
    }

    #[test]
    fn audit_20_a_forged_condition_is_ignored_only_where_no_controller_writes_its_type() {
        let condition = |type_: &str, reason: &str| json!({"type": type_, "status": "True", "reason": reason});
        let member = |kind: &str, top: Value, of_agent: Value, rest: &str| {
            let agents = json!([{"type": "MemberAgent", "conditions": of_agent, "lastReceivedHeartbeat": rest}]);
            let status = json!({"conditions": top, "agentStatus": agents, "properties": {"nodes": rest}});
            compared(json!({"kind": kind, "metadata": {"name": "m"}, "status": status}))
        };
        let is_noticed = |kind: &str, top: &[&str], of_agent: &[&str]| {
            let (own, agents) = (condition("Started", "Own"), condition("Joined", "Own"));
            let with = |one: &Value, forged: &[&str]| {
                let forged = forged.iter().map(|type_| condition(type_, FORGED_REASON));
                Value::Array(std::iter::once(one.clone()).chain(forged).collect())
            };
            let plain = member(kind, json!([own]), json!([agents]), "");
            plain != member(kind, with(&own, top), with(&agents, of_agent), "")
        };
        for kind in ["InternalMemberCluster", "MemberCluster"] {
            assert!(!is_noticed(kind, &[FORGED_CONDITION, "Healthy"], &[FORGED_CONDITION]));
            assert!(is_noticed(kind, &[], &["Joined"]) && is_noticed(kind, &[], &["Healthy"]), "agents write these");
            assert!(is_noticed(kind, &["Started"], &[]), "the agent writes it");
            let forged =
                |rest: &str| member(kind, json!([condition(FORGED_CONDITION, FORGED_REASON)]), json!([]), rest);
            assert_ne!(forged("1"), forged("2"), "other fields count");
            let of = |reason: &str| member(kind, json!([condition("Healthy", reason)]), json!([]), "");
            assert_ne!(of("Own"), of(FORGED_REASON), "a condition of another writer counts");
        }
        assert!(!is_noticed("InternalMemberCluster", &["Joined"], &[]));
        assert!(is_noticed("MemberCluster", &["Joined"], &[]), "the hub writes it");
        assert!(!is_noticed("Work", &[FORGED_CONDITION], &[]) && is_noticed("Work", &["Applied"], &[]));
        assert!(is_noticed("ClusterResourcePlacement", &[FORGED_CONDITION], &[]), "no member may write it");
    }

    #[test]
    fn audit_20_usable_properties_are_ignored_and_unusable_ones_are_not() {
        let member = |usable: Option<&str>| {
            let joined = json!({"type": "Joined", "status": "True"});
            let usable = usable.map(|status| json!({"type": "ClusterPropertiesUsable", "status": status}));
            let conditions: Vec<Value> = usable.into_iter().chain([joined]).collect();
            compared(json!({"kind": "MemberCluster", "metadata": {"name": "m"}, "status": {"conditions": conditions}}))
        };
        assert_eq!(member(Some("True")), member(None));
        assert_ne!(member(Some("False")), member(None));
        assert_ne!(member(Some("False")), member(Some("True")));
    }

    #[test]
    fn statuses_on_members_are_ignored_except_those_of_applied_works() {
        let with = |spec: Value, ready: u32| {
            let object = json!({"metadata": {"name": "web"}, "spec": spec, "status": {"ready": ready}});
            compared_on_member(object, &Strategies::new(), &Tolerance::default())
        };
        assert_eq!(with(json!({}), 1), with(json!({}), 2));
        let applied_work = || json!({"workNamespace": "fleet-member-m1"});
        assert_ne!(with(applied_work(), 1), with(applied_work(), 2));
    }

    #[test]
    fn audit_20_recorded_deletions_are_ignored_on_applied_works_alone() {
        let with = |spec: Value, notes: Value| {
            let object = json!({"metadata": {"name": "w", "annotations": notes}, "spec": spec});
            compared_on_member(object, &Strategies::new(), &Tolerance::default())
        };
        let applied_work = || json!({"workNamespace": "fleet-member-m1"});
        let record = || json!({annotations::RECENT_DELETIONS: "2026-01-01T00:00:00Z=21", "mine": "1"});
        assert_eq!(with(applied_work(), record()), with(applied_work(), json!({"mine": "1"})));
        assert_ne!(
            with(applied_work(), record()),
            with(applied_work(), json!({"mine": "2"})),
            "other annotations count"
        );
        assert_ne!(with(json!({}), record()), with(json!({}), json!({"mine": "1"})), "no other object has a record");
    }

    #[test]
    fn the_last_applied_annotation_is_ignored_after_a_change_of_strategy() {
        let object = |notes: Value, strategies: &Strategies| {
            let owners = json!([{"kind": "AppliedWork", "name": "w"}]);
            let metadata = json!({"name": "m", "annotations": notes, "ownerReferences": owners});
            compared_on_member(json!({"metadata": metadata}), strategies, &Tolerance::default())
        };
        let strategies = |strategy: &str| Strategies::from([("w".to_owned(), strategy.to_owned())]);
        let is_ignored = |strategies: &Strategies| {
            let annotation = json!({annotations::LAST_APPLIED: "{}"});
            object(annotation, strategies) == object(json!({}), strategies)
        };
        assert!(is_ignored(&strategies("ServerSideApply")) && is_ignored(&strategies("ReportDiff")));
        assert!(!is_ignored(&strategies("ClientSideApply")));
        assert!(!is_ignored(&Strategies::new()), "the default strategy is client-side apply");
        let by_server = strategies("ServerSideApply");
        assert_ne!(object(json!({"note": "5"}), &by_server), object(json!({}), &by_server));
    }
}
