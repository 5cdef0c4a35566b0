//! Requests against a small backend: access, response forms, limits, shutdown.

use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use expect_test::expect;
use http_body_util::Full;
use serde_json::{Value, json};

use super::*;
use crate::auth::{Authenticator, Issuer, Rbac, RbacKind, Secret, TokenKey, TokenObjects, bootstrap};
use crate::discovery::catalog::tests::resource;
use crate::discovery::info::Check;
use crate::discovery::{ApiResource, KindSource};
use crate::http::call::{Answering, Backend};
use crate::http::local::LocalService;
use crate::metrics::StorageFigures;

/// More than a connection buffers of an unread response.
pub(crate) const HUGE_BYTES: usize = 4 << 20;

/// Serves `configmaps`: what a request says decides what happens.
pub(crate) struct Toy {
    pub(crate) open_watches: Arc<AtomicUsize>,
    pub(crate) seen: Mutex<Vec<Call>>,
    /// Notified when a request in the namespace `blocking` blocks its thread, until something is sent to `release`.
    pub(crate) blocked: Arc<tokio::sync::Notify>,
    pub(crate) release: std::sync::mpsc::Sender<()>,
    released: Arc<Mutex<std::sync::mpsc::Receiver<()>>>,
}

impl Default for Toy {
    fn default() -> Self {
        let (release, released) = std::sync::mpsc::channel();
        let released = Arc::new(Mutex::new(released));
        Self { open_watches: Arc::default(), seen: Mutex::default(), blocked: Arc::default(), release, released }
    }
}

impl KindSource for Toy {
    fn revision(&self) -> u64 {
        1
    }

    fn resources(&self) -> Vec<Arc<ApiResource>> {
        vec![Arc::new(resource("", "v1", "ConfigMap"))]
    }
}

/// One ADDED event, then silence.
struct OneEvent {
    sent: bool,
    open: Arc<AtomicUsize>,
}

impl futures_core::Stream for OneEvent {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.sent {
            return Poll::Pending;
        }
        self.sent = true;
        Poll::Ready(Some(Event { kind: "ADDED", object: Bytes::from(config_map("a").to_string()) }))
    }
}

impl Drop for OneEvent {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "creationTimestamp": "1970-01-01T00:00:00Z"}})
}

impl Backend for Toy {
    fn call(&self, call: Call) -> Answering {
        let path = call.info.resource.clone().unwrap();
        let verb = call.info.verb.clone();
        self.seen.lock().unwrap().push(call);
        let open = Arc::clone(&self.open_watches);
        let (blocked, released) = (Arc::clone(&self.blocked), Arc::clone(&self.released));
        Box::pin(async move {
            if path.namespace == "blocking" {
                blocked.notify_one();
                released.lock().unwrap().recv_timeout(std::time::Duration::from_secs(20)).unwrap();
            }
            match (verb.as_str(), path.name.as_str()) {
                (_, "panic") => panic!("on request"),
                (_, "hang") => std::future::pending().await,
                ("get", "large") => Ok(Answer::object(200, json!({"data": "x".repeat(200_000)}).to_string())),
                ("get", "huge") => Ok(Answer::object(200, json!({"data": "x".repeat(HUGE_BYTES)}).to_string())),
                ("get", "missing") => Err(ApiError::not_found("", "configmaps", "missing")),
                ("watch", _) => {
                    open.fetch_add(1, Ordering::SeqCst);
                    let events = Box::pin(OneEvent { sent: false, open });
                    Ok(Answer { status: 200, content: Content::Watch(events), warnings: vec![] })
                }
                ("create", _) => Ok(Answer {
                    warnings: vec!["unknown field".to_owned()],
                    ..Answer::object(201, config_map("new").to_string())
                }),
                ("list", _) => {
                    let items = [config_map("a"), config_map("b")];
                    Ok(Answer::object(200, json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": items}).to_string()))
                }
                (_, name) => Ok(Answer::object(200, config_map(name).to_string())),
            }
        })
    }

    fn columns(&self, _: &str, _: &str, _: &str) -> Option<Arc<Columns>> {
        Some(Arc::new(Columns::custom(vec![])))
    }

    fn storage(&self) -> StorageFigures {
        StorageFigures { bytes: 42, ..StorageFigures::default() }
    }

    fn tasks(&self) -> Vec<crate::server::tasks::TaskState> {
        Vec::new()
    }

    fn checks(&self) -> Vec<Check> {
        vec![Check { name: "storage", healthy: true }]
    }

    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(60).unwrap()
    }
}

struct NoObjects;

impl TokenObjects for NoObjects {
    fn uid(&self, _: &str, _: &str, _: &str) -> Option<String> {
        None
    }

