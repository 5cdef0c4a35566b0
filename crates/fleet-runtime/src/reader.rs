//! Reads objects that no cache holds from an API server.
//!
//! A list that is older than the caches of its kind is an error. Returning it would lose a change: the event that triggered the
//! reconcile has already been handled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cache::AnyCache;
use crate::decode::{Decoded, Page};
use crate::deferral::ObjectRef;
use crate::error::Error;
use crate::key::{ObjectKey, Revision};
use crate::kind::KindId;
use crate::metadata::{MetadataCaches, MetadataObject};
use crate::metrics::Metrics;
use crate::pages::Pages;
use crate::watch::{JSON, METADATA_LIST};
use crate::write::ClusterId;

/// Timeout of a read. The default request timeout of an API server.
const LONGEST_READ: Duration = Duration::from_mins(1);

/// A response with any status code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawResponse {
    pub status_code: u16,
    pub body: Vec<u8>,
}

/// The objects of a list, and the errors of those that could not be decoded.
#[derive(Debug, Default)]
pub struct Listed {
    pub objects: Vec<Value>,
    pub unreadable: Vec<Error>,
    /// The revision of the list.
    pub(crate) revision: Revision,
}

/// The caches of a runtime, by server and kind.
#[derive(Default)]
pub(crate) struct Caches {
    pub(crate) by_kind: BTreeMap<(ClusterId, KindId), Vec<Arc<dyn AnyCache>>>,
    pub(crate) metadata: Vec<(ClusterId, MetadataCaches)>,
}

impl Caches {
    /// The caches that hold an object if it exists.
    pub(crate) fn holding<'a>(
        &'a self,
        cluster: ClusterId,
        kind: &KindId,
        key: &'a ObjectKey,
    ) -> impl Iterator<Item = &'a Arc<dyn AnyCache>> + use<'a> {
        let caches = self.by_kind.get(&(cluster, kind.clone()));
        caches.into_iter().flatten().filter(|cache| cache.selection().contains(key))
    }

    /// As `holding`.
    pub(crate) fn of<'a>(&'a self, object: &'a ObjectRef) -> impl Iterator<Item = &'a Arc<dyn AnyCache>> + use<'a> {
        self.holding(object.cluster, &object.kind, &object.key)
    }

    /// The highest revision of a kind that its server has shown to any cache.
    fn latest_revision(&self, cluster: ClusterId, kind: &KindId) -> Revision {
        let caches = self.by_kind.get(&(cluster, kind.clone())).into_iter().flatten();
        let of_cluster = self.metadata.iter().filter(|(on, _)| *on == cluster);
        let metadata = of_cluster.filter_map(|(_, caches)| Some(caches.cache(kind)?.latest_revision()));
        caches.map(|cache| cache.latest_revision()).chain(metadata).max().unwrap_or_default()
    }
}

/// Reads content that is too big to be cached. Every read is a request and is counted.
#[derive(Clone)]
pub struct Reader {
    clients: Vec<kube::Client>,
    cluster: ClusterId,
    caches: Arc<Caches>,
    metrics: Metrics,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn new(clients: Vec<kube::Client>, caches: Arc<Caches>, metrics: Metrics) -> Self {
        Self { clients, cluster: ClusterId::MAIN, caches, metrics }
    }

    /// The same reader for another server.
    #[must_use]
    pub fn on(&self, cluster: ClusterId) -> Self {
        Self { cluster, ..self.clone() }
    }

