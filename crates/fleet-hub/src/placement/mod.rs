//! The placement controller for one scope; `fleet_core::placement` plans.
//!
//! | file | what |
//! |---|---|
//! | `watched_kinds` | which kinds are served, and which are watched |
//! | `selector_index`, `triggers`, `sync_waiters` | which placements a change enqueues |
//! | `inventory`, `append_only_map`, `token_secrets` | the objects from which selectors choose |
//! | `observe` | the selection, and what has to be read for it |
//! | `execute` | requests for the writes of a plan |
//! | `metrics` | the status metric of placements |
//! | `status_copy_backoff` | when failed status copies are retried |
//! | `invalid_names` | placements with invalid names |

mod append_only_map;
mod execute;
mod invalid_names;
mod inventory;
mod metrics;
mod observe;
mod selector_index;
mod status_copy_backoff;
mod sync_waiters;
mod token_secrets;
mod triggers;
mod watched_kinds;

pub(crate) use execute::Executor;
pub(crate) use metrics::PlacementStatusMetrics;
pub(crate) use observe::{Facts, select_content};
pub(crate) use selector_index::selector_index_keys;

use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{ClusterResourcePlacementStatus, Obj, Placement, Scope, ScopeKind};
use fleet_api::names::PlacementKey;
use fleet_core::overrides::Scopes;
use fleet_core::placement::{
    BindingFacts, CopyFacts, Fault, GroupVersion, Inventory, Observed, PlacementFacts, PlacementOutcome,
    PolicySnapshotFacts, Propagation, ResourceSnapshotFacts, SnapshotIntervals, copied, copy_namespace, plan,
};
use fleet_runtime::{
    Actions, Cache, Controller, Discovery, Enqueuer, Error, KindId, KubeEvent, MetadataCaches, ObjectKey, PlanInput,
    PlanResult, ReconcileContext, Runtime, Triggers, Wake, WriteResult,
};

use crate::caches::PlacementCaches;
use crate::keys::object_key;
use crate::names;
use crate::options::HubOptions;
use inventory::{CachedInventory, Contents};
use observe::Memory;
use status_copy_backoff::StatusCopyBackoff;
use sync_waiters::SyncWaiters;
use token_secrets::TokenSecrets;
use triggers::ObjectTriggers;
use watched_kinds::WatchedKinds;

/// Bindings change often during a rollout, and a placement reads all of them in each reconcile. This window limits
/// how often that happens.
const BINDINGS_WINDOW: Duration = Duration::from_millis(100);

/// The objects of users on the hub, shared by the controllers of both scopes.
#[derive(Debug, Clone)]
pub(crate) struct ClusterView {
    metadata: MetadataCaches,
    discovery: Discovery,
    watched_kinds: Arc<WatchedKinds>,
    token_secrets: Arc<TokenSecrets>,
    propagation: Arc<Propagation>,
}

impl ClusterView {
    pub(crate) fn new(metadata: MetadataCaches, discovery: Discovery, propagation: Propagation) -> Self {
        let propagation = Arc::new(propagation);
        let watched_kinds = WatchedKinds::new(discovery.clone(), metadata.clone(), propagation.clone());
        Self { metadata, discovery, watched_kinds: Arc::new(watched_kinds), token_secrets: Arc::default(), propagation }
    }

    /// All objects by their metadata.
    pub(crate) fn metadata_inventory(&self) -> impl Inventory {
        self.inventory(None)
    }

    pub(crate) fn propagation(&self) -> &Propagation {
        &self.propagation
    }

    pub(crate) fn metadata(&self) -> &MetadataCaches {
        &self.metadata
    }

    /// Which kinds are cluster-scoped.
    pub(crate) fn scopes(&self) -> impl Scopes {
        self.inventory(None)
    }

    /// Parts of the hub's API that exist but could not be discovered.
    pub(crate) fn undiscovered(&self) -> Vec<GroupVersion> {
        self.watched_kinds.kinds().undiscovered().to_vec()
    }

    /// The resource of a kind, if the server serves it.
    pub(crate) fn kind(&self, group: &str, version: &str, kind: &str) -> Option<KindId> {
        self.watched_kinds.kinds().find(group, version, kind).map(|(_, id)| id.clone())
    }

