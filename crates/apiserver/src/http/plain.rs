//! Non-resource paths: discovery, OpenAPI, version, health, metrics. Access is checked before.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::call::ClusterEdge;
use super::encode::{TableContext, encode};
use super::negotiate::{Endpoint, Output, Shape, negotiate};
use super::path::{RequestInfo, method_not_allowed, unknown_path};
use crate::discovery::info::{Check, health, version};
use crate::discovery::{self, Printed};
use crate::error::ApiError;
use crate::metrics::{self, Metrics};
use crate::openapi::{self, Documents, binary};
use crate::table::IncludeObject;

/// For documents that are named by their content: a year, in seconds.
const IMMUTABLE: &str = "public, immutable, max-age=31536000";
/// Paths that need no identity.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Whether this path is public.
pub(crate) fn is_public(info: &RequestInfo) -> bool {
    info.resource.is_none() && matches!(info.verb.as_str(), "get" | "head") && PUBLIC.contains(&info.path.as_str())
}

/// A finished answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(content_type) {
            headers.insert(CONTENT_TYPE, value);
        }
        Self { status, headers, body: body.into() }
    }
}

/// Serves a path below no group version.
pub(crate) fn serve(
    cluster: &ClusterEdge,
    metrics: &Metrics,
    method: &Method,
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Reply, ApiError> {
    let parts: Vec<&str> = info.path.trim_matches('/').split('/').collect();
    let reading = matches!(*method, Method::GET | Method::HEAD);
    let known =
        matches!(parts[0], "" | "api" | "apis" | "version" | "healthz" | "livez" | "readyz" | "metrics" | "openapi");
    if known && !reading {
        return Err(method_not_allowed());
    }
    match parts.as_slice() {
        ["version"] => document(&version(), headers, Endpoint::Plain),
        [endpoint @ ("healthz" | "livez" | "readyz"), rest @ ..] => healthy(cluster, endpoint, rest, info),
        ["metrics"] => {
            let text = metrics.print(&cluster.backend.storage(), &cluster.backend.tasks());
            let text = text.map_err(|error| ApiError::internal(error.to_string()))?;
            Ok(Reply::new(200, metrics::CONTENT_TYPE, text))
        }
        ["openapi", rest @ ..] => openapi_document(cluster, rest, info, headers),
        [""] => document(&root_paths(cluster), headers, Endpoint::Plain),
        ["api" | "apis", ..] => discovery_document(cluster, &parts, headers),
        _ => Err(unknown_path()),
    }
}

fn healthy(cluster: &ClusterEdge, endpoint: &str, rest: &[&str], info: &RequestInfo) -> Result<Reply, ApiError> {
    let mut checks = vec![Check { name: "ping", healthy: true }];
    checks.extend(cluster.backend.checks());
    let single = if rest.is_empty() { None } else { Some(rest.join("/")) };
    let (status, text) = health(endpoint, single.as_deref(), &checks, &info.query).ok_or_else(unknown_path)?;
    let mut reply = Reply::new(status, "text/plain; charset=utf-8", text);
    reply.headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    Ok(reply)
}

fn discovery_document(cluster: &ClusterEdge, parts: &[&str], headers: &HeaderMap) -> Result<Reply, ApiError> {
    let catalog = cluster.catalog();
    let found = match parts {
        ["api" | "apis"] => {
            let core = parts[0] == "api";
            let output = negotiate(accept(headers), Endpoint::Discovery)?;
            if let Shape::AggregatedDiscovery(_) = output.shape {
                let mut reply = tagged(discovery::aggregated(&catalog, core), output, headers)?;
                reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
                return Ok(reply);
            }
            let address = headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            Some(if core { discovery::legacy_versions(address) } else { discovery::group_list(&catalog) })
        }
        ["api", version] => discovery::resource_list(&catalog, "", version),
        ["apis", group] => discovery::group(&catalog, group),
        ["apis", group, version] if !group.is_empty() => discovery::resource_list(&catalog, group, version),
        _ => None,
    };
    document(&found.ok_or_else(unknown_path)?, headers, Endpoint::Discovery)
}

/// Whether protocol buffers are what the client names first.
fn wants_binary(headers: &HeaderMap) -> bool {
    let first = accept(headers).unwrap_or_default().split([',', ';']).next().unwrap_or_default();
    binary::ACCEPTED.contains(&first.trim())
}

fn openapi_document(
    cluster: &ClusterEdge,
    rest: &[&str],
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Reply, ApiError> {
    let catalog = cluster.catalog();
    if rest == ["v2"] && wants_binary(headers) {
        let found = Documents::v2_binary(&catalog);
        let mut reply = Reply::new(200, binary::CONTENT_TYPE, found.body);
        put_etag(&mut reply, &format!("\"{}\"", found.hash));
        return Ok(reply);
    }
    let output = negotiate(accept(headers), Endpoint::Plain)?;
    let found = match rest {
        ["v2"] => Some(cluster.documents.v2(&catalog)),
        ["v3"] => return tagged(&discovery::printed(&openapi::index(&catalog)), output, headers),
        ["v3", "api", version] => cluster.documents.v3(&catalog, "", version),
        ["v3", "apis", group, version] => cluster.documents.v3(&catalog, group, version),
        _ => None,
    };
    let found = found.ok_or_else(unknown_path)?;
    let etag = format!("\"{}\"", found.hash);
    if let Some(unchanged) = not_modified(headers, &etag) {
        return Ok(unchanged);
    }
    let body = encode(found.body, output, no_table())?;
    let mut reply = Reply::new(200, &output.content_type(), body);
    put_etag(&mut reply, &etag);
    if info.query("hash") == Some(found.hash.as_str()) {
        // The URL names this very content, so clients may keep it.
        reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
    }
    Ok(reply)
}

fn root_paths(cluster: &ClusterEdge) -> Value {
    let catalog = cluster.catalog();
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for (group, version) in catalog.group_versions() {
        if group.is_empty() {
            paths.push(format!("/api/{version}"));
        } else {
            paths.push(format!("/apis/{group}"));
            paths.push(format!("/apis/{group}/{version}"));
        }
    }
    paths.extend(
        ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
    );
    paths.sort();
    paths.dedup();
    json!({"paths": paths})
}

fn document(value: &Value, headers: &HeaderMap, endpoint: Endpoint) -> Result<Reply, ApiError> {
    let output = Output { shape: Shape::Native, ..negotiate(accept(headers), endpoint)? };
    let body = encode(Bytes::from(value.to_string()), output, no_table())?;
    Ok(Reply::new(200, &output.content_type(), body))
}

/// A document that clients ask for again by its tag.
fn tagged(document: &Printed, output: Output, headers: &HeaderMap) -> Result<Reply, ApiError> {
    if let Some(unchanged) = not_modified(headers, &document.etag) {
        return Ok(unchanged);
    }
    let mut reply = Reply::new(200, &output.content_type(), encode(document.json.clone(), output, no_table())?);
    put_etag(&mut reply, &document.etag);
    reply.headers.insert(http::header::VARY, HeaderValue::from_static("Accept"));
    Ok(reply)
}

fn put_etag(reply: &mut Reply, etag: &str) {
    if let Ok(value) = HeaderValue::from_str(etag) {
        reply.headers.insert(ETAG, value);
    }
}

fn not_modified(headers: &HeaderMap, etag: &str) -> Option<Reply> {
    let given = headers.get(IF_NONE_MATCH)?.to_str().ok()?;
    let same = given.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag);
    same.then(|| {
        let mut reply = Reply { status: 304, headers: HeaderMap::new(), body: Bytes::new() };
        put_etag(&mut reply, etag);
        reply
    })
}

pub(super) fn accept(headers: &HeaderMap) -> Option<&str> {
    headers.get(http::header::ACCEPT).and_then(|value| value.to_str().ok())
}

fn no_table() -> TableContext<'static> {
    TableContext { columns: None, include: IncludeObject::None, headings: false, now: jiff::Timestamp::UNIX_EPOCH }
}
