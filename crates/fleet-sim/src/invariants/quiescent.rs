//! Invariants of a settled fleet: every binding and snapshot has a placement, no cluster has two bindings of one
//! placement, each placement has one newest snapshot with all its parts, statuses are true (`statuses`), and owners
//! exist (`owners`).

mod owners;
mod statuses;

use std::collections::BTreeMap;

use fleet_api::well_known::{annotations, label_values, labels};
use serde_json::Value;

use crate::state::{ClusterState, FleetState};

/// The kinds of one scope: placement, binding, policy snapshot, resource snapshot.
const SCOPES: [[&str; 4]; 2] = [
    [
        "ClusterResourcePlacement",
        "ClusterResourceBinding",
        "ClusterSchedulingPolicySnapshot",
        "ClusterResourceSnapshot",
    ],
    ["ResourcePlacement", "ResourceBinding", "SchedulingPolicySnapshot", "ResourceSnapshot"],
];

/// Describes every violation. `applying` says whether member agents apply Works.
pub fn violations(state: &FleetState, applying: bool) -> Vec<String> {
    let mut found = violations_on_hub(&state.hub);
    found.extend(owners::lost("", &state.hub));
    for (member, objects) in &state.members {
        found.extend(owners::lost(&format!(" on {member}"), objects));
    }
    if applying {
        found.extend(statuses::violations(state));
    }
    found
}

fn violations_on_hub(state: &ClusterState) -> Vec<String> {
    SCOPES.iter().flat_map(|kinds| violations_in(state, kinds)).collect()
}

fn violations_in(state: &ClusterState, [placement_kind, binding, policy, snapshot]: &[&str; 4]) -> Vec<String> {
    let mut found = Vec::new();
    let placements: Vec<(String, String)> =
        state.of_kind(placement_kind).iter().map(|object| key(object, "name")).collect();
    for kind in [binding, policy, snapshot] {
        for object in state.of_kind(kind) {
            if !placements.contains(&parent(object)) {
                found.push(format!("{kind} {} has no placement", name(object)));
            }
        }
    }
    let mut targets: BTreeMap<((String, String), &str), usize> = BTreeMap::new();
    for object in state.of_kind(binding) {
        *targets.entry((parent(object), text(&object["spec"]["targetCluster"]))).or_default() += 1;
    }
    for object in state.of_kind(binding).iter().filter(|one| one["spec"]["state"] != "Unscheduled") {
        let (cluster, picked) = (&object["spec"]["targetCluster"], &object["metadata"]["annotations"]);
        let member = state.of_kind("MemberCluster").iter().find(|one| one["metadata"]["name"] == *cluster);
        let uid = member.map(|one| &one["metadata"]["uid"]);
        if uid.is_some_and(|uid| picked[annotations::MEMBER_CLUSTER_UID] != *uid) {
            found.push(format!("{} belongs to a former membership of {}", name(object), text(cluster)));
        }
    }
    for (((_, placement), cluster), count) in targets.into_iter().filter(|(_, count)| *count > 1) {
        found.push(format!("{placement} has {count} bindings for {cluster}"));
    }
    for (kind, of_placement) in [(policy, "policy snapshot"), (snapshot, "resource snapshot")] {
        for placement in &placements {
            let newest = state.of_kind(kind).iter().filter(|object| parent(object) == *placement && is_newest(object));
            let newest: Vec<&Value> = newest.filter(|object| !is_part(object)).collect();
            let none_needed = of_placement == "resource snapshot" && is_external(state, placement_kind, placement);
            if newest.len() > 1 || (newest.is_empty() && !none_needed) {
                found.push(format!("{} has {} newest {of_placement}s", placement.1, newest.len()));
            }
            if let ([newest], "resource snapshot") = (newest.as_slice(), of_placement) {
                found.extend(lost_parts(state, kind, placement, newest));
            }
        }
    }
    found
}

/// A placement with an external strategy has no resource snapshot before its first run.
fn is_external(state: &ClusterState, kind: &str, placement: &(String, String)) -> bool {
    let found = state.of_kind(kind).iter().find(|object| key(object, "name") == *placement);
    found.is_some_and(|object| object["spec"]["strategy"]["type"] == "External")
}

