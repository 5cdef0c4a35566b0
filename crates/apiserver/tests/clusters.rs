//! Many clusters in one process: the cost of an idle one, and their isolation.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::map_entry,
    reason = "a test fails by panicking"
)]

use apiserver::{Embedded, LocalService, Options, User};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

const IDLE_CLUSTERS: usize = 1_000;
/// What an idle cluster may cost: roles, namespaces, accounts, controllers.
const BYTES_PER_CLUSTER: usize = 1 << 20;
/// Looks at a cluster until its controllers have done their first work.
const MOST_LOOKS: usize = 100_000;

fn admin() -> User {
    User::authenticated("admin", ["system:masters".to_owned()])
}

async fn send(service: &LocalService, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut request = http::Request::builder().method(method).uri(path);
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = service.clone().call(request.body(Full::<Bytes>::from(body)).expect("a request")).await.expect("ok");
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Waits until a path answers with this status.
async fn wait_for(service: &LocalService, path: &str, wanted: u16) -> Value {
    for _ in 0..MOST_LOOKS {
        let (status, answer) = send(service, "GET", path, "", &Value::Null).await;
        if status == wanted {
            return answer;
        }
        tokio::task::yield_now().await;
    }
    panic!("{path} never answered {wanted}");
}

/// Memory of this process that is in use, from `/proc/self/statm`; `None` where there is no such file.
fn resident_bytes() -> Option<usize> {
    const PAGE_BYTES: usize = 4096;
    let figures = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(figures.split(' ').nth(1)?.parse::<usize>().ok()? * PAGE_BYTES)
}

#[tokio::test]
async fn a_thousand_idle_clusters_cost_less_than_a_megabyte_each() {
    let server = Embedded::start(Options::default()).await.expect("a server");
    let complete = async |name: &str| {
        let service = server.service(name, admin());
        for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            wait_for(&service, &format!("/api/v1/namespaces/{namespace}/serviceaccounts/default"), 200).await;
            wait_for(&service, &format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt"), 200).await;
        }
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin";
        wait_for(&service, roles, 200).await;
    };
    complete("first").await;
    let Some(before) = resident_bytes() else { return };
    for number in 0..IDLE_CLUSTERS {
        complete(&format!("idle-{number}")).await;
    }
    let each = resident_bytes().expect("figures").saturating_sub(before) / IDLE_CLUSTERS;
    println!("{} KiB per idle cluster", each / 1024);
    assert!(each > 0 && each < BYTES_PER_CLUSTER, "{each} bytes per idle cluster");
}

#[tokio::test]
async fn clusters_share_neither_objects_nor_tokens_nor_definitions() {
    let server = Embedded::start(Options::default()).await.expect("a server");
    let (a, b) = (server.service("a", admin()), server.service("b", admin()));
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "only-a"}});
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(send(&a, "POST", path, "", &object).await.0, 201);
    assert_eq!(send(&a, "GET", &format!("{path}/only-a"), "", &Value::Null).await.0, 200);
    assert_eq!(send(&b, "GET", &format!("{path}/only-a"), "", &Value::Null).await.0, 404);

    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cars.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "cars", "kind": "Car"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&a, "POST", definitions, "", &definition).await.0, 201);
    let cars = "/apis/example.com/v1/namespaces/default/cars";
    wait_for(&a, cars, 200).await;
    assert_eq!(send(&b, "GET", cars, "", &Value::Null).await.0, 404);

    // Over the paths that clients use, with tokens: each opens its own cluster only.
    let open = server.open_service();
    let tokens = [("a", server.issue_token("a", admin())), ("b", server.issue_token("b", admin()))];
    for (owner, token) in &tokens {
        for cluster in ["a", "b"] {
            let path = format!("/clusters/{cluster}/api/v1/namespaces/default/configmaps");
            let (status, _) = send(&open, "GET", &path, token.expose(), &Value::Null).await;
            assert_eq!(status, if cluster == *owner { 200 } else { 401 }, "token of {owner} in {cluster}");
        }
    }
    // A service account's token as well: it names an account by uid, and the other cluster has another one.
    wait_for(&a, "/api/v1/namespaces/default/serviceaccounts/default", 200).await;
    wait_for(&b, "/api/v1/namespaces/default/serviceaccounts/default", 200).await;
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let (status, made) = send(&a, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", "", &asked).await;
    assert_eq!(status, 201, "{made}");
    let token = made["status"]["token"].as_str().expect("a token");
    assert_eq!(send(&open, "GET", "/clusters/a/api", token, &Value::Null).await.0, 200);
    assert_eq!(send(&open, "GET", "/clusters/b/api", token, &Value::Null).await.0, 401);
    assert_eq!(send(&open, "GET", "/clusters/c/api", token, &Value::Null).await.0, 404);
}
