//! The server on a TCP port: TLS, HTTP/1.1 and HTTP/2.
//!
//! Decides how connections are taken, bounded and ended. What they ask for is `server`'s.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::server::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::edge::{Edge, Identity};
use super::subject::user_of_certificate;
use crate::auth::User;

/// What a broken accept (no file handles left) waits before the next try.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How often an HTTP/2 connection is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A running listener.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    server: Edge,
    task: JoinHandle<()>,
}

impl Listening {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops taking connections, ends watches, lets requests finish within the `drain` limit.
    pub async fn shutdown(self) {
        self.server.stop();
        // The only error is a panic of the accept loop, and then there is nothing left to stop.
        let _ = self.task.await;
    }
}

/// Starts serving on an address; port 0 picks a free one.
pub async fn listen(server: Edge, tls: Arc<ServerConfig>, address: SocketAddr) -> io::Result<Listening> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(accept_all(server.clone(), TlsAcceptor::from(tls), listener));
    Ok(Listening { address, server, task })
}

async fn accept_all(server: Edge, tls: TlsAcceptor, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(server.limits().max_connections));
    let graceful = GracefulShutdown::new();
    let mut stopped = server.stopped();
    loop {
        let accepting = async {
            // Never closed, so the error cannot occur; without a place the connection is simply refused.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = &mut stopped => break,
            next = accepting => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let (server, tls, watcher) = (server.clone(), tls.clone(), graceful.watcher());
                tokio::spawn(async move {
                    connection(server, tls, stream, watcher).await;
                    drop(place);
                });
            }
            Err(why) => {
                tracing::warn!(%why, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    if timeout(server.limits().drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were still open when the time to drain ended");
    }
}

async fn connection(server: Edge, tls: TlsAcceptor, stream: TcpStream, watcher: Watcher) {
    // Small answers must not wait for more to send.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(server.limits().handshake, tls.accept(stream)).await else { return };
    let user = certificate_user(&stream);
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service_server = server.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        if let Some(user) = &user {
            request.extensions_mut().insert(Identity(user.clone()));
        }
        let server = service_server.clone();
        async move { Ok::<_, std::convert::Infallible>(server.handle(request).await) }
    });
    let builder = protocol(&server, http2);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(why) = watcher.watch(serving).await {
        tracing::debug!(%why, "a connection ended early");
    }
}

/// The protocol is fixed by TLS, so that waiting for the first bytes falls under the header timeout.
fn protocol(server: &Edge, http2: bool) -> auto::Builder<TokioExecutor> {
    let limits = server.limits();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_read);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.max_streams_per_connection)
        .keep_alive_interval(KEEP_ALIVE);
    if http2 { builder.http2_only() } else { builder.http1_only() }
}

fn certificate_user(stream: &TlsStream<TcpStream>) -> Option<User> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    user_of_certificate(certificate)
}

#[cfg(test)]
#[path = "listen_tests.rs"]
mod tests;
