//! Runs the scheduler for placements of one scope.
//!
//! Decides what is observed and how each write of a plan becomes a request; `changes` has what wakes it. A member that
//! cannot be read counts as a member that nobody hears of: it keeps what it has. The bindings of a placement that is let go
//! are read from the server; while one of them cannot be read the placement stays. Never picks a cluster: that is
//! `fleet_core::scheduler`.

mod changes;

pub(crate) use changes::{OPEN, is_open};

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use fleet_api::bits;
use fleet_api::kinds::{Binding, MemberCluster, Obj, Placement, PolicySnapshot, Scope, ScopeKind};
use fleet_api::names::{ClusterName, NamespaceName, PlacementKey};
use fleet_api::types::{BindingState, PropertyValue};
use fleet_api::well_known::{annotations, finalizers, labels};
use fleet_core::scheduler::{
    BindingFacts, ClusterFacts, EligibilityLimits, LatestPolicy, Namespaces, Observed, Outcome, PlacementFacts,
    Write as Planned, plan,
};
use fleet_runtime::{
    Actions, Cache, Controller, Error, Look, Marks, Moment, ObjectKey, Reader, Runtime, Triggers, Write,
};

use crate::caches::{Caches, PlacementCaches, by};
use crate::keys::object_key;
use crate::meta;
use crate::names;
use crate::options::HubOptions;
use changes::{FleetChanges, on_binding, on_placement, on_policy_snapshot};

/// Starts the scheduler for one scope.
pub(crate) fn start<S: Scope>(
    runtime: &mut Runtime,
    options: &HubOptions,
    caches: &Caches,
    scope: &PlacementCaches<S>,
) -> Marks<PlacementKey> {
    let scheduler = Scheduler { caches: scope.clone(), members: caches.members.clone(), limits: options.eligibility };
    let fleet = FleetChanges {
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
    /// The bindings of a placement that is let go, as the server has them.
    type Facts = Option<Vec<Arc<Obj<Binding, S>>>>;

    fn fetch(&self, key: &PlacementKey, reader: &Reader) -> impl Future<Output = Result<Self::Facts, Error>> + Send {
        let placement = self.caches.placements.get(&object_key(key));
        let is_let_go = placement.is_some_and(|placement| PlacementFacts::of(key, &*placement).is_let_go());
        async move {
            if !is_let_go {
                return Ok(None);
            }
            let namespace = key.namespace.as_ref().map(NamespaceName::as_str);
            let of_placement = format!("{}={}", labels::PARENT_PLACEMENT, key.name);
            let found = reader.list_as::<Obj<Binding, S>>(namespace, Some(&of_placement)).await?;
            Ok(Some(found.into_iter().map(Arc::new).collect()))
        }
    }

    fn plan(&self, key: &PlacementKey, on_server: Self::Facts, moment: Moment) -> Actions {
        let Some(placement) = self.caches.placements.get(&object_key(key)) else {
            return Actions { look: Look::Passed, ..Actions::none() };
        };
        let facts = PlacementFacts::of(key, &*placement);
        if facts.is_let_go() && on_server.is_none() {
            // It was deleted while we looked, and that change has asked for another look.
            return Actions { look: Look::Passed, ..Actions::none() };
        }
        let snapshots = self.caches.policy_snapshots.by(by::PLACEMENT, &key.to_string());
        let marked: Vec<&Obj<PolicySnapshot, S>> = snapshots
            .iter()
            .map(Arc::as_ref)
            .filter(|snapshot| meta::is_latest(*snapshot) && !meta::is_deleting(*snapshot))
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
        let plan = plan(&observed, moment.now);
        let by_name = bindings.iter().map(|binding| (meta::name(&**binding), &**binding)).collect();
        let performer = Performer { key, placement: &placement, bindings: by_name };
        let mut actions = Actions::none();
        for write in &plan.writes {
            actions.writes.extend(performer.write(write));
        }
        if let (Some(status), [snapshot]) = (plan.status, &marked[..]) {
            let mut reported = (*snapshot).clone();
            reported.status = Some(status);
            actions.write(Write::status(*snapshot, &reported));
        }
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions.look = look(&plan.report.outcome);
        actions
    }
}

/// Whether there was a policy to schedule by. That several claim to be the latest is told where they are made.
fn look(outcome: &Outcome) -> Look {
    match outcome {
        Outcome::Releasing
        | Outcome::AwaitingAbandonment
        | Outcome::AwaitingPolicy
        | Outcome::AmbiguousPolicy { .. } => Look::Passed,
        Outcome::NothingNamed | Outcome::Decided { .. } => Look::Decided,
        Outcome::Stopped(fault) => Look::stopped(fault),
    }
}

impl<S: Scope> Scheduler<S> {
    /// All members. What cannot be read is there all the same, or its bindings would be given up.
    fn clusters<'a>(&self, members: &'a [Arc<MemberCluster>]) -> Vec<ClusterFacts<'a>> {
        let facts = |member: &'a Arc<MemberCluster>| {
            Some(ClusterFacts::of(ClusterName::parse(meta::name(&**member)).ok()?, member))
        };
        let mut clusters: Vec<_> = members.iter().filter_map(facts).collect();
        let known: BTreeSet<&str> = members.iter().map(|member| meta::name(&**member)).collect();
        let unknown = self.members.broken().into_iter().filter(|(key, _)| !known.contains(key.name()));
        clusters.extend(unknown.filter_map(|(key, _)| unreadable(&key)));
        clusters
    }
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
static NO_PROPERTIES: BTreeMap<String, PropertyValue> = BTreeMap::new();

