//! Assembles caches, controllers, watches, leader election and shutdown.
//!
//! If a background task panics, the whole runtime stops with an error and must be started again by its caller.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cache::{AnyCache, Cache, Cached, Kind};
use crate::clock::{Clock, Seeds};
use crate::controller::{Controller, KubeEvent};
use crate::deferral::WriteCosts;
use crate::discovery::Discovery;
use crate::error::panic_text;
use crate::events::{Publisher, Recorder};
use crate::flag::Flag;
use crate::kind::KindId;
use crate::leader::{Candidate, Election, RELEASE_WITHIN};
use crate::metadata::MetadataCaches;
use crate::metrics::Metrics;
use crate::ownership::Ownership;
use crate::queue::Retry;
use crate::reader::{Caches, Reader};
use crate::restore::RestoreCounter;
use crate::triggers::{Enqueuer, Triggers, WorkQueue};
use crate::watch::{WatchedServer, reflect};
use crate::worker::{Context, SHUTDOWN_GRACE, Worker};
use crate::write::ClusterId;
use crate::writer::Writer;

/// How a runtime behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The field manager of all writes.
    pub component: String,
    pub clock: Clock,
    pub seeds: Seeds,
    pub ownership: Ownership,
    /// Whether a write of a field that its controller does not own fails. If not, it is logged and counted. For tests.
    pub strict: bool,
    pub metrics: Metrics,
    /// If set, controllers run only while this process holds the Lease.
    pub election: Option<Election>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            component: "fleet-runtime".to_owned(),
            clock: Clock::Real,
            seeds: Seeds::Random,
            ownership: Ownership::default(),
            strict: false,
            metrics: Metrics::default(),
            election: None,
        }
    }
}

/// A background task panicked. (A panic in a reconcile is contained to its key.)
#[derive(Debug, thiserror::Error)]
#[error("a background task panicked: {panic}")]
pub struct TaskPanicked {
    panic: String,
}

/// Waits until one of these tasks panics.
async fn first_panic(tasks: &mut JoinSet<()>) -> TaskPanicked {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            return TaskPanicked { panic: panic_text(&*panic).to_owned() };
        }
    }
    std::future::pending().await
}

type Start = Box<dyn FnOnce(&Arc<Context>, &Signals) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Collects caches and controllers, then runs them. `ClusterId` indexes `clients` and `restores`; the first is the main server.
pub struct Runtime {
    client: kube::Client,
    clients: Vec<kube::Client>,
    restores: Vec<RestoreCounter>,
    options: Options,
    caches: Vec<Arc<dyn AnyCache>>,
    metadata: Vec<(ClusterId, MetadataCaches)>,
    discoveries: Vec<Discovery>,
    controllers: Vec<Start>,
    retry: Retry,
    progress: Progress,
    /// Where the Lease is stored, if there is an election.
    election_cluster: ClusterId,
}

/// Signals to the reconcile loops.
struct Signals {
    stopping: Flag,
    leading: Flag,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("caches", &self.caches.len())
            .field("controllers", &self.controllers.len())
            .finish_non_exhaustive()
    }
}

impl Runtime {
    pub fn new(client: kube::Client, options: Options) -> Self {
        let leading = Flag::new(options.election.is_none());
        Self {
            clients: vec![client.clone()],
            restores: vec![RestoreCounter::default()],
            client,
            options,
            caches: Vec::new(),
            metadata: Vec::new(),
            discoveries: Vec::new(),
            controllers: Vec::new(),
            retry: Retry::default(),
            progress: Progress { leading, idle: Vec::new(), gates: Vec::new() },
            election_cluster: ClusterId::MAIN,
        }
    }

