//! A small HTTP server for probes and metrics: GET only, plain text, no secrets, no state. Addresses are as in Go: `:8080` is
//! every interface, `0` or an empty string disables the server. Connections and request times are limited.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use apiserver::connections::{ConnectionLimits, Connections, OpenConnection, WithGuard};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::output::Hinted;

/// Limits on connections to probes and metrics. Kubelets and Prometheus servers need a handful. If a client exceeds its share,
/// its oldest idle connection is closed.
const CONNECTIONS: ConnectionLimits = ConnectionLimits {
    max_connections: 64,
    max_unauthenticated_per_peer: 32,
    handshake: LONGEST_REQUEST,
    unauthenticated_idle: LONGEST_REQUEST,
    idle: LONGEST_REQUEST,
    response: Duration::from_secs(30),
};
/// Longest time from the connection to a complete request.
const LONGEST_REQUEST: Duration = Duration::from_secs(5);
/// Delay after a failed accept (too many open files).
const AFTER_TROUBLE: Duration = Duration::from_millis(100);

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// The response for a path and its query; `None` for an unknown path.
pub(crate) type Page = Arc<dyn Fn(&str, Option<&str>) -> Option<Answer> + Send + Sync>;

/// Listens on an address; `None` if it is disabled. Fails at start if the address is in use.
pub(crate) async fn listen(flag: &str, address: &str) -> anyhow::Result<Option<TcpListener>> {
    let opened = match address {
        "" | "0" => return Ok(None),
        _ => match address.strip_prefix(':') {
            Some(port) => everywhere(port).await,
            None => TcpListener::bind(address).await,
        },
    };
    if let Ok(listener) = &opened
        && let Ok(address) = listener.local_addr()
    {
        tracing::info!(flag, %address, "listening");
    }
    opened.map(Some).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("the port is in use; choose another with --{flag}, or 0 to disable")
            }
            _ => format!("use HOST:PORT or :PORT; --{flag}=0 disables it"),
        };
        Hinted { what: format!("cannot listen on {address}: {error}"), hint }.into()
    })
}

/// All interfaces, IPv6 and IPv4 if both exist.
async fn everywhere(port: &str) -> io::Result<TcpListener> {
    let port = port.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "invalid port"))?;
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await
        }
        bound => bound,
    }
}

/// Serves while it is polled; dropping it closes the connections.
pub(crate) async fn serve(listener: Option<TcpListener>, page: Page) {
    let Some(listener) = listener else { return std::future::pending().await };
    let connections = Connections::new(CONNECTIONS);
    accept(listener, connections, |stream, open| connection(stream, open, page.clone())).await;
}

/// Accepts connections while it is polled; dropping it closes them. If there are too many, an idle one is closed.
pub(crate) async fn accept<A>(
    listener: TcpListener,
    connections: Connections,
    attend: impl Fn(TcpStream, OpenConnection) -> A,
) where
    A: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Some(open) = connections.admit(peer.ip()).await {
                    tasks.spawn(attend(stream, open));
                } else {
                    tracing::debug!(%peer, "too many connections from this address");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(AFTER_TROUBLE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, open: OpenConnection, page: Page) {
    open.secured();
    let handle = open.handle();
    let service = service_fn(move |request| {
        let in_flight = handle.request();
        let response = answered(&page, &request).map(|body| WithGuard::new(body, in_flight));
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(LONGEST_REQUEST);
    let serving = server.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = open.serve(serving, std::future::pending(), Duration::ZERO).await {
        tracing::trace!(%error, "connection to the probe or metrics server failed");
    }
}

fn answered(page: &Page, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let answer = match *request.method() {
        Method::GET | Method::HEAD => page(request.uri().path(), request.uri().query())
            .unwrap_or_else(|| Answer::text(StatusCode::NOT_FOUND, "404 page not found\n")),
        _ => Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let content_type = http::HeaderValue::from_static(answer.content_type);
    response.headers_mut().insert(http::header::CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn ask(address: SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn only_known_paths_are_served() {
        let listener = listen("metrics-bind-address", "127.0.0.1:0").await.unwrap();
        let address = listener.as_ref().unwrap().local_addr().unwrap();
        let page: Page = Arc::new(|path, query| {
            (path == "/there").then(|| Answer::text(StatusCode::OK, query.unwrap_or("no query").to_owned()))
        });
        let server = tokio::spawn(serve(listener, page));
        let found = ask(address, "GET /there?verbose").await;
        assert!(found.starts_with("HTTP/1.1 200 OK\r\n") && found.ends_with("\r\n\r\nverbose"), "{found}");
        assert!(ask(address, "GET /elsewhere").await.starts_with("HTTP/1.1 404 "));
        assert!(ask(address, "POST /there").await.starts_with("HTTP/1.1 405 "));
        server.abort();
    }

    #[tokio::test]
    async fn an_address_can_be_disabled_and_is_rejected_with_a_hint_if_in_use() {
        assert!(listen("x", "0").await.unwrap().is_none() && listen("x", "").await.unwrap().is_none());
        let taken = listen("x", ":0").await.unwrap().unwrap();
        let port = taken.local_addr().unwrap().port();
        for address in [format!(":{port}"), "nonsense".to_owned(), ":http".to_owned()] {
            let refused = listen("health-probe-bind-address", &address).await.unwrap_err();
            assert!(refused.to_string().starts_with(&format!("cannot listen on {address}: ")), "{refused}");
            assert!(refused.downcast_ref::<Hinted>().unwrap().hint.contains("--health-probe-bind-address"));
        }
    }
}
