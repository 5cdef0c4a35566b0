//! How many versions of content there were, in a story whose changes follow one another in haste.
//!
//! Decides what numbers of snapshots become. Whoever should have the newest must have it in all worlds, and what is in the
//! newest must be the same.

use std::collections::BTreeMap;

use fleet_api::well_known::{annotations, label_values, labels};
use serde_json::Value;

use crate::state::ClusterState;

/// Takes out what tells how many versions of content it took to get here: of all snapshots only the newest are kept,
/// and they are called so wherever they are named.
pub(in crate::state) fn without_counts(state: &mut ClusterState) {
    let mut names = BTreeMap::new();
    let mut indices = BTreeMap::new();
    for kind in COUNTED {
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
            call_newest(object, &names, index.map(String::as_str));
        }
    }
}

/// Kinds of which there are more, the more often something changed.
const COUNTED: [&str; 4] =
    ["ClusterResourceSnapshot", "ResourceSnapshot", "ClusterResourceOverrideSnapshot", "ResourceOverrideSnapshot"];
/// Fields and labels that hold the index of a resource snapshot.
const INDICES: [&str; 3] = ["observedResourceIndex", labels::RESOURCE_INDEX, labels::PARENT_RESOURCE_SNAPSHOT_INDEX];
/// What a Work says of the names of overrides.
const OVERRIDE_HASHES: [&str; 2] = [annotations::PARENT_OVERRIDES_HASH, annotations::PARENT_CLUSTER_OVERRIDES_HASH];

/// Namespace and name of the placement that an object belongs to.
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

fn call_newest(value: &mut Value, names: &BTreeMap<String, String>, index: Option<&str>) {
    match value {
        Value::String(text) => {
            if let Some(newest) = names.get(text) {
                text.clone_from(newest);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| call_newest(item, names, index)),
        Value::Object(fields) => {
            for (key, field) in fields {
                if OVERRIDE_HASHES.contains(&key.as_str()) {
                    *field = "some".into();
                }
                if index.is_some() && INDICES.contains(&key.as_str()) && field.as_str() == index {
                    *field = "newest".into();
                }
                call_newest(field, names, index);
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
    fn how_many_versions_there_were_is_no_matter_and_who_has_an_older_one_is() {
        let world = |newest: u32, has: u32| {
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
            without_counts(&mut state);
            state
        };
        assert_eq!(world(2, 2), world(1, 1));
        assert_ne!(world(2, 2), world(2, 1));
    }
}
