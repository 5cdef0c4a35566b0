//! Puts the parts together: caches, controllers, watches, leadership, shutdown.
//!
//! Decides what is started in which order and how it ends. What runs in the background runs as long as the runtime: if one
//! such task fails, all end, and whoever started them starts them again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cache::{Cache, Cached, Kind, Sink};
use crate::clock::{Clock, Seeds};
use crate::controller::{Controller, KubeEvent};
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
use crate::reader::Reader;
use crate::triggers::{Lane, Marks, Triggers};
use crate::watch::follow;
use crate::worker::{Context, SHUTDOWN_GRACE, Worker};
use crate::write::Side;
use crate::writer::Writer;

/// How a runtime behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who writes: the field manager.
    pub component: String,
    pub clock: Clock,
    pub seeds: Seeds,
    pub ownership: Ownership,
    /// Whether a write that its controller does not own fails. For tests and simulations; otherwise it is reported.
    pub strict: bool,
    pub metrics: Metrics,
    /// If set, controllers work only while this process holds the Lease.
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

/// A part of the runtime panicked that is no reconcile.
#[derive(Debug, thiserror::Error)]
#[error("a background task panicked: {panic}")]
pub struct Broken {
    panic: String,
}

/// Ready when one of these tasks has panicked. None of them ends otherwise while all goes well.
async fn first_broken(tasks: &mut JoinSet<()>) -> Broken {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            return Broken { panic: panic_text(&*panic).to_owned() };
        }
    }
    std::future::pending().await
}

type Start = Box<dyn FnOnce(&Arc<Context>, &Signals) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Collects caches and controllers, then runs them.
pub struct Runtime {
    client: kube::Client,
    /// By `Side`; the first is the main one.
    clients: Vec<kube::Client>,
    options: Options,
    sinks: Vec<Arc<dyn Sink>>,
    metadata: Vec<(Side, MetadataCaches)>,
    discoveries: Vec<Discovery>,
    controllers: Vec<Start>,
    retry: Retry,
    progress: Progress,
    /// Where the lease lives, if there is an election.
    election_side: Side,
}

/// What loops listen to.
struct Signals {
    stopping: Flag,
    leading: Flag,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("caches", &self.sinks.len())
            .field("controllers", &self.controllers.len())
            .finish_non_exhaustive()
    }
}

impl Runtime {
    pub fn new(client: kube::Client, options: Options) -> Self {
        let leading = Flag::new(options.election.is_none());
        Self {
            clients: vec![client.clone()],
            client,
            options,
            sinks: Vec::new(),
            metadata: Vec::new(),
            discoveries: Vec::new(),
            controllers: Vec::new(),
            retry: Retry::default(),
            progress: Progress { leading, idle: Vec::new(), gates: Vec::new() },
            election_side: Side::MAIN,
        }
    }

    /// Lets what failed wait otherwise, in the controllers that are added from now on.
    #[must_use]
    pub fn retrying(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The kinds of one server that caches follow, each once, in order.
    pub fn kinds(&self, side: Side) -> Vec<KindId> {
        let kinds: BTreeSet<_> =
            self.sinks.iter().filter(|sink| sink.side() == side).map(|sink| sink.kind().clone()).collect();
        kinds.into_iter().collect()
    }

    /// Adds another server, for kinds, reads and writes `on` it.
    pub fn connect(&mut self, client: kube::Client) -> Side {
        self.clients.push(client);
        Side(self.clients.len() - 1)
    }

    /// Holds the lease on another server than the main one.
    pub fn elect_on(&mut self, side: Side) {
        self.election_side = side;
    }

    /// Follows a kind. The cache fills once the runtime runs.
    pub fn cache<K: Cached>(&mut self, kind: Kind<K>) -> Cache<K> {
        let cache = Cache::new(kind, self.options.metrics.clone());
        self.sinks.push(Arc::new(cache.clone()));
        cache
    }

    /// Caches of metadata for kinds that are chosen at run time by `MetadataCaches::want`.
    pub fn metadata(&mut self, side: Side) -> MetadataCaches {
        let caches = MetadataCaches::new(side, self.options.metrics.clone());
        self.metadata.push((side, caches.clone()));
        caches
    }

    /// The kinds that a server has, kept up to date.
    pub fn discovery(&mut self, side: Side) -> Discovery {
        let discovery = Discovery::new(side, &self.options.metrics);
        self.discoveries.push(discovery.clone());
        discovery
    }

    /// Runs a controller with this many keys in hand at once, woken by these triggers.
    pub fn controller<C: Controller>(
        &mut self,
        controller: C,
        triggers: Triggers<C::Key>,
        workers: usize,
    ) -> Marks<C::Key> {
        let lane = Arc::new(Lane::new(self.options.clock.clone(), self.retry));
        for attach in triggers.attach {
            attach(&lane);
        }
        let (gates, controller) = (triggers.gates, Arc::new(controller));
        let marks = Marks(lane.clone());
        self.progress.watch(&lane, &gates);
        self.controllers.push(Box::new(move |context, signals| {
            let worker = Worker {
                controller,
                lane,
                workers: workers.max(1),
                gates,
                leading: signals.leading.clone(),
                stopping: signals.stopping.clone(),
                context: context.clone(),
            };
            Box::pin(worker.run())
        }));
        marks
    }

    /// Tells how far the controllers are; for readiness probes, tests and simulations.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    pub fn clock(&self) -> Clock {
        self.options.clock.clone()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.options.metrics
    }

