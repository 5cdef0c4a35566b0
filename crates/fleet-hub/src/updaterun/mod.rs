//! The controller of staged update runs of one scope. `fleet_core::updaterun` plans; this module observes and executes.
//!
//! | file | what |
//! |---|---|
//! | `triggers` | maps events to runs |
//! | `observe`, `overrides` | the input of a plan, from the caches |
//! | `execute` | turns a plan into API writes and events |
//! | `metrics` | Prometheus metrics |

mod execute;
mod metrics;
mod observe;
mod overrides;
mod triggers;

pub use metrics::RunMetrics;
pub(crate) use triggers::{Phase, strategy_of};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_api::kinds::{MemberCluster, Obj, Placement, Scope, ScopeKind, Snapshot, UpdateRun};
use fleet_api::names::{Index, PlacementKey, ResourceSnapshotName, SnapshotPart};
use fleet_api::types::UpdateRunStatus;
use fleet_api::well_known::{finalizers, labels};
use fleet_core::updaterun::{Blocker, Cause, Plan, RunOutcome, Settings, approval_latencies, plan, stage_durations};
use fleet_runtime::{
    Actions, Cache, Controller, Enqueuer, Error, KindId, Needs, ObjectKey, PlanInput, Reader, ReconcileContext,
    Runtime, Triggers,
};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::caches::{Caches, PlacementCaches, RunCaches, by};
use crate::keys::{object_key, placement_of};
use crate::names;
use crate::options::HubOptions;
use crate::placement::{self, ClusterView};
use crate::rollout::overrides::OverrideLookup;
use crate::snapshot_content::{GroupId, SnapshotContent, SnapshotContentCache, group_of, is_complete};
use execute::Executor;
use metrics::Measurements;
use observe::{Observation, prerequisites};
use overrides::LatestOverrides;
use triggers::{RunTriggers, on_run};

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
        uncommitted: Mutex::default(),
        metrics: metrics.clone(),
    };
    let run_triggers = RunTriggers { runs: runs.runs.clone() };
    runtime.controller(controller, triggers(&run_triggers, caches, scope, runs, view), options.run_workers())
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
    /// Recorded when the writes of the current plan have succeeded.
    uncommitted: Mutex<BTreeMap<ObjectKey, Measurements>>,
    metrics: RunMetrics,
}

/// What an uninitialized run needs to choose its content.
#[derive(Debug)]
struct Facts<S: Scope> {
    /// What the placement selects, with content, if the run is about to snapshot it.
    content: placement::Facts,
    /// Resource snapshots with their content, if overrides must match objects in envelopes.
    snapshots: Option<SnapshotContent<S>>,
}

impl<S: Scope> Default for Facts<S> {
    fn default() -> Self {
        Self { content: placement::Facts::default(), snapshots: None }
    }
}

impl<S: Scope> Controller for StagedRuns<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_UPDATE_RUN,
        ScopeKind::Namespaced => names::NAMESPACED_UPDATE_RUN,
    };
    type Key = ObjectKey;
    type Facts = Facts<S>;

    async fn fetch(&self, key: &ObjectKey, context: &ReconcileContext<'_>) -> Result<Facts<S>, Error> {
        let mut facts = Facts::default();
        if let Some(run) = self.caches.runs.get(key) {
            self.read_content(&run, context.reader(), &mut facts).await?;
        }
        Ok(facts)
    }

    fn plan(&self, key: &ObjectKey, facts: Option<Facts<S>>, input: PlanInput) -> Actions {
        let Some(run) = self.caches.runs.get(key) else {
            self.metrics.forget(key);
            return Actions::none();
        };
        if is_finished(&run) {
            self.record_status_metric(key, &run, run.status.as_ref(), input.now);
            return Actions::none();
        }
        if facts.is_none() && Phase::of(&*run) == Phase::New && !run.is_deleting() {
            return Actions::needs_facts();
        }
        let observation = Observation::of(run, &self.caches, &self.scope, &self.members);
        observation.map_or_else(Actions::none, |observation| {
            self.reconcile(key, &observation, &facts.unwrap_or_default(), input)
        })
    }

    fn on_committed(&self, key: &ObjectKey) {
        let measurements = self.uncommitted.lock().remove(key);
        self.metrics.record(key, &measurements.unwrap_or_default());
    }
}

/// Whether the run is over, has its finalizer and is not being deleted.
fn is_finished<S: Scope>(run: &Obj<UpdateRun, S>) -> bool {
    let has_finalizer = run.has_finalizer(finalizers::UPDATE_RUN);
    Phase::of(run) == Phase::Finished && has_finalizer && !run.is_deleting()
}

impl<S: Scope> StagedRuns<S> {
    fn reconcile(&self, key: &ObjectKey, observation: &Observation<S>, facts: &Facts<S>, input: PlanInput) -> Actions {
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
        let observed = observation.observed(content.as_ref(), &overrides, input.confirmed, self.settings);
        let plan = plan(&observed, input.now);
        let mut actions = self.execute(key, observation, &plan, input.now);
        if needs_confirmation(&plan) {
            actions.needs =
                Some(Needs::Confirmation(prerequisites(&observation.run, &self.caches, &self.scope, &self.members)));
        }
        actions
    }

    fn execute(&self, key: &ObjectKey, observation: &Observation<S>, plan: &Plan, now: Timestamp) -> Actions {
        let before = observation.run.status.as_ref();
        let measurements = plan.status.as_ref().map_or_else(Measurements::default, |new| Measurements {
            approvals: approval_latencies(before, &new.status),
            stages: stage_durations(before, &new.status, now),
        });
        self.uncommitted.lock().insert(key.clone(), measurements);
        let newest = plan.status.as_ref().map(|new| &new.status).or(before);
        self.record_status_metric(key, &observation.run, newest, now);
        let executor = Executor { observation, now };
        let mut actions = Actions::none().with_wake(plan.wake);
        actions.writes = executor.to_writes(&plan.writes, plan.status.as_ref());
        actions.events = executor.events(&plan.report.events, &plan.writes);
        actions.note = Some(log_note(plan));
        actions.flush = owners_to_flush::<S>(key, plan);
        actions
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

/// The runs that own a binding which this run waits for. Their status must be stored before this run takes it over.
fn owners_to_flush<S: Scope>(key: &ObjectKey, plan: &Plan) -> Vec<(KindId, ObjectKey)> {
    let owners = plan.report.blockers.iter().filter_map(|blocker| match &blocker.cause {
        Cause::MoveNotRecorded { run, .. } => Some(ObjectKey::new(key.namespace(), run)),
        _ => None,
    });
    let owners: BTreeSet<ObjectKey> = owners.collect();
    owners.into_iter().map(|owner| (KindId::of::<Obj<UpdateRun, S>>(), owner)).collect()
}

/// Whether the plan would fail the run on facts that may be outdated.
fn needs_confirmation(plan: &Plan) -> bool {
    let is_stale = |blocker: &Blocker| matches!(blocker.cause, Cause::ObservationStale);
    plan.report.outcome == RunOutcome::Retrying && plan.report.blockers.iter().any(is_stale)
}

/// One line for the log.
fn log_note(plan: &Plan) -> String {
    let causes: Vec<String> = plan.report.blockers.iter().map(|blocker| format!("{:?}", blocker.cause)).collect();
    format!("{:?}: {}", plan.report.outcome, causes.join("; "))
}