    fn secret_token(&self, _: &str, _: &str) -> Option<Vec<u8>> {
        None
    }
}

/// A cluster where `admin-token` is a master and `jane-token` reads config maps in namespace `n`.
pub(crate) fn toy_cluster() -> (Arc<ClusterEdge>, Arc<Toy>) {
    let toy = Arc::new(Toy::default());
    let key = Arc::new(TokenKey::generate().unwrap());
    let authenticator = Authenticator::new(key, Issuer::default(), Arc::new(NoObjects), Arc::new(jiff::Timestamp::now));
    authenticator.add_token(&Secret::new("admin-token"), User::authenticated("root", ["system:masters".to_owned()]));
    authenticator.add_token(&Secret::new("jane-token"), User::authenticated("jane", []));
    let rbac = Rbac::default();
    for role in bootstrap::cluster_roles() {
        rbac.set(RbacKind::ClusterRole, &role);
    }
    for binding in bootstrap::cluster_role_bindings() {
        rbac.set(RbacKind::ClusterRoleBinding, &binding);
    }
    rbac.set(
        RbacKind::RoleBinding,
        &json!({"metadata": {"name": "b", "namespace": "n"},
        "subjects": [{"kind": "User", "name": "jane"}], "roleRef": {"kind": "ClusterRole", "name": "view"}}),
    );
    let backend = Arc::clone(&toy) as Arc<dyn Backend>;
    (Arc::new(ClusterEdge::new(backend, Arc::new(authenticator), Arc::new(rbac))), toy)
}

/// The server's own cluster and one named `west`, both the same toy.
struct Two(Arc<ClusterEdge>);

impl Clusters for Two {
    fn cluster(&self, name: Option<&str>) -> Option<Arc<ClusterEdge>> {
        matches!(name, None | Some("west")).then(|| Arc::clone(&self.0))
    }
}

fn server_with(limits: Limits) -> (Edge, Arc<Toy>) {
    let (cluster, toy) = toy_cluster();
    (Edge::new(Two(cluster), limits), toy)
}

fn request(line: &str, token: &str) -> http::request::Builder {
    let (method, uri) = line.split_once(' ').unwrap();
    let builder = Request::builder().method(method).uri(uri);
    if token.is_empty() { builder } else { builder.header("authorization", format!("Bearer {token}")) }
}

async fn send(server: &Edge, request: http::request::Builder, body: &'static str) -> (u16, HeaderMap, String) {
    let response = server.handle(request.body(Full::new(Bytes::from(body))).unwrap()).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&bytes).into_owned())
}

async fn code(server: &Edge, line: &str, token: &str) -> u16 {
    send(server, request(line, token), "").await.0
}

#[tokio::test]
async fn authentication_and_authorization_are_checked() {
    let (server, _) = server_with(Limits::default());
    for (line, token, expected) in [
        ("GET /healthz", "", 200),
        ("GET /readyz/ping", "admin-token", 200),
        ("GET /readyz/ping", "", 403),
        ("GET /version", "", 200),
        ("GET /api", "", 403),
        ("GET /version", "wrong", 401),
        ("GET /api", "jane-token", 200),
        ("GET /apis", "jane-token", 200),
        ("GET /openapi/v3", "jane-token", 200),
        ("GET /openapi/v3/api/v1", "jane-token", 200),
        ("GET /openapi/v3/apis/none/v1", "jane-token", 404),
        ("GET /openapi/v2", "jane-token", 200),
        ("GET /metrics", "jane-token", 403),
        ("GET /metrics", "admin-token", 200),
        ("GET /", "admin-token", 200),
        ("GET /nothing", "admin-token", 404),
        ("POST /version", "admin-token", 405),
        ("GET /api/v1/namespaces/n/configmaps", "jane-token", 200),
        ("GET /api/v1/namespaces/n/configmaps/missing", "jane-token", 404),
        ("GET /api/v1/configmaps", "jane-token", 403),
        ("DELETE /api/v1/namespaces/n/configmaps/a", "jane-token", 403),
        ("OPTIONS /api/v1/namespaces/n/configmaps/a", "admin-token", 405),
        ("HEAD /api/v1/namespaces/n/configmaps/a", "admin-token", 405),
        ("GET /clusters/west/version", "", 200),
        ("GET /clusters/west/api/v1/configmaps", "admin-token", 200),
        ("GET /clusters/east/version", "admin-token", 404),
    ] {
        assert_eq!(code(&server, line, token).await, expected, "{line} {token}");
    }
}

