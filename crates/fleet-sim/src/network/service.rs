//! Delivers one request to a server and the answer to the client, with the outcome that was drawn for it. A request of
//! a crashed agent is never answered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use tower_service::Service;

use super::faults::{Delivery, Refusal, RequestKind, RequestOutcome};
use super::{CrashMoment, Network, Obstacle, ServerSource, WriteVerdict};
use super::{reads, watch_events, write_cost};

/// How long a client tries to connect to a server that it does not reach.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The body of an answer: complete, or a stream of watch events.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

/// The connection of one incarnation of an actor to a server.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) network: Network,
    pub(super) actor: Arc<str>,
    pub(super) incarnation: u64,
    /// The server's name.
    pub(super) name: Arc<str>,
    pub(super) server: ServerSource,
    pub(super) without_faults: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("actor", &self.actor).field("server", &self.name).finish_non_exhaustive()
    }
}

impl Service<Request<kube::client::Body>> for Connection {
    type Response = Response<ResponseBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let call = Call::new(self, &request);
        Box::pin(call.deliver(self.server.clone(), request))
    }
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) network: Network,
    pub(super) actor: Arc<str>,
    pub(super) incarnation: u64,
    pub(super) server: Arc<str>,
    pub(super) verb: String,
    pub(super) path: String,
    pub(super) at: Duration,
    pub(super) without_faults: bool,
    kind: RequestKind,
}

impl Call {
    fn new<B>(connection: &Connection, request: &Request<B>) -> Self {
        let path = request.uri().path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        let has_option = |option: &str| {
            let query = request.uri().query().unwrap_or_default();
            query.split('&').any(|part| part.starts_with(option))
        };
        let is_watch = has_option("watch=true");
        let kind = match *request.method() {
            Method::GET | Method::HEAD if is_watch => RequestKind::Watch,
            Method::GET if has_option("limit=") => RequestKind::List { continued: has_option("continue=") },
            Method::GET if matches!(request.uri().path(), "/api" | "/apis") => RequestKind::Discovery,
            Method::GET | Method::HEAD => RequestKind::Read,
            Method::POST => RequestKind::Create,
            _ => RequestKind::Change,
        };
        let verb = if is_watch { "WATCH".to_owned() } else { request.method().to_string() };
        let (network, actor, incarnation) =
            (connection.network.clone(), connection.actor.clone(), connection.incarnation);
        let at = network.elapsed();
        Self {
            network,
            actor,
            incarnation,
            server: connection.name.clone(),
            verb,
            path,
            at,
            without_faults: connection.without_faults,
            kind,
        }
    }

