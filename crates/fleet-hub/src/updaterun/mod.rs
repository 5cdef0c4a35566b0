//! The controller of staged update runs of one scope. `fleet_core::updaterun` plans.
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
pub(crate) use triggers::{Phase, Unfinished, strategy_of};

use std::collections::BTreeMap;

use fleet_api::kinds::{MemberCluster, Obj, Scope, ScopeKind, UpdateRun};
use fleet_api::types::UpdateRunStatus;
use fleet_api::well_known::finalizers;
use fleet_core::updaterun::{Plan, Settings, approval_latencies, plan, stage_durations};
use fleet_runtime::{
    Actions, Cache, Controller, Enqueuer, Error, Needs, ObjectKey, PlanInput, ReconcileContext, Runtime,
};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::caches::{Caches, PlacementCaches, RunCaches};
use crate::names;
use crate::options::HubOptions;
use crate::placement::{self, ClusterView};
use crate::rollout::overrides::OverrideLookup;
use crate::snapshot_content::{SnapshotContent, SnapshotContentCache};
use execute::{Executor, log_note, needs_confirmation, owners_to_flush};
use metrics::Measurements;
use observe::{Observation, prerequisites};
use overrides::LatestOverrides;
use triggers::{RunTriggers, triggers};

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
        contents: scope.contents.clone(),
        view: view.clone(),
        settings: settings(options),
        uncommitted: Mutex::default(),
        metrics: metrics.clone(),
    };
    let run_triggers = RunTriggers(runs.clone());
    runtime.controller(controller, triggers(&run_triggers, caches, scope, runs, view), options.run_workers())
}

fn settings(options: &HubOptions) -> Settings {
    Settings {
        stuck_after: SignedDuration::try_from(options.stuck_after).unwrap_or(SignedDuration::MAX),
        tolerate_strategy_changes: options.tolerate_strategy_changes,
    }
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
}
