//! The server through a client in the same process.

mod access;
mod controllers;

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::{Embedded, Options, ROOT_CLUSTER};
use crate::auth::User;
use crate::http::LocalService;
use crate::server::Builder;

fn admin() -> User {
    User::authenticated("admin", ["system:masters".to_owned()])
}

async fn send(service: &LocalService, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).body(Full::<bytes::Bytes>::from(body)).unwrap();
    let response = service.clone().call(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"wheels": {"type": "integer", "default": 4, "minimum": 1}}},
    }}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cars.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "cars", "kind": "Car"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

#[tokio::test]
async fn a_definition_is_established_and_its_objects_are_defaulted_and_checked() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let service = server.service(ROOT_CLUSTER, admin());
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, made) = send(&service, "POST", definitions, &definition()).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let cars = "/apis/example.com/v1/namespaces/default/cars";
    for _ in 0..100 {
        if send(&service, "GET", cars, &Value::Null).await.0 == StatusCode::OK {
            break;
        }
        tokio::task::yield_now().await;
    }
    let car = json!({"apiVersion": "example.com/v1", "kind": "Car", "metadata": {"name": "a"}, "spec": {"x": 1}});
    let (status, made) = send(&service, "POST", cars, &car).await;
    assert_eq!((status, &made["spec"]), (StatusCode::CREATED, &json!({"wheels": 4})), "{made}");
}

#[tokio::test]
async fn clusters_created_later_start_from_the_template_and_are_independent() {
    let first = Embedded::start(Options::default()).await.unwrap();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    assert_eq!(send(&first.service("model", admin()), "POST", maps, &map("a")).await.0, StatusCode::CREATED);
    let template = first.template().with_new_clusters_like("model");
    first.close().await;
    let second = Embedded::with(Builder::default().from_template(&template), Options::default()).await.unwrap();
    assert_eq!(second.server.clusters(), [ROOT_CLUSTER]);
    let (one, other) = (second.service("one", admin()), second.service("other", admin()));
    assert_eq!(send(&one, "DELETE", &format!("{maps}/a"), &Value::Null).await.0, StatusCode::OK);
    assert_eq!(send(&one, "GET", &format!("{maps}/a"), &Value::Null).await.0, StatusCode::NOT_FOUND);
    assert_eq!(send(&other, "GET", &format!("{maps}/a"), &Value::Null).await.0, StatusCode::OK);
    let of_root = second.service(ROOT_CLUSTER, admin());
    assert_eq!(send(&of_root, "GET", &format!("{maps}/a"), &Value::Null).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn audit_17_objects_above_the_limit_of_etcd_are_refused_as_a_real_cluster_does() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let service = server.service(ROOT_CLUSTER, admin());
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = |bytes: usize| {
        let rule =
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x".repeat(bytes)]});
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "large"}, "rules": [rule],
        })
    };
    let (status, refused) = send(&service, "POST", roles, &role(1_700_000)).await;
    assert_eq!(
        (status, refused["message"].as_str()),
        (StatusCode::INTERNAL_SERVER_ERROR, Some("etcdserver: request is too large"),)
    );
    assert!(refused.get("reason").is_none());
    let (status, refused) = send(&service, "POST", roles, &role(2_200_000)).await;
    let message = refused["message"].as_str().unwrap_or_default();
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(message.starts_with("rpc error: code = ResourceExhausted desc = trying to send message larger than max ("));
    assert_eq!(send(&service, "GET", &format!("{roles}/large"), &Value::Null).await.0, StatusCode::NOT_FOUND);

    assert_eq!(send(&service, "POST", roles, &role(1_500_000)).await.0, StatusCode::CREATED);
    let (status, refused) = send(&service, "PUT", &format!("{roles}/large"), &role(1_600_000)).await;
    assert_eq!(
        (status, refused["message"].as_str()),
        (StatusCode::INTERNAL_SERVER_ERROR, Some("etcdserver: request is too large"),)
    );
    let (_, kept) = send(&service, "GET", &format!("{roles}/large"), &Value::Null).await;
    assert_eq!(kept["rules"][0]["resourceNames"][0].as_str().map(str::len), Some(1_500_000));
}

/// Applies a configuration as the manager `m`, with force.
async fn apply(service: &LocalService, path: &str, body: &Value) -> Value {
    let request = Request::builder()
        .method("PATCH")
        .uri(format!("{path}?fieldManager=m&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .body(Full::<bytes::Bytes>::from(body.to_string()))
        .unwrap();
    let response = service.clone().call(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

/// kube-apiserver does the same; the parity cases `apply/first-after-create*` compare it.
#[tokio::test]
async fn last_09_the_first_apply_after_a_create_raises_the_generation_only_with_the_spec_or_an_annotation() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let service = server.service(ROOT_CLUSTER, admin());
    let labels = json!({"app": "web"});
    let mut web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}},
    }});
    let generation = |object: &Value| object["metadata"]["generation"].as_i64();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "one"}});
    assert_eq!(send(&service, "POST", "/api/v1/namespaces", &namespace).await.0, StatusCode::CREATED);
    let deployments = "/apis/apps/v1/namespaces/one/deployments";
    let (status, made) = send(&service, "POST", deployments, &web).await;
    assert_eq!((status, generation(&made)), (StatusCode::CREATED, Some(1)), "{made}");
    let target = format!("{deployments}/web");
    assert_eq!(generation(&apply(&service, &target, &web).await), Some(1), "the same spec");
    web["metadata"]["annotations"] = json!({"x": "one"});
    assert_eq!(generation(&apply(&service, &target, &web).await), Some(2), "a new annotation");
    assert_eq!(generation(&apply(&service, &target, &web).await), Some(2), "the same annotation");
    web["metadata"]["labels"] = labels;
    assert_eq!(generation(&apply(&service, &target, &web).await), Some(2), "a new label");
    web["spec"]["replicas"] = json!(7);
    assert_eq!(generation(&apply(&service, &target, &web).await), Some(3), "another spec");
}
