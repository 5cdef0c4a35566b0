//! A hub's way to its server on which the watch of one kind is behind: it lists, and hears nothing after that until its ears
//! are opened.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use apiserver::LocalService;
use http::Request;
use kube::client::Body;
use tokio::sync::watch;
use tower_service::Service;

#[derive(Debug, Clone)]
pub(crate) struct Deaf {
    server: LocalService,
    /// As paths end in it.
    plural: &'static str,
    open: watch::Receiver<bool>,
}

/// Opens the ears of a hub. If it is dropped they stay closed.
#[derive(Debug)]
pub(crate) struct Ears(watch::Sender<bool>);

impl Ears {
    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }
}

impl Deaf {
    pub(crate) fn to(plural: &'static str, server: LocalService) -> (Self, Ears) {
        let (ears, open) = watch::channel(false);
        (Self { server, plural, open }, Ears(ears))
    }
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
        if !watches || !request.uri().path().ends_with(self.plural) {
            return self.server.call(request);
        }
        let (mut server, mut open) = (self.server.clone(), self.open.clone());
        Box::pin(async move {
            if open.wait_for(|open| *open).await.is_err() {
                std::future::pending::<()>().await;
            }
            server.call(request).await
        })
    }
}
