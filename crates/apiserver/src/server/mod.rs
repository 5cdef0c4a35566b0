//! The server as a value: many isolated clusters in one process, each with its store, its resources and its
//! controllers.
//!
//! Decides how the parts are put together. Never serves a socket: the edge does.

pub mod identity;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::error::ApiError;
use crate::registry::{BuiltIns, Registry, ResourceInfo, StorageKey};
use crate::rest::admission::{Admission, Chain};
use crate::rest::request::Request;
use crate::rest::response::Response;
use crate::store::file_log::{self, CompactionLimits};
use crate::store::{HistoryLimits, Log, MemoryLog, Store};
use identity::Identities;

/// What time it is. Simulations give one that follows their virtual time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Answers requests whose objects are never stored: TokenReview, `serviceaccounts/token`, `pods/eviction`…
pub trait Synthetic: Send + Sync {
    fn handle<'a>(
        &'a self,
        cluster: &'a Arc<Cluster>,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<Response, ApiError>>;
}

/// Signs what the controllers put into service-account token Secrets and `kube-root-ca.crt`.
pub trait TokenSigner: Send + Sync {
    /// A token that does not expire, bound to the Secret that holds it.
    fn secret_token(&self, cluster: &Cluster, binding: &TokenBinding<'_>) -> String;
    /// The certificate authority of this server as PEM.
    fn ca_certificate(&self) -> String;
}

/// Whom a token speaks for, and the Secret it lives in.
#[derive(Debug, Clone, Copy)]
pub struct TokenBinding<'a> {
    pub namespace: &'a str,
    pub service_account: &'a str,
    pub service_account_uid: &'a str,
    pub secret: &'a str,
    pub secret_uid: &'a str,
}

/// What all clusters of a server share.
pub(crate) struct Shared {
    pub(crate) built_in: Arc<BuiltIns>,
    pub(crate) admission: Chain,
    pub(crate) synthetic: BTreeMap<(StorageKey, Option<String>), Arc<dyn Synthetic>>,
    pub(crate) signer: Option<Arc<dyn TokenSigner>>,
    pub(crate) clock: Clock,
    pub(crate) identities: Identities,
}

/// One API server: everything under `/clusters/<name>/`.
pub struct Cluster {
    name: String,
    store: Arc<Store>,
    registry: Registry,
    shared: Arc<Shared>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Cluster {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub fn now(&self) -> Timestamp {
        (self.shared.clock)()
    }
}

/// All clusters of one process.
pub struct Server {
    shared: Arc<Shared>,
    log: Arc<dyn Log>,
    history: HistoryLimits,
    clusters: Mutex<BTreeMap<String, Arc<Cluster>>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("clusters", &self.clusters.lock().len()).finish_non_exhaustive()
    }
}

/// Collects what a server is made of.
pub struct Builder {
    kinds: Vec<ResourceInfo>,
    data_dir: Option<PathBuf>,
    admission: Chain,
    synthetic: BTreeMap<(StorageKey, Option<String>), Arc<dyn Synthetic>>,
    signer: Option<Arc<dyn TokenSigner>>,
    clock: Clock,
    seed: Option<u64>,
    history: HistoryLimits,
    compaction: CompactionLimits,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Storage(#[from] file_log::RecoveryError),
}

impl Builder {
    /// Keeps everything in memory (the default).
    #[must_use]
    pub fn memory(mut self) -> Self {
        self.data_dir = None;
        self
    }

    /// Keeps everything in a directory, which this process then owns.
    #[must_use]
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// Adds built-in resources.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = ResourceInfo>) -> Self {
        self.kinds.extend(kinds);
        self
    }

    /// Adds an admission step behind those that are there.
    #[must_use]
    pub fn admission(mut self, step: Arc<dyn Admission>) -> Self {
        self.admission.push(step);
        self
    }

    /// Answers a resource (or one subresource of it) that is not stored.
    #[must_use]
    pub fn synthetic(
        mut self,
        group: &str,
        plural: &str,
        subresource: Option<&str>,
        handler: Arc<dyn Synthetic>,
    ) -> Self {
        self.synthetic.insert((StorageKey::new(group, plural), subresource.map(str::to_owned)), handler);
        self
    }

    #[must_use]
    pub fn token_signer(mut self, signer: Arc<dyn TokenSigner>) -> Self {
        self.signer = Some(signer);
        self
    }

    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Makes uids and generated names a function of the seed and the order of writes.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    #[must_use]
    pub fn history(mut self, limits: HistoryLimits) -> Self {
        self.history = limits;
        self
    }

    #[must_use]
    pub fn compaction(mut self, limits: CompactionLimits) -> Self {
        self.compaction = limits;
        self
    }
}
