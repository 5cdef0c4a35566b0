//! The server as its users meet it: through a client in the same process.

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::{Embedded, Options, ROOT_CLUSTER};
use crate::auth::User;
use crate::http::LocalService;

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
