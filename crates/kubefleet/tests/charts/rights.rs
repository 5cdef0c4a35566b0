//! What the charts let agents do is what `config/rbac` lets them do.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::chart::rendered;
use crate::file;

/// One thing that may be done: where, in which group, with what, named how, and the verb.
type Right = (String, String, String, String, String);

/// All that these objects let an account do, every role bound to it.
fn rights(objects: &[Value], account: &str) -> BTreeSet<Right> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().map(text).collect() };
    let or_any = |texts: Vec<String>| if texts.is_empty() { vec![String::new()] } else { texts };
    let is_bound = |role: &Value| {
        objects.iter().any(|one| {
            one["roleRef"]["kind"] == role["kind"]
                && one["roleRef"]["name"] == role["metadata"]["name"]
                && one["metadata"]["namespace"] == role["metadata"]["namespace"]
                && one["subjects"][0]["name"] == account
        })
    };
    let mut found = BTreeSet::new();
    for role in objects.iter().filter(|one| one["kind"] == "ClusterRole" || one["kind"] == "Role") {
        assert!(is_bound(role), "nobody has {role:#}");
        let place = text(&role["metadata"]["namespace"]);
        for rule in role["rules"].as_array().unwrap() {
            for group in or_any(texts(&rule["apiGroups"])) {
                for what in [texts(&rule["resources"]), texts(&rule["nonResourceURLs"])].concat() {
                    for name in or_any(texts(&rule["resourceNames"])) {
                        for verb in texts(&rule["verbs"]) {
                            found.insert((place.clone(), group.clone(), what.clone(), name.clone(), verb));
                        }
                    }
                }
            }
        }
    }
    assert!(!found.is_empty());
    found
}

fn committed(files: &[&str], account: &str) -> BTreeSet<Right> {
    let objects: Vec<Value> = files
        .iter()
        .flat_map(|name| fleet_api::yaml::documents(&file(&format!("config/rbac/{name}.yaml"))).unwrap())
        .collect();
    rights(&objects, account)
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn the_charts_give_the_rights_of_the_committed_files_with_helm() {
    let hub = |values: &str| rights(&rendered("hub-agent", values).unwrap(), "hub-agent-sa");
    let (plain, admission) = (["hub-agent"], ["hub-agent", "hub-agent-admission"]);
    assert_eq!(hub("{enableWebhook: false}"), committed(&plain, "kubefleet-hub-agent"));
    assert_eq!(hub("{enableAdmissionPolicyManager: true}"), committed(&admission, "kubefleet-hub-agent"));
    let (default, all) = (hub(""), committed(&admission, "kubefleet-hub-agent"));
    assert!(default.is_subset(&all) && !default.iter().any(|(_, _, what, ..)| what.starts_with("validatingadmission")));
    let member = rights(&rendered("member-agent", "").unwrap(), "member-agent-sa");
    assert_eq!(member, committed(&["member-agent"], "kubefleet-member-agent"));
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn the_lease_is_where_the_agent_runs_and_the_inventory_where_everybody_looks_with_helm() {
    let elsewhere = rights(&rendered("hub-agent", "namespace: fleet-elsewhere").unwrap(), "hub-agent-sa");
    let places = |what: &str| -> BTreeSet<&str> {
        elsewhere.iter().filter(|right| right.2 == what).map(|right| right.0.as_str()).collect()
    };
    assert_eq!(places("leases"), ["fleet-elsewhere"].into());
    assert_eq!(places("clusterprofiles"), ["fleet-system"].into());
}
