//! Carries one request from a client to a server and the answer back.
//!
//! Decides nothing: what becomes of a request was thrown before. A request of a dead agent is never answered.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::http::LocalService;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use tower_service::Service;

use super::watching;
use super::weather::{Fate, Refusal, Sort, Way};
use super::{CrashMoment, Judgement, Network};

/// The body of every answer: a whole one, or the lines of a watch.
pub(super) type WireBody = UnsyncBoxBody<Bytes, io::Error>;

/// A server as one life of one actor reaches it.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    pub(super) network: Network,
    pub(super) actor: Arc<str>,
    pub(super) life: u64,
    /// The server's name.
    pub(super) name: Arc<str>,
    pub(super) server: LocalService,
    /// Whether the weather leaves it alone.
    pub(super) steady: bool,
}

impl Service<Request<kube::client::Body>> for Wire {
    type Response = Response<WireBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let call = Call::new(self, &request);
        Box::pin(call.carry(self.server.clone(), request))
    }
}

/// One request on its way.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) network: Network,
    pub(super) actor: Arc<str>,
    pub(super) life: u64,
    pub(super) server: Arc<str>,
    pub(super) verb: String,
    pub(super) path: String,
    pub(super) at: Duration,
    pub(super) steady: bool,
    sort: Sort,
}

impl Call {
    fn new<B>(wire: &Wire, request: &Request<B>) -> Self {
        let path = request.uri().path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        let is_watch = request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
        let sort = match *request.method() {
            Method::GET | Method::HEAD if is_watch => Sort::Watch,
            Method::GET | Method::HEAD => Sort::Read,
            Method::POST => Sort::Create,
            _ => Sort::Change,
        };
        let verb = if is_watch { "WATCH".to_owned() } else { request.method().to_string() };
        let (network, actor, life) = (wire.network.clone(), wire.actor.clone(), wire.life);
        let at = network.elapsed();
        Self { network, actor, life, server: wire.name.clone(), verb, path, at, steady: wire.steady, sort }
    }

    async fn carry(
        self,
        server: LocalService,
        request: Request<kube::client::Body>,
    ) -> Result<Response<WireBody>, io::Error> {
        let way = if self.steady { Way::CALM } else { self.network.way(self.sort) };
        sleep(way.to).await;
        match way.fate {
            Fate::Refused(refusal) => self.refuse(refusal, way.back).await,
            Fate::Expired { as_event: false } => {
                self.record("410 (fault)");
                self.come_back(way.back).await;
                Ok(status_answer(StatusCode::GONE, "Expired", "The resourceVersion is too old."))
            }
            Fate::Expired { as_event: true } => {
                self.record("200, then 410 (fault)");
                self.come_back(way.back).await;
                Ok(Response::new(full(watching::expired_line())))
            }
            Fate::Hangs { carried_out: false } => self.hang("hangs before the server (fault)".to_owned()).await,
            Fate::Hangs { carried_out: true } => {
                let answer = self.serve(server, request).await;
                self.hang(format!("{}, hangs (fault)", answer.status().as_u16())).await
            }
            Fate::AnswerLost => {
                let answer = self.serve(server, request).await;
                self.record(format!("{}, answer lost (fault)", answer.status().as_u16()));
                self.come_back(way.back).await;
                Err(io::ErrorKind::ConnectionReset.into())
            }
            Fate::Answered => {
                let answer = self.serve(server, request).await;
                self.record(answer.status().as_u16().to_string());
                self.come_back(way.back).await;
                if self.sort == Sort::Watch && answer.status().is_success() {
                    return Ok(watching::carry(self, answer));
                }
                Ok(answer)
            }
        }
    }

    /// Lets the server have the request, unless its sender is dead by then.
    async fn serve(&self, mut server: LocalService, request: Request<kube::client::Body>) -> Response<WireBody> {
        let judgement = match self.sort {
            Sort::Create | Sort::Change => self.network.judge_write(&self.actor, self.life),
            Sort::Read | Sort::Watch if self.network.lives(&self.actor, self.life) => Judgement::Lives,
            Sort::Read | Sort::Watch => Judgement::Dead,
        };
        match judgement {
            Judgement::Dead => std::future::pending().await,
            Judgement::Dies(CrashMoment::BeforeTheServer) => self.die("crash before the server".to_owned()).await,
            Judgement::Lives | Judgement::Dies(CrashMoment::AfterTheServer) => {
                let Ok(answer) = server.call(request).await;
                let answer = self.show(answer.map(|body| body.map_err(|never| match never {}).boxed_unsync())).await;
                if judgement != Judgement::Lives {
                    self.die::<()>(format!("{}, crash", answer.status().as_u16())).await;
                }
                answer
            }
        }
    }

    /// Shows what a write came to, if it succeeded.
    async fn show(&self, answer: Response<WireBody>) -> Response<WireBody> {
        let wrote = matches!(self.sort, Sort::Create | Sort::Change) && answer.status().is_success();
        if !wrote {
            return answer;
        }
        let (head, body) = answer.into_parts();
        let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
            return Response::from_parts(head, full(Bytes::new()));
        };
        self.network.bear_witness(&self.actor, &self.server, &self.verb, &self.path, &body);
        Response::from_parts(head, full(body))
    }

    async fn refuse(&self, refusal: Refusal, back: Duration) -> Result<Response<WireBody>, io::Error> {
        let (status, reason, message) = match refusal {
            Refusal::Conflict => (StatusCode::CONFLICT, "Conflict", "the object has been modified"),
            Refusal::TooMany => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "Too many requests"),
            Refusal::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "Internal error occurred"),
            Refusal::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "Service unavailable"),
            Refusal::Timeout => (StatusCode::GATEWAY_TIMEOUT, "Timeout", "Timeout: request did not complete"),
            Refusal::Connection => {
                self.record("connection refused (fault)");
                self.come_back(back).await;
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
        };
        self.record(format!("{} (fault)", status.as_u16()));
        self.come_back(back).await;
        Ok(status_answer(status, reason, message))
    }

    pub(super) fn record(&self, outcome: impl Into<String>) {
        self.network.record(self, outcome);
    }

    /// The answer's way; to the dead it has no end.
    async fn come_back(&self, back: Duration) {
        sleep(back).await;
        if !self.network.lives(&self.actor, self.life) {
            std::future::pending::<()>().await;
        }
    }

    async fn hang<T>(&self, outcome: String) -> T {
        self.record(outcome);
        std::future::pending().await
    }

    async fn die<T>(&self, outcome: String) -> T {
        self.record(outcome);
        self.network.announce_death(&self.actor);
        std::future::pending().await
    }
}

/// Calm weather must not cost a turn of the timer.
async fn sleep(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

fn full(text: impl Into<Bytes>) -> WireBody {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

fn status_answer(status: StatusCode, reason: &str, message: &str) -> Response<WireBody> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": status.as_u16(),
    });
    let mut answer = Response::new(full(body.to_string()));
    *answer.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, json);
    answer
}