    async fn deliver(
        self,
        server: ServerSource,
        mut request: Request<kube::client::Body>,
    ) -> Result<Response<ResponseBody>, io::Error> {
        self.network.check_limit()?;
        let delivery =
            if self.without_faults { Delivery::WITHOUT_FAULTS } else { self.network.draw_delivery(self.kind) };
        if let Some(length) = delivery.page_size {
            reads::shorten_pages(&mut request, length);
        }
        let accept = request.headers().get(http::header::ACCEPT).cloned();
        sleep(delivery.to_server).await;
        if let Some(obstacle) = self.network.obstacle(&self).filter(|_| !self.without_faults) {
            return self.fail(obstacle, delivery.to_client).await;
        }
        match delivery.outcome {
            RequestOutcome::Refused(refusal) => self.refuse(refusal, delivery.to_client).await,
            RequestOutcome::Expired { as_event: false } => {
                self.record("410 (fault)");
                self.return_answer(delivery.to_client).await;
                Ok(status_answer(StatusCode::GONE, "Expired", "The resourceVersion is too old."))
            }
            RequestOutcome::Expired { as_event: true } => {
                self.record("200, then 410 (fault)");
                self.return_answer(delivery.to_client).await;
                Ok(Response::new(full(watch_events::expired_line())))
            }
            RequestOutcome::Hangs { carried_out: false } => {
                self.hang("hangs before the server (fault)".to_owned()).await
            }
            RequestOutcome::Hangs { carried_out: true } => {
                let answer = self.serve(server, request).await;
                self.hang(format!("{}, hangs (fault)", answer.status().as_u16())).await
            }
            RequestOutcome::AnswerLost => {
                let answer = self.serve(server, request).await;
                self.record(format!("{}, answer lost (fault)", answer.status().as_u16()));
                self.return_answer(delivery.to_client).await;
                Err(io::ErrorKind::ConnectionReset.into())
            }
            RequestOutcome::Truncated => {
                let answer = self.serve(server, request).await;
                self.record(format!("{}, truncated (fault)", answer.status().as_u16()));
                self.return_answer(delivery.to_client).await;
                Ok(reads::truncated(answer).await)
            }
            RequestOutcome::ExpiredToken => {
                self.record("410 for a continue token (fault)");
                self.return_answer(delivery.to_client).await;
                Ok(status_answer(StatusCode::GONE, "Expired", "The provided continue parameter is too old."))
            }
            RequestOutcome::PartialDiscovery => {
                let answer = self.serve(server, request).await;
                let (answer, what) = reads::without_a_group(answer, |count| self.network.index(count)).await;
                self.record(format!("{}, {what} (fault)", answer.status().as_u16()));
                self.return_answer(delivery.to_client).await;
                Ok(answer)
            }
            RequestOutcome::Answered | RequestOutcome::StaleList => {
                let earlier = (delivery.outcome == RequestOutcome::StaleList)
                    .then(|| self.earlier_list(accept.as_ref()))
                    .flatten();
                if let Some((age, body)) = earlier {
                    self.record(format!("200 of {} ms ago (fault)", age.as_millis()));
                    self.return_answer(delivery.to_client).await;
                    return Ok(json_answer(StatusCode::OK, body));
                }
                let mut answer = self.serve(server, request).await;
                if matches!(self.kind, RequestKind::List { continued: false }) && delivery.page_size.is_none() {
                    answer = self.remember_list(accept.as_ref(), answer).await;
                }
                let detail = match delivery.page_size {
                    _ if answer.status() == StatusCode::UNPROCESSABLE_ENTITY => {
                        let (message, same) = reads::message(answer).await;
                        answer = same;
                        format!(" ({message})")
                    }
                    Some(length) => format!(" in pages of {length}"),
                    None => String::new(),
                };
                self.record(format!("{}{detail}", answer.status().as_u16()));
                self.return_answer(delivery.to_client).await;
                if self.kind == RequestKind::Watch && answer.status().is_success() {
                    return Ok(watch_events::stream_events(self, answer));
                }
                Ok(answer)
            }
        }
    }

    /// Passes the request to the server, unless its sender has crashed.
    async fn serve(&self, server: ServerSource, request: Request<kube::client::Body>) -> Response<ResponseBody> {
        let verdict = match self.kind {
            RequestKind::Create | RequestKind::Change => self.network.count_write(&self.actor, self.incarnation),
            _ if self.network.is_connected(&self.actor, self.incarnation) => WriteVerdict::Proceed,
            _ => WriteVerdict::Disconnected,
        };
        match verdict {
            WriteVerdict::Disconnected => std::future::pending().await,
            WriteVerdict::Crash(CrashMoment::BeforeTheServer) => self.crash("crash before the server".to_owned()).await,
            WriteVerdict::Proceed | WriteVerdict::Crash(CrashMoment::AfterTheServer) => {
                let occupied = match self.network.slow_server(&self.server).filter(|_| self.is_timed()) {
                    Some(slow) => slow.occupy().await,
                    None => None,
                };
                let Ok(answer) = server().call(request).await;
                let (answer, bytes) = self
                    .report_if_written(answer.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
                    .await;
                if occupied.is_some() {
                    sleep(write_cost::time_to_write(bytes)).await;
                }
                drop(occupied);
                if verdict != WriteVerdict::Proceed {
                    self.crash::<()>(format!("{}, crash", answer.status().as_u16())).await;
                }
                answer
            }
        }
    }

    /// Whether a slow server takes time for this request.
    fn is_timed(&self) -> bool {
        self.is_write() && !self.without_faults
    }

    fn is_write(&self) -> bool {
        matches!(self.kind, RequestKind::Create | RequestKind::Change)
    }

    /// Reports a successful write to the observer. Also returns the size of the written object.
    async fn report_if_written(&self, answer: Response<ResponseBody>) -> (Response<ResponseBody>, usize) {
        if !self.is_write() || !answer.status().is_success() {
            return (answer, 0);
        }
        let (head, body) = answer.into_parts();
        let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
            return (Response::from_parts(head, full(Bytes::new())), 0);
        };
        self.network.report_write(&self.actor, &self.server, &self.verb, &self.path, &body);
        let bytes = body.len();
        (Response::from_parts(head, full(body)), bytes)
    }

