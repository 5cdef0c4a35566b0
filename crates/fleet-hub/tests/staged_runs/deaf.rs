//! A hub's way to its server on which the watch of one kind is behind: it lists, and hears nothing after that.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use apiserver::http::LocalService;
use http::Request;
use kube::client::Body;
use tower_service::Service;

#[derive(Debug, Clone)]
pub(crate) struct Deaf {
    pub(crate) server: LocalService,
    /// As paths end in it.
    pub(crate) plural: &'static str,
}

type Answer = <LocalService as Service<Request<Body>>>::Response;

impl Service<Request<Body>> for Deaf {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let watches = request.uri().query().is_some_and(|query| query.contains("watch="));
        if watches && request.uri().path().ends_with(self.plural) {
            return Box::pin(std::future::pending());
        }
        self.server.call(request)
    }
}
