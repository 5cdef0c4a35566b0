//! The charts grant exactly the permissions of `config/rbac`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::chart::rendered;
use crate::file;

/// A permission: namespace, group, resource, name, verb.
type Right = (String, String, String, String, String);

/// The permissions of an account in these objects.
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
        assert!(is_bound(role), "no binding for {role:#}");
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

/// The committed files with the role that cannot read Secrets.
fn committed_without_secrets() -> BTreeSet<Right> {
    let read = |name: &str| fleet_api::yaml::documents(&file(&format!("config/rbac/{name}.yaml"))).unwrap();
    let role = read("hub-agent-without-secrets").remove(0);
    let is_replaced = |one: &Value| one["kind"] == role["kind"] && one["metadata"]["name"] == role["metadata"]["name"];
    let mut objects = read("hub-agent");
    let before = objects.len();
    objects.retain(|one| !is_replaced(one));
    assert_eq!(objects.len() + 1, before);
    objects.push(role);
    rights(&objects, "kubefleet-hub-agent")
}

#[test]
fn audit_19_the_role_without_secrets_reads_none() {
    let found = committed_without_secrets();
    let reaches_secrets =
        |(_, group, what, ..): &&Right| (group.is_empty() || group == "*") && ["*", "secrets"].contains(&what.as_str());
    assert_eq!(found.iter().find(reaches_secrets), None);
    assert!(found.iter().any(|(_, _, what, _, verb)| what == "configmaps" && verb == "list"));
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn audit_19_the_chart_without_secrets_grants_the_permissions_of_the_committed_files_with_helm() {
    let chart = rendered("hub-agent", "{placeSecrets: false, enableWebhook: false}").unwrap();
    assert_eq!(rights(&chart, "hub-agent-sa"), committed_without_secrets());
}

/// The policy that limits the agent to namespaces of members, without names.
#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn audit_19_the_chart_limits_namespace_writes_as_the_committed_file_does_with_helm() {
    let of = |objects: Vec<Value>| -> Vec<Value> {
        let mut found: Vec<Value> = objects
            .into_iter()
            .filter(|one| one["kind"].as_str().unwrap().starts_with("ValidatingAdmission"))
            .collect();
        for one in &mut found {
            one["metadata"] = Value::Null;
            if !one["spec"]["policyName"].is_null() {
                one["spec"]["policyName"] = Value::Null;
            }
        }
        found
    };
    let text = file("config/rbac/hub-agent-namespace-writes.yaml").replace("kubefleet-hub-agent\"", "hub-agent-sa\"");
    let committed = of(fleet_api::yaml::documents(&text).unwrap());
    assert_eq!((committed.len(), of(rendered("hub-agent", "").unwrap())), (2, committed));
    assert!(of(rendered("hub-agent", "limitNamespaceWrites: false").unwrap()).is_empty());
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn the_charts_grant_the_permissions_of_the_committed_files_with_helm() {
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
fn leases_and_profiles_have_the_configured_namespaces_with_helm() {
    let elsewhere = rights(&rendered("hub-agent", "namespace: fleet-elsewhere").unwrap(), "hub-agent-sa");
    let places = |what: &str| -> BTreeSet<&str> {
        elsewhere.iter().filter(|right| right.2 == what).map(|right| right.0.as_str()).collect()
    };
    assert_eq!(places("leases"), ["fleet-elsewhere"].into());
    assert_eq!(places("clusterprofiles"), ["fleet-system"].into());
}
