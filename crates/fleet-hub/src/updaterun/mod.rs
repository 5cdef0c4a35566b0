//! The controller of staged update runs of one scope. `fleet_core::updaterun` plans; this module observes, executes and
//! defers status writes.
//!
//! | file | what |
//! |---|---|
//! | `triggers` | maps events to runs |
//! | `observe`, `overrides` | the input of a plan, from the caches |
//! | `confirm` | compares the caches with the API server before a run fails |
//! | `memory` | deferred statuses, flush requests, required confirmations |
//! | `execute` | turns a plan into API writes and events |
//! | `metrics` | Prometheus metrics |

mod confirm;
mod execute;
mod memory;
mod metrics;
mod observe;
mod overrides;
mod triggers;

pub use metrics::RunMetrics;
pub(crate) use triggers::{Phase, strategy_of};

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use fleet_api::kinds::{MemberCluster, Obj, Placement, Scope, ScopeKind, Snapshot, UpdateRun};
use fleet_api::names::{Index, PlacementKey, ResourceSnapshotName, SnapshotPart};
use fleet_api::types::UpdateRunStatus;
use fleet_api::well_known::{finalizers, labels};
use fleet_core::updaterun::{Blocker, Cause, Plan, RunOutcome, Settings, approval_latencies, plan, stage_durations};
use fleet_runtime::{
    Actions, Cache, Controller, Enqueuer, Error, ObjectKey, PlanInput, Reader, Runtime, Triggers, Wake,
};
use jiff::{SignedDuration, Timestamp};

use crate::caches::{Caches, PlacementCaches, RunCaches, by};
use crate::keys::{object_key, placement_of};
use crate::meta;
use crate::names;
use crate::options::HubOptions;
use crate::placement::{self, ClusterView};
use crate::rollout::overrides::OverrideLookup;
use crate::snapshot_content::{GroupId, SnapshotContent, SnapshotContentCache, group_of, is_complete};
use confirm::Prerequisites;
use execute::Executor;
use memory::{DeferredStatus, Memory, PendingEffect};
use metrics::Measurements;
use observe::Observation;
use overrides::LatestOverrides;
use triggers::{RunTriggers, on_run};

/// Delay before the next confirmation if a watch lags behind the API server.
const CONFIRM_RETRY_DELAY: SignedDuration = SignedDuration::from_millis(100);

/// Starts the controller for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    runs: &RunCaches<S>,
    view: &ClusterView,
    metrics: &RunMetrics,
) -> Enqueuer<ObjectKey> {
    let controller = StagedRuns {
        caches: runs.clone(),
        scope: scope.clone(),
        members: caches.members.clone(),
        override_lookup: OverrideLookup {
            cluster: caches.cluster_overrides.clone(),
            namespaced: caches.overrides.clone(),
        },
        contents: SnapshotContentCache::default(),
        view: view.clone(),
        settings: settings(options),
        memory: Memory::default(),
        metrics: metrics.clone(),
        enqueuer: Arc::default(),
    };
    let run_triggers = RunTriggers { runs: runs.runs.clone() };
    let again = controller.enqueuer.clone();
    let enqueuer =
        runtime.controller(controller, triggers(&run_triggers, caches, scope, runs, view), options.run_workers());
    again.get_or_init(|| enqueuer).clone()
}

fn settings(options: &HubOptions) -> Settings {
    Settings {
        stuck_after: SignedDuration::try_from(options.stuck_after).unwrap_or(SignedDuration::MAX),
        tolerate_strategy_changes: options.tolerate_strategy_changes,
    }
}

