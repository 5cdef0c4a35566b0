//! Generations: the number of writes that led to an object.
//!
//! - Objects that only users write: the generation is compared.
//! - Bindings and Works, which agents write as often as needed: only whether an observed generation is the current one.
//! - Objects on members, as the hub reports them: only whether there is a generation. `invariants::quiescent` compares it with the
//!   objects.

use fleet_api::well_known::annotations;
use fleet_core::updaterun::MovedBy;
use serde_json::Value;

use super::{Tolerance, each_object};

/// Annotation with the number of templates that a Deployment has had.
const ROLLOUT_COUNT: &str = "deployment.kubernetes.io/revision";
/// Status lists on the hub with entries for objects on members.
const OF_MEMBERS: [&str; 4] = ["manifestConditions", "failedPlacements", "driftedPlacements", "diffedPlacements"];
/// Fields in these lists with the generation of the object.
const ON_MEMBERS: [&str; 3] =
    ["observedGeneration", "observedInMemberClusterGeneration", "targetClusterObservedGeneration"];

pub(super) fn normalize(object: &mut Value, tolerance: &Tolerance) {
    each_object(object, &mut |map| {
        for list in map.iter_mut().filter(|(key, _)| OF_MEMBERS.contains(&key.as_str())) {
            each_object(list.1, &mut |entry| mask_numbers(entry, &ON_MEMBERS));
        }
    });
    let kind = object["kind"].as_str().unwrap_or_default();
    if kind.ends_with("StagedUpdateRun") {
        // A run that ended while it was stopped and resumed may or may not have observed the last change of its spec.
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if tolerance.interrupted_runs.contains(name) {
            each_object(&mut object["status"], &mut |map| mask_numbers(map, &["observedGeneration"]));
        }
    } else if kind == "Work" || object["spec"].get("targetCluster").is_some() {
        compare_with_last_write(object);
    }
}

/// Keeps 0, which means that there is no generation.
fn mask_numbers(map: &mut serde_json::Map<String, Value>, fields: &[&str]) {
    for (key, value) in map {
        if fields.contains(&key.as_str()) && value.as_i64().is_some_and(|number| number != 0) {
            *value = "some".into();
        }
    }
}

fn compare_with_last_write(object: &mut Value) {
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
    // The annotation has the generation after the move, and the uid of the run.
    let note = object.pointer_mut("/metadata/annotations").and_then(|notes| notes.get_mut(annotations::MOVED_BY_RUN));
    if let Some(Value::String(text)) = note
        && let Some(note) = MovedBy::parse(text)
    {
        *text = format!("{}/{}/{}", note.snapshot_index, note.run, word(note.generation));
    }
}

/// If changes of content overlap, an agent may apply them in more or fewer steps, and if the hub is restored from a
/// backup, an agent applies older content again. `invariants::members` checks that no step is needless.
pub(super) fn normalize_on_member(object: &mut Value, tolerance: &Tolerance) {
    if !tolerance.overlapping_changes && !tolerance.hub_is_restored {
        return;
    }
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        mask_numbers(meta, &["generation"]);
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
    fn the_generation_of_a_work_is_ignored_and_an_outdated_observed_generation_is_not() {
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
    fn the_run_that_moved_a_binding_last_is_compared() {
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
    fn the_generation_of_an_object_on_a_member_is_ignored_and_its_absence_is_not() {
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
    fn the_observed_generation_of_a_run_is_ignored_only_if_it_was_interrupted() {
        let run = |observed: i64, tolerance: &Tolerance| {
            let status = json!({"conditions": [{"type": "Succeeded", "observedGeneration": observed}]});
            let metadata = json!({"name": "run1", "generation": 3});
            compared_with(json!({"kind": "StagedUpdateRun", "metadata": metadata, "status": status}), tolerance)
        };
        let interrupted = Tolerance { interrupted_runs: ["run1".to_owned()].into(), ..Tolerance::default() };
        assert_eq!(run(2, &interrupted), run(3, &interrupted));
        assert_ne!(run(2, &Tolerance::default()), run(3, &Tolerance::default()));
    }

    #[test]
    fn the_generation_of_a_workload_is_ignored_only_if_changes_overlap_or_the_hub_is_restored() {
        let workload = |image: &str, number: u32, tolerance: &Tolerance| {
            let notes = json!({ROLLOUT_COUNT: number.to_string()});
            let metadata = json!({"name": "web", "generation": number, "annotations": notes});
            let object = json!({"metadata": metadata, "spec": {"image": image}});
            compared_on_member(object, &BTreeMap::default(), tolerance)
        };
        for tolerance in [
            Tolerance { overlapping_changes: true, ..Tolerance::default() },
            Tolerance { hub_is_restored: true, ..Tolerance::default() },
        ] {
            assert_eq!(workload("a", 1, &tolerance), workload("a", 2, &tolerance));
            assert_ne!(workload("a", 1, &tolerance), workload("b", 1, &tolerance));
        }
        assert_ne!(workload("a", 1, &Tolerance::default()), workload("a", 2, &Tolerance::default()));
    }
}
