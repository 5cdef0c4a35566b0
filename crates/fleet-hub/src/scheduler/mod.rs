//! The scheduler for placements of one scope; `fleet_core::scheduler` plans.
//!
//! An unreadable member counts as one without heartbeats and keeps its bindings. The bindings of a deleted placement
//! are read from the server; while one of them cannot be read, the placement keeps its finalizer.
//!
//! | file | what |
//! |---|---|
//! | `triggers` | maps events to placements |
//! | `observe` | the members that a plan may pick |
//! | `execute` | turns a plan into API writes |

mod execute;
mod observe;
mod triggers;

pub(crate) use triggers::is_open;

use std::sync::Arc;

use fleet_api::kinds::{Binding, MemberCluster, Obj, PolicySnapshot, Scope, ScopeKind};
use fleet_api::names::{NamespaceName, PlacementKey};
use fleet_api::well_known::labels;
use fleet_core::scheduler::{
    BindingFacts, EligibilityLimits, LatestPolicy, Observed, PlacementFacts, Write as Planned, plan,
};
use fleet_runtime::{
    Actions, Cache, Controller, Enqueuer, Error, PlanInput, PlanResult, ReconcileContext, Runtime, Triggers,
};

use crate::caches::{Caches, PlacementCaches};
use crate::keys::object_key;
use crate::meta;
use crate::names;
use crate::options::HubOptions;
use execute::{Executor, look, report};
use observe::suffix_seed;
use triggers::{FleetTriggers, on_binding, on_placement, on_policy_snapshot};

/// Starts the scheduler for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
) -> Enqueuer<PlacementKey> {
    let scheduler = Scheduler { caches: scope.clone(), members: caches.members.clone(), limits: options.eligibility };
    let fleet = FleetTriggers {
        members: caches.members.clone(),
        caches: scope.clone(),
        limits: options.eligibility,
        clock: runtime.clock(),
    };
    let triggers = Triggers::new()
        .on(&scope.placements, on_placement)
        .on(&scope.policy_snapshots, on_policy_snapshot)
        .on(&scope.bindings, on_binding)
        .on(&caches.members, move |event| fleet.concerned(event));
    runtime.controller(scheduler, triggers, options.scheduler_workers())
}

struct Scheduler<S: Scope> {
    caches: PlacementCaches<S>,
    members: Cache<MemberCluster>,
    limits: EligibilityLimits,
}

impl<S: Scope> Controller for Scheduler<S> {
    const NAME: &'static str = match S::KIND {
        ScopeKind::Cluster => names::CLUSTER_SCHEDULER,
        ScopeKind::Namespaced => names::NAMESPACED_SCHEDULER,
    };
    type Key = PlacementKey;
    /// The bindings of a deleted placement, read from the server.
    type Facts = Vec<Arc<Obj<Binding, S>>>;

    async fn fetch(&self, key: &PlacementKey, context: &ReconcileContext<'_>) -> Result<Self::Facts, Error> {
        let namespace = key.namespace.as_ref().map(NamespaceName::as_str);
        let of_placement = format!("{}={}", labels::PARENT_PLACEMENT, key.name);
        let found = context.reader().list_as::<Obj<Binding, S>>(namespace, Some(&of_placement)).await?;
        Ok(found.into_iter().map(Arc::new).collect())
    }

    fn plan(&self, key: &PlacementKey, on_server: Option<Self::Facts>, input: PlanInput) -> Actions {
        let Some(placement) = self.caches.placements.get(&object_key(key)) else {
            return Actions { result: PlanResult::Skipped, ..Actions::none() };
        };
        let facts = PlacementFacts::of(key, &*placement);
        if facts.is_released() && on_server.is_none() {
            return Actions::needs_facts();
        }
        let snapshots = self.caches.policy_snapshots_by_placement.get(key);
        let marked: Vec<&Obj<PolicySnapshot, S>> = snapshots
            .iter()
            .map(Arc::as_ref)
            .filter(|snapshot| meta::is_latest(*snapshot) && !snapshot.is_deleting())
            .collect();
        let bindings = on_server.unwrap_or_else(|| self.caches.bindings_by_placement.get(key));
        let members = self.members.list();
        let observed = Observed {
            placement: facts,
            policy: LatestPolicy::of(&marked),
            clusters: self.clusters(&members),
            bindings: bindings.iter().map(|binding| BindingFacts::of(&**binding)).collect(),
            limits: self.limits,
            suffix_seed: suffix_seed(&placement),
        };
        let plan = plan(&observed, input.now);
        let by_name = bindings.iter().map(|binding| (binding.name(), &**binding)).collect();
        let executor = Executor { key, placement: &placement, bindings: by_name };
        let mut actions = Actions::none();
        let mut snapshot = marked.first().map(|snapshot| (*snapshot).clone());
        for write in &plan.writes {
            match write {
                Planned::Explain(status) => report(&mut snapshot, status, &mut actions),
                write => actions.writes.extend(executor.write(write)),
            }
        }
        if let Some(status) = &plan.status {
            report(&mut snapshot, status, &mut actions);
        }
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions.result = look(&plan.report.outcome);
        actions
    }
}