fn triggers<S: Scope>(
    run_triggers: &RunTriggers<S>,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    runs: &RunCaches<S>,
    view: &ClusterView,
) -> Triggers<ObjectKey> {
    /// Makes a trigger from a method of `RunTriggers`.
    macro_rules! trigger {
        ($method:ident) => {{
            let run_triggers = run_triggers.clone();
            move |event| run_triggers.$method(event)
        }};
    }
    let new = || {
        let run_triggers = run_triggers.clone();
        move || run_triggers.new_runs()
    };
    let (of_kinds, of_complete) = (new(), new());
    let (cluster_overrides, overrides) = (&caches.cluster_overrides, &caches.overrides);
    let (of_cluster_overrides, of_overrides) = (new(), new());
    let (of_cluster_snapshots, of_snapshots) = (new(), new());
    Triggers::new()
        .on(&runs.runs, on_run)
        .on(&runs.runs, trigger!(by_concurrent_run))
        .on(&runs.strategies, trigger!(by_strategy))
        .on(&runs.approvals, trigger!(by_approval))
        .on(&scope.placements, trigger!(by_placement))
        .on(&scope.policy_snapshots, trigger!(by_policy_snapshot))
        .on(&scope.resource_snapshots, trigger!(by_resource_snapshot))
        .on(&scope.bindings, trigger!(by_binding))
        .on(&caches.members, trigger!(by_member))
        .on(&cluster_overrides.snapshots, move |_| of_cluster_snapshots())
        .on(&overrides.snapshots, move |_| of_snapshots())
        .on(&cluster_overrides.overrides, move |_| of_cluster_overrides())
        .on(&overrides.overrides, move |_| of_overrides())
        .on_complete(view.metadata(), move |_| of_complete())
        .on_discovery(view.discovery(), of_kinds)
}

struct StagedRuns<S: Scope> {
    caches: RunCaches<S>,
    scope: PlacementCaches<S>,
    members: Cache<MemberCluster>,
    override_lookup: OverrideLookup,
    contents: SnapshotContentCache<S>,
    view: ClusterView,
    settings: Settings,
    memory: Memory<S>,
    metrics: RunMetrics,
    /// Set after the controller is registered; requeues runs from within a plan.
    enqueuer: Arc<OnceLock<Enqueuer<ObjectKey>>>,
}

/// Results of API reads for one reconcile.
#[derive(Debug)]
struct Facts<S: Scope> {
    /// What the placement selects, with content, if the run is about to snapshot it.
    content: placement::Facts,
    /// Resource snapshots with their content, if overrides must match objects in envelopes.
    snapshots: Option<SnapshotContent<S>>,
    /// The run's prerequisites on the API server, if the caches must be confirmed.
    prerequisites: Option<Prerequisites>,
}

impl<S: Scope> Default for Facts<S> {
    fn default() -> Self {
        Self { content: placement::Facts::default(), snapshots: None, prerequisites: None }
    }
}

impl<S: Scope> Controller for StagedRuns<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_UPDATE_RUN,
        ScopeKind::Namespaced => names::NAMESPACED_UPDATE_RUN,
    };
    type Key = ObjectKey;
    type Facts = Facts<S>;

    fn fetch(&self, key: &ObjectKey, reader: &Reader) -> impl Future<Output = Result<Facts<S>, Error>> + Send {
        let run = self.caches.runs.get(key).filter(|run| !meta::is_deleting(&**run));
        async move {
            let mut facts = Facts::default();
            let Some(run) = run else { return Ok(facts) };
            if Phase::of(&*run) == Phase::New {
                self.read_content(&run, reader, &mut facts).await?;
            }
            if self.memory.needs_confirmation(key) {
                facts.prerequisites = Some(Prerequisites::read(&*run, &self.caches, reader).await?);
            }
            Ok(facts)
        }
    }

    fn plan(&self, key: &ObjectKey, facts: Facts<S>, input: PlanInput) -> Actions {
        let Some(run) = self.caches.runs.get(key) else {
            self.memory.forget(key);
            self.metrics.forget(key);
            return Actions::none();
        };
        if is_finished(&run) {
            self.memory.forget(key);
            self.record_status_metric(key, &run, run.status.as_ref(), input.now);
            return Actions::none();
        }
        let observation = Observation::of(run, &self.caches, &self.scope, &self.members);
        observation.map_or_else(Actions::none, |observation| self.reconcile(key, &observation, &facts, input.now))
    }

    fn on_committed(&self, key: &ObjectKey) {
        let measurements = self.memory.commit(key);
        self.metrics.record(key, &measurements);
    }

    fn on_shutdown(&self) -> Vec<ObjectKey> {
        let deferred = self.memory.deferred_keys();
        for key in &deferred {
            self.memory.request_flush(key);
        }
        deferred
    }
}

/// Whether the run is over, has its finalizer and is not being deleted.
fn is_finished<S: Scope>(run: &Obj<UpdateRun, S>) -> bool {
    let has_finalizer = run.metadata.finalizers.iter().flatten().any(|one| one == finalizers::UPDATE_RUN);
    Phase::of(run) == Phase::Finished && has_finalizer && !meta::is_deleting(run)
}

