//! The scheduler for placements of one scope; `fleet_core::scheduler` plans.
//!
//! An unreadable member counts as one without heartbeats and keeps its bindings. The bindings of a deleted placement
//! are read from the server; while one of them cannot be read, the placement keeps its finalizer.

mod triggers;

pub(crate) use triggers::{OPEN, is_open};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_api::bits;
use fleet_api::kinds::{Binding, MemberCluster, Obj, Placement, PolicySnapshot, Scope, ScopeKind};
use fleet_api::names::{ClusterName, NamespaceName, PlacementKey};
use fleet_api::types::{BindingState, PropertyValue, SchedulingPolicySnapshotStatus};
use fleet_api::well_known::{annotations, finalizers, labels};
use fleet_core::scheduler::{
    BindingFacts, ClusterFacts, EligibilityLimits, LatestPolicy, Namespaces, Observed, PlacementFacts,
    SchedulingOutcome, Write as Planned, plan,
};
use fleet_runtime::{
    Actions, Cache, Controller, Enqueuer, Error, ObjectKey, PlanInput, PlanResult, ReconcileContext, Runtime, Triggers,
    Write,
};

use crate::caches::{Caches, PlacementCaches, by};
use crate::keys::object_key;
use crate::meta;
use crate::names;
use crate::options::HubOptions;
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
        policy_snapshots: scope.policy_snapshots.clone(),
        bindings: scope.bindings.clone(),
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
        let snapshots = self.caches.policy_snapshots.by(by::PLACEMENT, &key.to_string());
        let marked: Vec<&Obj<PolicySnapshot, S>> = snapshots
            .iter()
            .map(Arc::as_ref)
            .filter(|snapshot| meta::is_latest(*snapshot) && !snapshot.is_deleting())
            .collect();
        let bindings = on_server.unwrap_or_else(|| self.caches.bindings.by(by::PLACEMENT, &key.to_string()));
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

/// The write of a policy snapshot's status.
fn report<S: Scope>(
    snapshot: &mut Option<Obj<PolicySnapshot, S>>,
    status: &SchedulingPolicySnapshotStatus,
    actions: &mut Actions,
) {
    let Some(current) = snapshot else { return };
    let mut reported = current.clone();
    reported.status = Some(status.clone());
    actions.write(Write::status(current, &reported));
    *current = reported;
}

/// Whether there was a policy to schedule by. Several latest snapshots are reported by the placement controller.
fn look(outcome: &SchedulingOutcome) -> PlanResult {
    match outcome {
        SchedulingOutcome::Deleting
        | SchedulingOutcome::AwaitingAbandonment
        | SchedulingOutcome::AwaitingPolicy
        | SchedulingOutcome::AmbiguousPolicy { .. } => PlanResult::Skipped,
        SchedulingOutcome::NothingNamed | SchedulingOutcome::Decided { .. } => PlanResult::Decided,
        SchedulingOutcome::Stopped(fault) => PlanResult::blocked(fault),
    }
}

impl<S: Scope> Scheduler<S> {
    /// All members, including unreadable ones, whose bindings would otherwise be removed.
    fn clusters<'a>(&self, members: &'a [Arc<MemberCluster>]) -> Vec<ClusterFacts<'a>> {
        let facts =
            |member: &'a Arc<MemberCluster>| Some(ClusterFacts::of(ClusterName::parse(member.name()).ok()?, member));
        let mut clusters: Vec<_> = members.iter().filter_map(facts).collect();
        let known: BTreeSet<&str> = members.iter().map(|member| member.name()).collect();
        let unknown = self.members.unreadable().into_iter().filter(|(key, _)| !known.contains(key.name()));
        clusters.extend(unknown.filter_map(|(key, _)| unreadable(&key)));
        clusters
    }
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
static NO_PROPERTIES: BTreeMap<String, PropertyValue> = BTreeMap::new();

/// An unreadable member, of which only the name is known.
fn unreadable(key: &ObjectKey) -> Option<ClusterFacts<'static>> {
    Some(ClusterFacts {
        name: ClusterName::parse(key.name()).ok()?,
        uid: None,
        leaving: false,
        labels: &NO_LABELS,
        taints: &[],
        properties: &NO_PROPERTIES,
        usage: None,
        agent: None,
        namespaces: Namespaces::NotCollected,
    })
}

/// Equal for every plan of one placement, and different for a recreated placement.
fn suffix_seed<S: Scope>(placement: &Obj<Placement, S>) -> u64 {
    bits::hashed(0, placement.metadata.uid.as_deref().unwrap_or_default())
}

/// Turns the writes of a plan into requests.
struct Executor<'a, S: Scope> {
    key: &'a PlacementKey,
    placement: &'a Obj<Placement, S>,
    bindings: BTreeMap<&'a str, &'a Obj<Binding, S>>,
}

impl<S: Scope> Executor<'_, S> {
    /// Returns `None` if the binding is not in the observation; a plan never refers to such a binding.
    fn write(&self, planned: &Planned) -> Option<Write> {
        match planned {
            Planned::AddPlacementFinalizer => {
                Some(Write::change(self.placement, &meta::with_finalizer(self.placement, finalizers::SCHEDULER)))
            }
            Planned::RemovePlacementFinalizer => {
                Some(Write::change(self.placement, &meta::without_finalizer(self.placement, finalizers::SCHEDULER)))
            }
            // A write of the policy snapshot, not of a binding.
            Planned::Explain(_) => None,
            Planned::CreateBinding(new) => Some(Write::create(&new.object::<S>(self.key))),
            Planned::DeleteBinding { binding } => self.binding(binding).map(Write::delete),
            Planned::RemoveBindingFinalizer { binding } => {
                let held = self.binding(binding)?;
                Some(Write::change(held, &meta::without_finalizer(held, finalizers::SCHEDULER_BINDING)))
            }
            Planned::AssociateBinding(association) => self.changed(&association.binding, |binding| {
                binding.spec.state.clone_from(&association.state);
                binding.spec.scheduling_policy_snapshot_name.clone_from(&association.policy_snapshot);
                binding.spec.cluster_decision.clone_from(&association.decision);
                if let Some(uid) = &association.cluster_uid {
                    meta::annotate(binding, annotations::MEMBER_CLUSTER_UID, uid.clone());
                }
            }),
            Planned::Unschedule { binding, previous } => self.changed(binding, |binding| {
                binding.spec.state = BindingState::Unscheduled;
                meta::annotate(binding, annotations::PREVIOUS_BINDING_STATE, previous.to_string());
            }),
        }
    }

    fn binding(&self, name: &str) -> Option<&Obj<Binding, S>> {
        self.bindings.get(name).copied()
    }

    fn changed(&self, name: &str, change: impl FnOnce(&mut Obj<Binding, S>)) -> Option<Write> {
        let old = self.binding(name)?;
        let mut new = old.clone();
        change(&mut new);
        Some(Write::change(old, &new))
    }
}