    /// A reader for those who are not controllers.
    pub fn reader(&self) -> Reader {
        Reader::new(self.clients.clone(), self.options.metrics.clone())
    }

    /// Runs everything until `shutdown` is ready. Then no key is taken any more, what has begun may end within
    /// `SHUTDOWN_GRACE`, and everything stops. It ends the same way by itself if something in it breaks that all depend on.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Broken> {
        let signals = Signals { stopping: Flag::default(), leading: self.progress.leading.clone() };
        let (recorder, events) = Recorder::new();
        let context = Arc::new(self.context(signals.leading.clone(), recorder));
        // Everything in this set ends when it is dropped.
        let mut background = JoinSet::new();
        self.follow_all(&mut background);
        background.spawn(self.publisher(events).run());
        let mut controllers = JoinSet::new();
        for start in std::mem::take(&mut self.controllers) {
            controllers.spawn(start(&context, &signals));
        }
        drop(context);
        let candidate = self.candidate(signals.leading.clone());
        let campaign = async {
            match &candidate {
                Some(candidate) => candidate.run().await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            biased;
            () = shutdown => Ok(()),
            () = campaign => Ok(()),
            broken = first_broken(&mut background) => Err(broken),
            broken = first_broken(&mut controllers) => Err(broken),
        };
        if let Err(broken) = &ended {
            self.options.metrics.panicked("runtime");
            tracing::error!(error = %broken, "the runtime ends because a part of it broke");
        }
        signals.stopping.set(true);
        let ends = Instant::now() + SHUTDOWN_GRACE + RELEASE_WITHIN;
        while controllers.join_next().await.is_some() {}
        // Only now: until here writes of ours were under way.
        if let Some(candidate) = candidate {
            candidate.release(ends).await;
        }
        ended
    }

    fn follow_all(&self, background: &mut JoinSet<()>) {
        let own = self.sinks.iter().cloned();
        let of_discoveries = self.discoveries.iter().flat_map(Discovery::sinks);
        for sink in own.chain(of_discoveries) {
            if let Some(client) = self.clients.get(sink.side().0).cloned() {
                let (seeds, metrics) = (self.options.seeds.clone(), self.options.metrics.clone());
                background.spawn(follow(client, sink, seeds, metrics));
            }
        }
        for (side, caches) in &self.metadata {
            if let Some(client) = self.clients.get(side.0).cloned() {
                background.spawn(caches.clone().run(client, self.options.seeds.clone()));
            }
        }
        for discovery in &self.discoveries {
            if let Some(client) = self.clients.get(discovery.side().0).cloned() {
                background.spawn(discovery.clone().run(client));
            }
        }
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
        let client = self.clients.get(self.election_side.0).unwrap_or(&self.client).clone();
        let clock = self.options.clock.clone();
        self.options.election.clone().map(|election| Candidate { election, client, clock, leading })
    }

    fn context(&self, leading: Flag, recorder: Recorder) -> Context {
        let mut sinks: BTreeMap<_, Vec<Arc<dyn Sink>>> = BTreeMap::new();
        for sink in &self.sinks {
            sinks.entry((sink.side(), sink.kind().clone())).or_default().push(sink.clone());
        }
        let options = &self.options;
        Context {
            clock: options.clock.clone(),
            seeds: options.seeds.clone(),
            reader: self.reader(),
            writer: Writer {
                clients: self.clients.clone(),
                sinks,
                ownership: options.ownership.clone(),
                strict: options.strict,
                component: options.component.clone(),
                leading,
                reader: self.reader(),
                metrics: options.metrics.clone(),
            },
            recorder,
            metrics: options.metrics.clone(),
        }
    }
}

/// However it ends: who listens to caches knows caches, and without this neither would ever be given back.
impl Drop for Runtime {
    fn drop(&mut self) {
        self.sinks.iter().for_each(|sink| sink.release());
        self.metadata.iter().for_each(|(_, caches)| caches.release());
        self.discoveries.iter().for_each(Discovery::release);
    }
}

type Probe = Arc<dyn Fn() -> bool + Send + Sync>;

/// How far the controllers of a runtime are.
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
    fn watch<Key: Ord + Clone + Send + 'static>(&mut self, lane: &Arc<Lane<Key>>, gates: &[Flag]) {
        let lane = lane.clone();
        self.idle.push(Arc::new(move || lane.queue.lock().is_idle()));
        self.gates.extend_from_slice(gates);
    }

    /// Whether all caches that controllers read are complete.
    pub fn is_synced(&self) -> bool {
        self.gates.iter().all(Flag::is_up)
    }

    /// Whether this process acts, or is one that has nobody to agree with.
    pub fn is_leading(&self) -> bool {
        self.leading.is_up()
    }

    /// Whether no key is due or in hand. Wake-ups may be set, and news may be on its way.
    pub fn is_idle(&self) -> bool {
        self.idle.iter().all(|idle| idle())
    }
}
