//! The server as its users meet it: through a client in the same process.

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::{Embedded, Options, ROOT_CLUSTER};
use crate::auth::User;
use crate::http::LocalService;
use crate::server::Server;

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
async fn clusters_that_are_made_later_begin_as_the_template_says_and_go_their_own_ways() {
    let first = Embedded::start(Options::default()).await.unwrap();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    assert_eq!(send(&first.service("model", admin()), "POST", maps, &map("a")).await.0, StatusCode::CREATED);
    let template = first.template().with_newcomers_like("model");
    first.close().await;
    let second = Embedded::with(Server::builder().from_template(&template), Options::default()).await.unwrap();
    assert_eq!(second.server.clusters(), [ROOT_CLUSTER]);
    let (one, other) = (second.service("one", admin()), second.service("other", admin()));
    assert_eq!(send(&one, "DELETE", &format!("{maps}/a"), &Value::Null).await.0, StatusCode::OK);
    assert_eq!(send(&one, "GET", &format!("{maps}/a"), &Value::Null).await.0, StatusCode::NOT_FOUND);
    assert_eq!(send(&other, "GET", &format!("{maps}/a"), &Value::Null).await.0, StatusCode::OK);
    let of_root = second.service(ROOT_CLUSTER, admin());
    assert_eq!(send(&of_root, "GET", &format!("{maps}/a"), &Value::Null).await.0, StatusCode::NOT_FOUND);
}
