//! The number of snapshots is nondeterministic if changes of content overlap. Only the newest snapshots are compared,
//! and references to them are renamed; a binding that refers to an older snapshot is still a difference.

use std::collections::BTreeMap;

use fleet_api::well_known::{annotations, label_values, labels};
use serde_json::Value;

use crate::state::ClusterState;

/// Removes all but the newest snapshots and replaces their names and indices by "newest".
pub(in crate::state) fn remove_snapshot_counts(state: &mut ClusterState) {
    let mut names = BTreeMap::new();
    let mut indices = BTreeMap::new();
    for kind in SNAPSHOT_KINDS {
        let Some(snapshots) = state.0.get_mut(kind) else { continue };
        snapshots.retain(|one| one["metadata"]["labels"][labels::IS_LATEST_SNAPSHOT] == label_values::TRUE);
        for one in snapshots {
            let meta = &mut one["metadata"];
            let own = [labels::PARENT_OVERRIDE, labels::PARENT_PLACEMENT].map(|key| meta["labels"][key].clone());
            let parent = own.iter().find_map(Value::as_str).unwrap_or_default().to_owned();
            let name = meta["name"].as_str().unwrap_or_default().to_owned();
            names.insert(name, format!("newest of {parent}"));
            if let Some(index) = meta["labels"][labels::RESOURCE_INDEX].as_str() {
                let namespace = meta["namespace"].as_str().unwrap_or_default().to_owned();
                indices.insert((namespace, parent), index.to_owned());
            }
            if let Some(all) = meta["labels"].as_object_mut() {
                all.remove(labels::OVERRIDE_INDEX);
            }
        }
    }
    for (kind, objects) in &mut state.0 {
        for object in objects {
            let index = placement_of(kind, object).and_then(|placement| indices.get(&placement));
            rename_to_newest(object, &names, index.map(String::as_str));
        }
    }
}

/// Kinds with one object per change.
const SNAPSHOT_KINDS: [&str; 4] =
    ["ClusterResourceSnapshot", "ResourceSnapshot", "ClusterResourceOverrideSnapshot", "ResourceOverrideSnapshot"];
/// Fields and labels with the index of a resource snapshot.
const INDICES: [&str; 3] = ["observedResourceIndex", labels::RESOURCE_INDEX, labels::PARENT_RESOURCE_SNAPSHOT_INDEX];
/// Annotations of Works with hashes over the names of override snapshots.
const OVERRIDE_HASHES: [&str; 2] = [annotations::PARENT_OVERRIDES_HASH, annotations::PARENT_CLUSTER_OVERRIDES_HASH];

/// Namespace and name of the placement of an object.
fn placement_of(kind: &str, object: &Value) -> Option<(String, String)> {
    let meta = &object["metadata"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if kind.ends_with("ResourcePlacement") {
        return Some((text(&meta["namespace"]).unwrap_or_default(), text(&meta["name"])?));
    }
    let namespace = match kind {
        "Work" => text(&meta["labels"][labels::PARENT_PLACEMENT_NAMESPACE]),
        _ => text(&meta["namespace"]),
    };
    Some((namespace.unwrap_or_default(), text(&meta["labels"][labels::PARENT_PLACEMENT])?))
}

fn rename_to_newest(value: &mut Value, names: &BTreeMap<String, String>, index: Option<&str>) {
    match value {
        Value::String(text) => {
            if let Some(newest) = names.get(text) {
                text.clone_from(newest);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_to_newest(item, names, index)),
        Value::Object(fields) => {
            for (key, field) in fields {
                if OVERRIDE_HASHES.contains(&key.as_str()) {
                    *field = "some".into();
                }
                if index.is_some() && INDICES.contains(&key.as_str()) && field.as_str() == index {
                    *field = "newest".into();
                }
                rename_to_newest(field, names, index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_number_of_snapshots_is_ignored_and_references_to_older_ones_are_not() {
        let simulation = |newest: u32, has: u32| {
            let snapshot = |number: u32| {
                json!({"metadata": {"name": format!("web-{number}-snapshot"), "labels": {
                    labels::PARENT_PLACEMENT: "web", labels::RESOURCE_INDEX: number.to_string(),
                    labels::IS_LATEST_SNAPSHOT: (number == newest).to_string(),
                }}})
            };
            let binding = json!({
                "metadata": {"name": "b", "labels": {labels::PARENT_PLACEMENT: "web"}},
                "spec": {"resourceSnapshotName": format!("web-{has}-snapshot")},
            });
            let placement = json!({"metadata": {"name": "web"}, "status": {"observedResourceIndex": has.to_string()}});
            let kinds = [
                ("ClusterResourceSnapshot", (0..=newest).map(snapshot).collect()),
                ("ClusterResourceBinding", vec![binding]),
                ("ClusterResourcePlacement", vec![placement]),
            ];
            let mut state = ClusterState(kinds.into_iter().map(|(kind, all)| (kind.to_owned(), all)).collect());
            remove_snapshot_counts(&mut state);
            state
        };
        assert_eq!(simulation(2, 2), simulation(1, 1));
        assert_ne!(simulation(2, 2), simulation(2, 1));
    }
}