    /// One object; `None` if the server answers that it does not exist.
    pub async fn get(&self, kind: &KindId, key: &ObjectKey) -> Result<Option<Value>, Error> {
        let path = kind.object_path(key.namespace(), key.name(), None);
        let answer = self.request(kind, key, "get", path, JSON).await;
        match answer.and_then(|text| decoded(kind, key, &text)) {
            Ok(object) => object.readable().map(Some).map_err(|source| unreadable(kind, key.clone(), source)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One object as its Rust type.
    pub async fn get_as<K>(&self, key: &ObjectKey) -> Result<Option<K>, Error>
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned,
    {
        let kind = KindId::of::<K>();
        let Some(object) = self.get(&kind, key).await? else { return Ok(None) };
        let read = serde_json::from_value(object);
        read.map(Some).map_err(|source| unreadable(&kind, key.clone(), source))
    }

    /// All objects of a kind, in one namespace or in all, that match a label selector. An object that cannot be decoded is an
    /// error: the caller must not conclude that it is gone.
    pub async fn list(
        &self,
        kind: &KindId,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Vec<Value>, Error> {
        let Listed { objects, unreadable, .. } = self.pages(kind, namespace, labels, JSON).await?;
        unreadable.into_iter().next().map_or(Ok(objects), Err)
    }

    /// As `list`, but objects that cannot be decoded are returned separately.
    pub async fn list_readable(&self, kind: &KindId, namespace: Option<&str>) -> Result<Listed, Error> {
        self.pages(kind, namespace, None, JSON).await
    }

    /// As `list`, with typed objects.
    pub async fn list_as<K>(&self, namespace: Option<&str>, labels: Option<&str>) -> Result<Vec<K>, Error>
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned,
    {
        let kind = KindId::of::<K>();
        let found = self.list(&kind, namespace, labels).await?;
        found.into_iter().map(|object| parsed(&kind, namespace, object)).collect()
    }

    /// The metadata of all objects of a kind, in one namespace or in all.
    pub async fn list_metadata(&self, kind: &KindId, namespace: Option<&str>) -> Result<Vec<MetadataObject>, Error> {
        let found = self.metadata_pages(kind, namespace, None).await?;
        found.objects.into_iter().map(|object| parsed(kind, namespace, object)).collect()
    }

    /// The metadata of objects that match a label selector, as JSON.
    pub(crate) async fn metadata_pages(
        &self,
        kind: &KindId,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Listed, Error> {
        self.pages(kind, namespace, labels, METADATA_LIST).await
    }

    async fn pages(
        &self,
        kind: &KindId,
        namespace: Option<&str>,
        labels: Option<&str>,
        accept: &'static str,
    ) -> Result<Listed, Error> {
        let mut found = Listed::default();
        let mut pages = Pages::new(&kind.collection_path(namespace), &[("labelSelector", labels)]);
        // Before the request: during it, the caches may get ahead of the answer.
        let reached = self.caches.latest_revision(self.cluster, kind);
        while let Some(path) = pages.next_path() {
            let key = ObjectKey::new(namespace, "");
            let text = self.request(kind, &key, "list", path, accept).await?;
            let page = Page::of(&text).map_err(|source| undecodable("list", kind, &key, source))?;
            let revision = Revision::parse(&page.revision);
            if revision != Revision::default() && revision < reached {
                return Err(Error::Stale { kind: kind.clone(), revision, reached });
            }
            found.revision = revision;
            for item in page.items {
                let key = ObjectKey::of_value(&item.object).unwrap_or_else(|| key.clone());
                match item.readable() {
                    Ok(object) => found.objects.push(object),
                    Err(source) => {
                        self.metrics.unreadable(kind);
                        tracing::error!(%kind, %key, error = %source, "cannot decode an object of a list");
                        found.unreadable.push(unreadable(kind, key, source));
                    }
                }
            }
            pages.continue_at(page.more.as_deref());
        }
        Ok(found)
    }

    /// Requests a path outside of the resource API, such as `/readyz` or `/version`. Returns responses with any status code.
    pub async fn get_raw(&self, path: &str) -> Result<RawResponse, Error> {
        let client = self.clients.get(self.cluster.0).ok_or_else(|| Error::Other("no such server".to_owned()))?;
        let (kind, key) = (KindId::new("", "", "", path.split('?').next().unwrap_or_default()), ObjectKey::cluster(""));
        let request = http::Request::get(path).body(kube::client::Body::empty());
        let asked = async {
            let answer = client.send(request.map_err(kube::Error::HttpError)?).await?;
            let status_code = answer.status().as_u16();
            let body = answer.into_body().collect_bytes().await?.to_vec();
            Ok(RawResponse { status_code, body })
        };
        let (verb, seconds) = ("ask", LONGEST_READ.as_secs());
        let outcome = match tokio::time::timeout(LONGEST_READ, asked).await {
            Ok(answer) => answer.map_err(|source: kube::Error| Error::Request {
                verb,
                kind: kind.clone(),
                key: key.clone(),
                source: Box::new(source),
            }),
            Err(_) => Err(Error::Timeout { verb, kind: kind.clone(), key, seconds }),
        };
        self.metrics.read(&kind, verb, outcome.as_ref().err());
        outcome
    }

    async fn request(
        &self,
        kind: &KindId,
        key: &ObjectKey,
        verb: &'static str,
        path: String,
        accept: &'static str,
    ) -> Result<String, Error> {
        let failed = |source: kube::Error| {
            let (kind, key) = (kind.clone(), key.clone());
            Error::Request { verb, kind, key, source: Box::new(source) }
        };
        let request = http::Request::get(path).header(http::header::ACCEPT, accept).body(Vec::new());
        let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
        let client = self.clients.get(self.cluster.0).ok_or_else(|| Error::Other("no such server".to_owned()))?;
        let answer = tokio::time::timeout(LONGEST_READ, client.request_text(request)).await;
        let outcome = if let Ok(answer) = answer {
            answer.map_err(failed)
        } else {
            let (kind, key) = (kind.clone(), key.clone());
            Err(Error::Timeout { verb, kind, key, seconds: LONGEST_READ.as_secs() })
        };
        self.metrics.read(kind, verb, outcome.as_ref().err());
        outcome
    }
}

fn parsed<T: DeserializeOwned>(kind: &KindId, namespace: Option<&str>, object: Value) -> Result<T, Error> {
    let key = ObjectKey::of_value(&object).unwrap_or_else(|| ObjectKey::new(namespace, ""));
    serde_json::from_value(object).map_err(|source| unreadable(kind, key, source))
}

fn decoded(kind: &KindId, key: &ObjectKey, text: &str) -> Result<Decoded, Error> {
    serde_json::from_str(text).map_err(|source| undecodable("get", kind, key, source))
}

/// The response is not JSON of the expected form.
fn undecodable(verb: &'static str, kind: &KindId, key: &ObjectKey, source: serde_json::Error) -> Error {
    let source = Box::new(kube::Error::SerdeError(source));
    Error::Request { verb, kind: kind.clone(), key: key.clone(), source }
}

fn unreadable(kind: &KindId, key: ObjectKey, source: serde_json::Error) -> Error {
    Error::Unreadable { kind: kind.clone(), key, source }
}
