//! The owners that objects name must exist under the uids that they name. The comparison of two runs ignores uids, so
//! it would not find a reference to a deleted owner.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::text;
use crate::state::ClusterState;

/// Describes every reference to an owner that does not exist.
pub(super) fn lost(server: &str, state: &ClusterState) -> Vec<String> {
    let uids = |objects: &Vec<Value>| objects.iter().map(|one| text(&one["metadata"]["uid"]).to_owned()).collect();
    let known: BTreeMap<&str, BTreeSet<String>> =
        state.0.iter().map(|(kind, objects)| (kind.as_str(), uids(objects))).collect();
    let mut found = Vec::new();
    for (kind, objects) in &state.0 {
        for object in objects {
            let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let is_lost = |owner: &&Value| {
                known.get(text(&owner["kind"])).is_some_and(|uids| !uids.contains(text(&owner["uid"])))
            };
            found.extend(owners.filter(is_lost).map(|owner| {
                let (name, owner_kind) = (text(&object["metadata"]["name"]), text(&owner["kind"]));
                format!("{kind} {name}{server} is owned by {owner_kind} {}, which does not exist", text(&owner["name"]))
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_must_exist_under_their_uids() {
        let owned_by = |kind: &str, uid: &str| {
            let owners = json!([{"kind": kind, "name": "w", "uid": uid}]);
            let map = json!({"metadata": {"name": "m", "ownerReferences": owners}});
            let applied_work = json!({"metadata": {"name": "w", "uid": "1"}});
            let state = [("ConfigMap", map), ("AppliedWork", applied_work)];
            lost(" on m1", &ClusterState(state.map(|(kind, object)| (kind.to_owned(), vec![object])).into()))
        };
        assert_eq!(owned_by("AppliedWork", "1"), Vec::<String>::new());
        assert_eq!(owned_by("AppliedWork", "2"), ["ConfigMap m on m1 is owned by AppliedWork w, which does not exist"]);
        assert_eq!(owned_by("Pod", "2"), Vec::<String>::new(), "pods are not part of the state");
    }
}
