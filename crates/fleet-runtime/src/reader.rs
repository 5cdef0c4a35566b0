//! Reading from a server what no cache holds.
//!
//! Decides how a read is bounded and counted. Never writes.

use std::fmt::Write as _;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::key::ObjectKey;
use crate::kind::KindId;
use crate::metadata::MetadataObject;
use crate::metrics::Metrics;
use crate::watch::{JSON, METADATA_LIST};
use crate::write::Side;

/// Longest time that a read may take. As long as an API server gives a request by default.
const LONGEST_READ: Duration = Duration::from_mins(1);
/// Objects per page of a list; what client-go asks for.
pub(crate) const PAGE_SIZE: u32 = 500;

/// What a server said, whether it is pleased or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status_code: u16,
    pub body: Vec<u8>,
}

/// Gives controllers content that is too big to be cached. Every read is a request; they are counted.
#[derive(Clone)]
pub struct Reader {
    clients: Vec<kube::Client>,
    side: Side,
    metrics: Metrics,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("side", &self.side).finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn new(clients: Vec<kube::Client>, metrics: Metrics) -> Self {
        Self { clients, side: Side::MAIN, metrics }
    }

    /// The same reader for another server.
    #[must_use]
    pub fn on(&self, side: Side) -> Self {
        Self { side, ..self.clone() }
    }

    /// One object; `None` if the server says that there is none.
    pub async fn get(&self, kind: &KindId, key: &ObjectKey) -> Result<Option<Value>, Error> {
        let path = kind.object_path(key.namespace(), key.name(), None);
        let answer = self.request(kind, key, "get", path, JSON).await;
        match answer {
            Ok(object) => Ok(Some(object)),
            // A kind that does not exist answers 404 too, but does not name the object.
            Err(error) if error.is_not_found() && names_an_object(&error) => Ok(None),
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
        read.map(Some).map_err(|source| Error::Unreadable { kind, key: key.clone(), source })
    }

    /// All objects of a kind, in a namespace or everywhere, that a label selector matches.
    pub async fn list(
        &self,
        kind: &KindId,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Vec<Value>, Error> {
        self.pages(kind, namespace, labels, JSON).await
    }

    /// The same as their Rust type; one that cannot be read is an error.
    pub async fn list_as<K>(&self, namespace: Option<&str>, labels: Option<&str>) -> Result<Vec<K>, Error>
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned,
    {
        let kind = KindId::of::<K>();
        let found = self.list(&kind, namespace, labels).await?;
        found.into_iter().map(|object| parsed(&kind, namespace, object)).collect()
    }

    /// The metadata of all objects of a kind, in a namespace or everywhere.
    pub async fn list_metadata(&self, kind: &KindId, namespace: Option<&str>) -> Result<Vec<MetadataObject>, Error> {
        let pages = self.pages(kind, namespace, None, METADATA_LIST).await?;
        pages.into_iter().map(|object| parsed(kind, namespace, object)).collect()
    }

    async fn pages(
        &self,
        kind: &KindId,
        namespace: Option<&str>,
        labels: Option<&str>,
        accept: &'static str,
    ) -> Result<Vec<Value>, Error> {
        let mut found = Vec::new();
        let mut more = None;
        loop {
            let mut path = format!("{}?limit={PAGE_SIZE}", kind.collection_path(namespace));
            for (option, value) in [("labelSelector", labels), ("continue", more.as_deref())] {
                if let Some(value) = value {
                    let _ = write!(path, "&{option}={}", crate::watch::escaped(value));
                }
            }
            let key = ObjectKey::new(namespace, "");
            let mut page = self.request(kind, &key, "list", path, accept).await?;
            if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                found.extend(items);
            }
            more = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
            if more.is_none() {
                return Ok(found);
            }
        }
    }

    /// What the server says at a path that is no object's: `/readyz`, `/version`. Every answer is one, also a refusal.
    pub async fn ask(&self, path: &str) -> Result<Answer, Error> {
        let client = self.clients.get(self.side.0).ok_or_else(|| Error::Other("no such server".to_owned()))?;
        let (kind, key) = (KindId::new("", "", "", path.split('?').next().unwrap_or_default()), ObjectKey::cluster(""));
        let request = http::Request::get(path).body(kube::client::Body::empty());
        let asked = async {
            let answer = client.send(request.map_err(kube::Error::HttpError)?).await?;
            let status_code = answer.status().as_u16();
            let body = answer.into_body().collect_bytes().await?.to_vec();
            Ok(Answer { status_code, body })
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
    ) -> Result<Value, Error> {
        let failed = |source: kube::Error| {
            let (kind, key) = (kind.clone(), key.clone());
            Error::Request { verb, kind, key, source: Box::new(source) }
        };
        let request = http::Request::get(path).header(http::header::ACCEPT, accept).body(Vec::new());
        let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
        let client = self.clients.get(self.side.0).ok_or_else(|| Error::Other("no such server".to_owned()))?;
        let answer = tokio::time::timeout(LONGEST_READ, client.request::<Value>(request)).await;
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
    serde_json::from_value(object).map_err(|source| Error::Unreadable { kind: kind.clone(), key, source })
}

fn names_an_object(error: &Error) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    details.is_some_and(|details| !details.name.is_empty())
}