impl<S: Scope> StagedRuns<S> {
    fn reconcile(&self, key: &ObjectKey, observation: &Observation<S>, facts: &Facts<S>, now: Timestamp) -> Actions {
        let deferred = self.memory.deferred_status(key, &observation.run);
        let catalogue = self.view.metadata_inventory();
        let content = observation.content(facts, &catalogue, self.view.propagation());
        let is_new = Phase::of(&*observation.run) == Phase::New;
        let overriding =
            observation.placement_key.as_ref().filter(|_| is_new).map(|key| self.override_lookup.of_placement(key));
        let overrides = LatestOverrides {
            placement: observation.placement_key.as_ref(),
            overrides: overriding,
            members: &self.members,
            scopes: &catalogue,
        };
        let confirmed =
            facts.prerequisites.as_ref().is_some_and(|read| *read == self.cached_prerequisites(&observation.run));
        let newest = deferred.as_ref().map(|deferred| &*deferred.status);
        let observed = observation.observed(newest, content.as_ref(), &overrides, confirmed, self.settings);
        let plan = plan(&observed, now);
        if confirmed {
            self.memory.set_confirmed(key);
        }
        let mut actions = self.execute(key, observation, deferred, &plan, now);
        if !confirmed && needs_confirmation(&plan) {
            actions.wake = actions.wake.earlier(self.require_confirmation(key, facts, now));
        }
        actions
    }

    fn execute(
        &self,
        key: &ObjectKey,
        observation: &Observation<S>,
        deferred: Option<DeferredStatus<S>>,
        plan: &Plan,
        now: Timestamp,
    ) -> Actions {
        let before = deferred.as_ref().map(|deferred| &*deferred.status).or(observation.run.status.as_ref());
        let measurements = plan.status.as_ref().map_or_else(Measurements::default, |new| Measurements {
            approvals: approval_latencies(before, &new.status),
            stages: stage_durations(before, &new.status, now),
        });
        let newest = plan.status.as_ref().map(|new| &new.status).or(before);
        self.record_status_metric(key, &observation.run, newest, now);
        let (status, still_deferred) =
            status_to_write(observation, deferred, plan, now, self.memory.is_flush_requested(key));
        let due = still_deferred.as_ref().map_or(Wake::OnChange, |deferred| Wake::At(deferred.deadline));
        let executor = Executor { observation, now };
        let mut actions = Actions::none().with_wake(plan.wake.earlier(due));
        actions.writes = executor.to_writes(&plan.writes, status.as_deref());
        actions.events = executor.events(&plan.report.events, &plan.writes);
        actions.note = Some(log_note(plan));
        self.memory.set_pending(key, PendingEffect { deferred: still_deferred, measurements });
        self.flush_owners(key, plan);
        actions
    }

    /// Flushes the deferred status of runs that own a binding which this run waits for.
    fn flush_owners(&self, key: &ObjectKey, plan: &Plan) {
        let owners = plan.report.blockers.iter().filter_map(|blocker| match &blocker.cause {
            Cause::MoveNotRecorded { run, .. } => Some(ObjectKey::new(key.namespace(), run)),
            _ => None,
        });
        for owner in owners.collect::<BTreeSet<_>>() {
            self.memory.request_flush(&owner);
            self.enqueue(owner);
        }
    }

    fn enqueue(&self, key: ObjectKey) {
        if let Some(enqueuer) = self.enqueuer.get() {
            enqueuer.enqueue(key);
        }
    }

    fn record_status_metric(
        &self,
        key: &ObjectKey,
        run: &Obj<UpdateRun, S>,
        status: Option<&UpdateRunStatus>,
        now: Timestamp,
    ) {
        if let Some(status) = status {
            self.metrics.set_status(key, run.spec.state(), status, now);
        }
    }

    /// The plan would fail the run on facts that may be outdated, so they must be confirmed first. Requeues at once for
    /// the first comparison, and after a delay if a watch lags. If an object is undecodable, waits for a change.
    fn require_confirmation(&self, key: &ObjectKey, facts: &Facts<S>, now: Timestamp) -> Wake {
        self.memory.require_confirmation(key);
        if facts.prerequisites.is_none() {
            self.enqueue(key.clone());
            return Wake::OnChange;
        }
        if self.has_unreadable_objects() {
            return Wake::OnChange;
        }
        now.checked_add(CONFIRM_RETRY_DELAY).map_or(Wake::OnChange, Wake::At)
    }

