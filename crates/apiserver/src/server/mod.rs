//! The server: many isolated clusters in one process, each with its store, resources and controllers.

pub(crate) mod access;
pub(crate) mod builtins;
pub(crate) mod identity;
pub(crate) mod pods;
pub(crate) mod tasks;

use std::collections::BTreeMap;
use std::fmt;
#[cfg(feature = "durable")]
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::auth::{Authenticator, Rbac, TokenError, TokenKey};
use crate::builtin::AddressPool;
use crate::controllers;
use crate::discovery::CatalogCache;
use crate::discovery::info::Check;
use crate::error::ApiError;
use crate::registry::{BuiltIns, CompiledDefinitions, Registry, ResourceInfo, StorageKey};
use crate::rest::admission::{Admission, Chain};
use crate::rest::lifecycle::NamespaceLifecycle;
use crate::rest::request::Request;
use crate::rest::response::Response;
#[cfg(feature = "durable")]
use crate::store::file_log::{self, CompactionLimits};
use crate::store::watch::EveryChange;
use crate::store::{
    Action, Change, Encoded, Entry, Expect, HistoryLimits, Image, Index, Log, MemoryLog, Store, key_of,
};
use identity::Identities;
use tasks::{Task, Tasks};

/// The clock. Simulations provide one with virtual time.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Answers requests whose objects are never stored: TokenReview, `serviceaccounts/token`, `pods/eviction`…
pub(crate) trait Synthetic: Send + Sync {
    fn handle<'a>(
        &'a self,
        cluster: &'a Arc<Cluster>,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<Response, ApiError>>;
}

/// Signs what the controllers put into service-account token Secrets and `kube-root-ca.crt`.
pub(crate) trait TokenSigner: Send + Sync {
    /// A token that does not expire, bound to the Secret that holds it.
    fn secret_token(&self, cluster: &Cluster, binding: &TokenBinding<'_>) -> String;
    /// The certificate authority of this server as PEM.
    fn ca_certificate(&self) -> String;
}

/// Whom a token speaks for, and the Secret it lives in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBinding<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) service_account: &'a str,
    pub(crate) service_account_uid: &'a str,
    pub(crate) secret: &'a str,
}

/// The state that all clusters of a server share.
pub(crate) struct Shared {
    pub(crate) built_in: Arc<BuiltIns>,
    pub(crate) definitions: Arc<CompiledDefinitions>,
    pub(crate) catalogs: CatalogCache<ResourceInfo>,
    pub(crate) admission: Chain,
    pub(crate) synthetic: BTreeMap<(StorageKey, Option<String>), Arc<dyn Synthetic>>,
    pub(crate) signer: Option<Arc<dyn TokenSigner>>,
    pub(crate) clock: Clock,
    pub(crate) identities: Identities,
    pub(crate) token_key: Arc<TokenKey>,
}

/// One API server: everything under `/clusters/<name>/`.
pub struct Cluster {
    name: String,
    store: Arc<Store>,
    registry: Registry,
    addresses: OnceLock<AddressPool>,
    rbac: Arc<Rbac>,
    authenticator: Arc<Authenticator>,
    shared: Arc<Shared>,
    controllers: controllers::Running,
    tasks: Tasks,
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

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub fn now(&self) -> Timestamp {
        (self.shared.clock)()
    }

    pub(crate) fn admission(&self) -> &Chain {
        &self.shared.admission
    }

    pub(crate) fn identities(&self) -> &Identities {
        &self.shared.identities
    }

    /// The catalogs, shared by clusters with the same kinds.
    pub(crate) fn catalogs(&self) -> &CatalogCache<ResourceInfo> {
        &self.shared.catalogs
    }

    /// The compiled definitions, shared with the other clusters.
    pub(crate) fn definitions(&self) -> &CompiledDefinitions {
        &self.shared.definitions
    }

    pub(crate) fn random(&self) -> u64 {
        self.shared.identities.number()
    }

    /// The authorizer.
    pub(crate) fn rbac(&self) -> &Arc<Rbac> {
        &self.rbac
    }

    /// The authenticator.
    pub(crate) fn authenticator(&self) -> &Arc<Authenticator> {
        &self.authenticator
    }

