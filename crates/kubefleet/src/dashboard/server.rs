//! The listener: connections, limits, headers of every response, and the stream of changes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use apiserver::connections::{ConnectionLimits, Connections, OpenConnection, WithGuard};
use bytes::Bytes;
use futures::stream;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Site;

/// Limits on connections. A browser has six per site and one stream per tab; it closes idle ones itself.
const CONNECTIONS: ConnectionLimits = ConnectionLimits {
    max_connections: 512,
    max_unauthenticated_per_peer: 512,
    handshake: LONGEST_HEADER,
    unauthenticated_idle: Duration::from_mins(1),
    idle: Duration::from_mins(1),
    response: Duration::from_mins(1),
};
const LONGEST_HEADER: Duration = Duration::from_secs(10);
/// Delay after a failed accept (too many open files).
const AFTER_TROUBLE: Duration = Duration::from_millis(100);
/// Changes within this time are one event: a page is fetched for each.
const TOGETHER: Duration = Duration::from_millis(100);
/// A comment in the stream, so that nothing between browser and server takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Headers of every response. Nothing is loaded from elsewhere, and no script or style is in a page itself.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Serves while it is polled; dropping it closes the connections. Must run in a `LocalSet`: reading a page may use any function of the
/// commands, which were written for one thread.
pub(super) async fn serve(listener: TcpListener, site: Arc<Site>) {
    let connections = Connections::new(CONNECTIONS);
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Some(open) = connections.admit(peer.ip()).await {
                    tasks.spawn_local(connection(stream, open, site.clone()));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(AFTER_TROUBLE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, open: OpenConnection, site: Arc<Site>) {
    open.secured();
    // Pages are small and follow each other at once.
    let _ = stream.set_nodelay(true);
    let handle = open.handle();
    let service = service_fn(move |request| {
        let (site, in_flight) = (site.clone(), handle.request());
        async move {
            let mut response = site.respond(request).await;
            add_headers(response.headers_mut());
            Ok::<_, Infallible>(response.map(|body| WithGuard::new(body, in_flight)))
        }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(LONGEST_HEADER);
    let serving = server.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = open.serve(serving, std::future::pending(), Duration::ZERO).await {
        tracing::trace!(%error, "a connection of the dashboard failed");
    }
}

fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

pub(super) fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed_unsync()
}

/// A response with a text.
pub(super) fn text(status: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// An endless stream of `changed` events. They say nothing else: the page is fetched again.
pub(super) fn events(mut changes: watch::Receiver<u64>) -> Response<Body> {
    changes.mark_unchanged();
    let first = Bytes::from_static(b": connected\nretry: 1000\n\n");
    let frames = stream::unfold((changes, Some(first)), |(mut changes, first)| async move {
        if let Some(first) = first {
            return Some((Ok::<_, Infallible>(Frame::data(first)), (changes, None)));
        }
        let event = match tokio::time::timeout(KEEP_ALIVE, changes.changed()).await {
            Ok(Ok(())) => {
                tokio::time::sleep(TOGETHER).await;
                let revision = *changes.borrow_and_update();
                Bytes::from(format!("event: changed\ndata: {revision}\n\n"))
            }
            // The store has ended.
            Ok(Err(_)) => return None,
            Err(_) => Bytes::from_static(b": still there\n\n"),
        };
        Some((Ok(Frame::data(event)), (changes, None)))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let content_type = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
