//! Compares parts of caches with the API server before a controller makes a final decision.
//!
//! Every kind has its own watch, so an object may arrive before another one that was created earlier. A confirmation lists the
//! metadata of the objects and waits until the caches have at least these versions.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use crate::cache::{Cache, Cached};
use crate::error::Error;
use crate::key::{ObjectKey, Revision};
use crate::reader::Reader;

/// How long a watch may take to catch up. Longer than a reconnect; after it the key backs off like after a failed request.
const CATCH_UP: Duration = Duration::from_secs(10);

/// A part of a cache that must be as recent as the API server.
pub struct CacheCheck(Box<dyn Check>);

impl fmt::Debug for CacheCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CacheCheck({})", self.0.kind())
    }
}

impl CacheCheck {
    /// One object, which may not exist.
    pub fn object<K: Cached>(cache: &Cache<K>, key: ObjectKey) -> Self {
        Self(Box::new(Part { cache: cache.clone(), what: What::Object(key) }))
    }

    /// The objects of a namespace, or of all namespaces, that match a label selector. `cached` returns their keys in the cache.
    pub fn labelled<K: Cached>(
        cache: &Cache<K>,
        namespace: Option<&str>,
        selector: Option<String>,
        cached: impl Fn() -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let what = What::Labelled { namespace: namespace.map(str::to_owned), selector, cached: Box::new(cached) };
        Self(Box::new(Part { cache: cache.clone(), what }))
    }

    /// Waits until the cache is as recent as the server was when this was called. Returns false if that cannot happen because an
    /// object cannot be decoded.
    pub(crate) async fn confirm(&self, reader: &Reader) -> Result<bool, Error> {
        self.0.confirm(reader).await
    }
}

trait Check: Send + Sync {
    fn kind(&self) -> String;
    fn confirm<'a>(&'a self, reader: &'a Reader) -> Pin<Box<dyn Future<Output = Result<bool, Error>> + Send + 'a>>;
}

struct Part<K> {
    cache: Cache<K>,
    what: What,
}

enum What {
    Object(ObjectKey),
    Labelled {
        namespace: Option<String>,
        selector: Option<String>,
        cached: Box<dyn Fn() -> Vec<ObjectKey> + Send + Sync>,
    },
}

/// What the server has.
struct OnServer {
    objects: BTreeMap<ObjectKey, Revision>,
    /// Objects that are not listed did not exist at this revision.
    revision: Revision,
}

impl<K: Cached> Check for Part<K> {
    fn kind(&self) -> String {
        self.cache.kind().to_string()
    }

    fn confirm<'a>(&'a self, reader: &'a Reader) -> Pin<Box<dyn Future<Output = Result<bool, Error>> + Send + 'a>> {
        Box::pin(async move {
            let server = self.read(&reader.on(self.cache.cluster())).await?;
            let catch_up = async {
                loop {
                    let mut changed = pin!(self.cache.changed());
                    changed.as_mut().enable();
                    let behind = self.behind(&server);
                    if behind.is_empty() {
                        return true;
                    }
                    if behind.iter().any(|key| self.cache.is_unreadable(key)) {
                        return false;
                    }
                    changed.await;
                }
            };
            let behind = || Error::Behind { kind: self.cache.kind().clone(), revision: server.revision };
            tokio::time::timeout(CATCH_UP, catch_up).await.map_err(|_| behind())
        })
    }
}

impl<K: Cached> Part<K> {
    async fn read(&self, reader: &Reader) -> Result<OnServer, Error> {
        let kind = self.cache.kind();
        match &self.what {
            What::Object(key) => {
                // Reached before the request: an object that is missing did not exist then.
                let revision = self.cache.latest_revision();
                let found = reader.get(kind, key).await?;
                let objects = found.iter().map(|object| (key.clone(), Revision::of_value(object))).collect();
                Ok(OnServer { objects, revision })
            }
            What::Labelled { namespace, selector, .. } => {
                let found = reader.metadata_pages(kind, namespace.as_deref(), selector.as_deref()).await?;
                let cached = found.objects.iter().filter(|object| !self.cache.is_ignored(object));
                let objects = cached.filter_map(|one| Some((ObjectKey::of_value(one)?, Revision::of_value(one))));
                Ok(OnServer { objects: objects.collect(), revision: found.revision })
            }
        }
    }

    /// The objects of which the cache has an older version than the server, or which the server no longer has.
    fn behind(&self, server: &OnServer) -> Vec<ObjectKey> {
        let cached = match &self.what {
            What::Object(key) => vec![key.clone()],
            What::Labelled { cached, .. } => cached(),
        };
        let deleted = cached.into_iter().filter(|key| {
            let known = self.cache.revision(key).filter(|_| !server.objects.contains_key(key));
            known.is_some_and(|known| known != Revision::default() && known <= server.revision)
        });
        let older = server
            .objects
            .iter()
            .filter(|(key, revision)| self.cache.revision(key).is_none_or(|known| known < **revision));
        deleted.chain(older.map(|(key, _)| key.clone())).collect()
    }
}
