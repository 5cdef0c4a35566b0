//! Reading from one API server, hub or member.
//!
//! Decides how a question is asked, page by page and with a deadline. An object that is not there is an answer, everything
//! else that goes wrong is an error in one line. Never writes.

use std::fmt;
use std::time::Duration;

use fleet_api::kinds::{Family, Obj, Scope};
use fleet_runtime::KindId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::connection::innermost;
use crate::cli::rights::MissingRight;

/// Longest time that one request may take; somebody is waiting.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);
/// Objects per page of a list; what client-go asks for.
const PAGE_SIZE: u32 = 500;
const WHOLE: &str = "application/json";
/// Only metadata: the content of snapshots is large, and nobody looks at it.
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

/// An API server to be asked.
#[derive(Clone)]
pub(super) struct Server {
    client: kube::Client,
}

/// The metadata of an object.
#[derive(Debug, Deserialize)]
pub(super) struct OnlyMetadata {
    pub(super) metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue", default)]
    more: Option<String>,
}

impl Server {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// One object of ours.
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
        match self.ask(&kind.object_path(namespace, name, None), WHOLE).await {
            Ok(found) => Ok(Some(found)),
            Err(Trouble::NotThere) => Ok(None),
            Err(Trouble::Told(error)) => Err(error),
        }
    }

    /// All objects of one of our kinds that a label selector matches; all of them without one.
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
        let (mut found, mut more) = (Vec::new(), None::<String>);
        loop {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("limit", &PAGE_SIZE.to_string());
            if !labels.is_empty() {
                query.append_pair("labelSelector", labels);
            }
            if let Some(token) = &more {
                query.append_pair("continue", token);
            }
            let path = format!("{}?{}", kind.collection_path(namespace), query.finish());
            let page: Page<T> = match self.ask(&path, accept).await {
                Ok(page) => page,
                Err(Trouble::NotThere) => return Err(ReadError::NoSuchKind { plural: kind.plural.to_string() }),
                Err(Trouble::Told(error)) => return Err(error),
            };
            found.extend(page.items);
            more = page.metadata.more.filter(|token| !token.is_empty());
            if more.is_none() {
                return Ok(found);
            }
        }
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str, accept: &str) -> Result<T, Trouble> {
        let request = http::Request::get(path).header(http::header::ACCEPT, accept).body(Vec::new());
        let request = request.map_err(|error| Trouble::Told(ReadError::Other(error.to_string())))?;
        match tokio::time::timeout(LONGEST_REQUEST, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Trouble::NotThere),
            Ok(Err(kube::Error::Api(status))) => Err(Trouble::Told(ReadError::Other(refused(&status.message)))),
            Ok(Err(error)) => Err(Trouble::Told(ReadError::Other(innermost(&error)))),
            Err(_) => Err(Trouble::Told(ReadError::Other(format!("no answer in {} s", LONGEST_REQUEST.as_secs())))),
        }
    }
}

enum Trouble {
    NotThere,
    Told(ReadError),
}

/// A refusal in one line: the right that is missing, if that is why.
fn refused(message: &str) -> String {
    let quoted = || message.lines().next().unwrap_or_default().to_owned();
    MissingRight::read(message).map_or_else(quoted, |right| right.told())
}
