//! The HTTPS server for AdmissionReviews, with limits on connections, sizes and times. The checks are in
//! `fleet_api::admission`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::connections::{ConnectionLimits, Connections, OpenConnection, WithGuard};
use bytes::Bytes;
use fleet_api::admission;
use fleet_api::admission::webhooks::{Handler, handler_at};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::callers::Callers;
use super::lookup::Sources;
use super::metrics::Reviews;
use super::wire;
use crate::agent::serving;

/// API servers use one HTTP/2 connection each, or one HTTP/1.1 connection per concurrent request. At the limit, the longest idle
/// connection is closed for a new one.
const MOST_CONNECTIONS: usize = 256;
/// Unauthenticated connections per address: half of all, so that one client cannot use up the limit, and enough for an API server
/// with HTTP/1.1.
const MOST_CONNECTIONS_PER_PEER: usize = 128;
const MOST_QUESTIONS_PER_CONNECTION: u32 = 250;
/// Two objects of the maximum size in etcd (old and new), and room for escapes.
const LARGEST_REVIEW: usize = 8 << 20;
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(5);
/// Idle timeout of a connection. Longer than the heartbeat interval of members.
const LONGEST_SILENCE: Duration = Duration::from_mins(2);
/// Idle timeout of unauthenticated connections if credentials are required: an API server sends its request at once.
const LONGEST_UNAUTHENTICATED_SILENCE: Duration = Duration::from_secs(10);
/// Interval of HTTP/2 keep-alive pings.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// API servers do not wait longer for a response.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);
const TEXT: &str = "text/plain; charset=utf-8";

/// Serves while it is polled; dropping it closes the connections.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    callers: Callers,
    sources: Sources,
    reviews: Reviews,
) {
    let connections = Connections::new(limits(&callers));
    let (tls, desk) = (TlsAcceptor::from(tls), Arc::new(Desk { callers, sources, reviews }));
    serving::accept(listener, connections, |stream, open| connection(stream, open, tls.clone(), desk.clone())).await;
}

fn limits(callers: &Callers) -> ConnectionLimits {
    ConnectionLimits {
        max_connections: MOST_CONNECTIONS,
        max_unauthenticated_per_peer: MOST_CONNECTIONS_PER_PEER,
        handshake: LONGEST_HANDSHAKE,
        unauthenticated_idle: if callers.allow_unauthenticated() {
            LONGEST_SILENCE
        } else {
            LONGEST_UNAUTHENTICATED_SILENCE
        },
        idle: LONGEST_SILENCE,
        response: LONGEST_ANSWER,
    }
}

async fn connection(stream: TcpStream, open: OpenConnection, tls: TlsAcceptor, desk: Arc<Desk>) {
    // Send small responses at once.
    let _ = stream.set_nodelay(true);
    let secured = tokio::select! {
        secured = tls.accept(stream) => secured,
        _ = open.closing() => return,
    };
    let Ok(stream) = secured else { return };
    open.secured();
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let certificate = stream.get_ref().1.peer_certificates().is_some();
    let handle = open.handle();
    let service = service_fn(move |request: Request<Incoming>| {
        let (desk, mut in_flight) = (desk.clone(), handle.request());
        let permitted = desk.callers.permit(certificate, request.headers());
        if permitted && !desk.callers.allow_unauthenticated() {
            handle.authenticated();
        }
        async move {
            let response = if permitted {
                desk.answered(request).await
            } else {
                response(StatusCode::UNAUTHORIZED, TEXT, "Unauthorized\n".to_owned())
            };
            in_flight.responding();
            Ok::<_, Infallible>(response.map(|body| WithGuard::new(body, in_flight)))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(LONGEST_SILENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_QUESTIONS_PER_CONNECTION)
        .keep_alive_interval(KEEP_ALIVE);
    // ALPN fixes the protocol, so that the timeouts cover the first bytes.
    let builder = if http2 { builder.http2_only() } else { builder.http1_only() };
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = open.serve(serving, std::future::pending(), Duration::ZERO).await {
        tracing::debug!(%error, "connection from an API server failed");
    }
}

/// The request handler.
struct Desk {
    callers: Callers,
    sources: Sources,
    reviews: Reviews,
}

/// An HTTP error.
type Unanswered = (StatusCode, String);

impl Desk {
    async fn answered<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let begun = Instant::now();
        let path = request.uri().path().to_owned();
        // Unknown paths are not counted, to bound the number of time series.
        let Some(handler) = handler_at(&path) else {
            return response(StatusCode::NOT_FOUND, TEXT, "404 page not found\n".to_owned());
        };
        let answer = timeout(LONGEST_ANSWER, self.reviewed(&path, handler, request)).await;
        let answer = answer.unwrap_or_else(|_| Err((StatusCode::GATEWAY_TIMEOUT, "the check timed out".to_owned())));
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
        let body = body.map_err(|error| bad(format!("cannot read the AdmissionReview: {error}")))?.to_bytes();
        let question = wire::read(&body).map_err(bad)?;
        let asked = &question.request;
        let known = self.sources.look_up(handler, asked).await;
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
            "admission review"
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
