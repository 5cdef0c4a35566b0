//! The server on a TCP port: TLS, HTTP/1.1 and HTTP/2.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::server::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::body::{InPieces, WithGuard};
use super::connections::{Connections, OpenConnection};
use super::edge::{Edge, Identity, Streaming};
use super::front::Dispatch;
use super::subject::user_of_certificate;
use super::write_timeout::WriteTimeout;
use crate::auth::User;

/// Delay after a failed accept (no file handles left).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How often an HTTP/2 connection is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The thread that serves connections.
const THREAD_NAME: &str = "apiserver-front";

/// A running listener. It ends when this is dropped, or with the runtime on which it was started.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    server: Edge,
    /// A task that never completes; the thread of the connections ends when it is gone.
    alive: JoinHandle<()>,
    ended: oneshot::Receiver<()>,
}

impl Listening {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops taking connections, ends watches, lets requests finish within the `drain` limit.
    pub async fn shutdown(mut self) {
        self.server.stop();
        // The only error is a panic of the accept loop, and then there is nothing left to stop.
        let _ = (&mut self.ended).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.alive.abort();
    }
}

/// Starts serving on an address; port 0 picks a free one. Connections are served on a thread of their own, requests on the
/// current runtime.
pub(crate) async fn listen(server: Edge, tls: Arc<ServerConfig>, address: SocketAddr) -> io::Result<Listening> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let listener = listener.into_std()?;
    let front = Front {
        connections: Connections::new(server.limits().connections()),
        dispatch: Dispatch::to_current_runtime(server.clone()),
        server: server.clone(),
        tls: TlsAcceptor::from(tls),
    };
    let (life, abandoned) = oneshot::channel::<Infallible>();
    let alive = tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(life);
    });
    let (end, ended) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
        runtime.block_on(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            tokio::select! {
                () = accept_all(front, listener) => {}
                _ = abandoned => {}
            }
        });
        // Connections that are still open end here.
        drop(runtime);
        let _ = end.send(());
    })?;
    Ok(Listening { address, server, alive, ended })
}

/// The state that all connections of a listener share.
struct Front {
    server: Edge,
    dispatch: Dispatch,
    tls: TlsAcceptor,
    connections: Connections,
}

async fn accept_all(front: Front, listener: TcpListener) {
    let front = Arc::new(front);
    let mut stopped = front.server.stopped();
    loop {
        let accepting = async {
            let (stream, peer) = listener.accept().await?;
            Ok::<_, io::Error>((stream, peer, front.connections.admit(peer.ip()).await))
        };
        let accepted = tokio::select! {
            () = &mut stopped => break,
            next = accepting => next,
        };
        match accepted {
            Ok((stream, _, Some(open))) => {
                // Small answers must not wait for more to send.
                let _ = stream.set_nodelay(true);
                tokio::spawn(connection(Arc::clone(&front), stream, open));
            }
            Ok((_, peer, None)) => tracing::debug!(%peer, "too many unauthenticated connections of this address"),
            Err(why) => {
                tracing::warn!(%why, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    if timeout(front.server.limits().drain, front.connections.none_left()).await.is_err() {
        tracing::warn!("connections were still open when the time to drain ended");
    }
}

async fn connection<S>(front: Arc<Front>, stream: S, open: OpenConnection)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = WriteTimeout::new(stream, front.server.limits().write_stall);
    let secured = tokio::select! {
        secured = front.tls.accept(stream) => secured,
        _ = open.closing() => return,
    };
    let Ok(stream) = secured else { return };
    open.secured();
    let (handle, user) = (open.handle(), certificate_user(&stream));
    if user.is_some() {
        handle.authenticated();
    }
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let dispatch = front.dispatch.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let mut in_flight = handle.request();
        request.extensions_mut().insert(handle.clone());
        if let Some(user) = &user {
            request.extensions_mut().insert(Identity(user.clone()));
        }
        let dispatch = dispatch.clone();
        async move {
            let response = dispatch.handle(request).await;
            if response.extensions().get::<Streaming>().is_none() {
                in_flight.responding();
            }
            let response = response.map(|body| InPieces::new(WithGuard::new(body, in_flight)));
            Ok::<_, Infallible>(response)
        }
    });
    let builder = protocol(&front.server, http2);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    let limits = front.server.limits();
    if let Err(why) = open.serve(serving, front.server.stopped(), limits.drain).await {
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

fn certificate_user<S>(stream: &TlsStream<S>) -> Option<User> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    user_of_certificate(certificate)
}

#[cfg(test)]
#[path = "listen_tests.rs"]
mod tests;
