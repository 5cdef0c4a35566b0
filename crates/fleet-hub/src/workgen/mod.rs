//! The work generator controller for bindings of one scope, one key per binding. `fleet_core::workgen` plans.
//!
//! Content is read only if a Work must be written. If the API server rejects a Work, its message goes into the
//! binding's status.
//!
//! | file | what |
//! |---|---|
//! | `triggers` | maps events to bindings |
//! | `observe` | the input of a plan, from the caches |
//! | `execute` | turns a plan into API writes and events |
//! | `rejections` | Works that the API server rejected |

mod execute;
mod observe;
mod rejections;
mod triggers;

use std::collections::BTreeSet;
use std::sync::Arc;

use fleet_api::kinds::{Scope, ScopeKind};
use fleet_core::workgen::{Observed, SyncOutcome, plan};
use fleet_runtime::{
    Actions, Controller, Enqueuer, Error, ObjectKey, PlanInput, ReconcileContext, Runtime, Triggers, Wake, WriteResult,
};
use parking_lot::Mutex;

use crate::caches::{Caches, PlacementCaches};
use crate::names;
use crate::options::HubOptions;
use crate::placement::ClusterView;
use crate::snapshot_content::{GroupId, SnapshotContent, SnapshotContentCache};
use execute::execute;
use observe::Observer;
use rejections::Rejections;
use triggers::BindingTriggers;

/// Starts the controller for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
    view: &ClusterView,
) -> Enqueuer<ObjectKey> {
    let binding_triggers = || BindingTriggers { caches: scope.clone(), members: caches.members.clone() };
    let (of_works, of_snapshots, of_placements, of_members) =
        (binding_triggers(), binding_triggers(), binding_triggers(), binding_triggers());
    let (of_cluster_overrides, of_overrides) = (binding_triggers(), binding_triggers());
    let discovery_waiters = DiscoveryWaiters::default();
    let waiters = discovery_waiters.clone();
    let triggers = Triggers::new()
        .on(&scope.bindings, triggers::on_binding)
        .on(&caches.works, move |event| of_works.on_work(event))
        .on(&scope.resource_snapshots, move |event| of_snapshots.on_resource_snapshot(event))
        .on(&scope.placements, move |event| of_placements.on_placement(event))
        .on(&caches.members, move |event| of_members.on_member(event))
        .on(&caches.cluster_overrides.snapshots, move |event| of_cluster_overrides.on_override_snapshot(event))
        .on(&caches.overrides.snapshots, move |event| of_overrides.on_override_snapshot(event))
        .on_discovery(view.discovery(), move || waiters.take());
    let generator = WorkGenerator {
        observer: Observer::new(caches, scope),
        view: view.clone(),
        contents: scope.contents.clone(),
        rejections: Rejections::default(),
        discovery_waiters,
    };
    runtime.controller(generator, triggers, options.work_generator_workers())
}

struct WorkGenerator<S: Scope> {
    observer: Observer<S>,
    view: ClusterView,
    contents: SnapshotContentCache<S>,
    rejections: Rejections,
    discovery_waiters: DiscoveryWaiters,
}

/// Bindings whose Works cannot be written until the hub has discovered the scope of a kind.
#[derive(Debug, Clone, Default)]
struct DiscoveryWaiters(Arc<Mutex<BTreeSet<ObjectKey>>>);

impl DiscoveryWaiters {
    fn add(&self, key: &ObjectKey) {
        self.0.lock().insert(key.clone());
    }

    fn take(&self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The content that a binding's Works are made from.
#[derive(Debug)]
struct Fetched<S: Scope> {
    group: GroupId,
    content: SnapshotContent<S>,
}

impl<S: Scope> Controller for WorkGenerator<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_WORK_GENERATOR,
        ScopeKind::Namespaced => names::NAMESPACED_WORK_GENERATOR,
    };
    type Key = ObjectKey;
    /// `None` if the binding is gone.
    type Facts = Option<Fetched<S>>;

    async fn fetch(&self, key: &ObjectKey, context: &ReconcileContext<'_>) -> Result<Self::Facts, Error> {
        let Some(group) = self.observer.observe(key).map(|observation| observation.group()) else { return Ok(None) };
        let content = self.contents.read(group.clone(), context.reader()).await?;
        Ok(Some(Fetched { group, content }))
    }

    fn plan(&self, key: &ObjectKey, fetched: Option<Self::Facts>, input: PlanInput) -> Actions {
        let Some(observation) = self.observer.observe(key) else {
            self.rejections.forget(key);
            return Actions::none();
        };
        let rejection = self.rejections.of(key, observation.binding.generation(), input.now);
        let undiscovered = self.view.undiscovered();
        let scopes = self.view.scopes();
        let fetched = fetched.flatten().filter(|fetched| fetched.group == observation.group());
        let observed = Observed {
            rejection: rejection.as_ref().map(|rejection| rejection.answer.as_str()),
            ..observation.observed(fetched.as_ref().map(|fetched| fetched.content.snapshots()), &scopes)
        };
        let plan = plan(&observed, input.now);
        match plan.report.outcome {
            SyncOutcome::AwaitingContent => return Actions::needs_facts(),
            SyncOutcome::AwaitingDiscovery => {
                tracing::warn!(binding = %key, "work generation waits for the discovery of an API: overrides depend on the scope of its kinds");
                self.discovery_waiters.add(key);
                if self.view.undiscovered() != undiscovered {
                    // Discovery changed before the binding was added to the waiters.
                    return execute(&observation, plan).with_wake(Wake::At(input.now));
                }
            }
            _ => {}
        }
        if rejection.is_none() && plan.writes.is_empty() {
            // The API server has accepted all Works.
            self.rejections.forget(key);
        }
        let mut actions = execute(&observation, plan);
        if let Some(rejection) = rejection {
            actions.wake = actions.wake.earlier(Wake::At(rejection.until));
        }
        actions
    }

    fn on_results(&self, key: &ObjectKey, outcomes: Vec<WriteResult>, input: PlanInput) -> Option<Actions> {
        let rejected = outcomes.into_iter().find_map(Result::err)?;
        let generation = self.observer.generation(key)?;
        self.rejections.record(key, generation, &rejected, input.now);
        // The next reconcile writes the rejection into the status.
        Some(Actions::none().with_wake(Wake::At(input.now)))
    }
}