#[tokio::test]
async fn refusals_are_status_objects() {
    let (server, _) = server_with(Limits::default());
    let (_, headers, body) = send(&server, request("GET /api", "no-token"), "").await;
    expect![[r#"{"apiVersion":"v1","code":401,"kind":"Status","message":"Unauthorized","metadata":{},"reason":"Unauthorized","status":"Failure"}"#]].assert_eq(&body);
    assert_eq!(headers["content-type"], "application/json");
    assert!(headers.contains_key("audit-id"));
    let (_, _, body) = send(&server, request("GET /api/v1/configmaps", "jane-token"), "").await;
    expect![[r#"{"apiVersion":"v1","code":403,"details":{"kind":"configmaps"},"kind":"Status","message":"configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \"\" at the cluster scope","metadata":{},"reason":"Forbidden","status":"Failure"}"#]].assert_eq(&body);
    let (status, _, body) = send(&server, request("GET /nothing", "admin-token"), "").await;
    assert!(status == 404 && body.contains(r#""reason":"NotFound""#));
}

#[tokio::test]
async fn impersonation_changes_the_user_of_the_request() {
    let (server, toy) = server_with(Limits::default());
    let as_jane = |line: &str| request(line, "admin-token").header("impersonate-user", "jane");
    assert_eq!(send(&server, as_jane("GET /api/v1/configmaps"), "").await.0, 403);
    assert_eq!(send(&server, as_jane("GET /api/v1/namespaces/n/configmaps"), "").await.0, 200);
    assert_eq!(toy.seen.lock().unwrap().last().unwrap().user.name, "jane");
    let refused = request("GET /api/v1/namespaces/n/configmaps", "jane-token").header("impersonate-user", "root");
    assert_eq!(send(&server, refused, "").await.0, 403);
}

#[tokio::test]
async fn responses_have_the_requested_format() {
    let (server, _) = server_with(Limits::default());
    let get = |accept: &str| {
        request("GET /api/v1/namespaces/n/configmaps?includeObject=None", "admin-token")
            .header("accept", accept.to_owned())
    };
    let (_, _, table) = send(&server, get("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), "").await;
    assert!(
        table.contains(r#""rows":[{"cells":["a","60s"],"object":null},{"cells":["b","60s"],"object":null}]"#),
        "{table}"
    );
    let (_, headers, yaml) = send(&server, get("application/yaml"), "").await;
    assert!(yaml.starts_with("apiVersion: v1\n") && headers["content-type"] == "application/yaml");
    assert_eq!(send(&server, get("application/vnd.kubernetes.protobuf"), "").await.0, 406);
    let metadata = get("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    assert!(send(&server, metadata, "").await.2.contains(r#""kind":"PartialObjectMetadataList""#));
    let (_, headers, _) = send(&server, request("POST /api/v1/namespaces/n/configmaps", "admin-token"), "{}").await;
    assert_eq!(headers["warning"], r#"299 - "unknown field""#);
    let large = request("GET /api/v1/namespaces/n/configmaps/large", "admin-token").header("accept-encoding", "gzip");
    assert_eq!(send(&server, large, "").await.1["content-encoding"], "gzip");
    let bad = request("GET /api/v1/configmaps?includeObject=x", "admin-token")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    assert_eq!(send(&server, bad, "").await.0, 400);
}

#[tokio::test]
async fn aggregated_discovery_is_tagged() {
    let (server, _) = server_with(Limits::default());
    let ask = || {
        request("GET /apis", "jane-token")
            .header("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")
    };
    let (status, headers, body) = send(&server, ask(), "").await;
    assert_eq!(
        (status, headers["content-type"].to_str().unwrap()),
        (200, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    );
    assert!(body.contains("APIGroupDiscoveryList"));
    let again = ask().header("if-none-match", headers["etag"].clone());
    assert_eq!(send(&server, again, "").await.0, 304);
    let (_, _, index) = send(&server, request("GET /openapi/v3", "jane-token"), "").await;
    let index: Value = serde_json::from_str(&index).unwrap();
    let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    let (status, headers, _) = send(&server, request(&format!("GET {url}"), "jane-token"), "").await;
    assert!(status == 200 && headers["cache-control"].to_str().unwrap().contains("immutable"));
    let (_, headers, _) = send(&server, request("GET /openapi/v3/api/v1?hash=old", "jane-token"), "").await;
    assert_eq!(headers["cache-control"], "no-cache, private");
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused() {
    let (server, _) = server_with(Limits::default());
    let post = |body: Vec<u8>| {
        request("POST /api/v1/namespaces/n/configmaps", "admin-token").body(Full::new(Bytes::from(body))).unwrap()
    };
    assert_eq!(server.handle(post(vec![b'x'; 3 * 1024 * 1024 + 1])).await.status(), 413);
}

#[tokio::test]
async fn a_panic_fails_only_its_own_request() {
    let (server, _) = server_with(Limits::default());
    let (status, _, body) =
        send(&server, request("GET /api/v1/namespaces/n/configmaps/panic", "admin-token"), "").await;
    assert!(status == 500 && body.contains(r#""reason":"InternalError""#));
    assert_eq!(code(&server, "GET /api/v1/namespaces/n/configmaps/a", "admin-token").await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_times_out() {
    let (server, _) = server_with(Limits::default());
    assert_eq!(code(&server, "GET /api/v1/namespaces/n/configmaps/hang", "admin-token").await, 504);
}

#[tokio::test]
async fn too_many_requests_get_retry_after() {
    let (server, _) = server_with(Limits { max_reads: 1, ..Limits::default() });
    let line = "GET /api/v1/namespaces/n/configmaps/hang";
    let mut hanging = Box::pin(code(&server, line, "jane-token"));
    poll_fn(|cx| Poll::Ready(hanging.as_mut().poll(cx).is_pending())).await;
    let (status, headers, body) =
        send(&server, request("GET /api/v1/namespaces/n/configmaps/a", "jane-token"), "").await;
    assert_eq!((status, headers["retry-after"].to_str().unwrap()), (429, "1"));
    assert!(body.contains(r#""retryAfterSeconds":1"#));
    assert_eq!(code(&server, "GET /api/v1/namespaces/n/configmaps/a", "admin-token").await, 200);
    drop(hanging);
    assert_eq!(code(&server, "GET /api/v1/namespaces/n/configmaps/a", "jane-token").await, 200);
}

async fn open_watch(server: &Edge, accept: &str) -> ResponseBody {
    let request = request("GET /api/v1/namespaces/n/configmaps?watch=1", "jane-token").header("accept", accept);
    let response = server.handle(request.body(Full::new(Bytes::new())).unwrap()).await;
    assert_eq!(response.status(), 200);
    response.into_body()
}

async fn next_line(body: &mut ResponseBody) -> Option<String> {
    let frame = body.frame().await?.unwrap();
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn a_watch_streams_lines_until_the_server_stops() {
    let (server, toy) = server_with(Limits { max_watches_per_user: 1, ..Limits::default() });
    let mut body = open_watch(&server, "*/*").await;
    let line = next_line(&mut body).await.unwrap();
    assert!(line.starts_with(r#"{"type":"ADDED","object":{"apiVersion":"v1""#) && line.ends_with("}\n"), "{line}");
    assert_eq!(code(&server, "GET /api/v1/namespaces/n/configmaps?watch=1", "jane-token").await, 429);
    let open_watches = || {
        let text = server.metrics().print(&StorageFigures::default(), &[]).unwrap();
        let line = text.lines().find(|line| line.starts_with("apiserver_longrunning_requests{verb=\"WATCH\""));
        line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
    };
    assert_eq!(open_watches().as_deref(), Some("1"));
    server.stop();
    assert_eq!(next_line(&mut body).await, None);
    drop(body);
    assert_eq!(toy.open_watches.load(Ordering::SeqCst), 0);
    assert_eq!(open_watches().as_deref(), Some("0"));
}

#[tokio::test]
async fn a_watched_table_has_headings_once() {
    let (server, _) = server_with(Limits::default());
    let mut body = open_watch(&server, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    let line = next_line(&mut body).await.unwrap();
    assert!(line.contains(r#""kind":"Table""#) && line.contains(r#""columnDefinitions":[{"#), "{line}");
}

#[tokio::test]
async fn a_kube_client_works_without_a_socket() {
    use k8s_openapi::api::core::v1::ConfigMap;
    let (server, toy) = server_with(Limits::default());
    let service = LocalService::new(server)
        .for_user(User::authenticated("root", ["system:masters".to_owned()]))
        .in_cluster("west");
    let client = kube::Client::new(service, "n");
    let api: kube::Api<ConfigMap> = kube::Api::default_namespaced(client.clone());
    assert_eq!(api.get("a").await.unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(api.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 2);
    let refused = api.get("missing").await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.reason == "NotFound"));
    assert_eq!(toy.seen.lock().unwrap()[0].info.cluster.as_deref(), Some("west"));
    assert_eq!(client.apiserver_version().await.unwrap().minor, "34");
}
