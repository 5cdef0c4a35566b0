//! Deleting objects.

use crate::testing::{Fixture, config_map, deployment};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a";

#[tokio::test(start_paused = true)]
async fn an_object_without_finalizers_is_deleted_at_once_and_returned_as_a_status() {
    let f = Fixture::new().await;
    let made = f.ok("POST", MAPS, config_map("a")).await;
    let answer = f.ok("DELETE", MAP, json!({})).await;
    assert_eq!(
        answer,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}})
    );
    assert_eq!(f.refused("DELETE", MAP, Value::Null).await, "404 NotFound: configmaps \"a\" not found");
    f.ok("POST", "/api/v1/namespaces/default/pods", json!({"metadata": {"name": "p"}})).await;
    assert_eq!(f.ok("DELETE", "/api/v1/namespaces/default/pods/p", Value::Null).await["kind"], "Pod");
}

#[tokio::test(start_paused = true)]
async fn an_object_is_deleted_with_its_last_finalizer() {
    let f = Fixture::new().await;
    let mut object = deployment("d");
    object["metadata"]["finalizers"] = json!(["x.y/z"]);
    f.ok("POST", "/apis/apps/v1/namespaces/default/deployments", object).await;
    let target = "/apis/apps/v1/namespaces/default/deployments/d";
    let marked = f.ok("DELETE", target, Value::Null).await;
    assert_eq!(
        (&marked["metadata"]["generation"], &marked["metadata"]["deletionGracePeriodSeconds"]),
        (&json!(2), &json!(0))
    );
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(f.ok("DELETE", target, Value::Null).await, marked, "asking again changes nothing");
    let more = f.refused("PATCH merge", target, json!({"metadata": {"finalizers": ["x.y/z", "a.b/c"]}})).await;
    assert!(
        more.contains("metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted")
    );
    f.ok("PATCH merge", target, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(f.call("GET", target, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn preconditions_are_checked() {
    let f = Fixture::new().await;
    let made = f.ok("POST", MAPS, config_map("a")).await;
    let uid = f.refused("DELETE", MAP, json!({"preconditions": {"uid": "x"}})).await;
    assert!(uid.starts_with("409 Conflict: Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID in record ("));
    let version = f.refused("DELETE", MAP, json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert!(
        version.contains("the ResourceVersion in the precondition (1) does not match the ResourceVersion in record")
    );
    let right = json!({"preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}});
    f.ok("DELETE", MAP, right).await;
}

#[tokio::test(start_paused = true)]
async fn contradicting_options_are_refused() {
    let f = Fixture::new().await;
    f.ok("POST", MAPS, config_map("a")).await;
    let both = f.refused("DELETE", MAP, json!({"propagationPolicy": "Orphan", "orphanDependents": true})).await;
    assert!(both.contains(
        "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set"
    ));
    let unknown = f.refused("DELETE", &format!("{MAP}?propagationPolicy=Maybe"), Value::Null).await;
    assert!(unknown.starts_with(
        "422 Invalid: DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Maybe\""
    ));
    assert_eq!(f.call("DELETE", &format!("{MAP}?dryRun=All"), Value::Null).await.0, 200);
    assert_eq!(f.call("GET", MAP, Value::Null).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_sets_the_deletion_time_and_zero_deletes() {
    let f = Fixture::new().await;
    let target = "/api/v1/namespaces/default/pods/p";
    f.ok("POST", "/api/v1/namespaces/default/pods", json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}))
        .await;
    let marked = f.ok("DELETE", target, Value::Null).await;
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
    assert_eq!(f.call("GET", target, Value::Null).await.0, 200);
    f.ok("DELETE", &format!("{target}?gracePeriodSeconds=0"), Value::Null).await;
    assert_eq!(f.call("GET", target, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn audit_02_any_grace_period_is_accepted_and_later_ones_only_shorten_it() {
    let f = Fixture::new().await;
    let target = "/api/v1/namespaces/default/pods/p";
    f.ok("POST", "/api/v1/namespaces/default/pods", json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}))
        .await;
    for (asked, seconds, ends) in [
        (i64::MAX, i64::MAX, "9999-12-30T22:00:00Z"),
        (500, 500, "2026-01-01T00:08:20Z"),
        (600, 500, "2026-01-01T00:08:20Z"),
        (20, 20, "2026-01-01T00:00:20Z"),
        (i64::MIN, 1, "2026-01-01T00:00:01Z"),
    ] {
        let marked = f.ok("DELETE", &format!("{target}?gracePeriodSeconds={asked}"), Value::Null).await;
        let metadata = &marked["metadata"];
        let shown = (&metadata["deletionGracePeriodSeconds"], &metadata["deletionTimestamp"]);
        assert_eq!(shown, (&json!(seconds), &json!(ends)), "{asked}");
    }
    f.ok("DELETE", &format!("{target}?gracePeriodSeconds=0"), Value::Null).await;
    assert_eq!(f.call("GET", target, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn delete_collection_deletes_only_matches() {
    let f = Fixture::new().await;
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"app": app});
        f.ok("POST", MAPS, object).await;
    }
    let answer = f.ok("DELETE", &format!("{MAPS}?labelSelector=app%3Dx"), Value::Null).await;
    assert_eq!((answer["kind"].as_str(), answer["items"].as_array().unwrap().len()), (Some("ConfigMapList"), 2));
    let left = f.ok("GET", MAPS, Value::Null).await;
    let names: Vec<&str> =
        left["items"].as_array().unwrap().iter().map(|i| i["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b"]);
}
