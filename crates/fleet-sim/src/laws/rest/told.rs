//! What a settled hub tells of objects on members is so.
//!
//! Decides from Works, placements and the members' own objects: every Work of a member speaks of its last version, what is
//! said to be applied is there, and generations that are told are those that the objects have. Only kinds count that a state
//! holds. Never judges members that only acknowledge: they have nothing.

use fleet_api::names::MemberNamespace;
use serde_json::Value;

use super::text;
use crate::state::{ClusterState, FleetState};

/// What a Work says once it was looked at.
const VERDICTS: [&str; 2] = ["Applied", "DiffReported"];
/// Lists of a placement that tell of single objects, and where in them a generation stands.
const OF_PLACEMENTS: [(&str, &str); 3] = [
    ("failedPlacements", "/condition/observedGeneration"),
    ("driftedPlacements", "/targetClusterObservedGeneration"),
    ("diffedPlacements", "/targetClusterObservedGeneration"),
];

/// Every law that does not hold, as a sentence.
pub(super) fn broken(state: &FleetState) -> Vec<String> {
    let mut found = Vec::new();
    for work in state.hub.of_kind("Work") {
        let Some(member) = MemberNamespace::cluster_of(text(&work["metadata"]["namespace"])) else { continue };
        let Some(objects) = state.members.get(member.as_str()) else { continue };
        let place = format!("{} on {member}", text(&work["metadata"]["name"]));
        if is_deleting(work) {
            continue;
        }
        if !VERDICTS.iter().any(|type_| is_current(work, type_)) {
            found.push(format!("{place} says nothing of its last version"));
        }
        let records = work["status"]["manifestConditions"].as_array().into_iter().flatten();
        found.extend(records.flat_map(|record| wrong_record(record, objects)).map(|why| format!("{place}: {why}")));
    }
    for kind in ["ClusterResourcePlacement", "ResourcePlacement"] {
        for placement in state.hub.of_kind(kind) {
            let clusters = placement["status"]["placementStatuses"].as_array().into_iter().flatten();
            let wrong = clusters.filter_map(|cluster| {
                let name = text(&cluster["clusterName"]);
                let objects = state.members.get(name)?;
                Some(wrong_entries(cluster, objects).into_iter().map(move |why| format!("{why} on {name}")))
            });
            found.extend(wrong.flatten().map(|why| format!("{} tells of {why}", text(&placement["metadata"]["name"]))));
        }
    }
    found
}

fn wrong_record(record: &Value, objects: &ClusterState) -> Vec<String> {
    let identifier = &record["identifier"];
    let name = format!("{} {}", text(&identifier["kind"]), text(&identifier["name"]));
    let conditions = record["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let live = match find(objects, identifier) {
        Found::Live(live) => live,
        Found::Unheld => return Vec::new(),
        Found::Missing => {
            let is_applied = conditions.iter().any(|one| one["type"] == "Applied" && one["status"] == "True");
            return is_applied.then(|| format!("{name} is said to be applied and is not there")).into_iter().collect();
        }
    };
    let observed = conditions.iter().map(|one| &one["observedGeneration"]);
    let details = ["driftDetails", "diffDetails"].map(|field| &record[field]["observedInMemberClusterGeneration"]);
    observed.chain(details).filter_map(|observed| wrong_generation(&name, observed, live)).collect()
}

fn wrong_entries(cluster: &Value, objects: &ClusterState) -> Vec<String> {
    let entries = OF_PLACEMENTS.iter().flat_map(|(list, place)| {
        let entries = cluster[*list].as_array().into_iter().flatten();
        entries.map(|entry| (entry, entry.pointer(place).unwrap_or(&Value::Null)))
    });
    let wrong = entries.filter_map(|(entry, observed)| {
        let name = format!("{} {}", text(&entry["kind"]), text(&entry["name"]));
        match find(objects, entry) {
            Found::Live(live) => wrong_generation(&name, observed, live),
            Found::Missing | Found::Unheld => None,
        }
    });
    wrong.collect()
}

/// A generation that was never seen is not told, or told as nought.
fn wrong_generation(name: &str, observed: &Value, live: &Value) -> Option<String> {
    let (observed, is) = (observed.as_i64().unwrap_or(0), live["metadata"]["generation"].as_i64().unwrap_or(0));
    (observed != 0 && observed != is).then(|| format!("{name} in generation {observed}, which has {is}"))
}

/// What a cluster has under an identifier.
enum Found<'a> {
    Live(&'a Value),
    Missing,
    /// Objects of its kind are not held, so nobody knows.
    Unheld,
}

