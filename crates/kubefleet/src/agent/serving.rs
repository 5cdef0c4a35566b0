//! A small HTTP server for probes and metrics: GET only, plain text, no secrets, no state.
//!
//! Decides where it listens (Go's way to write addresses: `:8080` is every interface, `0` or nothing turns it off) and how much
//! it bears: so many connections, so long for a request. Never decides what is told.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::output::Hinted;

/// Kubelets and a few Prometheus servers; more wait in line.
const MOST_CONNECTIONS: usize = 64;
/// Longest time from a connection to a complete request.
const LONGEST_REQUEST: Duration = Duration::from_secs(5);
/// Pause after the operating system could not hand out a connection (too many open files).
const AFTER_TROUBLE: Duration = Duration::from_millis(100);

/// What is told at a path.
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

/// Gives the answer for a path and its query; `None` for a path that there is nothing at.
pub(crate) type Page = Arc<dyn Fn(&str, Option<&str>) -> Option<Answer> + Send + Sync>;

/// Opens an address; `None` if it is turned off. Fails at once if somebody else has it, so that a start says so.
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
                format!("another program has that port; choose another with --{flag}, or 0 for none")
            }
            _ => format!("an address is HOST:PORT or :PORT; --{flag}=0 turns it off"),
        };
        Hinted { what: format!("cannot listen on {address}: {error}"), hint }.into()
    })
}

/// Every interface, of both families where there are two.
async fn everywhere(port: &str) -> io::Result<TcpListener> {
    let port = port.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "that is no port"))?;
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await
        }
        bound => bound,
    }
}

/// Serves for as long as it is polled; connections end with it.
pub(crate) async fn serve(listener: Option<TcpListener>, page: Page) {
    let Some(listener) = listener else { return std::future::pending().await };
    accept(listener, MOST_CONNECTIONS, |stream| connection(stream, page.clone())).await;
}

/// Takes connections for as long as it is polled, not more than so many at a time; they end with it.
pub(crate) async fn accept<A>(listener: TcpListener, most: usize, attend: impl Fn(TcpStream) -> A)
where
    A: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= most {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(attend(stream));
            }
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken");
                tokio::time::sleep(AFTER_TROUBLE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, page: Page) {
    let service = service_fn(move |request| std::future::ready(Ok::<_, Infallible>(answered(&page, &request))));
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(LONGEST_REQUEST);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::trace!(%error, "a connection to probes or metrics broke");
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
    async fn paths_have_answers_and_nothing_else_is_served() {
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
    async fn an_address_can_be_turned_off_and_is_refused_with_a_hint_when_it_is_taken() {
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