    /// Sets the retry backoff of controllers that are added after this.
    #[must_use]
    pub fn retrying(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The kinds of one server that have a cache, each once, in order.
    pub fn kinds(&self, cluster: ClusterId) -> Vec<KindId> {
        let kinds: BTreeSet<_> =
            self.caches.iter().filter(|cache| cache.cluster() == cluster).map(|cache| cache.kind().clone()).collect();
        kinds.into_iter().collect()
    }

    /// Connects another API server. Its id selects it for kinds, reads and writes (`on`).
    pub fn connect(&mut self, client: kube::Client) -> ClusterId {
        self.clients.push(client);
        self.restores.push(RestoreCounter::default());
        ClusterId(self.clients.len() - 1)
    }

    /// Stores the Lease on another server than the main one.
    pub fn elect_on(&mut self, cluster: ClusterId) {
        self.election_cluster = cluster;
    }

    /// Adds a cache of a kind. It fills once the runtime runs.
    pub fn cache<K: Cached>(&mut self, kind: Kind<K>) -> Cache<K> {
        let cache = Cache::new(kind, self.options.metrics.clone());
        self.caches.push(Arc::new(cache.clone()));
        cache
    }

    /// Adds metadata caches of kinds that are chosen at run time by `MetadataCaches::set_kinds`.
    pub fn metadata(&mut self, cluster: ClusterId) -> MetadataCaches {
        let caches = MetadataCaches::new(cluster, self.options.metrics.clone());
        self.metadata.push((cluster, caches.clone()));
        caches
    }

    /// Discovers the kinds that a server serves and keeps them up to date.
    pub fn discovery(&mut self, cluster: ClusterId) -> Discovery {
        let discovery = Discovery::new(cluster, &self.options.metrics);
        self.discoveries.push(discovery.clone());
        discovery
    }

    /// Adds a controller that reconciles up to `workers` keys at the same time.
    pub fn controller<C: Controller>(
        &mut self,
        controller: C,
        triggers: Triggers<C::Key>,
        workers: usize,
    ) -> Enqueuer<C::Key> {
        let work_queue = Arc::new(WorkQueue::new(self.options.clock.clone(), self.retry));
        for attach in triggers.attach {
            attach(&work_queue);
        }
        let (gates, controller) = (triggers.gates, Arc::new(controller));
        let enqueuer = Enqueuer(work_queue.clone());
        self.progress.watch(&work_queue, &gates);
        self.controllers.push(Box::new(move |context, signals| {
            let worker = Worker {
                controller,
                work_queue,
                workers: workers.max(1),
                gates,
                leading: signals.leading.clone(),
                stopping: signals.stopping.clone(),
                context: context.clone(),
            };
            Box::pin(worker.run())
        }));
        enqueuer
    }

    /// The progress of the controllers, for readiness probes and tests.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    pub fn clock(&self) -> Clock {
        self.options.clock.clone()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.options.metrics
    }

    /// A reader for use outside of controllers.
    pub fn reader(&self) -> Reader {
        Reader::new(self.clients.clone(), Arc::default(), self.options.metrics.clone())
    }

    /// Runs until `shutdown` is ready or a background task panics. Then no new reconcile starts, and running ones have
    /// `SHUTDOWN_GRACE` to finish.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), TaskPanicked> {
        let signals = Signals { stopping: Flag::default(), leading: self.progress.leading.clone() };
        let (recorder, events) = Recorder::new();
        let context = Arc::new(self.context(signals.leading.clone(), recorder));
        // Dropping the set aborts its tasks.
        let mut background = JoinSet::new();
        self.watch_all(&mut background);
        background.spawn(self.publisher(events).run());
        let mut controllers = JoinSet::new();
        for start in std::mem::take(&mut self.controllers) {
            controllers.spawn(start(&context, &signals));
        }
        drop(context);
        let candidate = self.candidate(signals.leading.clone());
        let election = async {
            match &candidate {
                Some(candidate) => candidate.run().await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            biased;
            () = shutdown => Ok(()),
            () = election => Ok(()),
            panicked = first_panic(&mut background) => Err(panicked),
            panicked = first_panic(&mut controllers) => Err(panicked),
        };
        if let Err(panicked) = &ended {
            self.options.metrics.panicked("runtime");
            tracing::error!(error = %panicked, "stopping because a background task panicked");
        }
        signals.stopping.set(true);
        let now = Instant::now();
        let ends = now.checked_add(SHUTDOWN_GRACE.saturating_add(RELEASE_WITHIN)).unwrap_or(now);
        while controllers.join_next().await.is_some() {}
        // Not earlier: running reconciles may still write.
        if let Some(candidate) = candidate {
            candidate.release(ends).await;
        }
        ended
    }