fn find<'a>(objects: &'a ClusterState, identifier: &Value) -> Found<'a> {
    let Some(all) = objects.0.get(text(&identifier["kind"])) else { return Found::Unheld };
    let is_it = |object: &&Value| {
        let same = |field: &str| text(&object["metadata"][field]) == text(&identifier[field]);
        same("name") && same("namespace")
    };
    all.iter().find(is_it).map_or(Found::Missing, Found::Live)
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn is_current(work: &Value, type_: &str) -> bool {
    let conditions = work["status"]["conditions"].as_array().into_iter().flatten();
    let mut own = conditions.filter(|one| one["type"] == type_);
    own.any(|one| one["observedGeneration"] == work["metadata"]["generation"])
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    /// A Deployment in its third generation on `m1`, and what is told of it.
    fn check(change: impl FnOnce(&mut FleetState), expected: Expect) {
        let identifier = json!({"kind": "Deployment", "namespace": "shop", "name": "web"});
        let conditions = json!([
            {"type": "Applied", "status": "True", "observedGeneration": 3},
            {"type": "Available", "status": "False", "observedGeneration": 3},
        ]);
        let drift = json!({"observedInMemberClusterGeneration": 3});
        let work = json!({
            "metadata": {"name": "w", "namespace": "fleet-member-m1", "generation": 2},
            "status": {
                "conditions": [{"type": "Applied", "status": "True", "observedGeneration": 2}],
                "manifestConditions": [{"identifier": identifier, "conditions": conditions, "driftDetails": drift}],
            },
        });
        let mut failed = identifier;
        failed["condition"] = json!({"type": "Available", "observedGeneration": 3});
        let entry = json!({"clusterName": "m1", "failedPlacements": [failed]});
        let placement = json!({"metadata": {"name": "crp"}, "status": {"placementStatuses": [entry]}});
        let live = json!({"metadata": {"name": "web", "namespace": "shop", "generation": 3}});
        let hub = [("Work", work), ("ClusterResourcePlacement", placement)];
        let hub = ClusterState(hub.map(|(kind, object)| (kind.to_owned(), vec![object])).into());
        let member = ClusterState([("Deployment".to_owned(), vec![live])].into());
        let mut state = FleetState { hub, members: [("m1".to_owned(), member)].into() };
        change(&mut state);
        expected.assert_eq(&broken(&state).join("\n"));
    }

    fn live(state: &mut FleetState) -> &mut Vec<Value> {
        state.members.get_mut("m1").unwrap().0.get_mut("Deployment").unwrap()
    }

    fn work(state: &mut FleetState) -> &mut Value {
        &mut state.hub.0.get_mut("Work").unwrap()[0]
    }

    #[test]
    fn what_is_so_may_be_told() {
        check(|_| (), expect![""]);
        check(|state| state.members.clear(), expect![""]);
        check(
            |state| work(state)["status"]["manifestConditions"][0]["identifier"]["kind"] = "Other".into(),
            expect![""],
        );
    }

    #[test]
    fn generations_that_are_told_are_those_of_the_objects() {
        check(
            |state| live(state)[0]["metadata"]["generation"] = 4.into(),
            expect![[r#"
                w on m1: Deployment web in generation 3, which has 4
                w on m1: Deployment web in generation 3, which has 4
                w on m1: Deployment web in generation 3, which has 4
                crp tells of Deployment web in generation 3, which has 4 on m1"#]],
        );
        check(
            |state| work(state)["status"]["manifestConditions"][0]["conditions"][0]["observedGeneration"] = 2.into(),
            expect!["w on m1: Deployment web in generation 2, which has 3"],
        );
        check(
            |state| work(state)["status"]["manifestConditions"][0]["conditions"][0]["observedGeneration"] = 0.into(),
            expect![""],
        );
    }

    #[test]
    fn what_is_said_to_be_applied_is_there() {
        check(|state| live(state).clear(), expect!["w on m1: Deployment web is said to be applied and is not there"]);
    }

    #[test]
    fn a_work_speaks_of_its_last_version_unless_it_goes() {
        check(
            |state| work(state)["metadata"]["generation"] = 3.into(),
            expect!["w on m1 says nothing of its last version"],
        );
        check(
            |state| {
                work(state)["metadata"]["generation"] = 3.into();
                work(state)["metadata"]["deletionTimestamp"] = "now".into();
            },
            expect![""],
        );
    }
}