/// A member of which nothing but the name is known.
fn unreadable(key: &ObjectKey) -> Option<ClusterFacts<'static>> {
    Some(ClusterFacts {
        name: ClusterName::parse(key.name()).ok()?,
        leaving: false,
        labels: &NO_LABELS,
        taints: &[],
        properties: &NO_PROPERTIES,
        usage: None,
        agent: None,
        namespaces: Namespaces::NotCollected,
    })
}

/// The same for every plan of one placement, and another one for a placement that is created again.
fn suffix_seed<S: Scope>(placement: &Obj<Placement, S>) -> u64 {
    bits::hashed(0, placement.metadata.uid.as_deref().unwrap_or_default())
}

/// Turns the writes of a plan into requests.
struct Performer<'a, S: Scope> {
    key: &'a PlacementKey,
    placement: &'a Obj<Placement, S>,
    bindings: BTreeMap<&'a str, &'a Obj<Binding, S>>,
}

impl<S: Scope> Performer<'_, S> {
    /// `None` for a binding that was not observed, of which no plan speaks.
    fn write(&self, planned: &Planned) -> Option<Write> {
        match planned {
            Planned::HoldPlacement => {
                Some(Write::change(self.placement, &meta::with_finalizer(self.placement, finalizers::SCHEDULER)))
            }
            Planned::ReleasePlacement => {
                Some(Write::change(self.placement, &meta::without_finalizer(self.placement, finalizers::SCHEDULER)))
            }
            Planned::CreateBinding(new) => Some(Write::create(&new.object::<S>(self.key))),
            Planned::DeleteBinding { binding } => self.binding(binding).map(Write::delete),
            Planned::ReleaseBinding { binding } => {
                let held = self.binding(binding)?;
                Some(Write::change(held, &meta::without_finalizer(held, finalizers::SCHEDULER_BINDING)))
            }
            Planned::AssociateBinding(association) => self.changed(&association.binding, |binding| {
                binding.spec.state.clone_from(&association.state);
                binding.spec.scheduling_policy_snapshot_name.clone_from(&association.policy_snapshot);
                binding.spec.cluster_decision.clone_from(&association.decision);
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
