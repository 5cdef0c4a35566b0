//! The HTTP layer: a sequence of requests to a server in memory. No request makes the server or the next request fail.

use apiserver::internals::is_watch;
use apiserver::{Builder, Embedded, LocalService, Options, ROOT_CLUSTER, Template, User};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use std::sync::OnceLock;
use tower_service::Service as _;

use super::{parsed, text};

pub(super) const WORDS: &[&str] = &[
    "GET",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "/api/v1/namespaces/default/configmaps",
    "/apis/apps/v1/deployments",
    "?watch=true",
    "?limit=1&continue=",
    "?labelSelector=a%3Db",
    "?fieldSelector=metadata.name%3Da",
    "?dryRun=All",
    "?force=true",
    "?fieldManager=x",
    "?propagationPolicy=Foreground",
    "?resourceVersion=0",
    "/status",
    "/scale",
    "/token",
    "/eviction",
    "content-type",
    "application/json",
    "application/yaml",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/vnd.kubernetes.protobuf",
    "accept",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "impersonate-user",
    "impersonate-group",
    "system:masters",
    "authorization",
    "Bearer ",
    "terminationGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "/openapi/v2",
    "/clusters/root",
];

/// Requests of one input at most: more would only be slow.
const REQUESTS_MAX: usize = 12;
/// Turns that the server's controllers get after each request.
const TURNS: usize = 20;

/// Collections that must be readable whatever was written.
const LISTED: &[&str] = &[
    "/api/v1/namespaces",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/pods",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
];

fn admin() -> User {
    User::authenticated("admin", ["system:masters".to_owned()])
}

/// The initial content of a server, created once, because every input gets a server of its own.
async fn start() -> Option<Embedded> {
    static BEGIN: OnceLock<Template> = OnceLock::new();
    if BEGIN.get().is_none() {
        let first = Embedded::start(Options::default()).await.ok()?;
        settle().await;
        let _ = BEGIN.set(first.template());
        first.close().await;
    }
    Embedded::with(Builder::default().from_template(BEGIN.get()?), Options::default()).await.ok()
}

async fn settle() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

/// A JSON list of requests: method, path, headers, body and whether an administrator asks.
pub(super) fn requests(input: &[u8]) {
    let Some(Value::Array(list)) = parsed(input) else { return };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let Some(server) = start().await else { return };
        let mut tenant = server.service(ROOT_CLUSTER, User::authenticated("tenant", []));
        let mut boss = server.service(ROOT_CLUSTER, admin());
        for item in list.iter().take(REQUESTS_MAX) {
            let by = if item.get("admin") == Some(&Value::Bool(true)) { &mut boss } else { &mut tenant };
            if let Some(request) = request(item) {
                answered(by, request).await;
            }
            settle().await;
        }
        for path in LISTED {
            let Ok(request) = Request::get(*path).body(Full::new(Bytes::new())) else { continue };
            assert_eq!(answered(&mut boss, request).await, StatusCode::OK, "{path}");
        }
        server.close().await;
    });
}

/// A request, if an HTTP library would let it through to the server.
fn request(item: &Value) -> Option<Request<Full<Bytes>>> {
    let method = Method::from_bytes(text(item, "method").as_bytes()).ok()?;
    let mut request = Request::builder().method(method).uri(text(item, "path"));
    for (name, value) in item.get("headers").and_then(Value::as_object).into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap_or_default());
    }
    let body = match item.get("body") {
        None => Bytes::new(),
        Some(Value::String(text)) => Bytes::copy_from_slice(text.as_bytes()),
        Some(value) => Bytes::from(value.to_string()),
    };
    request.body(Full::new(body)).ok()
}

/// Sends a request; the response is well-formed and is not an internal server error.
async fn answered(service: &mut LocalService, request: Request<Full<Bytes>>) -> StatusCode {
    let what = format!("{} {}", request.method(), request.uri());
    let is_watch = is_watch(request.method(), request.uri());
    let Ok(response) = service.call(request).await;
    let (parts, body) = response.into_parts();
    // A watch continues until the client closes it.
    if is_watch {
        return parts.status;
    }
    let Ok(body) = body.collect().await;
    let is_json = parts.headers.get("content-type").is_some_and(|kind| kind == "application/json");
    let body = body.to_bytes();
    if is_json && !body.is_empty() && !parts.headers.contains_key("content-encoding") {
        let value: Result<Value, _> = serde_json::from_slice(&body);
        assert!(value.is_ok(), "{what}: {} bytes that are no JSON: {value:?}", body.len());
        let value = value.unwrap_or_default();
        if value["kind"] == "Status" && value["status"] == "Failure" {
            assert_eq!(value["code"], parts.status.as_u16(), "{what}: {value}");
        }
    }
    parts.status
}
