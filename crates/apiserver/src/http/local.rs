//! The server as a tower service for a client in the same process, without socket or TLS: `kube::Client::new(service,
//! "default")`.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::body::ResponseBody;
use super::edge::{Edge, Identity, InCluster};
use crate::auth::User;

/// A server seen by one client.
#[derive(Debug, Clone)]
pub struct LocalService {
    server: Edge,
    cluster: Option<Arc<str>>,
    user: Option<User>,
}

impl LocalService {
    /// Requests must bring their own credentials.
    pub(crate) fn new(server: Edge) -> Self {
        Self { server, cluster: None, user: None }
    }

    /// Requests have this user; the service needs no token.
    #[must_use]
    pub(crate) fn for_user(mut self, user: User) -> Self {
        self.user = Some(user);
        self
    }

    /// Requests go to this cluster, whatever their path says.
    #[must_use]
    pub(crate) fn in_cluster(mut self, name: &str) -> Self {
        self.cluster = Some(name.into());
        self
    }
}

impl<B> Service<Request<B>> for LocalService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Some(user) = &self.user {
            request.extensions_mut().insert(Identity(user.clone()));
        }
        if let Some(cluster) = &self.cluster {
            request.extensions_mut().insert(InCluster(Arc::clone(cluster)));
        }
        let server = self.server.clone();
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}
