//! A stream that fails when its peer accepts no data for too long. Reads pass through.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes make progress within a time limit or fail.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    inner: S,
    limit: Duration,
    /// Runs while a write waits for the peer.
    timer: Pin<Box<Sleep>>,
    stalled: bool,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self { inner, limit, timer: Box::pin(sleep(limit)), stalled: false }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stalled = false;
            return outcome;
        }
        if !self.stalled {
            self.stalled = true;
            let now = Instant::now();
            self.timer.as_mut().reset(now.checked_add(self.limit).unwrap_or(now));
        }
        match self.timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, data);
        self.watch(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.watch(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn audit_13_a_write_that_the_peer_does_not_read_fails() {
        let (mut client, server) = duplex(16);
        let mut server = WriteTimeout::new(server, LIMIT);
        let started = Instant::now();
        let refused = server.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!((refused.kind(), started.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
        // Progress restarts the timeout.
        let mut taken = [0; 16];
        client.read_exact(&mut taken).await.unwrap();
        let started = Instant::now();
        assert!(server.write_all(&[0; 64]).await.is_err());
        assert_eq!(started.elapsed(), LIMIT);
    }
}
