//! Objects that are nested deeper than serde_json reads; real API servers accept them.

use std::collections::BTreeSet;

use fleet_runtime::{ClusterId, KindId, ObjectKey, Runtime};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::faulty_client::{Fault, FaultyClient};
use crate::fixture::{PARENTS, TestServer, child_runtime, parents_kind, start, until};

const LIST: &str = "/api/v1/namespaces/parents/configmaps";
/// As deep as Kubernetes accepts.
const LEVELS: usize = 9_000;

fn nested() -> String {
    format!("{}1{}", r#"{"f:a":"#.repeat(LEVELS), "}".repeat(LEVELS))
}

/// The server's list of parents, but all have deep `fieldsV1`, and `deep` also has deep data.
async fn listed(faulty: &FaultyClient, path: &str) -> String {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let mut list: Value = faulty.client().request(request).await.unwrap();
    for item in list["items"].as_array_mut().unwrap() {
        item["metadata"]["managedFields"] = json!([{"manager": "m", "fieldsV1": "NESTED"}]);
        if item["metadata"]["name"] == "deep" {
            item["data"] = json!({"count": "NESTED"});
        }
    }
    list.to_string().replace(r#""NESTED""#, &nested())
}

#[tokio::test(start_paused = true)]
async fn audit_03_one_deep_object_of_a_list_is_reported_and_the_others_are_reconciled() {
    let server = TestServer::new().await;
    for name in ["deep", "web"] {
        server.put_parent(name, 2).await;
    }
    let faulty = server.faulty_client();
    let list = listed(&faulty, LIST).await;
    faulty.inject("GET", LIST, 1, Fault::Body(list));
    let (runtime, _) = child_runtime(faulty.client(), server.options());
    let running = start(runtime);
    running.settled().await;
    assert_eq!(server.child_names().await, ["web-000", "web-001"]);
    assert_eq!(running.metrics.unreadable_objects(&KindId::of::<ConfigMap>()), 1);

    // The watch delivers a version that can be decoded.
    server.put_parent("deep", 1).await;
    running.settled().await;
    assert_eq!(server.child_names().await, ["deep-000", "web-000", "web-001"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_03_one_deep_event_of_a_watch_does_not_end_it() {
    let server = TestServer::new().await;
    server.put_parent("web", 1).await;
    let faulty = server.faulty_client();
    let event = |kind: &str, name: &str, revision: u64, data: &str| {
        format!(
            r#"{{"type":"{kind}","object":{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}",
               "namespace":"{PARENTS}","uid":"{name}","resourceVersion":"{revision}"}},"data":{data}}}}}"#
        )
        .replace('\n', "")
    };
    let events = [
        event("ADDED", "deep", 1_000, &format!(r#"{{"count":{}}}"#, nested())),
        event("ADDED", "late", 1_001, r#"{"count":"1"}"#),
        event("DELETED", "deep", 1_002, &format!(r#"{{"count":{}}}"#, nested())),
    ];
    faulty.inject("WATCH", LIST, 1, Fault::Body(events.join("\n") + "\n"));
    let mut runtime = Runtime::new(faulty.client(), server.options());
    let parents = runtime.cache(parents_kind());
    let running = start(runtime);
    until("the event after the deep one has arrived", || {
        parents.get(&ObjectKey::namespaced(PARENTS, "late")).is_some()
    })
    .await;
    assert_eq!(running.metrics.unreadable_objects(&KindId::of::<ConfigMap>()), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_03_metadata_watches_and_reads_of_a_kind_survive_its_deep_objects() {
    let server = TestServer::new().await;
    for name in ["deep", "web"] {
        server.put_parent(name, 2).await;
    }
    let faulty = server.faulty_client();
    let list = listed(&faulty, "/api/v1/configmaps").await;
    faulty.inject("GET", "/api/v1/configmaps", 3, Fault::Body(list));
    let mut runtime = Runtime::new(faulty.client(), server.options());
    let (metadata, reader) = (runtime.metadata(ClusterId::MAIN), runtime.reader());
    let running = start(runtime);
    let maps = KindId::of::<ConfigMap>();
    metadata.set_kinds(&BTreeSet::from([maps.clone()]));
    until("the metadata is complete", || metadata.is_complete(&maps)).await;
    assert!(metadata.get(&maps, &ObjectKey::namespaced(PARENTS, "web")).is_some());

    let found = reader.list_readable(&maps, None).await.unwrap();
    assert_eq!(found.objects.len(), server.maps_everywhere().await - 1);
    let [error] = found.unreadable.as_slice() else { panic!("{:?}", found.unreadable) };
    assert_eq!(error.to_string(), "configmaps parents/deep cannot be read");
    let refused = reader.list(&maps, None, None).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "configmaps parents/deep cannot be read",
        "the caller must not conclude that it is gone"
    );
    running.stop().await;
}
