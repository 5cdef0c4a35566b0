//! Changing objects: PUT, PATCH, status, scale.

use crate::testing::{Fixture, config_map, deployment};
use serde_json::{Value, json};

const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";

#[tokio::test(start_paused = true)]
async fn a_put_replaces_if_the_version_is_the_current_one() {
    let f = Fixture::new().await;
    let made = f.ok("POST", MAPS, config_map("a")).await;
    let mut next = made.clone();
    next["data"]["a"] = "2".into();
    let changed = f.ok("PUT", MAP, next.clone()).await;
    assert_ne!(changed["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(
        f.refused("PUT", MAP, next).await,
        "409 Conflict: Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    assert_eq!(f.ok("PUT", MAP, config_map("a")).await["data"]["a"], "1", "no version: unconditional");
    assert_eq!(
        f.refused("PUT", &format!("{MAPS}/b"), config_map("b")).await,
        "404 NotFound: configmaps \"b\" not found"
    );
    assert_eq!(
        f.refused("PUT", MAP, config_map("b")).await,
        "400 BadRequest: the name of the object (b) does not match the name on the URL (a)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_without_changes_keeps_the_revision() {
    let f = Fixture::new().await;
    let made = f.ok("POST", MAPS, config_map("a")).await;
    let revision = f.cluster.store().revision();
    assert_eq!(f.ok("PUT", MAP, config_map("a")).await, made);
    assert_eq!(f.ok("PATCH merge", MAP, json!({"data": {"a": "1"}})).await, made);
    assert_eq!(f.cluster.store().revision(), revision);
    let applied = f.ok("PATCH apply", &format!("{MAP}?fieldManager=m"), config_map("a")).await;
    let owners = applied["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        owners.iter().any(|o| o["manager"] == "m" && o["operation"] == "Apply"),
        "an apply adds an owner: {owners:?}"
    );
    let revision = f.cluster.store().revision();
    assert_eq!(f.ok("PATCH apply", &format!("{MAP}?fieldManager=m"), config_map("a")).await, applied);
    assert_eq!(f.cluster.store().revision(), revision);
}

#[tokio::test(start_paused = true)]
async fn identity_cannot_be_changed() {
    let f = Fixture::new().await;
    f.ok("POST", MAPS, config_map("a")).await;
    let uid = f.refused("PATCH merge", MAP, json!({"metadata": {"uid": "other"}})).await;
    assert_eq!(
        uid,
        "422 Invalid: ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable"
    );
    let mut other = config_map("a");
    other["metadata"]["uid"] = "other".into();
    let put = f.refused("PUT", MAP, other).await;
    let expected = "409 Conflict: Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, \
                    Key: /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
                    precondition: other, UID in object meta: ";
    assert!(put.starts_with(expected), "{put}");
    let time = f.ok("PATCH merge", MAP, json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}})).await;
    assert_eq!(time["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z", "it is put back");
    let deletion =
        f.refused("PATCH merge", MAP, json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}})).await;
    assert!(deletion.contains("metadata.deletionTimestamp: Invalid value"));
}

#[tokio::test(start_paused = true)]
async fn a_put_creates_where_the_kind_allows_it() {
    let f = Fixture::new().await;
    let target = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let (status, _) = f.call("PUT", target, json!({"metadata": {"name": "l"}, "spec": {"x": 1}})).await;
    assert_eq!(status, 201);
    let (status, _) = f.call("PUT", target, json!({"metadata": {"name": "l"}, "spec": {"x": 2}})).await;
    assert_eq!(status, 200);
}

#[tokio::test(start_paused = true)]
async fn spec_and_status_are_separate_and_only_spec_raises_the_generation() {
    let f = Fixture::new().await;
    f.ok("POST", DEPLOYMENTS, deployment("d")).await;
    let both = json!({"spec": {"replicas": 2}, "status": {"replicas": 5}, "metadata": {"labels": {"x": "y"}}});
    let main = f.ok("PATCH merge", DEPLOYMENT, both.clone()).await;
    assert_eq!(
        (&main["spec"]["replicas"], main.get("status"), &main["metadata"]["generation"]),
        (&json!(2), None, &json!(2))
    );
    let both = json!({"spec": {"replicas": 7}, "status": {"replicas": 5}, "metadata": {"labels": {"x": "z"}}});
    let status = f.ok("PATCH merge", &format!("{DEPLOYMENT}/status"), both).await;
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(2), &json!(5)));
    assert_eq!((&status["metadata"]["generation"], &status["metadata"]["labels"]["x"]), (&json!(2), &json!("y")));
    let mut put = status.clone();
    put["status"] = json!({"replicas": 6});
    assert_eq!(f.ok("PUT", &format!("{DEPLOYMENT}/status"), put).await["status"]["replicas"], 6);
    assert_eq!(f.ok("GET", &format!("{DEPLOYMENT}/status"), Value::Null).await["status"]["replicas"], 6);
    let labels = f.ok("PATCH merge", DEPLOYMENT, json!({"metadata": {"labels": {"q": "r"}}})).await;
    assert_eq!(labels["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn scale_reads_and_writes_the_replicas() {
    let f = Fixture::new().await;
    f.ok("POST", DEPLOYMENTS, deployment("d")).await;
    let target = format!("{DEPLOYMENT}/scale");
    let scale = f.ok("GET", &target, Value::Null).await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(1)));
    let mut wanted = scale.clone();
    wanted["spec"]["replicas"] = 4.into();
    assert_eq!(f.ok("PUT", &target, wanted.clone()).await["spec"]["replicas"], 4);
    assert!(f.refused("PUT", &target, wanted).await.starts_with("409 Conflict"), "the version of a Scale counts");
    assert_eq!(f.ok("PATCH merge", &target, json!({"spec": {"replicas": 5}})).await["spec"]["replicas"], 5);
    let object = f.ok("GET", DEPLOYMENT, Value::Null).await;
    assert_eq!((&object["spec"]["replicas"], &object["metadata"]["generation"]), (&json!(5), &json!(3)));
    assert!(
        f.refused("PATCH merge", &target, json!({"spec": {"replicas": -1}}))
            .await
            .contains("spec.replicas: Invalid value: -1")
    );
}