    pub(crate) fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    fn inventory<'c>(&self, contents: Option<&'c Contents>) -> CachedInventory<'c> {
        CachedInventory::new(self.watched_kinds.kinds(), self.metadata.clone(), self.token_secrets.clone(), contents)
    }
}

/// Starts the controller for one scope. Only statuses of cluster-scoped placements are copied.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &PlacementCaches<S>,
    status_copies: Option<&Cache<ClusterResourcePlacementStatus>>,
    view: &ClusterView,
    status_metrics: &PlacementStatusMetrics,
) -> Enqueuer<PlacementKey> {
    let (watched_kinds, placements) = (view.watched_kinds.clone(), caches.placements.clone());
    let sync_waiters = Arc::new(SyncWaiters::default());
    let waiting = sync_waiters.clone();
    let changes = || ObjectTriggers { view: view.clone(), placements: caches.placements_by_selector.clone() };
    let (of_objects, of_kinds) = (changes(), changes());
    let mut triggers = Triggers::new()
        .on(&caches.placements, move |event| {
            watched_kinds.update(&placements, &event.key());
            triggers::on_placement(event)
        })
        .on(&caches.policy_snapshots, triggers::on_snapshot)
        .on(&caches.resource_snapshots, triggers::on_snapshot)
        .on_batched(&caches.bindings, BINDINGS_WINDOW, triggers::on_binding)
        .on_metadata(&view.metadata, move |kind, event| of_objects.on_object(kind, event))
        .on_complete(&view.metadata, move |kind| waiting.take(kind))
        .on_discovery(&view.discovery, move || of_kinds.on_discovery());
    if let Some(copies) = status_copies {
        triggers = triggers.on(copies, triggers::on_status_copy);
    }
    let controller = Placements {
        caches: caches.clone(),
        status_copies: status_copies.cloned(),
        view: view.clone(),
        memory: Memory::default(),
        copy_backoff: StatusCopyBackoff::default(),
        sync_waiters,
        status_metrics: status_metrics.clone(),
        snapshot_intervals: options.snapshot_intervals,
    };
    invalid_names::start(runtime, &caches.placements);
    runtime.controller(controller, triggers, options.placement_workers())
}

struct Placements<S: Scope> {
    caches: PlacementCaches<S>,
    status_copies: Option<Cache<ClusterResourcePlacementStatus>>,
    view: ClusterView,
    memory: Memory,
    copy_backoff: StatusCopyBackoff,
    sync_waiters: Arc<SyncWaiters>,
    /// The progress of placements, for metrics.
    status_metrics: PlacementStatusMetrics,
    snapshot_intervals: SnapshotIntervals,
}

impl<S: Scope> Controller for Placements<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_PLACEMENT,
        ScopeKind::Namespaced => names::NAMESPACED_PLACEMENT,
    };
    type Key = PlacementKey;
    type Facts = Facts;

    async fn fetch(&self, key: &PlacementKey, context: &ReconcileContext<'_>) -> Result<Facts, Error> {
        match self.caches.placements.get(&object_key(key)) {
            Some(placement) => {
                observe::observe_selection(&self.view, &self.memory, key, &placement, context.reader()).await
            }
            None => Ok(Facts::default()),
        }
    }

    fn plan(&self, key: &PlacementKey, facts: Option<Facts>, input: PlanInput) -> Actions {
        let Some(placement) = self.caches.placements.get(&object_key(key)) else {
            self.forget(key);
            self.status_metrics.forget(key);
            return Actions::none();
        };
        let facts = facts.unwrap_or_default();
        if placement.is_deleting() {
            self.forget(key);
        } else if facts.of != Some((placement.metadata.uid.clone(), placement.generation())) {
            return Actions::needs_facts();
        }
        self.execute(key, &placement, &facts, input)
    }

    /// The result of writing the status copy; no other write is best-effort.
    fn on_results(&self, key: &PlacementKey, results: Vec<WriteResult>, input: PlanInput) -> Option<Actions> {
        // The next reconcile computes when a failed copy is retried.
        let again = Actions::none().with_wake(Wake::At(input.now));
        let went = match results.into_iter().next()? {
            Ok(_) => {
                self.copy_backoff.forget(key);
                Ok(())
            }
            Err(error) => {
                self.copy_backoff.failed(key, input.now);
                // After a conflict the copy is retried without a report.
                if error.is_conflict() {
                    return Some(again);
                }
                tracing::warn!(error = error.with_causes(), "failed to write the copy of a status");
                Err(error.answer())
            }
        };
        let is_written = went.is_ok();
        let placement = self.caches.placements.get(&object_key(key))?;
        match copied(&PlacementFacts::of(key, &*placement), went, input.now) {
            Some(status) => Some(again.with(execute::status_write(&*placement, &status))),
            None => (!is_written).then_some(again),
        }
    }
}

