//! A client-side rate limiter: a token bucket of `burst` requests that refills at `rate` per second, first come, first served.
//! A cancelled request takes no token. Lease requests are exempt, so that a busy agent does not lose its lease to its own
//! limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// API path of leases.
const LEASES: &str = "/apis/coordination.k8s.io/";

/// Requests per second, and the burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limit {
    pub(crate) rate: f64,
    pub(crate) burst: f64,
}

/// A rate-limited client.
pub(super) fn throttled(client: kube::Client, limit: Limit) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    kube::Client::new(Throttled { client, limiter: Arc::new(RateLimiter::new(limit)) }, namespace)
}

/// The lock is fair, so that requests are sent in their order.
#[derive(Debug)]
struct RateLimiter(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
    limit: Limit,
}

impl RateLimiter {
    fn new(limit: Limit) -> Self {
        Self(Mutex::new(Bucket { tokens: limit.burst, at: Instant::now(), limit }))
    }

    /// Waits for a token.
    async fn acquire(&self) {
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

    /// Time until a token is available; `None` if there is one.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.fill(now);
        let missing = 1.0 - self.tokens;
        (missing > 0.0).then(|| Duration::try_from_secs_f64(missing / self.limit.rate).unwrap_or_default())
    }
}

#[derive(Clone)]
struct Throttled {
    client: kube::Client,
    limiter: Arc<RateLimiter>,
}

impl tower_service::Service<Request<Body>> for Throttled {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, limiter } = self.clone();
        Box::pin(async move {
            if !request.uri().path().starts_with(LEASES) {
                limiter.acquire().await;
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

    /// Times at which requests are sent, in milliseconds after `start`.
    async fn acquire_times(limiter: &RateLimiter, start: Instant, count: usize) -> Vec<u128> {
        join_all((0..count).map(|_| async {
            limiter.acquire().await;
            start.elapsed().as_millis()
        }))
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_sent_at_once_and_the_rest_at_the_rate() {
        let (limiter, start) = (RateLimiter::new(LIMIT), Instant::now());
        assert_eq!(acquire_times(&limiter, start, 4).await, [0, 0, 100, 200]);
        tokio::time::advance(Duration::from_mins(1)).await;
        let rested = Instant::now();
        assert_eq!(acquire_times(&limiter, rested, 3).await, [0, 0, 100], "a rest gives a burst, not more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_takes_no_token() {
        let (limiter, start) = (RateLimiter::new(LIMIT), Instant::now());
        acquire_times(&limiter, start, 2).await;
        let timeout = Duration::from_millis(50);
        let results = join_all((0..1000).map(|_| tokio::time::timeout(timeout, limiter.acquire()))).await;
        assert!(results.iter().all(Result::is_err), "there is nothing left for 100 ms");
        assert_eq!(start.elapsed(), timeout);
        assert_eq!(acquire_times(&limiter, start, 2).await, [100, 200], "a thousand who are gone are not waited for");
    }

    /// Regression: if every request times out while it waits, nothing is ever sent.
    #[tokio::test(start_paused = true)]
    async fn under_overload_the_full_rate_is_used() {
        let limiter = RateLimiter::new(LIMIT);
        let worker = || async {
            let mut sent = 0;
            for _ in 0..10 {
                sent += u32::from(tokio::time::timeout(Duration::from_secs(1), limiter.acquire()).await.is_ok());
            }
            sent
        };
        let start = Instant::now();
        let sent: u32 = join_all((0..100).map(|_| worker())).await.iter().sum();
        let allowed = 2 + start.elapsed().as_secs() * 10;
        assert!(u64::from(sent) >= allowed - 2, "{sent} of {allowed} were sent");
    }
}