#[tokio::test(start_paused = true)]
async fn patches_are_checked_before_they_are_applied() {
    let f = Fixture::new().await;
    f.ok("POST", MAPS, config_map("a")).await;
    assert_eq!(
        f.refused("PATCH merge", &format!("{MAPS}/b"), json!({})).await,
        "404 NotFound: configmaps \"b\" not found"
    );
    assert_eq!(f.call("PATCH", MAP, json!({})).await.0, 415);
    assert!(f.refused("PATCH merge", MAP, json!([1])).await.starts_with("400 BadRequest: error decoding patch"));
    assert!(f.refused("PATCH json", MAP, json!({})).await.starts_with("400 BadRequest: error decoding patch"));
    assert_eq!(
        f.refused("PATCH apply", MAP, config_map("a")).await,
        "422 Invalid: PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
    );
    assert!(
        f.refused("PATCH merge", &format!("{MAP}?force=true"), json!({}))
            .await
            .contains("force: Forbidden: may not be specified for non-apply patch")
    );
    assert!(
        f.refused("PATCH merge", MAP, json!({"metadata": {"resourceVersion": "1"}})).await.starts_with("409 Conflict")
    );
    let (status, made) = f.call("PATCH apply", &format!("{MAPS}/new?fieldManager=m"), config_map("new")).await;
    assert_eq!((status, &made["metadata"]["name"]), (201, &json!("new")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_patches_are_all_applied() {
    let f = std::sync::Arc::new(Fixture::new().await);
    f.ok("POST", MAPS, config_map("a")).await;
    let patches = (0..20).map(|n| {
        let f = f.clone();
        tokio::spawn(async move { f.ok("PATCH merge", MAP, json!({"data": {format!("k{n}"): "x"}})).await })
    });
    for patch in patches.collect::<Vec<_>>() {
        patch.await.unwrap();
    }
    assert_eq!(f.ok("GET", MAP, Value::Null).await["data"].as_object().unwrap().len(), 21);
}

#[tokio::test(start_paused = true)]
async fn a_patch_refused_by_strict_validation_shows_its_result() {
    let f = Fixture::new().await;
    let definition = json!({"metadata": {"name": "cars.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "cars", "kind": "Car"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    super::custom::established(&f, definition).await;
    let cars = "/apis/example.com/v1/namespaces/default/cars";
    f.ok("POST", cars, json!({"apiVersion": "example.com/v1", "kind": "Car", "metadata": {"name": "a"}})).await;
    let refused = f.refused("PATCH merge", &format!("{cars}/a?fieldValidation=Strict"), json!({"surprise": 1})).await;
    let start = "422 Invalid:  \"\" is invalid: patch: Invalid value: \"{\\\"apiVersion\\\":\\\"example.com/v1\\\"";
    assert!(refused.starts_with(start), "{refused}");
    assert!(refused.ends_with("strict decoding error: unknown field \"surprise\""), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_creates_needs_a_name_and_expects_no_uid() {
    let f = Fixture::new().await;
    let apply = format!("{MAP}?fieldManager=m");
    let mut wanted = config_map("a");
    wanted["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555".into();
    let refused = f.refused("PATCH apply", &apply, wanted).await;
    assert!(refused.starts_with("409 Conflict") && refused.contains("no existing object was found"), "{refused}");
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}});
    let refused = f.refused("PATCH apply", &apply, nameless).await;
    assert!(refused.starts_with("400 BadRequest") && refused.ends_with("name must be provided"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_applied_scale_owns_the_number_as_an_apply() {
    let f = Fixture::new().await;
    f.ok("POST", DEPLOYMENTS, deployment("d")).await;
    let scale =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 5}});
    f.ok("PATCH apply", &format!("{DEPLOYMENT}/scale?fieldManager=scaler&force=true"), scale).await;
    let object = f.ok("GET", DEPLOYMENT, Value::Null).await;
    let owners = object["metadata"]["managedFields"].as_array().unwrap();
    let scaler = owners.iter().find(|owner| owner["manager"] == "scaler").unwrap();
    assert_eq!((&scaler["operation"], &scaler["subresource"]), (&json!("Apply"), &json!("scale")));
    assert_eq!(object["spec"]["replicas"], 5);
}