impl<S: Scope> Placements<S> {
    fn execute(&self, key: &PlacementKey, placement: &Obj<Placement, S>, facts: &Facts, input: PlanInput) -> Actions {
        let policy_snapshots = self.caches.policy_snapshots_by_placement.get(key);
        let resource_snapshots = self.caches.resource_snapshots_by_placement.get(key);
        let bindings = self.caches.bindings_by_placement.get(key);
        let status_copy = self.status_copy(key, placement);
        let inventory = self.view.inventory(None);
        let observed = Observed {
            placement: PlacementFacts::of(key, placement),
            policy_snapshots: policy_snapshots.iter().map(|one| PolicySnapshotFacts::of(&**one)).collect(),
            resource_snapshots: resource_snapshots.iter().map(|one| ResourceSnapshotFacts::of(&**one)).collect(),
            bindings: bindings.iter().map(|one| BindingFacts::of(&**one)).collect(),
            status_copy: CopyFacts {
                found: status_copy.as_ref().map(|copy| &copy.spec),
                failed_until: self.copy_backoff.failed_until(key),
            },
            selection: facts.selection.as_ref(),
            inventory: &inventory,
            propagation: &self.view.propagation,
            snapshot_intervals: self.snapshot_intervals,
        };
        let plan = plan(&observed, input.now);
        if plan.report.outcome == PlacementOutcome::Stopped(Fault::ContentNotRead) {
            self.memory.forget(key);
            return Actions::needs_facts();
        }
        let is_synced_by_now = match &plan.report.outcome {
            PlacementOutcome::AwaitingSync { resource } => self.sync_waiters.add(resource, key, &self.view.metadata),
            _ => false,
        };
        if let PlacementOutcome::AwaitingDiscovery { part } = &plan.report.outcome {
            tracing::warn!(
                placement = %key, api = %part,
                "placement waits for the discovery of an API; if the API is gone for good, delete its APIService or \
                 exclude it with --skipped-propagating-apis"
            );
        }
        let executor = Executor {
            key,
            placement,
            policy_snapshots: policy_snapshots.iter().map(|one| (one.name(), &**one)).collect(),
            resource_snapshots: resource_snapshots.iter().map(|one| (one.name(), &**one)).collect(),
        };
        let again = if is_synced_by_now { Wake::At(input.now) } else { Wake::OnChange };
        let mut actions = Actions::none().with_wake(plan.wake.earlier(again));
        actions.writes.extend(plan.writes.into_iter().filter_map(|write| executor.write(write)));
        let update = plan.status.iter();
        actions
            .writes
            .extend(update.flat_map(|one| execute::status_writes(one, key, placement, status_copy.as_deref())));
        actions.events.extend(plan.report.events.iter().map(|event| KubeEvent::about(placement, event)));
        actions.note = Some(format!("{:?}, {:?}", plan.report.outcome, plan.report.content));
        if let PlacementOutcome::Stopped(fault) = &plan.report.outcome {
            actions.result = PlanResult::blocked(fault);
        }
        if !placement.is_deleting() {
            let new_status = plan.status.as_ref().and_then(|update| update.status.as_ref());
            let status = new_status.map(|new| &new.status).or(placement.status.as_ref());
            self.status_metrics.observe(key, placement, status, input.now);
        }
        actions
    }

    fn forget(&self, key: &PlacementKey) {
        self.memory.forget(key);
        self.copy_backoff.forget(key);
    }

    fn status_copy(
        &self,
        key: &PlacementKey,
        placement: &Obj<Placement, S>,
    ) -> Option<Arc<ClusterResourcePlacementStatus>> {
        let namespace = copy_namespace(&PlacementFacts::of(key, placement))?;
        self.status_copies.as_ref()?.get(&ObjectKey::new(Some(namespace), key.name.as_str()))
    }
}