    /// The addresses and ports of services; those of stored Services are reserved on first use.
    pub(crate) fn addresses(&self) -> &AddressPool {
        self.addresses.get_or_init(|| {
            let pool = AddressPool::default();
            let services = self.store.peek_list(&StorageKey::new("", "services"), None, None, usize::MAX, None);
            for entry in services.iter().flat_map(|listing| &listing.entries) {
                crate::builtin::reserve(&entry.parse(), &pool);
            }
            pool
        })
    }

    /// The state of a stored object.
    pub fn entry(&self, resource: &StorageKey, key: &str) -> Option<Arc<Entry>> {
        self.store.peek(resource, key)
    }

    /// The stored objects of a resource in the order of their keys, in one namespace or in all.
    pub fn entries(&self, resource: &StorageKey, namespace: Option<&str>) -> Vec<Arc<Entry>> {
        let listing = self.store.peek_list(resource, namespace, None, usize::MAX, None);
        listing.map(|listing| listing.entries).unwrap_or_default()
    }

    /// All changes of all resources from now on, after everything that there is.
    pub fn changes(&self) -> EveryChange {
        self.store.watch_everything()
    }

    /// Executes a request of a controller in this process and returns the status code.
    pub async fn request(self: &Arc<Self>, request: Request) -> u16 {
        self.handle(request).await.status
    }

    /// Stores objects as they are, without admission and validation, in the version in which `like` is stored. An object with
    /// the key of `like` replaces it; others are new. False if `like` has changed or if a new one exists: then nothing is stored.
    pub async fn store_unchecked(&self, resource: &StorageKey, like: &Entry, objects: &[Value]) -> bool {
        let change = |object: &Value| {
            let text = |field: &str| object["metadata"][field].as_str();
            let key = key_of(text("namespace"), text("name").unwrap_or_default());
            let expect = if key == like.key { Expect::Revision(like.revision) } else { Expect::Absent };
            let action = Action::Put { body: Encoded::new(object), index: Index::of(object), shape: like.shape };
            Change { resource: resource.clone(), key, expect, action }
        };
        self.store.commit(objects.iter().map(change).collect(), &[]).await.is_ok()
    }

    /// Forgets the history: watches that begin earlier are told that their revision is too old.
    pub fn compact(&self) {
        self.store.compact(self.store.revision());
    }

    /// Whether a kind that is served in this version has namespaces.
    pub fn is_namespaced(&self, group: &str, version: &str, kind: &str) -> Option<bool> {
        let info = self.registry.find_kind(group, kind)?;
        info.version(version).filter(|version| version.served)?;
        Some(info.namespaced)
    }

    /// A background task of this name, which health checks and metrics show.
    pub fn task(&self, name: &'static str) -> Arc<Task> {
        self.tasks.register(name)
    }

    /// The background tasks of this cluster.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The checks that `/livez` and `/readyz` report for this cluster.
    pub(crate) fn checks(&self) -> Vec<Check> {
        // kube-apiserver calls the check of its storage so.
        let storage = Check { name: "etcd", healthy: self.store.write_error().is_none() };
        let tasks = self.tasks.states().into_iter().map(|task| Check { name: task.name, healthy: task.healthy });
        std::iter::once(storage).chain(tasks).collect()
    }

    pub(crate) fn synthetic(&self, key: &(StorageKey, Option<String>)) -> Option<Arc<dyn Synthetic>> {
        self.shared.synthetic.get(key).cloned()
    }

    pub(crate) fn signer(&self) -> Option<&Arc<dyn TokenSigner>> {
        self.shared.signer.as_ref()
    }
}

/// All clusters of one process.
pub(crate) struct Server {
    shared: Arc<Shared>,
    log: Arc<dyn Log>,
    history: HistoryLimits,
    new_cluster: Option<Image>,
    clusters: Mutex<BTreeMap<String, Arc<Cluster>>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("clusters", &self.clusters.lock().len()).finish_non_exhaustive()
    }
}

/// A snapshot of all clusters, from which servers in memory can start. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct Template {
    images: BTreeMap<String, Image>,
    /// The initial content of clusters that are created later.
    new_cluster: Option<Image>,
    definitions: Arc<CompiledDefinitions>,
}

