//! Moves requests from the connection thread to the runtime that serves them, and back.
//!
//! The connection thread does TLS and HTTP and answers `/version`; everything else runs on the server's runtime, and a
//! write with a large body on a thread of its own there. So connections are accepted and `/version` is answered however
//! busy the server is.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::body::ResponseBody;
use super::call::{Answer, Answering};
use super::edge::{Edge, Streaming, refusal};
use crate::error::{ApiError, Reason};

/// Events of a watch on their way to its connection: one that is being written, and the next.
const EVENTS_IN_TRANSIT: usize = 1;
/// Writes with bodies from this size on get a thread of their own: smaller ones take less than a millisecond.
pub(super) const LONG_REQUEST_BYTES: usize = 64 * 1024;
/// How many of them run at the same time; more wait. They compute, so more threads than processors make none faster, but
/// one that waits for the disk must not hold up all others.
const LONG_REQUESTS_AT_ONCE: usize = 8;

/// Where requests of connections go.
#[derive(Debug, Clone)]
pub(super) struct Dispatch {
    server: Edge,
    runtime: Handle,
    long_requests: LongRequests,
}

impl Dispatch {
    /// Requests run on the current runtime.
    pub(super) fn to_current_runtime(server: Edge) -> Self {
        Self { server, runtime: Handle::current(), long_requests: LongRequests::default() }
    }

    pub(super) async fn handle(&self, mut request: Request<Incoming>) -> Response<ResponseBody> {
        if is_version(&request) {
            return self.server.handle(request).await;
        }
        request.extensions_mut().insert(self.long_requests.clone());
        let (server, headers) = (self.server.clone(), request.headers().clone());
        let mut task = AbortOnDrop(self.runtime.spawn(async move { detached(server.handle(request).await) }));
        match (&mut task.0).await {
            Ok(response) => response,
            // Panics of requests are caught on the way, so this is the end of the runtime.
            Err(_) => refusal(&shutting_down(), &headers),
        }
    }
}

/// Whether the answer is the version of the server, which never changes.
fn is_version(request: &Request<Incoming>) -> bool {
    let path = request.uri().path();
    // Also below `/clusters/<name>`; no resource that can be read has this path.
    *request.method() == Method::GET && path.ends_with("/version") && !path.contains("/api")
}

fn shutting_down() -> ApiError {
    ApiError::new(Reason::ServiceUnavailable, "the server is shutting down")
}

/// A task that is aborted when its client is gone.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The response with a body that can be read outside the runtime. That of a watch reads from the store as it goes on, so a
/// task here does that and hands over what it has read.
fn detached(response: Response<ResponseBody>) -> Response<ResponseBody> {
    if response.extensions().get::<Streaming>().is_none() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let (sender, receiver) = mpsc::channel(EVENTS_IN_TRANSIT);
    tokio::spawn(forward(body, sender));
    Response::from_parts(parts, Forwarded(receiver).boxed_unsync())
}

async fn forward(mut body: ResponseBody, sender: mpsc::Sender<Bytes>) {
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = sender.closed() => return,
        };
        let Some(Ok(frame)) = frame else { return };
        if let Ok(data) = frame.into_data()
            && sender.send(data).await.is_err()
        {
            return;
        }
    }
}

/// What `forward` hands over.
struct Forwarded(mpsc::Receiver<Bytes>);

impl Body for Forwarded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

/// Put into a request's extensions: threads for requests that compute for long.
#[derive(Debug, Clone)]
pub(super) struct LongRequests(Arc<Semaphore>);

impl Default for LongRequests {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LONG_REQUESTS_AT_ONCE)))
    }
}

impl LongRequests {
    /// Runs a request on a thread of its own.
    pub(super) async fn run(self, answering: Answering) -> Result<Answer, ApiError> {
        // Never closed, so the error cannot occur.
        let place = self.0.acquire_owned().await.ok();
        let runtime = Handle::current();
        let task = tokio::task::spawn_blocking(move || {
            let answer = runtime.block_on(answering);
            drop(place);
            answer
        });
        match task.await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(shutting_down()),
            },
        }
    }
}
