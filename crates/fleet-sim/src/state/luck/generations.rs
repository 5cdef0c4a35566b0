//! How many writes it took to get an object where it is.
//!
//! Decides whose generation counts as a number (that of everything that only users write), whose counts as "of the last
//! write" or "of an older one" (bindings and Works, which agents write as often as they must), and whose only as a word
//! (objects on members, as the hub tells of them: `laws::rest` holds these words against the objects themselves).

use fleet_api::well_known::annotations;
use fleet_core::updaterun::Note;
use serde_json::Value;

use super::{Leeway, each_object};

/// How often a workload was given another template.
const ROLLOUT_COUNT: &str = "deployment.kubernetes.io/revision";
/// Lists that tell of objects on members.
const OF_MEMBERS: [&str; 4] = ["manifestConditions", "failedPlacements", "driftedPlacements", "diffedPlacements"];
/// Fields in them that hold an object's generation.
const ON_MEMBERS: [&str; 3] =
    ["observedGeneration", "observedInMemberClusterGeneration", "targetClusterObservedGeneration"];

pub(super) fn judge(object: &mut Value, leeway: &Leeway) {
    each_object(object, &mut |map| {
        for list in map.iter_mut().filter(|(key, _)| OF_MEMBERS.contains(&key.as_str())) {
            each_object(list.1, &mut |entry| forget_numbers(entry, &ON_MEMBERS));
        }
    });
    let kind = object["kind"].as_str().unwrap_or_default();
    if kind.ends_with("StagedUpdateRun") {
        // One that ended while it was stopped and resumed has not looked at the last of it, or has.
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if leeway.hasty_runs.contains(name) {
            each_object(&mut object["status"], &mut |map| forget_numbers(map, &["observedGeneration"]));
        }
    } else if kind == "Work" || object["spec"].get("targetCluster").is_some() {
        judge_by_last_write(object);
    }
}

/// Nought stays: it says that there is no generation.
fn forget_numbers(map: &mut serde_json::Map<String, Value>, fields: &[&str]) {
    for (key, value) in map {
        if fields.contains(&key.as_str()) && value.as_i64().is_some_and(|number| number != 0) {
            *value = "some".into();
        }
    }
}

fn judge_by_last_write(object: &mut Value) {
    let Some(generation) = object["metadata"]["generation"].as_i64() else { return };
    let word = |number: i64| if number == generation { "current" } else { "old" };
    object["metadata"]["generation"] = "some".into();
    each_object(object, &mut |map| {
        if let Some(observed) = map.get_mut("observedGeneration")
            && let Some(number) = observed.as_i64()
        {
            *observed = word(number).into();
        }
    });
    // It has the generation that the move led to, and the uid of the run, which is luck like every other.
    let note = object.pointer_mut("/metadata/annotations").and_then(|notes| notes.get_mut(annotations::MOVED_BY_RUN));
    if let Some(Value::String(text)) = note
        && let Some(note) = Note::parse(text)
    {
        *text = format!("{}/{}/{}", note.snapshot_index, note.run, word(note.generation));
    }
}

