//! A hub's way to its server on which Works are refused until the hub is let through, as by a quota that is raised without any
//! event.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use apiserver::LocalService;
use http::{HeaderValue, Method, Request};
use kube::client::Body;
use tower_service::Service;

#[derive(Debug, Clone)]
pub(crate) struct Refusing {
    pub(crate) server: LocalService,
    pub(crate) accepts: Arc<AtomicBool>,
}

type Answer = <LocalService as Service<Request<Body>>>::Response;

impl Service<Request<Body>> for Refusing {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let is_refused = request.method() != Method::GET && request.uri().path().contains("/works");
        if is_refused && !self.accepts.load(Ordering::SeqCst) {
            // Somebody without any right: the server answers 403, as it does for a quota.
            request.headers_mut().insert("impersonate-user", HeaderValue::from_static("nobody"));
        }
        self.server.call(request)
    }
}
