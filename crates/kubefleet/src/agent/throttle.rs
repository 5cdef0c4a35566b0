//! A client that asks only so often.
//!
//! Decides when a request may go out: a bucket of `burst` requests that fills at `rate` a second, first come first served. Whoever
//! gives up while waiting leaves the line and has taken nothing. Lease requests never wait: a busy agent must not lose its lease to
//! its own limit. Never drops a request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Where leases live.
const LEASES: &str = "/apis/coordination.k8s.io/";

/// How often, in requests a second, and how many at once after a rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limit {
    pub(crate) rate: f64,
    pub(crate) burst: f64,
}

/// A client behind a limit.
pub(super) fn throttled(client: kube::Client, limit: Limit) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    kube::Client::new(Throttled { client, line: Arc::new(Line::new(limit)) }, namespace)
}

/// Requests that wait for their turn. The lock is the line: it is handed over in the order in which it was asked for.
#[derive(Debug)]
struct Line(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
    limit: Limit,
}

impl Line {
    fn new(limit: Limit) -> Self {
        Self(Mutex::new(Bucket { tokens: limit.burst, at: Instant::now(), limit }))
    }

    /// Returns when a request may go out.
    async fn turn(&self) {
        let mut bucket = self.0.lock().await;
        if let Some(wait) = bucket.wait(Instant::now()) {
            tokio::time::sleep(wait).await;
            bucket.fill(Instant::now());
        }
        bucket.tokens -= 1.0;
    }
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        let Limit { rate, burst } = self.limit;
        let filled = self.tokens + now.saturating_duration_since(self.at).as_secs_f64() * rate;
        (self.tokens, self.at) = (filled.min(burst), now);
    }

    /// How long until there is a token; `None` if there is one.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.fill(now);
        let missing = 1.0 - self.tokens;
        (missing > 0.0).then(|| Duration::try_from_secs_f64(missing / self.limit.rate).unwrap_or_default())
    }
}

#[derive(Clone)]
struct Throttled {
    client: kube::Client,
    line: Arc<Line>,
}

impl tower_service::Service<Request<Body>> for Throttled {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, line } = self.clone();
        Box::pin(async move {
            if !request.uri().path().starts_with(LEASES) {
                line.turn().await;
            }
            client.send(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    const LIMIT: Limit = Limit { rate: 10.0, burst: 2.0 };

    /// When each of some requests may go out, in milliseconds after `start`.
    async fn turns(line: &Line, start: Instant, count: usize) -> Vec<u128> {
        join_all((0..count).map(|_| async {
            line.turn().await;
            start.elapsed().as_millis()
        }))
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_in_the_pace_of_the_limit() {
        let (line, start) = (Line::new(LIMIT), Instant::now());
        assert_eq!(turns(&line, start, 4).await, [0, 0, 100, 200]);
        tokio::time::advance(Duration::from_mins(1)).await;
        let rested = Instant::now();
        assert_eq!(turns(&line, rested, 3).await, [0, 0, 100], "a rest gives a burst, not more");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_the_line_and_takes_nothing() {
        let (line, start) = (Line::new(LIMIT), Instant::now());
        turns(&line, start, 2).await;
        let patience = Duration::from_millis(50);
        let impatient = join_all((0..1000).map(|_| tokio::time::timeout(patience, line.turn()))).await;
        assert!(impatient.iter().all(Result::is_err), "there is nothing left for 100 ms");
        assert_eq!(start.elapsed(), patience);
        assert_eq!(turns(&line, start, 2).await, [100, 200], "a thousand who are gone are not waited for");
    }

    /// What makes an agent useless: everybody waits longer than they have time for, and nothing is ever sent.
    #[tokio::test(start_paused = true)]
    async fn with_more_work_than_the_limit_allows_the_limit_is_still_used_up() {
        let line = Line::new(LIMIT);
        let worker = || async {
            let mut sent = 0;
            for _ in 0..10 {
                sent += u32::from(tokio::time::timeout(Duration::from_secs(1), line.turn()).await.is_ok());
            }
            sent
        };
        let start = Instant::now();
        let sent: u32 = join_all((0..100).map(|_| worker())).await.iter().sum();
        let allowed = 2 + start.elapsed().as_secs() * 10;
        assert!(u64::from(sent) >= allowed - 2, "{sent} of {allowed} were sent");
    }
}
