//! A client that asks only so often.
//!
//! Decides when a request may go out: a bucket of `burst` requests that fills at `rate` a second, first come first served.
//! Lease requests never wait: a busy agent must not lose its lease to its own limit. Never drops a request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
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
    let bucket = Arc::new(Mutex::new(Bucket { tokens: limit.burst, at: Instant::now(), limit }));
    kube::Client::new(Throttled { client, bucket }, namespace)
}

#[derive(Debug)]
struct Bucket {
    /// Below zero: so many requests have been promised a place in the future.
    tokens: f64,
    at: Instant,
    limit: Limit,
}

impl Bucket {
    /// Takes a place; says how long to wait for it.
    fn reserve(&mut self, now: Instant) -> Duration {
        let Limit { rate, burst } = self.limit;
        let filled = self.tokens + now.saturating_duration_since(self.at).as_secs_f64() * rate;
        (self.tokens, self.at) = (filled.min(burst) - 1.0, now);
        Duration::try_from_secs_f64(-self.tokens / rate).unwrap_or_default()
    }
}

#[derive(Clone)]
struct Throttled {
    client: kube::Client,
    bucket: Arc<Mutex<Bucket>>,
}

impl tower_service::Service<Request<Body>> for Throttled {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.client.clone();
        let exempt = request.uri().path().starts_with(LEASES);
        let wait = if exempt { Duration::ZERO } else { self.bucket.lock().reserve(Instant::now()) };
        Box::pin(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            client.send(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_in_the_pace_of_the_limit() {
        let start = Instant::now();
        let mut bucket = Bucket { tokens: 2.0, at: start, limit: Limit { rate: 10.0, burst: 2.0 } };
        let waits: Vec<u128> = (0..4).map(|_| bucket.reserve(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        let later = start + Duration::from_millis(300);
        assert_eq!(bucket.reserve(later).as_millis(), 0, "what was promised has been served by now");
        let much_later = later + Duration::from_mins(1);
        let waits: Vec<u128> = (0..3).map(|_| bucket.reserve(much_later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100], "a rest gives a burst, not more");
    }
}
