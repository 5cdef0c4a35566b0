//! A hub's way to its server that ends at a chosen write: the process dies there, before the write arrives or before the
//! answer comes back.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use apiserver::LocalService;
use http::{Method, Request};
use kube::client::Body;
use tower_service::Service;

/// How many writes a hub has left. Events are no matter of life and death.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    left: Arc<AtomicI64>,
    /// Whether the write at which it dies still arrives.
    last_arrives: bool,
}

impl Life {
    pub(crate) fn of(writes: i64, last_arrives: bool) -> Self {
        Self { left: Arc::new(AtomicI64::new(writes)), last_arrives }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Mortal {
    pub(crate) server: LocalService,
    pub(crate) life: Life,
}

type Answer = <LocalService as Service<Request<Body>>>::Response;

impl Service<Request<Body>> for Mortal {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let counts = request.method() != Method::GET && !request.uri().path().ends_with("/events");
        let left = &self.life.left;
        let before = if counts { left.fetch_sub(1, Ordering::SeqCst) } else { left.load(Ordering::SeqCst) };
        let (alive, is_last) = (before > 0 || (!counts && before == 0), counts && before == 0);
        if alive {
            return self.server.call(request);
        }
        let arrives = (is_last && self.life.last_arrives).then(|| self.server.call(request));
        Box::pin(async move {
            if let Some(arrives) = arrives {
                let _ = arrives.await;
            }
            std::future::pending().await
        })
    }
}
