//! The controllers, tested through the API.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::server::{Builder, Cluster, TokenBinding, TokenSigner};
use crate::testing::{Fixture, builder, config_map};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn owner(object: &Value, block: bool) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
           "uid": object["metadata"]["uid"], "blockOwnerDeletion": block})
}

fn owned(name: &str, owners: &[Value]) -> Value {
    let mut object = config_map(name);
    object["metadata"]["ownerReferences"] = json!(owners);
    object
}

#[tokio::test(start_paused = true)]
async fn background_deletion_deletes_all_dependents() {
    let f = Fixture::new().await;
    let a = f.ok("POST", MAPS, config_map("a")).await;
    let b = f.ok("POST", MAPS, owned("b", &[owner(&a, false)])).await;
    f.ok("POST", MAPS, owned("c", &[owner(&b, false)])).await;
    f.ok("POST", MAPS, config_map("free")).await;
    f.ok("DELETE", &format!("{MAPS}/a"), json!({"propagationPolicy": "Background"})).await;
    f.eventually_gone(&format!("{MAPS}/b")).await;
    f.eventually_gone(&format!("{MAPS}/c")).await;
    f.ok("GET", &format!("{MAPS}/free"), Value::Null).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_with_another_existing_owner_only_loses_a_reference() {
    let f = Fixture::new().await;
    let a = f.ok("POST", MAPS, config_map("a")).await;
    let b = f.ok("POST", MAPS, config_map("b")).await;
    f.ok("POST", MAPS, owned("c", &[owner(&a, false), owner(&b, false)])).await;
    f.ok("DELETE", &format!("{MAPS}/a"), Value::Null).await;
    let one = |object: &Value| object["metadata"]["ownerReferences"].as_array().is_some_and(|o| o.len() == 1);
    let kept = f.eventually(&format!("{MAPS}/c"), one).await;
    assert_eq!(kept["metadata"]["ownerReferences"][0]["name"], "b");
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_those_that_block() {
    let f = Fixture::new().await;
    let a = f.ok("POST", MAPS, config_map("a")).await;
    let mut held = owned("held", &[owner(&a, true)]);
    held["metadata"]["finalizers"] = json!(["x.y/z"]);
    f.ok("POST", MAPS, held).await;
    f.ok("POST", MAPS, owned("plain", &[owner(&a, false)])).await;
    let marked = f.ok("DELETE", &format!("{MAPS}/a"), json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    f.eventually_gone(&format!("{MAPS}/plain")).await;
    f.eventually(&format!("{MAPS}/held"), |o| o["metadata"]["deletionTimestamp"].is_string()).await;
    f.ok("GET", &format!("{MAPS}/a"), Value::Null).await;
    f.ok("PATCH merge", &format!("{MAPS}/held"), json!({"metadata": {"finalizers": null}})).await;
    f.eventually_gone(&format!("{MAPS}/a")).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_deleted_once_no_dependent_blocks() {
    let f = Fixture::new().await;
    let a = f.ok("POST", MAPS, config_map("a")).await;
    let mut held = owned("held", &[owner(&a, true)]);
    held["metadata"]["finalizers"] = json!(["x.y/z"]);
    f.ok("POST", MAPS, held).await;
    f.ok("DELETE", &format!("{MAPS}/a"), json!({"propagationPolicy": "Foreground"})).await;
    f.eventually(&format!("{MAPS}/held"), |o| o["metadata"]["deletionTimestamp"].is_string()).await;
    f.ok("GET", &format!("{MAPS}/a"), Value::Null).await;
    let free = json!({"metadata": {"ownerReferences": [owner(&a, false)]}});
    f.ok("PATCH merge", &format!("{MAPS}/held"), free).await;
    f.eventually_gone(&format!("{MAPS}/a")).await;
    f.ok("GET", &format!("{MAPS}/held"), Value::Null).await;
}

#[tokio::test(start_paused = true)]
async fn orphaned_dependents_stay_without_the_reference() {
    let f = Fixture::new().await;
    let a = f.ok("POST", MAPS, config_map("a")).await;
    f.ok("POST", MAPS, owned("b", &[owner(&a, true)])).await;
    f.ok("DELETE", &format!("{MAPS}/a?propagationPolicy=Orphan"), Value::Null).await;
    f.eventually_gone(&format!("{MAPS}/a")).await;
    let b = f.ok("GET", &format!("{MAPS}/b"), Value::Null).await;
    assert!(b["metadata"].get("ownerReferences").is_none());
}

#[tokio::test(start_paused = true)]
async fn nonexistent_owners_count_as_deleted_but_unknown_kinds_do_not() {
    let f = Fixture::new().await;
    let ghost = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": "ghost", "uid": "none"});
    f.ok("POST", MAPS, owned("kept", &[ghost("Mystery")])).await;
    f.ok("POST", MAPS, owned("dangling", &[ghost("ConfigMap")])).await;
    f.eventually_gone(&format!("{MAPS}/dangling")).await;
    f.ok("GET", &format!("{MAPS}/kept"), Value::Null).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_deletes_namespaced_dependents() {
    let f = Fixture::new().await;
    let definition = json!({"metadata": {"name": "owners.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"plural": "owners", "kind": "Owner"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    crate::rest::tests::custom::established(&f, definition).await;
    let a = f
        .ok(
            "POST",
            "/apis/example.com/v1/owners",
            json!({"apiVersion": "example.com/v1", "kind": "Owner", "metadata": {"name": "a"}}),
        )
        .await;
    f.ok("POST", MAPS, owned("b", &[owner(&a, true)])).await;
    f.ok("DELETE", "/apis/example.com/v1/owners/a?propagationPolicy=Foreground", Value::Null).await;
    f.eventually_gone(&format!("{MAPS}/b")).await;
    f.eventually_gone("/apis/example.com/v1/owners/a").await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_deleted_with_its_content_after_all_finalizers() {
    let f = Fixture::new().await;
    f.ok("POST", "/api/v1/namespaces", json!({"metadata": {"name": "ns"}})).await;
    f.eventually("/api/v1/namespaces/ns/serviceaccounts/default", Value::is_object).await;
    let maps = "/api/v1/namespaces/ns/configmaps";
    for name in ["a", "b", "c"] {
        f.ok("POST", maps, config_map(name)).await;
    }
    f.ok("PATCH merge", &format!("{maps}/a"), json!({"metadata": {"finalizers": ["x.y/z"]}})).await;
    let marked = f.ok("DELETE", "/api/v1/namespaces/ns", Value::Null).await;
    assert_eq!(marked["status"]["phase"], "Terminating");
    let condition = |object: &Value, kind: &str| {
        let list = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        list.iter().find(|c| c["type"] == kind).map_or(Value::Null, |c| c["message"].clone())
    };
    let waiting =
        f.eventually("/api/v1/namespaces/ns", |n| condition(n, "NamespaceContentRemaining").is_string()).await;
    assert_eq!(
        condition(&waiting, "NamespaceContentRemaining"),
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    assert_eq!(
        condition(&waiting, "NamespaceFinalizersRemaining"),
        "Some content in the namespace has finalizers remaining: x.y/z in 1 resource instances"
    );
    assert!(f.refused("DELETE", "/api/v1/namespaces/ns", Value::Null).await.starts_with("409 Conflict"));
    f.ok("PATCH merge", &format!("{maps}/a"), json!({"metadata": {"finalizers": null}})).await;
    f.eventually_gone("/api/v1/namespaces/ns").await;
    assert_eq!(
        f.cluster.store().peek_list(&"serviceaccounts".into(), Some("ns"), None, 9, None).unwrap().entries.len(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_starts_with_its_namespaces_and_their_default_objects() {
    let f = Fixture::new().await;
    let list = f.ok("GET", "/api/v1/namespaces", Value::Null).await;
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|i| i["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let target = "/api/v1/namespaces/kube-system/serviceaccounts/default";
    f.eventually(target, Value::is_object).await;
    f.ok("DELETE", target, Value::Null).await;
    f.eventually(target, Value::is_object).await;
}

struct Signer;

impl TokenSigner for Signer {
    fn secret_token(&self, _: &Cluster, binding: &TokenBinding<'_>) -> String {
        format!("{}/{}", binding.namespace, binding.service_account)
    }

    fn ca_certificate(&self) -> String {
        "CA".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn token_secrets_are_filled_and_deleted_with_their_account() {
    let f = Fixture::of(builder().token_signer(Arc::new(Signer))).await;
    f.eventually("/api/v1/namespaces/default/configmaps/kube-root-ca.crt", |m| m["data"]["ca.crt"] == "CA").await;
    f.ok("POST", "/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "robot"}})).await;
    let secret = |account: &str| {
        json!({"metadata": {"name": format!("{account}-token"), "annotations": {"kubernetes.io/service-account.name": account}},
               "type": "kubernetes.io/service-account-token"})
    };
    let secrets = "/api/v1/namespaces/default/secrets";
    f.ok("POST", secrets, secret("robot")).await;
    let filled = f.eventually(&format!("{secrets}/robot-token"), |s| s["data"]["token"].is_string()).await;
    assert_eq!(filled["data"]["token"], "ZGVmYXVsdC9yb2JvdA==");
    assert_eq!((&filled["data"]["ca.crt"], &filled["data"]["namespace"]), (&json!("Q0E="), &json!("ZGVmYXVsdA==")));
    f.ok("POST", secrets, secret("nobody")).await;
    f.eventually_gone(&format!("{secrets}/nobody-token")).await;
    f.ok("DELETE", "/api/v1/namespaces/default/serviceaccounts/robot", Value::Null).await;
    f.eventually_gone(&format!("{secrets}/robot-token")).await;
}

#[tokio::test(start_paused = true)]
async fn events_are_deleted_an_hour_after_their_last_change() {
    let f = Fixture::new().await;
    let target = "/api/v1/namespaces/default/events/e";
    f.ok("POST", "/api/v1/namespaces/default/events", json!({"metadata": {"name": "e"}, "count": 1})).await;
    tokio::time::sleep(std::time::Duration::from_mins(40)).await;
    f.ok("PATCH merge", target, json!({"count": 2})).await;
    tokio::time::sleep(std::time::Duration::from_mins(40)).await;
    f.ok("GET", target, Value::Null).await;
    tokio::time::sleep(std::time::Duration::from_mins(21)).await;
    assert_eq!(f.call("GET", target, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn clusters_are_isolated_and_the_same_seed_gives_the_same_objects() {
    let f = Fixture::new().await;
    let other = f.server.cluster("other");
    f.ok("POST", MAPS, config_map("a")).await;
    assert_eq!(other.handle(Fixture::request("GET", &format!("{MAPS}/a"), &Value::Null)).await.status, 404);
    assert_eq!(f.server.clusters(), ["other", "test"]);
    let trace = async || {
        let f = Fixture::new().await;
        f.ok("POST", MAPS, json!({"metadata": {"generateName": "x-"}})).await;
        f.eventually("/api/v1/namespaces/kube-system/serviceaccounts/default", Value::is_object).await;
        f.ok("GET", "/api/v1/serviceaccounts", Value::Null).await.to_string()
            + &f.ok("GET", "/api/v1/configmaps", Value::Null).await.to_string()
    };
    assert_eq!(trace().await, trace().await);
}

#[tokio::test]
async fn a_restarted_server_has_its_clusters() {
    let directory = tempfile::tempdir().unwrap();
    let start = || Builder::default().kinds(crate::testing::kinds()).data_dir(directory.path());
    let f = Fixture::of(start()).await;
    crate::rest::tests::custom::established(&f, crate::rest::tests::custom::cars()).await;
    let made = f.ok("POST", MAPS, config_map("a")).await;
    let refused = start().build().await.unwrap_err().to_string();
    assert!(refused.contains("it is in use by process"), "{refused}");
    f.server.close().await;
    drop(f);
    let again = start().build().await.unwrap();
    assert_eq!(again.clusters(), ["test"]);
    let f = Fixture { cluster: again.cluster("test"), server: again };
    assert_eq!(f.ok("GET", &format!("{MAPS}/a"), Value::Null).await, made);
    let cars = f.ok("GET", "/apis/example.com/v1/cars", Value::Null).await;
    assert_eq!(cars["kind"], "CarList", "served from the first request on");
}