    fn watch_all(&self, background: &mut JoinSet<()>) {
        let own = self.caches.iter().cloned();
        let of_discoveries = self.discoveries.iter().flat_map(Discovery::caches);
        for cache in own.chain(of_discoveries) {
            if let Some(server) = self.watched_server(cache.cluster()) {
                let (seeds, metrics) = (self.options.seeds.clone(), self.options.metrics.clone());
                background.spawn(reflect(server, cache, seeds, metrics));
            }
        }
        for (cluster, caches) in &self.metadata {
            if let Some(server) = self.watched_server(*cluster) {
                background.spawn(caches.clone().run(server, self.options.seeds.clone()));
            }
        }
        for discovery in &self.discoveries {
            if let Some(client) = self.clients.get(discovery.cluster().0).cloned() {
                background.spawn(discovery.clone().run(client));
            }
        }
    }

    fn watched_server(&self, cluster: ClusterId) -> Option<WatchedServer> {
        let (client, restores) = (self.clients.get(cluster.0)?.clone(), self.restores.get(cluster.0)?.clone());
        Some(WatchedServer { client, restores })
    }

    fn publisher(&self, events: mpsc::Receiver<KubeEvent>) -> Publisher {
        Publisher {
            client: self.client.clone(),
            clock: self.options.clock.clone(),
            seeds: self.options.seeds.clone(),
            metrics: self.options.metrics.clone(),
            events,
        }
    }

    fn candidate(&self, leading: Flag) -> Option<Candidate> {
        let client = self.clients.get(self.election_cluster.0).unwrap_or(&self.client).clone();
        let clock = self.options.clock.clone();
        self.options.election.clone().map(|election| Candidate { election, client, clock, leading })
    }

    fn context(&self, leading: Flag, recorder: Recorder) -> Context {
        let mut by_kind: BTreeMap<_, Vec<Arc<dyn AnyCache>>> = BTreeMap::new();
        for cache in &self.caches {
            by_kind.entry((cache.cluster(), cache.kind().clone())).or_default().push(cache.clone());
        }
        let caches = Arc::new(Caches { by_kind, metadata: self.metadata.clone() });
        let options = &self.options;
        let reader = Reader::new(self.clients.clone(), caches.clone(), options.metrics.clone());
        Context {
            clock: options.clock.clone(),
            seeds: options.seeds.clone(),
            reader: reader.clone(),
            writer: Writer {
                clients: self.clients.clone(),
                restores: self.restores.clone(),
                caches,
                ownership: options.ownership.clone(),
                strict: options.strict,
                component: options.component.clone(),
                leading,
                reader,
                metrics: options.metrics.clone(),
            },
            write_costs: WriteCosts::default(),
            recorder,
            metrics: options.metrics.clone(),
        }
    }
}

/// Breaks the reference cycle between caches and their subscribers, which would leak both.
impl Drop for Runtime {
    fn drop(&mut self) {
        self.caches.iter().for_each(|cache| cache.unsubscribe_all());
        self.metadata.iter().for_each(|(_, caches)| caches.unsubscribe_all());
        self.discoveries.iter().for_each(Discovery::unsubscribe_all);
    }
}

type Probe = Arc<dyn Fn() -> bool + Send + Sync>;

/// The progress of the controllers of a runtime.
#[derive(Clone)]
pub struct Progress {
    leading: Flag,
    idle: Vec<Probe>,
    gates: Vec<Flag>,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("synced", &self.is_synced()).field("idle", &self.is_idle()).finish()
    }
}

impl Progress {
    fn watch<Key: Ord + Clone + Send + 'static>(&mut self, work_queue: &Arc<WorkQueue<Key>>, gates: &[Flag]) {
        let work_queue = work_queue.clone();
        self.idle.push(Arc::new(move || work_queue.queue.lock().is_idle()));
        self.gates.extend_from_slice(gates);
    }

    /// Whether all caches that controllers read have synced.
    pub fn is_synced(&self) -> bool {
        self.gates.iter().all(Flag::is_set)
    }

    /// Whether this process holds the Lease. Always true without an election.
    pub fn is_leading(&self) -> bool {
        self.leading.is_set()
    }

    /// Whether no key is due or being reconciled. Wake-ups may be set, and watch events may be on their way.
    pub fn is_idle(&self) -> bool {
        self.idle.iter().all(|idle| idle())
    }
}