impl Template {
    /// The same with this cluster alone.
    #[must_use]
    pub fn only(mut self, cluster: &str) -> Self {
        self.images.retain(|name, _| name == cluster);
        self
    }

    /// The same with higher revisions, as `etcdutl snapshot restore --bump-revision --mark-compacted` makes them: watches
    /// of an earlier server cannot continue.
    #[must_use]
    pub fn with_revisions_raised_by(mut self, number: u64) -> Self {
        for image in self.images.values_mut() {
            image.revision = image.revision.saturating_add(number);
        }
        self
    }

    /// Uses this cluster as the template of clusters that are created later, and removes it from the snapshot.
    #[must_use]
    pub fn with_new_clusters_like(mut self, cluster: &str) -> Self {
        self.new_cluster = self.images.remove(cluster);
        self
    }
}

/// Builds a server.
pub struct Builder {
    template: Template,
    kinds: Vec<ResourceInfo>,
    #[cfg(feature = "durable")]
    data_dir: Option<PathBuf>,
    admission: Chain,
    synthetic: BTreeMap<(StorageKey, Option<String>), Arc<dyn Synthetic>>,
    signer: Option<Arc<dyn TokenSigner>>,
    token_key: Option<Arc<TokenKey>>,
    clock: Clock,
    seed: Option<u64>,
    history: HistoryLimits,
    #[cfg(feature = "durable")]
    compaction: CompactionLimits,
    /// A storage that is open already, for tests with a simulated disk.
    #[cfg(test)]
    opened: Option<(Arc<dyn Log>, file_log::Stores)>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[cfg(feature = "durable")]
    #[error(transparent)]
    Storage(#[from] file_log::RecoveryError),
    #[error("a key for service account tokens cannot be made")]
    TokenKey(#[from] TokenError),
    #[error("the runtime ended while the data directory was opened")]
    Interrupted,
}

impl Server {
    /// The cluster of this name, created on the first call. Must be called within a tokio runtime, on which the cluster's
    /// controllers run.
    pub(crate) fn cluster(&self, name: &str) -> Arc<Cluster> {
        let mut clusters = self.clusters.lock();
        if let Some(cluster) = clusters.get(name) {
            return cluster.clone();
        }
        let store = match &self.new_cluster {
            Some(image) => Store::restored(name, self.log.clone(), self.history, image.clone()),
            None => Store::new(name, self.log.clone(), self.history),
        };
        let cluster = self.open(name, store);
        clusters.insert(name.to_owned(), cluster.clone());
        cluster
    }

    /// The cluster of this name, if it exists.
    pub(crate) fn existing(&self, name: &str) -> Option<Arc<Cluster>> {
        self.clusters.lock().get(name).cloned()
    }

    /// The names of all clusters that exist.
    #[cfg(test)]
    pub(crate) fn clusters(&self) -> Vec<String> {
        self.clusters.lock().keys().cloned().collect()
    }

    /// A snapshot of all clusters.
    pub(crate) fn template(&self) -> Template {
        let clusters = self.clusters.lock();
        let images = clusters.iter().map(|(name, cluster)| (name.clone(), cluster.store.image())).collect();
        Template { images, new_cluster: None, definitions: self.shared.definitions.clone() }
    }

    /// Stops the controllers of all clusters. When the last handle to the server is dropped after this, its data
    /// directory is free again.
    pub(crate) async fn close(&self) {
        let clusters = std::mem::take(&mut *self.clusters.lock());
        for cluster in clusters.values() {
            cluster.controllers.stop().await;
        }
    }

    fn open(&self, name: &str, store: Arc<Store>) -> Arc<Cluster> {
        let rbac: Arc<Rbac> = Arc::default();
        store.observe_commits(rbac.clone());
        let cluster = Arc::new(Cluster {
            name: name.to_owned(),
            registry: Registry::new(self.shared.built_in.clone()),
            addresses: OnceLock::new(),
            rbac,
            authenticator: Arc::new(access::authenticator(&self.shared, &store)),
            store,
            shared: self.shared.clone(),
            controllers: controllers::Running::default(),
            tasks: Tasks::default(),
        });
        controllers::prepare(&cluster);
        cluster.controllers.start(&cluster);
        cluster
    }
}

impl Default for Builder {
    /// A server in memory without further resources.
    fn default() -> Self {
        let mut admission = Chain::default();
        admission.push(Arc::new(NamespaceLifecycle));
        Self {
            template: Template::default(),
            kinds: Vec::new(),
            #[cfg(feature = "durable")]
            data_dir: None,
            admission,
            synthetic: BTreeMap::new(),
            signer: None,
            token_key: None,
            clock: Arc::new(Timestamp::now),
            seed: None,
            history: HistoryLimits::default(),
            #[cfg(feature = "durable")]
            compaction: CompactionLimits::default(),
            #[cfg(test)]
            opened: None,
        }
    }
}

impl Builder {
    /// Opens the storage and every cluster that is found in it.
    pub(crate) async fn build(mut self) -> Result<Arc<Server>, StartError> {
        #[cfg(feature = "durable")]
        let (log, stores) = match &self.data_dir {
            None => self.in_memory(),
            Some(path) => {
                let (path, history, compaction) = (path.clone(), self.history, self.compaction);
                let opened = tokio::task::spawn_blocking(move || file_log::open(&path, history, compaction)).await;
                let (log, stores) = opened.map_err(|_| StartError::Interrupted)??;
                let log: Arc<dyn Log> = log;
                (log, stores)
            }
        };
        #[cfg(not(feature = "durable"))]
        let (log, stores) = self.in_memory();
        #[cfg(test)]
        let (log, stores) = self.opened.unwrap_or((log, stores));
        let shared = Arc::new(Shared {
            built_in: Arc::new(BuiltIns::new(self.kinds)),
            definitions: self.template.definitions,
            catalogs: CatalogCache::default(),
            admission: self.admission,
            synthetic: self.synthetic,
            signer: self.signer,
            clock: self.clock,
            identities: Identities::new(self.seed),
            token_key: match self.token_key {
                Some(key) => key,
                None => Arc::new(TokenKey::generate()?),
            },
        });
        let (history, new_cluster) = (self.history, self.template.new_cluster);
        let server = Arc::new(Server { shared, log, history, new_cluster, clusters: Mutex::default() });
        for (name, store) in stores {
            let cluster = server.open(&name, store);
            server.clusters.lock().insert(name, cluster);
        }
        Ok(server)
    }

    /// The clusters of the template.
    fn in_memory(&mut self) -> (Arc<dyn Log>, BTreeMap<String, Arc<Store>>) {
        let log: Arc<dyn Log> = Arc::new(MemoryLog);
        let images = std::mem::take(&mut self.template.images);
        let restore = |(name, image): (String, Image)| {
            let store = Store::restored(&name, log.clone(), self.history, image);
            (name, store)
        };
        let stores = images.into_iter().map(restore).collect();
        (log, stores)
    }

    #[cfg(test)]
    pub(crate) fn opened(mut self, log: Arc<dyn Log>, stores: file_log::Stores) -> Self {
        self.opened = Some((log, stores));
        self
    }

    /// Begins where another server was, unless a directory holds something else.
    #[must_use]
    pub fn from_template(mut self, template: &Template) -> Self {
        self.template = template.clone();
        self
    }

    /// Keeps everything in a directory, which this process then owns.
    #[must_use]
    #[cfg(feature = "durable")]
    pub(crate) fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// Adds built-in resources.
    #[must_use]
    pub(crate) fn kinds(mut self, kinds: impl IntoIterator<Item = ResourceInfo>) -> Self {
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
    pub(crate) fn synthetic(
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
    pub(crate) fn token_signer(mut self, signer: Arc<dyn TokenSigner>) -> Self {
        self.signer = Some(signer);
        self
    }

    /// Signs and verifies service account tokens; a fresh key if none is given.
    #[must_use]
    pub(crate) fn token_key(mut self, key: Arc<TokenKey>) -> Self {
        self.token_key = Some(key);
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
    #[cfg(feature = "durable")]
    pub fn compaction(mut self, limits: CompactionLimits) -> Self {
        self.compaction = limits;
        self
    }
}