    async fn refuse(&self, refusal: Refusal, back: Duration) -> Result<Response<ResponseBody>, io::Error> {
        let (status, reason, message) = match refusal {
            Refusal::Conflict => (StatusCode::CONFLICT, "Conflict", "the object has been modified"),
            Refusal::TooMany => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "Too many requests"),
            Refusal::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "Internal error occurred"),
            Refusal::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "Service unavailable"),
            Refusal::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"),
            Refusal::Forbidden => (StatusCode::FORBIDDEN, "Forbidden", "forbidden: the rights of this user changed"),
            Refusal::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
            }
            Refusal::Quota => (StatusCode::FORBIDDEN, "Forbidden", "exceeded quota: objects, used: 10, limited: 10"),
            Refusal::WebhookDenies => {
                (StatusCode::FORBIDDEN, "Forbidden", "admission webhook \"policy.example.com\" denied the request: no")
            }
            Refusal::WebhookFails => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                "Internal error occurred: failed calling webhook \"policy.example.com\": context deadline exceeded",
            ),
            Refusal::Timeout => (StatusCode::GATEWAY_TIMEOUT, "Timeout", "Timeout: request did not complete"),
            Refusal::Connection => {
                self.record("connection refused (fault)");
                self.return_answer(back).await;
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
        };
        let what = match refusal {
            Refusal::Quota => ", quota",
            Refusal::WebhookDenies | Refusal::WebhookFails => ", webhook",
            _ => "",
        };
        self.record(format!("{}{what} (fault)", status.as_u16()));
        self.return_answer(back).await;
        Ok(status_answer(status, reason, message))
    }

    /// The answer to a request that does not reach its server or whose kind is not served.
    async fn fail(&self, obstacle: Obstacle, back: Duration) -> Result<Response<ResponseBody>, io::Error> {
        match obstacle {
            Obstacle::Partition => {
                self.return_answer(CONNECT_TIMEOUT).await;
                self.record("no connection, partition (fault)");
                Err(io::ErrorKind::TimedOut.into())
            }
            Obstacle::ServerDown => {
                self.record("connection refused, the server is down (fault)");
                self.return_answer(back).await;
                Err(io::ErrorKind::ConnectionRefused.into())
            }
            Obstacle::KindNotServed => {
                self.record("404, the kind is not served (fault)");
                self.return_answer(back).await;
                let mut answer = Response::new(full("404 page not found\n"));
                *answer.status_mut() = StatusCode::NOT_FOUND;
                Ok(answer)
            }
        }
    }

    fn earlier_list(&self, accept: Option<&http::HeaderValue>) -> Option<(Duration, Bytes)> {
        self.network.with_lists(|lists, now| lists.earlier(&self.list_key(accept), now))
    }

    async fn remember_list(
        &self,
        accept: Option<&http::HeaderValue>,
        answer: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        if !answer.status().is_success() || !self.network.has_stale_lists() {
            return answer;
        }
        let (head, body) = reads::whole(answer).await;
        self.network.with_lists(|lists, now| lists.remember(self.list_key(accept), now, body.clone()));
        Response::from_parts(head, full(body))
    }

    fn list_key(&self, accept: Option<&http::HeaderValue>) -> String {
        let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
        format!("{} {} {accept}", self.server, self.path)
    }

    pub(super) fn record(&self, outcome: impl Into<String>) {
        self.network.record(self, outcome);
    }

    /// Waits until the answer reaches the client; forever if the client has crashed.
    async fn return_answer(&self, back: Duration) {
        sleep(back).await;
        if !self.network.is_connected(&self.actor, self.incarnation) {
            std::future::pending::<()>().await;
        }
    }

    async fn hang<T>(&self, outcome: String) -> T {
        self.record(outcome);
        std::future::pending().await
    }

    async fn crash<T>(&self, outcome: String) -> T {
        self.record(outcome);
        self.network.notify_crash(&self.actor);
        std::future::pending().await
    }
}

/// Does not use the timer if there is no latency.
async fn sleep(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

pub(super) fn full(text: impl Into<Bytes>) -> ResponseBody {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

fn status_answer(status: StatusCode, reason: &str, message: &str) -> Response<ResponseBody> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": status.as_u16(),
    });
    json_answer(status, body.to_string())
}

fn json_answer(status: StatusCode, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut answer = Response::new(full(body));
    *answer.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, json);
    answer
}
