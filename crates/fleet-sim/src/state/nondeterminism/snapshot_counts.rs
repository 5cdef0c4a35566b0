//! The number of snapshots is nondeterministic if changes of content overlap. Only the newest snapshots are compared.
//! References say whether they mean the newest snapshot or an older one, not which of the older ones.

use std::collections::BTreeMap;

use fleet_api::well_known::{annotations, label_values, labels};
use serde_json::Value;

use crate::state::ClusterState;

/// Removes all but the newest snapshots and replaces the names and indices of snapshots by "newest" or "older".
///
/// A cluster may keep an older snapshot, for example where an override fails. Its Work is compared with its manifests.
pub(in crate::state) fn remove_snapshot_counts(state: &mut ClusterState) {
    let mut names = BTreeMap::new();
    let mut indices = BTreeMap::new();
    for kind in SNAPSHOT_KINDS {
        let Some(snapshots) = state.0.get_mut(kind) else { continue };
        for one in snapshots.iter() {
            let age = if is_newest(one) { "newest" } else { "older" };
            let name = one["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            names.insert(name, format!("{age} of {}", owner(one)));
        }
        snapshots.retain(is_newest);
        for one in snapshots {
            let parent = owner(one).to_owned();
            let meta = &mut one["metadata"];
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
            rename_by_age(object, &names, index.map(String::as_str));
        }
    }
}

fn is_newest(snapshot: &Value) -> bool {
    snapshot["metadata"]["labels"][labels::IS_LATEST_SNAPSHOT] == label_values::TRUE
}

/// The override or placement that a snapshot belongs to.
fn owner(snapshot: &Value) -> &str {
    let labels_of = &snapshot["metadata"]["labels"];
    let owners = [labels::PARENT_OVERRIDE, labels::PARENT_PLACEMENT];
    owners.iter().find_map(|key| labels_of[*key].as_str()).unwrap_or_default()
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

/// `newest` is the index of the newest resource snapshot of the placement that the object belongs to.
fn rename_by_age(value: &mut Value, names: &BTreeMap<String, String>, newest: Option<&str>) {
    match value {
        Value::String(text) => {
            if let Some(name) = names.get(text) {
                text.clone_from(name);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_by_age(item, names, newest)),
        Value::Object(fields) => {
            for (key, field) in fields {
                if OVERRIDE_HASHES.contains(&key.as_str()) {
                    *field = "some".into();
                }
                if let (Some(newest), Some(index)) = (newest, index_in(key, field)) {
                    *field = if index == newest { "newest" } else { "older" }.into();
                }
                rename_by_age(field, names, newest);
            }
        }
        _ => {}
    }
}

/// The index of a resource snapshot, if the field has one.
fn index_in<'a>(key: &str, field: &'a Value) -> Option<&'a str> {
    field.as_str().filter(|index| INDICES.contains(&key) && !index.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_number_of_snapshots_is_ignored_and_references_to_older_ones_are_not() {
        assert_eq!(settled_with(2, 2), settled_with(1, 1));
        assert_ne!(settled_with(2, 2), settled_with(2, 1));
    }

    #[test]
    fn a_reference_to_an_older_snapshot_is_compared_without_its_number() {
        assert_eq!(settled_with(4, 3), settled_with(3, 2));
        let index = |of: &ClusterState| of.0["ClusterResourcePlacement"][0]["status"]["observedResourceIndex"].clone();
        assert_eq!(index(&settled_with(4, 3)), "older");
        assert_eq!(index(&settled_with(3, 3)), "newest");
    }

    /// A placement with snapshots up to `newest`, whose binding and status refer to the snapshot `has`.
    fn settled_with(newest: u32, has: u32) -> ClusterState {
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
    }
}