/// Whoever changes content quickly, or fixes what was changed by hand, may do so in more or fewer steps. That none of the
/// steps is taken twice is a law of `laws::members`.
pub(super) fn forget_on_member(object: &mut Value, leeway: &Leeway) {
    if !leeway.hurried {
        return;
    }
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        forget_numbers(meta, &["generation"]);
        if let Some(count) = meta.get_mut("annotations").and_then(|notes| notes.get_mut(ROLLOUT_COUNT)) {
            *count = "some".into();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fleet_api::well_known::labels;
    use serde_json::json;

    use super::super::tests::{compared, compared_on_member, compared_with};
    use super::*;

    #[test]
    fn how_often_a_work_was_written_is_luck_and_what_is_said_of_an_older_one_is_not() {
        let work = |generation: i64, observed: i64, suffix: &str| {
            compared(json!({
                "kind": "Work",
                "metadata": {
                    "name": "web-work", "generation": generation,
                    "labels": {labels::PARENT_BINDING: format!("web-east-{suffix}")},
                },
                "status": {"conditions": [{"type": "Applied", "observedGeneration": observed}]},
            }))
        };
        assert_eq!(work(1, 1, "0a1b2c3d"), work(2, 2, "99999999"));
        assert_ne!(work(2, 2, "0a1b2c3d"), work(2, 1, "0a1b2c3d"));
    }

    #[test]
    fn that_a_run_moved_a_binding_last_is_no_luck() {
        let binding = |generation: i64, note: &str| {
            compared(json!({
                "metadata": {"generation": generation, "annotations": {annotations::MOVED_BY_RUN: note}},
                "spec": {"targetCluster": "east"},
            }))
        };
        assert_eq!(binding(2, "0/run/2/u-1"), binding(3, "0/run/3/u-2"));
        assert_ne!(binding(2, "0/run/2/u-1"), binding(3, "0/run/2/u-1"));
        assert_ne!(binding(2, "0/run/2/u-1"), binding(2, "0/other/2/u-1"));
    }

    #[test]
    fn how_often_an_object_on_the_member_was_written_is_luck_and_that_it_has_no_generation_is_not() {
        let work = |observed: i64, status: &str| {
            let condition = json!({"type": "Applied", "status": status, "observedGeneration": observed});
            let manifests = json!([{"identifier": {"ordinal": 0}, "conditions": [condition]}]);
            let metadata = json!({"name": "web-work", "generation": 1});
            compared(json!({"kind": "Work", "metadata": metadata, "status": {"manifestConditions": manifests}}))
        };
        assert_eq!(work(1, "True"), work(2, "True"));
        assert_ne!(work(1, "True"), work(1, "False"));
        assert_ne!(work(1, "True"), work(0, "True"));
        for (list, field) in
            [("failedPlacements", "observedGeneration"), ("driftedPlacements", "targetClusterObservedGeneration")]
        {
            let placement = |observed: i64, status: &str| {
                let clusters =
                    json!([{"clusterName": "east", list: [{"name": "web", field: observed, "status": status}]}]);
                compared(json!({"metadata": {"name": "web"}, "status": {"placementStatuses": clusters}}))
            };
            assert_eq!(placement(6, "False"), placement(7, "False"));
            assert_ne!(placement(6, "False"), placement(6, "Unknown"));
        }
    }

    #[test]
    fn of_what_a_run_speaks_is_luck_only_if_it_was_stopped_or_resumed_on_its_way() {
        let run = |observed: i64, leeway: &Leeway| {
            let status = json!({"conditions": [{"type": "Succeeded", "observedGeneration": observed}]});
            let metadata = json!({"name": "run1", "generation": 3});
            compared_with(json!({"kind": "StagedUpdateRun", "metadata": metadata, "status": status}), leeway)
        };
        let hasty = Leeway { hasty_runs: ["run1".to_owned()].into(), ..Leeway::default() };
        assert_eq!(run(2, &hasty), run(3, &hasty));
        assert_ne!(run(2, &Leeway::default()), run(3, &Leeway::default()));
    }

    #[test]
    fn in_how_many_steps_a_workload_got_where_it_is_is_luck_only_in_a_hurry() {
        let workload = |image: &str, number: u32, leeway: &Leeway| {
            let notes = json!({ROLLOUT_COUNT: number.to_string()});
            let metadata = json!({"name": "web", "generation": number, "annotations": notes});
            let object = json!({"metadata": metadata, "spec": {"image": image}});
            compared_on_member(object, &BTreeMap::default(), leeway)
        };
        let hurried = Leeway { hurried: true, ..Leeway::default() };
        assert_eq!(workload("a", 1, &hurried), workload("a", 2, &hurried));
        assert_ne!(workload("a", 1, &hurried), workload("b", 1, &hurried));
        assert_ne!(workload("a", 1, &Leeway::default()), workload("a", 2, &Leeway::default()));
    }
}
