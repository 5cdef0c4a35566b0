//! The controllers of a cluster survive any object, and a panic is visible.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::{Builder, Embedded, Options, ROOT_CLUSTER, admin, send};
use crate::error::ApiError;
use crate::http::LocalService;
use crate::registry::ResourceInfo;
use crate::rest::admission::{Admission, Attributes, Operation, Phase, Warnings};

async fn create(service: &LocalService, path: &str, object: &Value) -> Value {
    let (status, answer) = send(service, "POST", path, object).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    answer
}

/// Waits until a path answers with this status. Virtual time passes only when every task waits.
async fn answers(service: &LocalService, path: &str, wanted: StatusCode) {
    for _ in 0..100 {
        if send(service, "GET", path, &Value::Null).await.0 == wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{path} never answered {wanted}");
}

fn pod(grace: i64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "patient"},
        "spec": {
            "nodeName": "node", "terminationGracePeriodSeconds": grace,
            "containers": [{"name": "main", "image": "main:1"}],
        },
    })
}

async fn namespace(service: &LocalService, name: &str) {
    create(
        service,
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
    )
    .await;
    answers(service, &format!("/api/v1/namespaces/{name}/serviceaccounts/default"), StatusCode::OK).await;
}

#[tokio::test(start_paused = true)]
async fn audit_02_a_pod_with_the_longest_grace_period_stops_no_controller() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let root = server.service(ROOT_CLUSTER, admin());
    namespace(&root, "doomed").await;
    create(&root, "/api/v1/namespaces/doomed/pods", &pod(i64::MAX)).await;
    let (status, _) = send(&root, "DELETE", "/api/v1/namespaces/doomed", &Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    namespace(&root, "next").await;
    let (_, marked) = send(&root, "GET", "/api/v1/namespaces/doomed/pods/patient", &Value::Null).await;
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], i64::MAX, "{marked}");
    assert!(marked["metadata"]["deletionTimestamp"].as_str().is_some_and(|at| at.starts_with("9999-")), "{marked}");
    let now = "/api/v1/namespaces/doomed/pods/patient?gracePeriodSeconds=0";
    assert_eq!(send(&root, "DELETE", now, &Value::Null).await.0, StatusCode::OK);
    answers(&root, "/api/v1/namespaces/doomed", StatusCode::NOT_FOUND).await;
    assert_eq!(send(&root, "GET", "/readyz", &Value::Null).await.0, StatusCode::OK);
}

#[tokio::test]
async fn audit_02_a_cluster_with_such_a_pod_starts_from_its_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options { data_dir: Some(directory.path().to_owned()), ..Options::default() };
    let server = Embedded::start(options()).await.unwrap();
    let root = server.service(ROOT_CLUSTER, admin());
    namespace(&root, "doomed").await;
    create(&root, "/api/v1/namespaces/doomed/pods", &pod(i64::MAX)).await;
    assert_eq!(send(&root, "DELETE", "/api/v1/namespaces/doomed", &Value::Null).await.0, StatusCode::OK);
    server.close().await;
    drop((root, server));

    let server = Embedded::start(options()).await.unwrap();
    let root = server.service(ROOT_CLUSTER, admin());
    namespace(&root, "next").await;
    let now = "/api/v1/namespaces/doomed/pods/patient?gracePeriodSeconds=0";
    assert_eq!(send(&root, "DELETE", now, &Value::Null).await.0, StatusCode::OK);
    answers(&root, "/api/v1/namespaces/doomed", StatusCode::NOT_FOUND).await;
}

/// Panics when a ServiceAccount is created, as long as it is broken.
#[derive(Debug, Default)]
struct Broken(AtomicBool);

impl Admission for Broken {
    fn phase(&self) -> Phase {
        Phase::Validating
    }

    fn handles(&self, operation: Operation, info: &ResourceInfo, _: Option<&str>) -> bool {
        operation == Operation::Create && info.plural == "serviceaccounts"
    }

    fn admit<'a>(&'a self, _: &'a mut Attributes<'_>) -> BoxFuture<'a, Result<Warnings, ApiError>> {
        assert!(!self.0.load(Ordering::Relaxed), "admission is broken");
        Box::pin(std::future::ready(Ok(Warnings::new())))
    }
}

async fn text(service: &LocalService, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Full::<bytes::Bytes>::default()).unwrap();
    let response = service.clone().call(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn audit_02_controllers_that_panic_are_started_again_and_show_in_readiness_and_metrics() {
    let broken = Arc::new(Broken(AtomicBool::new(true)));
    let server = Embedded::with(Builder::default().admission(broken.clone()), Options::default()).await.unwrap();
    let root = server.service(ROOT_CLUSTER, admin());
    answers(&root, "/readyz", StatusCode::INTERNAL_SERVER_ERROR).await;
    let (_, shown) = text(&root, "/readyz").await;
    assert!(shown.contains("[-]controllers failed"), "{shown}");
    let (_, shown) = text(&root, "/metrics").await;
    assert!(shown.contains("apiserver_task_healthy{task=\"controllers\"} 0\n"), "{shown}");

    broken.0.store(false, Ordering::Relaxed);
    answers(&root, "/readyz", StatusCode::OK).await;
    answers(&root, "/api/v1/namespaces/default/serviceaccounts/default", StatusCode::OK).await;
    namespace(&root, "next").await;
    let (_, shown) = text(&root, "/metrics").await;
    assert!(shown.contains("apiserver_task_healthy{task=\"controllers\"} 1\n"), "{shown}");
    assert!(!shown.contains("apiserver_task_restarts_total{task=\"controllers\"} 0\n"), "{shown}");
}
