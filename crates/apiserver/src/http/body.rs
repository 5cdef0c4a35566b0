//! Reads request bodies within limits of size, time and depth, and streams watches.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

use super::call::{Event, Events};
use super::limits::{MAX_BODY_BYTES, MAX_DROPPED_BYTES, RESPONSE_PIECE_BYTES};
use crate::error::{ApiError, Reason};

/// The body of every answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) fn full(bytes: Bytes) -> ResponseBody {
    Full::new(bytes).boxed_unsync()
}

/// A response body that holds a guard until it has been read or dropped.
#[derive(Debug)]
pub struct WithGuard<B, G> {
    body: B,
    guard: Option<G>,
}

impl<B, G> WithGuard<B, G> {
    pub fn new(body: B, guard: G) -> Self {
        Self { body, guard: Some(guard) }
    }
}

impl<B: Body + Unpin, G: Unpin> Body for WithGuard<B, G> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let next = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(None) = next {
            self.guard = None;
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body whose data comes in pieces of a limited size. What has not been asked for yet is not read either.
#[derive(Debug)]
pub(crate) struct InPieces<B> {
    body: B,
    rest: Bytes,
}

impl<B> InPieces<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { body, rest: Bytes::new() }
    }

    fn next_piece(&mut self) -> Frame<Bytes> {
        let length = self.rest.len().min(RESPONSE_PIECE_BYTES);
        Frame::data(self.rest.split_to(length))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for InPieces<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.next_piece())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_ok(|frame| match frame.into_data() {
            Ok(data) => {
                self.rest = data;
                self.next_piece()
            }
            Err(other) => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        self.body.size_hint().exact().map_or_else(SizeHint::default, |exact| SizeHint::with_exact(exact + rest))
    }
}

/// Reads a whole request body, at most `MAX_BODY_BYTES` and no longer than `time`.
pub(crate) async fn read<B>(body: B, time: Duration) -> Result<Bytes, ApiError>
where
    B: Body,
    B::Error: std::fmt::Display,
{
    if body.size_hint().lower() > (MAX_BODY_BYTES + MAX_DROPPED_BYTES) as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(time, collect(body)).await {
        Ok(outcome) => outcome,
        Err(_) => {
            Err(ApiError::new(Reason::Timeout, format!("Timeout: request body was not received within {time:?}")))
        }
    }
}

async fn collect<B>(body: B) -> Result<Bytes, ApiError>
where
    B: Body,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut out = BytesMut::new();
    let mut received = 0;
    // Read and drop the excess for a while: a client that is cut off while it writes sees no response.
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|why| ApiError::bad_request(format!("error reading request body: {why}")))?;
        let Ok(data) = frame.into_data() else { continue };
        received += data.remaining();
        if received > MAX_BODY_BYTES + MAX_DROPPED_BYTES {
            break;
        }
        if received <= MAX_BODY_BYTES {
            out.put(data);
        }
    }
    if received > MAX_BODY_BYTES { Err(too_large()) } else { Ok(out.freeze()) }
}

fn too_large() -> ApiError {
    ApiError::new(Reason::RequestEntityTooLarge, format!("Request entity too large: limit is {MAX_BODY_BYTES}"))
}

/// Turns an object of an event into the form that was asked for.
pub(crate) type Transform = Box<dyn FnMut(&Event) -> Bytes + Send>;

/// A stream of events as a body. Ends with the events, or when the server shuts down.
pub(crate) struct WatchBody {
    events: Events,
    transform: Option<Transform>,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Guards that are released when the watch ends.
    _guard: Box<dyn Send>,
    ended: bool,
}

impl std::fmt::Debug for WatchBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchBody").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl WatchBody {
    pub(crate) fn new(
        events: Events,
        transform: Option<Transform>,
        stop: Pin<Box<dyn Future<Output = ()> + Send>>,
        guard: Box<dyn Send>,
    ) -> Self {
        Self { events, transform, stop, _guard: guard, ended: false }
    }

    fn line(&mut self, event: &Event) -> Bytes {
        let object = match &mut self.transform {
            // A Status says why the watch ends; it has no other form.
            Some(transform) if event.kind != "ERROR" => transform(event),
            _ => event.object.clone(),
        };
        let mut out = BytesMut::with_capacity(object.len() + 40);
        out.put_slice(b"{\"type\":\"");
        out.put_slice(event.kind.as_bytes());
        out.put_slice(b"\",\"object\":");
        out.put_slice(&object);
        out.put_slice(b"}\n");
        out.freeze()
    }
}

impl Body for WatchBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match self.events.as_mut().poll_next(cx) {
            Poll::Ready(Some(event)) => {
                let line = self.line(&event);
                Poll::Ready(Some(Ok(Frame::data(line))))
            }
            Poll::Ready(None) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let stopped = self.stop.as_mut().poll(cx).is_ready();
                self.ended = stopped;
                if stopped { Poll::Ready(None) } else { Poll::Pending }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_up_to_the_limit_are_read() {
        let read = |size: usize| read(Full::new(Bytes::from(vec![b'x'; size])), Duration::from_secs(1));
        assert_eq!(read(MAX_BODY_BYTES).await.unwrap().len(), MAX_BODY_BYTES);
        let refused = read(MAX_BODY_BYTES + 1).await.unwrap_err();
        assert_eq!((refused.code(), refused.message.as_str()), (413, "Request entity too large: limit is 3145728"));
    }

    #[tokio::test]
    async fn audit_13_a_large_response_is_taken_in_pieces_and_released_at_its_end() {
        let guard = std::sync::Arc::new(());
        let data = Bytes::from(vec![b'x'; RESPONSE_PIECE_BYTES + 1]);
        let mut body = InPieces::new(WithGuard::new(Full::new(data), guard.clone()));
        assert_eq!(body.size_hint().exact(), Some(RESPONSE_PIECE_BYTES as u64 + 1));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), RESPONSE_PIECE_BYTES);
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(1), false));
        assert_eq!(std::sync::Arc::strong_count(&guard), 2, "it is held until the last piece is taken");
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), 1);
        assert!(body.is_end_stream() && body.frame().await.is_none());
        assert_eq!(std::sync::Arc::strong_count(&guard), 1);
    }

    /// A body that says nothing of its size and gives one kilobyte at a time, for ever.
    struct Endless;

    impl Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 1024])))))
        }
    }

    /// A body that never comes.
    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn endless_and_silent_bodies_are_bounded() {
        assert_eq!(read(Endless, Duration::from_secs(30)).await.unwrap_err().code(), 413);
        assert_eq!(read(Silent, Duration::from_secs(30)).await.unwrap_err().code(), 504);
    }
}
