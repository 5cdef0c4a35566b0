//! The interface between the HTTP layer and the backend that serves resources.
//!
//! The backend always returns JSON. Tables, metadata-only forms, YAML, compression and framing are added by the HTTP
//! layer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_core::Stream;
use jiff::Timestamp;

use super::path::RequestInfo;
use crate::auth::{Authenticator, Rbac, User};
use crate::discovery::info::Check;
use crate::discovery::{Catalog, KindSource};
use crate::error::ApiError;
use crate::metrics::StorageFigures;
use crate::openapi::Documents;
use crate::server::tasks::TaskState;
use crate::table::Columns;

/// An authenticated and authorized request for a resource.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) info: RequestInfo,
    pub(crate) user: User,
    /// The header as sent; `None` means JSON.
    pub(crate) content_type: Option<String>,
    pub(crate) user_agent: String,
    pub(crate) body: Bytes,
}

/// One event of a watch. `kind` is `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: &'static str,
    pub(crate) object: Bytes,
}

pub(crate) type Events = Pin<Box<dyn Stream<Item = Event> + Send>>;

/// The response of the backend.
pub(crate) enum Content {
    /// An object or a list, as JSON.
    Object(Bytes),
    Watch(Events),
    Text(&'static str),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Object(bytes) => write!(f, "Object({} bytes)", bytes.len()),
            Content::Watch(_) => f.write_str("Watch"),
            Content::Text(text) => f.write_str(text),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content: Content,
    /// Texts of `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    #[cfg(test)]
    pub(crate) fn object(status: u16, json: impl Into<Bytes>) -> Self {
        Self { status, content: Content::Object(json.into()), warnings: Vec::new() }
    }
}

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Answer, ApiError>> + Send>>;

/// The backend of one cluster.
pub(crate) trait Backend: KindSource {
    /// Serves a call. The future may be dropped when the client goes away: whatever must not be half done has to
    /// happen between two awaits.
    fn call(&self, call: Call) -> Answering;
    /// The columns of a resource; `None` if it is not served.
    fn columns(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Columns>>;
    fn storage(&self) -> StorageFigures;
    /// The background tasks of the cluster.
    fn tasks(&self) -> Vec<TaskState>;
    /// The outcome of the health checks; `ping` is added by the edge.
    fn checks(&self) -> Vec<Check>;
    fn now(&self) -> Timestamp;
}

/// One cluster as the edge sees it. An idle one holds no documents.
pub(crate) struct ClusterEdge {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) rbac: Arc<Rbac>,
    catalog: Mutex<Option<(u64, Arc<Catalog>)>>,
    pub(super) documents: Documents,
}

impl fmt::Debug for ClusterEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterEdge").field("authenticator", &self.authenticator).finish_non_exhaustive()
    }
}

impl ClusterEdge {
    pub(crate) fn new(backend: Arc<dyn Backend>, authenticator: Arc<Authenticator>, rbac: Arc<Rbac>) -> Self {
        Self { backend, authenticator, rbac, catalog: Mutex::default(), documents: Documents::default() }
    }

    /// The catalog of the present kinds; made again only when they have changed.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        let revision = self.backend.revision();
        let mut held = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        match held.as_ref() {
            Some((known, catalog)) if *known == revision => Arc::clone(catalog),
            _ => {
                let catalog = self.backend.catalog();
                self.documents.retain(&catalog);
                *held = Some((revision, Arc::clone(&catalog)));
                catalog
            }
        }
    }
}

impl ClusterEdge {
    /// Whether the request is for a kind that every server of this release has.
    pub(super) fn is_built_in(&self, info: &RequestInfo) -> bool {
        let Some(path) = &info.resource else { return false };
        let catalog = self.catalog();
        let resources = catalog.resources(&path.group, &path.version).unwrap_or_default();
        resources.iter().any(|resource| resource.plural == path.resource && resource.strategic_merge)
    }
}

/// Finds the cluster of a request: `None` is the server's own, others are named by `/clusters/<name>/`.
pub(crate) trait Clusters: Send + Sync {
    fn cluster(&self, name: Option<&str>) -> Option<Arc<ClusterEdge>>;
}

/// A server with a single cluster.
impl Clusters for Arc<ClusterEdge> {
    fn cluster(&self, name: Option<&str>) -> Option<Arc<ClusterEdge>> {
        name.is_none().then(|| Arc::clone(self))
    }
}
