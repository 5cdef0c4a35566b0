//! Handles one request: authentication, parsing, authorization, then the response in the negotiated form.
//!
//! Resources are served by the backend, other paths by `plain`.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT, VARY,
};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::watch;
use tokio::time::Instant;

use super::body::{ResponseBody, Transform, WatchBody, WithGuard, full, read};
use super::call::{Answer, Call, ClusterEdge, Clusters, Content, Event, Events};
use super::connections::ConnectionHandle;
use super::encode::{TableContext, compress, encode, put_warnings, reshape};
use super::front::{LONG_REQUEST_BYTES, LongRequests};
use super::gate::{Gate, Place, ResponsePlace};
use super::limits::Limits;
use super::negotiate::{Endpoint, Format, Output, Shape, check_route, negotiate};
use super::path::{RequestInfo, ResourcePath, method_not_allowed, parse, unknown_path};
use super::plain::{self, Reply, accept, is_public};
use crate::auth::impersonate::impersonated;
use crate::auth::{Attributes, Target, User};
use crate::error::{ApiError, Reason};
use crate::metrics::{Metrics, RequestLabels, Verb};
use crate::server::identity::Identities;
use crate::table::{Columns, IncludeObject};

/// Request extension with a user that is already authenticated (client certificate, same process).
#[derive(Debug, Clone)]
pub(crate) struct Identity(pub(crate) User);

/// Put into a request's extensions to send it to a cluster without the path prefix.
#[derive(Debug, Clone)]
pub(crate) struct InCluster(pub(crate) Arc<str>);

/// Response extension that marks a watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streaming;

/// The edge. Cheap to clone; all clones are one server.
#[derive(Clone)]
pub(crate) struct Edge {
    inner: Arc<Inner>,
}

struct Inner {
    clusters: Box<dyn Clusters>,
    limits: Limits,
    gate: Gate,
    metrics: Arc<Metrics>,
    stopping: watch::Sender<bool>,
    audit_ids: Identities,
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge").field("limits", &self.inner.limits).finish_non_exhaustive()
    }
}

/// Data about a request for metrics.
#[derive(Default)]
struct Trace {
    labels: RequestLabels,
    watching: bool,
    /// The guard that is held until the response has been read; `None` for a watch.
    held: Option<(Place, ResponsePlace)>,
}

impl Edge {
    pub(crate) fn new(clusters: impl Clusters + 'static, limits: Limits) -> Self {
        let inner = Inner {
            clusters: Box::new(clusters),
            gate: Gate::new(&limits),
            limits,
            metrics: Arc::default(),
            stopping: watch::Sender::new(false),
            audit_ids: Identities::new(None),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    #[cfg(test)]
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// Ends all watches and refuses new ones. Running requests finish.
    pub(crate) fn stop(&self) {
        self.inner.stopping.send_replace(true);
    }

    /// Completes when `stop` was called.
    pub(crate) fn stopped(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut receiver = self.inner.stopping.subscribe();
        Box::pin(async move {
            // An error means that the server is gone altogether.
            let _ = receiver.wait_for(|stopping| *stopping).await;
        })
    }

    /// Answers one request. Never fails: whatever goes wrong becomes a `Status`.
    pub(crate) async fn handle<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let audit_id = parts.headers.get("audit-id").cloned();
        let mut trace = Trace::default();
        let outcome = {
            let work = CatchPanic(Box::pin(self.respond(&parts, body, &mut trace)));
            work.await
        };
        let mut response = match outcome {
            Ok(Ok(response)) => response,
            Ok(Err(refused)) => refusal(&refused, &parts.headers),
            Err(_) => {
                tracing::error!(path = parts.uri.path(), "a request handler panicked");
                let message = "This request caused apiserver to panic. Look in the logs for details.";
                refusal(&ApiError::new(Reason::InternalError, message), &parts.headers)
            }
        };
        // An audit id must be new, not secret: it is drawn without asking the operating system.
        let audit_id = audit_id.or_else(|| HeaderValue::from_str(&self.inner.audit_ids.uid()).ok());
        put_common_headers(response.headers_mut(), audit_id);
        if !trace.watching {
            self.inner.metrics.finished(&trace.labels, response.status().as_u16(), started.elapsed());
        }
        if parts.method == Method::HEAD {
            *response.body_mut() = full(Bytes::new());
        }
        match trace.held {
            Some(held) => response.map(|body| WithGuard::new(body, held).boxed_unsync()),
            None => response,
        }
    }

    async fn respond<B>(&self, parts: &Parts, body: B, trace: &mut Trace) -> Result<Response<ResponseBody>, ApiError>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        let mut info = parse(&parts.method, &parts.uri)?;
        if let Some(InCluster(name)) = parts.extensions.get::<InCluster>() {
            info.cluster = Some(name.to_string());
        }
        trace.labels = labels(&info);
        let cluster = self.inner.clusters.cluster(info.cluster.as_deref()).ok_or_else(unknown_path)?;
        let user = identify(&cluster, parts)?;
        let place = self.inner.gate.request(&user, &info.verb)?;
        if !is_public(&info) {
            cluster.rbac.require(&attributes(&info, &user))?;
        }
        let response = if info.resource.is_none() {
            let reply = plain::serve(&cluster, &self.inner.metrics, &parts.method, &info, &parts.headers)?;
            whole(reply, &parts.headers)
        } else {
            self.resource(&cluster, parts, body, info, user.clone(), trace).await?
        };
        if !trace.watching {
            let bytes = response.body().size_hint().lower();
            let room = self.inner.gate.response(&user, usize::try_from(bytes).unwrap_or(usize::MAX))?;
            trace.held = Some((place, room));
        }
        Ok(response)
    }

