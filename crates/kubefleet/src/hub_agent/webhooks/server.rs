//! The server that API servers ask before they store something: HTTPS, POST, an AdmissionReview in and one out.
//!
//! Decides how much it bears and who is answered what when a question cannot be read. Never judges a request: the checks of
//! `fleet_api::admission` do.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet_api::admission;
use fleet_api::admission::webhooks::{Handler, handler_at};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Body;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::metrics::Reviews;
use super::wire;
use super::world::Sources;
use crate::agent::serving;

/// API servers ask over one HTTP/2 connection each, or over one for every question at a time.
const MOST_CONNECTIONS: usize = 256;
const MOST_QUESTIONS_PER_CONNECTION: u32 = 250;
/// An object of the size that etcd takes, twice: as it is and as it is to be; and room for escapes.
const LARGEST_REVIEW: usize = 8 << 20;
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(5);
/// How long a connection may wait for its next question. Longer than between two heartbeats of members.
const LONGEST_SILENCE: Duration = Duration::from_mins(2);
/// How often an HTTP/2 connection is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// No API server waits longer for an answer.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);
const TEXT: &str = "text/plain; charset=utf-8";

/// Answers for as long as it is polled; connections end with it.
pub(super) async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, sources: Sources, reviews: Reviews) {
    let (tls, desk) = (TlsAcceptor::from(tls), Arc::new(Desk { sources, reviews }));
    serving::accept(listener, MOST_CONNECTIONS, |stream| connection(stream, tls.clone(), desk.clone())).await;
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, desk: Arc<Desk>) {
    // Small answers must not wait for more to send.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(LONGEST_HANDSHAKE, tls.accept(stream)).await else { return };
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(desk.answered(request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(LONGEST_SILENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_QUESTIONS_PER_CONNECTION)
        .keep_alive_interval(KEEP_ALIVE);
    // The protocol is fixed by TLS, so that waiting for the first bytes has its limit.
    let builder = if http2 { builder.http2_only() } else { builder.http1_only() };
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection of an API server broke");
    }
}

/// Where questions are answered.
struct Desk {
    sources: Sources,
    reviews: Reviews,
}

/// Why there is no answer.
type Unanswered = (StatusCode, String);

impl Desk {
    async fn answered<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let begun = Instant::now();
        let path = request.uri().path().to_owned();
        // Paths of nothing are not counted: anybody could make them up.
        let Some(handler) = handler_at(&path) else {
            return response(StatusCode::NOT_FOUND, TEXT, "404 page not found\n".to_owned());
        };
        let answer = timeout(LONGEST_ANSWER, self.reviewed(&path, handler, request)).await;
        let answer = answer.unwrap_or_else(|_| Err((StatusCode::GATEWAY_TIMEOUT, "it took too long".to_owned())));
        let response = match answer {
            Ok(review) => response(StatusCode::OK, "application/json", review),
            Err((status, why)) => response(status, TEXT, why + "\n"),
        };
        self.reviews.answered(&path, response.status(), begun.elapsed());
        response
    }

    async fn reviewed<B>(&self, path: &str, handler: Handler, request: Request<B>) -> Result<String, Unanswered>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        if request.method() != Method::POST {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "only POST is allowed".to_owned()));
        }
        let bad = |why: String| (StatusCode::BAD_REQUEST, why);
        let body = Limited::new(request.into_body(), LARGEST_REVIEW).collect().await;
        let body = body.map_err(|error| bad(format!("the review cannot be read: {error}")))?.to_bytes();
        let question = wire::read(&body).map_err(bad)?;
        let asked = &question.request;
        let known = self.sources.ask(handler, asked).await;
        let verdict = admission::judge(handler, asked, &known);
        if !verdict.is_allowed() {
            self.reviews.refused(path);
        }
        tracing::debug!(
            path,
            operation = asked.operation.as_str(),
            namespace = asked.namespace,
            name = asked.name,
            user = asked.user.name,
            allowed = verdict.is_allowed(),
            message = verdict.message(),
            "asked for admission"
        );
        Ok(wire::answer(&question, verdict).to_string())
    }
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
