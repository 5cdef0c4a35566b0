//! A hub's way to its server on which no object of one kind can be made.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use apiserver::LocalService;
use http::{Method, Request, Uri};
use kube::client::Body;
use tower_service::Service;

#[derive(Debug, Clone)]
pub(crate) struct Barred {
    pub(crate) server: LocalService,
    /// As paths end in it.
    pub(crate) plural: &'static str,
}

type Answer = <LocalService as Service<Request<Body>>>::Response;

impl Service<Request<Body>> for Barred {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if request.method() == Method::POST && request.uri().path().ends_with(self.plural) {
            *request.uri_mut() = Uri::from_static("/nowhere");
        }
        self.server.call(request)
    }
}