    async fn resource<B>(
        &self,
        cluster: &Arc<ClusterEdge>,
        parts: &Parts,
        body: B,
        info: RequestInfo,
        user: User,
        trace: &mut Trace,
    ) -> Result<Response<ResponseBody>, ApiError>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        if info.verb.is_empty() || parts.method == Method::HEAD {
            return Err(method_not_allowed());
        }
        let watching = info.verb == "watch";
        let endpoint = if watching { Endpoint::Watch } else { Endpoint::Objects };
        let mut output = match check_route(accept(&parts.headers)) {
            Err(refused) if cluster.is_built_in(&info) => return Err(refused),
            _ => negotiate(accept(&parts.headers), endpoint)?,
        };
        output.pretty |= wants_indentation(&info, &parts.headers);
        let form = Form::new(cluster, &info, output)?;
        let place = if watching { Some(self.inner.gate.watch(&user, info.cluster.as_deref())?) } else { None };
        let body = match parts.method {
            Method::GET => Bytes::new(),
            _ => read(body, self.inner.limits.body_read).await?,
        };
        let header = |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let content_type = header(CONTENT_TYPE).map(str::to_owned);
        let user_agent = header(USER_AGENT).unwrap_or_default().to_owned();
        let call = Call { info, user, content_type, user_agent, body };
        let long = parts.extensions.get::<LongRequests>().filter(|_| call.body.len() >= LONG_REQUEST_BYTES).cloned();
        let answering = cluster.backend.call(call);
        let answering = async {
            match long {
                Some(threads) => threads.run(answering).await,
                None => answering.await,
            }
        };
        let answering = tokio::time::timeout(self.inner.limits.request, answering);
        let Ok(answer) = answering.await else {
            let message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
            return Err(ApiError::new(Reason::Timeout, message));
        };
        let Answer { status, content, warnings } = answer?;
        let mut response = match content {
            Content::Object(json) => {
                let body = encode(json, form.output, form.context(true))?;
                whole(Reply::new(status, &form.output.content_type(), body), &parts.headers)
            }
            Content::Text(text) => whole(
                Reply::new(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes())),
                &parts.headers,
            ),
            Content::Watch(events) => {
                trace.watching = true;
                self.stream(events, form, Box::new(place), &trace.labels)
            }
        };
        put_warnings(response.headers_mut(), &warnings);
        Ok(response)
    }

    fn stream(
        &self,
        events: Events,
        form: Form,
        place: Box<dyn Send>,
        labels: &RequestLabels,
    ) -> Response<ResponseBody> {
        self.inner.metrics.watch_started(labels);
        self.inner.metrics.finished(labels, 200, std::time::Duration::ZERO);
        let counted = CountedWatch { metrics: Arc::clone(&self.inner.metrics), labels: labels.clone(), _place: place };
        let body = WatchBody::new(events, form.into_transform(), self.stopped(), Box::new(counted));
        let mut response = Response::new(body.boxed_unsync());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.extensions_mut().insert(Streaming);
        response
    }
}

/// The user of a request: an established identity, a bearer token, or anonymous; then the user that they
/// act as.
fn identify(cluster: &ClusterEdge, parts: &Parts) -> Result<User, ApiError> {
    let asking = match (parts.extensions.get::<Identity>(), bearer(&parts.headers)) {
        (Some(Identity(user)), _) => user.clone(),
        (None, Some(token)) => match cluster.authenticator.token(token, &[]) {
            Ok(found) => found.user,
            Err(why) => {
                tracing::debug!(%why, "a bearer token was refused");
                return Err(ApiError::new(Reason::Unauthorized, "Unauthorized"));
            }
        },
        (None, None) => User::anonymous(),
    };
    if !asking.is_anonymous()
        && let Some(connection) = parts.extensions.get::<ConnectionHandle>()
    {
        connection.authenticated();
    }
    Ok(impersonated(&cluster.rbac, &asking, &parts.headers)?.unwrap_or(asking))
}