/// The newest resource snapshot says of how many objects it consists; all must exist.
fn lost_parts(state: &ClusterState, kind: &str, placement: &(String, String), newest: &Value) -> Option<String> {
    let index = |object: &Value| text(&object["metadata"]["labels"][labels::RESOURCE_INDEX]).to_owned();
    let wanted = text(&newest["metadata"]["annotations"][annotations::NUMBER_OF_RESOURCE_SNAPSHOTS]).to_owned();
    let there =
        state.of_kind(kind).iter().filter(|one| parent(one) == *placement && index(one) == index(newest)).count();
    (wanted != there.to_string())
        .then(|| format!("{} has {there} of {wanted} parts of its newest snapshot", placement.1))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

fn key(object: &Value, field: &str) -> (String, String) {
    (text(&object["metadata"]["namespace"]).to_owned(), text(&object["metadata"][field]).to_owned())
}

fn parent(object: &Value) -> (String, String) {
    let parent = text(&object["metadata"]["labels"][labels::PARENT_PLACEMENT]).to_owned();
    (key(object, "name").0, parent)
}

fn is_newest(object: &Value) -> bool {
    text(&object["metadata"]["labels"][labels::IS_LATEST_SNAPSHOT]) == label_values::TRUE
}

/// Whether a resource snapshot is not the first object of its group.
fn is_part(object: &Value) -> bool {
    object["metadata"]["annotations"].get(annotations::SUBINDEX).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn valid() -> ClusterState {
        let snapshot = |kind: &str, name: &str| {
            json!({"kind": kind, "metadata": {
                "name": name,
                "labels": {labels::PARENT_PLACEMENT: "web", labels::IS_LATEST_SNAPSHOT: "true", labels::RESOURCE_INDEX: "0"},
                "annotations": {annotations::NUMBER_OF_RESOURCE_SNAPSHOTS: "1"},
            }})
        };
        let binding = json!({
            "metadata": {"name": "web-east-1", "labels": {labels::PARENT_PLACEMENT: "web"}},
            "spec": {"targetCluster": "east"},
        });
        let kinds = [
            ("ClusterResourcePlacement", json!({"metadata": {"name": "web"}})),
            ("ClusterResourceBinding", binding),
            ("ClusterSchedulingPolicySnapshot", snapshot("p", "web-0")),
            ("ClusterResourceSnapshot", snapshot("s", "web-0-snapshot")),
        ];
        ClusterState(kinds.into_iter().map(|(kind, object)| (kind.to_owned(), vec![object])).collect())
    }

    fn after(change: impl FnOnce(&mut BTreeMap<String, Vec<Value>>)) -> Vec<String> {
        let mut state = valid();
        change(&mut state.0);
        violations_on_hub(&state)
    }

    #[test]
    fn a_valid_hub_has_no_violations() {
        assert_eq!(violations_on_hub(&valid()), Vec::<String>::new());
    }

    #[test]
    fn orphans_and_duplicates_are_found() {
        let orphans = after(|kinds| kinds.get_mut("ClusterResourcePlacement").unwrap().clear());
        assert_eq!(orphans.len(), 3, "{orphans:?}");
        let doubled = after(|kinds| {
            let bindings = kinds.get_mut("ClusterResourceBinding").unwrap();
            bindings.push(bindings[0].clone());
        });
        assert_eq!(doubled, ["web has 2 bindings for east"]);
    }

    #[test]
    fn audit_20_bindings_of_former_memberships_are_found() {
        let with = |picked: &str, state: &str| {
            after(|kinds| {
                let member = json!({"metadata": {"name": "east", "uid": "2"}});
                kinds.insert("MemberCluster".to_owned(), vec![member]);
                let binding = &mut kinds.get_mut("ClusterResourceBinding").unwrap()[0];
                binding["metadata"]["annotations"] = json!({annotations::MEMBER_CLUSTER_UID: picked});
                binding["spec"]["state"] = state.into();
            })
        };
        assert_eq!(with("2", "Bound"), Vec::<String>::new());
        assert_eq!(with("1", "Bound"), ["web-east-1 belongs to a former membership of east"]);
        assert_eq!(with("1", "Unscheduled"), Vec::<String>::new(), "it is given up");
    }

    #[test]
    fn lost_and_duplicated_snapshots_are_found() {
        let lost = after(|kinds| kinds.get_mut("ClusterResourceSnapshot").unwrap().clear());
        assert_eq!(lost, ["web has 0 newest resource snapshots"]);
        let waiting = after(|kinds| {
            kinds.get_mut("ClusterResourceSnapshot").unwrap().clear();
            kinds.get_mut("ClusterResourcePlacement").unwrap()[0]["spec"]["strategy"]["type"] = "External".into();
        });
        assert_eq!(waiting, Vec::<String>::new());
        let doubled = after(|kinds| {
            let snapshots = kinds.get_mut("ClusterSchedulingPolicySnapshot").unwrap();
            snapshots.push(snapshots[0].clone());
        });
        assert_eq!(doubled, ["web has 2 newest policy snapshots"]);
        let partial = after(|kinds| {
            let snapshot = &mut kinds.get_mut("ClusterResourceSnapshot").unwrap()[0];
            snapshot["metadata"]["annotations"][annotations::NUMBER_OF_RESOURCE_SNAPSHOTS] = "2".into();
        });
        assert_eq!(partial, ["web has 1 of 2 parts of its newest snapshot"]);
    }
}
