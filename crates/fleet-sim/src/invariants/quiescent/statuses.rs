//! The statuses of Works and placements on a settled hub must match the objects on members: every Work has a status for
//! its current generation, applied objects exist, and reported generations are those of the objects. Only kinds that
//! the state contains are checked.

use fleet_api::names::MemberNamespace;
use serde_json::Value;

use super::text;
use crate::state::{ClusterState, FleetState};

/// A processed Work has one of these conditions.
const VERDICTS: [&str; 2] = ["Applied", "DiffReported"];
/// Lists of a placement's status with entries for single objects, and the path of the generation in an entry.
const OF_PLACEMENTS: [(&str, &str); 3] = [
    ("failedPlacements", "/condition/observedGeneration"),
    ("driftedPlacements", "/targetClusterObservedGeneration"),
    ("diffedPlacements", "/targetClusterObservedGeneration"),
];

/// Describes every status that does not match.
pub(super) fn violations(state: &FleetState) -> Vec<String> {
    let mut found = Vec::new();
    for work in state.hub.of_kind("Work") {
        let Some(member) = MemberNamespace::cluster_of(text(&work["metadata"]["namespace"])) else { continue };
        let Some(objects) = state.members.get(member.as_str()) else { continue };
        let place = format!("{} on {member}", text(&work["metadata"]["name"]));
        if is_deleting(work) {
            continue;
        }
        if !VERDICTS.iter().any(|type_| is_current(work, type_)) {
            found.push(format!("{place} has no status for its current generation"));
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
            found.extend(wrong.flatten().map(|why| format!("{} reports {why}", text(&placement["metadata"]["name"]))));
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
            return is_applied
                .then(|| format!("{name} is reported as applied and does not exist"))
                .into_iter()
                .collect();
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

/// A generation that was never observed is absent or 0.
fn wrong_generation(name: &str, observed: &Value, live: &Value) -> Option<String> {
    let (observed, is) = (observed.as_i64().unwrap_or(0), live["metadata"]["generation"].as_i64().unwrap_or(0));
    (observed != 0 && observed != is).then(|| format!("{name} in generation {observed}, but it has {is}"))
}

/// The object that an identifier names.
enum Found<'a> {
    Live(&'a Value),
    Missing,
    /// The state does not contain the kind.
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

    /// A Deployment in generation 3 on `m1`, and statuses that match it; `change` breaks something.
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
        expected.assert_eq(&violations(&state).join("\n"));
    }

    fn live(state: &mut FleetState) -> &mut Vec<Value> {
        state.members.get_mut("m1").unwrap().0.get_mut("Deployment").unwrap()
    }

    fn work(state: &mut FleetState) -> &mut Value {
        &mut state.hub.0.get_mut("Work").unwrap()[0]
    }

    #[test]
    fn matching_statuses_are_accepted() {
        check(|_| (), expect![""]);
        check(|state| state.members.clear(), expect![""]);
        check(
            |state| work(state)["status"]["manifestConditions"][0]["identifier"]["kind"] = "Other".into(),
            expect![""],
        );
    }

    #[test]
    fn reported_generations_must_be_those_of_the_objects() {
        check(
            |state| live(state)[0]["metadata"]["generation"] = 4.into(),
            expect![[r#"
                w on m1: Deployment web in generation 3, but it has 4
                w on m1: Deployment web in generation 3, but it has 4
                w on m1: Deployment web in generation 3, but it has 4
                crp reports Deployment web in generation 3, but it has 4 on m1"#]],
        );
        check(
            |state| work(state)["status"]["manifestConditions"][0]["conditions"][0]["observedGeneration"] = 2.into(),
            expect!["w on m1: Deployment web in generation 2, but it has 3"],
        );
        check(
            |state| work(state)["status"]["manifestConditions"][0]["conditions"][0]["observedGeneration"] = 0.into(),
            expect![""],
        );
    }

    #[test]
    fn applied_objects_must_exist() {
        check(
            |state| live(state).clear(),
            expect!["w on m1: Deployment web is reported as applied and does not exist"],
        );
    }

    #[test]
    fn a_work_has_a_current_status_unless_it_is_being_deleted() {
        check(
            |state| work(state)["metadata"]["generation"] = 3.into(),
            expect!["w on m1 has no status for its current generation"],
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
