//! A revoked permission has effect from the next request on, even if controllers are busy.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Builder, Embedded, Options, ROOT_CLUSTER, User, admin, send};
use crate::http::LocalService;
use crate::store::HistoryLimits;

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn jane() -> User {
    User::authenticated("jane", [])
}

fn binding(name: &str, padding: usize) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": name, "annotations": {"padding": "x".repeat(padding)}},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "admin", "apiGroup": "rbac.authorization.k8s.io"},
    })
}

async fn create(service: &LocalService, path: &str, object: &Value) {
    let (status, answer) = send(service, "POST", path, object).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
}

async fn delete(service: &LocalService, path: &str) {
    let (status, answer) = send(service, "DELETE", path, &Value::Null).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
}

async fn status_for(service: &LocalService, path: &str) -> StatusCode {
    send(service, "GET", path, &Value::Null).await.0
}

/// Lets the controllers run until they wait for changes.
async fn settled() {
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn audit_01_a_revoked_binding_is_denied_on_the_next_request() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let (root, jane) = (server.service(ROOT_CLUSTER, admin()), server.service(ROOT_CLUSTER, jane()));
    assert_eq!(status_for(&jane, SECRETS).await, StatusCode::FORBIDDEN);
    create(&root, BINDINGS, &binding("grant", 0)).await;
    assert_eq!(status_for(&jane, SECRETS).await, StatusCode::OK, "a grant is in force at once too");
    delete(&root, &format!("{BINDINGS}/grant")).await;
    assert_eq!(status_for(&jane, SECRETS).await, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn audit_01_a_revoked_binding_is_denied_when_the_controllers_have_to_relist() {
    let builder = Builder::default().history(HistoryLimits { events: 4, bytes: 1 << 20 });
    let server = Embedded::with(builder, Options::default()).await.unwrap();
    let (root, jane) = (server.service(ROOT_CLUSTER, admin()), server.service(ROOT_CLUSTER, jane()));
    create(&root, BINDINGS, &binding("grant", 0)).await;
    create(&root, BINDINGS, &binding("own", 0)).await;
    delete(&root, &format!("{BINDINGS}/own")).await;
    settled().await;
    assert_eq!(status_for(&jane, SECRETS).await, StatusCode::OK);
    // The deletion falls out of the history before the controllers run again: they must list all bindings.
    delete(&root, &format!("{BINDINGS}/grant")).await;
    for number in 0..8 {
        create(
            &root,
            BINDINGS,
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": format!("other-{number}")},
                "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"},
            }),
        )
        .await;
    }
    assert_eq!(status_for(&jane, SECRETS).await, StatusCode::FORBIDDEN);
    settled().await;
    assert_eq!(status_for(&jane, SECRETS).await, StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_01_a_revoked_binding_is_denied_while_a_large_namespace_is_deleted() {
    const OBJECTS: usize = 2_000;
    let server = Embedded::start(Options::default()).await.unwrap();
    let (root, jane) = (server.service(ROOT_CLUSTER, admin()), server.service(ROOT_CLUSTER, jane()));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "large"}});
    create(&root, "/api/v1/namespaces", &namespace).await;
    for number in 0..OBJECTS {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{number}")}});
        create(&root, "/api/v1/namespaces/large/configmaps", &map).await;
    }
    delete(&root, "/api/v1/namespaces/large").await;
    // Many grants and revocations, so that some of them happen in the middle of the deletion.
    for _ in 0..50 {
        create(&root, BINDINGS, &binding("grant", 250_000)).await;
        assert_eq!(status_for(&jane, SECRETS).await, StatusCode::OK);
        delete(&root, &format!("{BINDINGS}/grant")).await;
        assert_eq!(status_for(&jane, SECRETS).await, StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn audit_01_a_server_starts_with_the_rights_of_its_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options { data_dir: Some(directory.path().to_owned()), ..Options::default() };
    let server = Embedded::start(options()).await.unwrap();
    let root = server.service(ROOT_CLUSTER, admin());
    create(&root, BINDINGS, &binding("grant", 0)).await;
    create(&root, BINDINGS, &binding("kept", 0)).await;
    delete(&root, &format!("{BINDINGS}/grant")).await;
    server.close().await;
    drop((root, server));

    let server = Embedded::start(options()).await.unwrap();
    let (root, jane) = (server.service(ROOT_CLUSTER, admin()), server.service(ROOT_CLUSTER, jane()));
    assert_eq!(status_for(&jane, SECRETS).await, StatusCode::OK);
    delete(&root, &format!("{BINDINGS}/kept")).await;
    assert_eq!(status_for(&jane, SECRETS).await, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn audit_01_an_aggregated_role_loses_rules_with_the_role_it_selects() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let (root, jane) = (server.service(ROOT_CLUSTER, admin()), server.service(ROOT_CLUSTER, jane()));
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    create(
        &root,
        roles,
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "leases", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
            "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]}],
        }),
    )
    .await;
    let mut view = binding("view", 0);
    view["roleRef"]["name"] = "view".into();
    create(&root, BINDINGS, &view).await;
    settled().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(status_for(&jane, leases).await, StatusCode::OK);
    delete(&root, &format!("{roles}/leases")).await;
    assert_eq!(status_for(&jane, leases).await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn audit_09_a_small_role_with_many_combinations_is_refused_within_a_second() {
    let server = Embedded::start(Options::default()).await.unwrap();
    let (root, jane) = (server.service(ROOT_CLUSTER, admin()), server.service(ROOT_CLUSTER, jane()));
    create(&root, BINDINGS, &binding("grant", 0)).await;
    let items = |letter: char| (0..200).map(|number| format!("{letter}{number}")).collect::<Vec<_>>();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "large"},
        "rules": [{"verbs": items('v'), "apiGroups": items('g'), "resources": items('r')}],
    });
    let started = std::time::Instant::now();
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let (status, refused) = send(&jane, "POST", roles, &role).await;
    assert!(started.elapsed() < std::time::Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!((status, &refused["reason"]), (StatusCode::FORBIDDEN, &json!("Forbidden")));
    assert!(refused["message"].as_str().is_some_and(|text| text.ends_with("too many to list")));
}
