//! Read access to one API server, hub or member, with paging and a timeout.

use std::fmt;
use std::time::Duration;

use fleet_api::kinds::{Family, Obj, Scope};
use fleet_runtime::{KindId, PageOf, Pages};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::connection::innermost;
use crate::cli::rights::MissingRight;

/// Request timeout; a user is waiting.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);
const WHOLE: &str = "application/json";
/// Only metadata: the content of snapshots is large and not needed.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Why something could not be read, in one line.
#[derive(Debug, Clone)]
pub(super) enum ReadError {
    /// The server does not have the kind, so there is nothing of it.
    NoSuchKind {
        plural: String,
    },
    Other(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchKind { plural } => write!(f, "this server has no {plural}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// Read access to one API server.
#[derive(Clone)]
pub(super) struct Server {
    client: kube::Client,
}

/// The metadata of an object.
#[derive(Debug, Deserialize)]
pub(super) struct OnlyMetadata {
    pub(super) metadata: ObjectMeta,
}

impl Server {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// One object of a Fleet kind.
    pub(super) async fn get<F: Family, S: Scope>(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Obj<F, S>>, ReadError> {
        self.get_any(&KindId::of::<Obj<F, S>>(), namespace, name).await
    }

    /// One object of any kind.
    pub(super) async fn get_any<T: DeserializeOwned>(
        &self,
        kind: &KindId,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>, ReadError> {
        match self.request(&kind.object_path(namespace, name, None), WHOLE).await {
            Ok(found) => Ok(Some(found)),
            Err(Failure::NotFound) => Ok(None),
            Err(Failure::Other(error)) => Err(error),
        }
    }

    /// All objects of a Fleet kind that match the label selector; an empty selector matches all.
    pub(super) async fn list<F: Family, S: Scope>(
        &self,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<Obj<F, S>>, ReadError> {
        self.pages(&KindId::of::<Obj<F, S>>(), namespace, labels, WHOLE).await
    }

    /// The same of any kind.
    pub(super) async fn list_any<T: DeserializeOwned>(
        &self,
        kind: &KindId,
        namespace: Option<&str>,
    ) -> Result<Vec<T>, ReadError> {
        self.pages(kind, namespace, "", WHOLE).await
    }

    /// The same, but only their metadata.
    pub(super) async fn list_metadata<F: Family, S: Scope>(
        &self,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<ObjectMeta>, ReadError> {
        let found: Vec<OnlyMetadata> = self.pages(&KindId::of::<Obj<F, S>>(), namespace, labels, METADATA).await?;
        Ok(found.into_iter().map(|one| one.metadata).collect())
    }

    async fn pages<T: DeserializeOwned>(
        &self,
        kind: &KindId,
        namespace: Option<&str>,
        labels: &str,
        accept: &str,
    ) -> Result<Vec<T>, ReadError> {
        let labels = Some(labels).filter(|labels| !labels.is_empty());
        let mut found = Vec::new();
        let mut pages = Pages::new(&kind.collection_path(namespace), &[("labelSelector", labels)]);
        while let Some(path) = pages.next_path() {
            let page: PageOf<T> = match self.request(&path, accept).await {
                Ok(page) => page,
                Err(Failure::NotFound) => return Err(ReadError::NoSuchKind { plural: kind.plural.to_string() }),
                Err(Failure::Other(error)) => return Err(error),
            };
            pages.continue_at(page.more());
            found.extend(page.items);
        }
        Ok(found)
    }

    async fn request<T: DeserializeOwned>(&self, path: &str, accept: &str) -> Result<T, Failure> {
        let request = http::Request::get(path).header(http::header::ACCEPT, accept).body(Vec::new());
        let request = request.map_err(|error| Failure::Other(ReadError::Other(error.to_string())))?;
        match tokio::time::timeout(LONGEST_REQUEST, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Failure::NotFound),
            Ok(Err(kube::Error::Api(status))) => Err(Failure::Other(ReadError::Other(refused(&status.message)))),
            Ok(Err(error)) => Err(Failure::Other(ReadError::Other(innermost(&error)))),
            Err(_) => Err(Failure::Other(ReadError::Other(format!("no answer in {} s", LONGEST_REQUEST.as_secs())))),
        }
    }
}

enum Failure {
    NotFound,
    Other(ReadError),
}

/// An error message in one line; names the missing permission if that is the reason.
fn refused(message: &str) -> String {
    let quoted = || message.lines().next().unwrap_or_default().to_owned();
    MissingRight::read(message).map_or_else(quoted, |right| right.describe())
}
