//! Times, uids, resourceVersions and random suffixes of names. They are replaced by a fixed word, so that their
//! presence is still compared. `invariants::quiescent` checks that owners, and the members of bindings, exist under the uids
//! that objects name.

use fleet_api::names::BindingName;
use fleet_api::well_known::{annotations, labels};
use serde_json::Value;

use super::each_object;

/// Fields with times, at any depth.
const INSTANTS: [&str; 10] = [
    "creationTimestamp",
    "deletionTimestamp",
    "endTime",
    "firstDiffedObservedTime",
    "firstDriftedObservedTime",
    "lastReceivedHeartbeat",
    "lastTransitionTime",
    "lastUpdatedTime",
    "observationTime",
    "startTime",
];
/// Fields that a server sets for every object or write.
const IDENTITIES: [&str; 2] = ["resourceVersion", "uid"];

pub(super) fn mask(object: &mut Value) {
    let is_binding = object["spec"].get("targetCluster").is_some();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // Managed fields are tested with the API server.
        meta.remove("managedFields");
        if let Some(notes) = meta.get_mut("annotations") {
            mask_in_annotations(notes);
        }
        if let Some(Value::String(binding)) = meta.get_mut("labels").and_then(|all| all.get_mut(labels::PARENT_BINDING))
        {
            *binding = without_suffix(binding);
        }
        if is_binding && let Some(name) = meta.get("name").and_then(Value::as_str) {
            meta.insert("name".to_owned(), without_suffix(name).into());
        }
    }
    mask_in(object);
}

fn mask_in(value: &mut Value) {
    each_object(value, &mut |map| {
        for (key, inner) in map {
            if inner.is_string() && INSTANTS.contains(&key.as_str()) {
                *inner = "some time".into();
            } else if inner.is_string() && IDENTITIES.contains(&key.as_str()) {
                *inner = "some".into();
            }
        }
    });
}

fn mask_in_annotations(notes: &mut Value) {
    if let Some(seen) = notes.get_mut(annotations::NEXT_SNAPSHOT_DETECTED_AT) {
        *seen = "some time".into();
    }
    for note in [annotations::EVICTED_BINDING_UID, annotations::MEMBER_CLUSTER_UID] {
        if let Some(uid) = notes.get_mut(note) {
            *uid = "some".into();
        }
    }
    if let Some(Value::String(applied)) = notes.get_mut(annotations::LAST_APPLIED) {
        // The manifest contains the uid of its owner.
        let mut manifest: Value = serde_json::from_str(applied).unwrap_or_default();
        mask_in(&mut manifest);
        *applied = manifest.to_string();
    }
}

fn without_suffix(binding: &str) -> String {
    match (BindingName::suffix(binding), binding.rsplit_once('-')) {
        (Some(_), Some((front, _))) => format!("{front}-*"),
        _ => binding.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::compared;
    use super::*;

    #[test]
    fn the_value_of_an_identity_is_ignored_and_its_presence_is_not() {
        let binding = |suffix: &str, second: &str, state: &str| {
            compared(json!({
                "metadata": {"name": format!("web-east-{suffix}"), "uid": suffix, "resourceVersion": second},
                "spec": {"targetCluster": "east", "state": state},
                "status": {"conditions": [{"type": "Applied", "lastTransitionTime": second}]},
            }))
        };
        assert_eq!(binding("0a1b2c3d", "1", "Bound"), binding("99999999", "2", "Bound"));
        assert_ne!(binding("0a1b2c3d", "1", "Bound"), binding("0a1b2c3d", "1", "Scheduled"));
    }

    #[test]
    fn the_value_of_a_time_is_ignored_and_its_presence_is_not() {
        for field in INSTANTS {
            let stage = |rest: Value| compared(json!({"metadata": {"name": "run"}, "status": {"stages": [rest]}}));
            assert_eq!(stage(json!({field: "1"})), stage(json!({field: "2"})), "{field}");
            assert_ne!(stage(json!({field: "1"})), stage(json!({})), "{field}");
            assert_ne!(stage(json!({field: "1"})), stage(json!({field: null})), "{field}");
        }
        let snapshot = |notes: Value| compared(json!({"metadata": {"name": "web-0", "annotations": notes}}));
        let seen = |when: &str| json!({annotations::NEXT_SNAPSHOT_DETECTED_AT: when});
        assert_eq!(snapshot(seen("1")), snapshot(seen("2")));
        assert_ne!(snapshot(seen("1")), snapshot(json!({})));
    }

    #[test]
    fn audit_20_the_uid_of_a_picked_member_is_ignored_and_its_presence_is_not() {
        let binding = |notes: Value| {
            let metadata = json!({"name": "web-east-0a1b2c3d", "annotations": notes});
            compared(json!({"metadata": metadata, "spec": {"targetCluster": "east"}}))
        };
        let of = |uid: &str| json!({annotations::MEMBER_CLUSTER_UID: uid});
        assert_eq!(binding(of("1")), binding(of("2")));
        assert_ne!(binding(of("1")), binding(json!({})));
    }

    #[test]
    fn the_uid_of_an_evicted_binding_is_ignored_and_the_reason_is_not() {
        let eviction = |uid: &str, reason: &str| {
            let notes = json!({annotations::EVICTED_BINDING_UID: uid, annotations::EVICTION_ALLOWED_BY: reason});
            compared(json!({"metadata": {"name": "ev", "annotations": notes}}))
        };
        assert_eq!(eviction("1", "NoBudget"), eviction("2", "NoBudget"));
        assert_ne!(eviction("1", "NoBudget"), eviction("1", "PlacementFailed"));
        let none = compared(
            json!({"metadata": {"name": "ev", "annotations": {annotations::EVICTION_ALLOWED_BY: "NoBudget"}}}),
        );
        assert_ne!(eviction("1", "NoBudget"), none);
    }

    #[test]
    fn the_last_applied_manifest_is_compared_without_the_uid_of_its_owner() {
        let object = |uid: &str, value: &str| {
            let applied = json!({"metadata": {"ownerReferences": [{"name": "w", "uid": uid}]}, "data": value});
            compared(
                json!({"metadata": {"name": "m", "annotations": {annotations::LAST_APPLIED: applied.to_string()}}}),
            )
        };
        assert_eq!(object("1", "a"), object("2", "a"));
        assert_ne!(object("1", "a"), object("1", "b"));
    }

    #[test]
    fn names_that_only_look_like_names_of_bindings_are_compared() {
        assert!(compared(json!({"metadata": {"name": "a-b-0a1b2c3d"}, "spec": {}})).contains("a-b-0a1b2c3d"));
    }
}