/// How the objects of one answer are to be presented.
struct Form {
    output: Output,
    columns: Option<Arc<Columns>>,
    include: IncludeObject,
    cluster: Arc<ClusterEdge>,
}

impl Form {
    fn new(cluster: &Arc<ClusterEdge>, info: &RequestInfo, output: Output) -> Result<Self, ApiError> {
        let mut form = Self { output, columns: None, include: IncludeObject::default(), cluster: Arc::clone(cluster) };
        if let (Shape::Table(_), Some(path)) = (output.shape, &info.resource) {
            let ResourcePath { group, version, resource, subresource, .. } = path;
            form.include = IncludeObject::parse(info.query("includeObject"))?;
            // Objects of other subresources (`scale`) are of another kind and are sent unchanged.
            if matches!(subresource.as_str(), "" | "status") {
                form.columns = cluster.backend.columns(group, version, resource);
            }
        }
        Ok(form)
    }

    fn context(&self, headings: bool) -> TableContext<'_> {
        TableContext {
            columns: self.columns.as_deref(),
            include: self.include,
            headings,
            now: self.cluster.backend.now(),
        }
    }

    /// `None` if events are sent unchanged. Only the first table has column definitions.
    fn into_transform(self) -> Option<Transform> {
        if self.output.shape == Shape::Native {
            return None;
        }
        let mut first = true;
        Some(Box::new(move |event: &Event| {
            let Ok(value) = serde_json::from_slice(&event.object) else { return event.object.clone() };
            let shaped = reshape(value, self.output.shape, self.context(std::mem::take(&mut first)));
            Bytes::from(shaped.to_string())
        }))
    }
}

struct CountedWatch {
    metrics: Arc<Metrics>,
    labels: RequestLabels,
    _place: Box<dyn Send>,
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        self.metrics.watch_ended(&self.labels);
    }
}

fn labels(info: &RequestInfo) -> RequestLabels {
    match &info.resource {
        Some(path) => RequestLabels {
            verb: Verb(info.verb.clone()),
            group: path.group.clone(),
            version: path.version.clone(),
            resource: path.resource.clone(),
            subresource: path.subresource.clone(),
        },
        None => RequestLabels { verb: Verb(info.verb.clone()), ..RequestLabels::default() },
    }
}

fn attributes<'a>(info: &'a RequestInfo, user: &'a User) -> Attributes<'a> {
    let target = match &info.resource {
        Some(ResourcePath { group, namespace, resource, name, subresource, .. }) => {
            Target::Resource { group, resource, subresource, namespace, name }
        }
        None => Target::Path(&info.path),
    };
    Attributes { user, verb: &info.verb, target }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// People at a terminal or a browser get indented JSON unless they say otherwise.
fn wants_indentation(info: &RequestInfo, headers: &HeaderMap) -> bool {
    if let Some(asked) = info.query("pretty").filter(|value| !value.is_empty()) {
        return matches!(asked, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
}

fn whole(reply: Reply, request: &HeaderMap) -> Response<ResponseBody> {
    let (body, compressed) = compress(reply.body, request);
    let mut response = Response::new(full(body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = reply.headers;
    if compressed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

pub(super) fn refusal(refused: &ApiError, headers: &HeaderMap) -> Response<ResponseBody> {
    let output = negotiate(accept(headers), Endpoint::Plain).unwrap_or_default();
    let output = Output { shape: Shape::Native, ..output };
    let json = Bytes::from(refused.to_status().to_string());
    let context =
        TableContext { columns: None, include: IncludeObject::None, headings: false, now: jiff::Timestamp::UNIX_EPOCH };
    let (body, content_type) = match encode(json.clone(), output, context) {
        Ok(body) => (body, output.content_type()),
        Err(_) => (json, Output { format: Format::Json, ..output }.content_type()),
    };
    let mut response = whole(Reply::new(refused.code(), &content_type, body), headers);
    let retry = refused.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry));
    }
    response
}

fn put_common_headers(headers: &mut HeaderMap, audit_id: Option<HeaderValue>) {
    if let Some(id) = audit_id {
        headers.insert("audit-id", id);
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
}

/// Turns a panic of the inner future into an error, so that one bad request does not take others with it.
struct CatchPanic<'a, T>(Pin<Box<dyn Future<Output = T> + Send + 'a>>);

impl<T> Future for CatchPanic<'_, T> {
    type Output = Result<T, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match std::panic::catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

#[cfg(test)]
#[path = "edge_tests.rs"]
pub(crate) mod tests;