    fn has_unreadable_objects(&self) -> bool {
        !(self.scope.placements.unreadable().is_empty()
            && self.scope.policy_snapshots.unreadable().is_empty()
            && self.scope.bindings.unreadable().is_empty()
            && self.caches.strategies.unreadable().is_empty()
            && self.members.unreadable().is_empty())
    }

    fn cached_prerequisites(&self, run: &Obj<UpdateRun, S>) -> Prerequisites {
        Prerequisites::cached(run, &self.caches, &self.scope, &self.members)
    }

    /// Reads what an uninitialized run needs to choose its content.
    async fn read_content(&self, run: &Obj<UpdateRun, S>, reader: &Reader, facts: &mut Facts<S>) -> Result<(), Error> {
        let Some(key) = placement_of(run) else { return Ok(()) };
        let Some(placement) = self.scope.placements.get(&object_key(&key)) else { return Ok(()) };
        let snapshots = self.scope.resource_snapshots.by(by::PLACEMENT, &key.to_string());
        let index = Index::parse(run.spec.resource_snapshot_index());
        let is_there = index.is_some_and(|index| is_complete(&group(&snapshots, &key, index)));
        if !is_there {
            // Read from the API server: the placement may have changed together with the run. The run waits until the
            // cache has the same version.
            let newest: Option<Obj<Placement, S>> = reader.get_as(&object_key(&key)).await?;
            let placement = newest.as_ref().unwrap_or(&*placement);
            facts.content = placement::select_content(&self.view, &key, placement, reader).await?;
        }
        let newest = || snapshots.iter().filter_map(|one| index_of(one)).max();
        if let Some(index) = index.or_else(newest)
            && !self.override_lookup.of_placement(&key).is_empty()
        {
            let group = GroupId::of(group(&snapshots, &key, index));
            facts.snapshots = Some(self.contents.read(group, reader).await?);
        }
        Ok(())
    }
}

/// The snapshots of this index, the master first.
fn group<'a, S: Scope>(
    snapshots: &'a [Arc<Obj<Snapshot, S>>],
    placement: &PlacementKey,
    index: Index,
) -> Vec<&'a Obj<Snapshot, S>> {
    let master = ResourceSnapshotName { placement: placement.name.clone(), index, part: SnapshotPart::Master };
    group_of(snapshots, &master.to_string())
}

fn index_of<S: Scope>(snapshot: &Obj<Snapshot, S>) -> Option<Index> {
    snapshot.metadata.labels.as_ref()?.get(labels::RESOURCE_INDEX).and_then(|index| Index::parse(index))
}

/// The status to write now, or the one to defer.
fn status_to_write<S: Scope>(
    observation: &Observation<S>,
    deferred: Option<DeferredStatus<S>>,
    plan: &Plan,
    now: Timestamp,
    flush: bool,
) -> (Option<Arc<UpdateRunStatus>>, Option<DeferredStatus<S>>) {
    if meta::is_deleting(&*observation.run) {
        return (None, None);
    }
    let first_deadline = deferred.as_ref().map(|deferred| deferred.deadline);
    let (status, deadline) = match (&plan.status, deferred) {
        (Some(new), _) => {
            (Arc::new(new.status.clone()), new.defer_until.map(|deadline| first_deadline.unwrap_or(deadline)))
        }
        (None, Some(deferred)) => (deferred.status, Some(deferred.deadline)),
        (None, None) => return (None, None),
    };
    match deadline.filter(|deadline| *deadline > now && !flush) {
        Some(deadline) => (None, Some(DeferredStatus { base: observation.run.clone(), status, deadline })),
        None => (Some(status), None),
    }
}

fn needs_confirmation(plan: &Plan) -> bool {
    let is_stale = |blocker: &Blocker| matches!(blocker.cause, Cause::ObservationStale);
    plan.report.outcome == RunOutcome::Retrying && plan.report.blockers.iter().any(is_stale)
}

/// One line for the log.
fn log_note(plan: &Plan) -> String {
    let causes: Vec<String> = plan.report.blockers.iter().map(|blocker| format!("{:?}", blocker.cause)).collect();
    format!("{:?}: {}", plan.report.outcome, causes.join("; "))
}
