//! Runs the scheduler for placements of one scope.
//!
//! Decides which changes can lead to another choice of clusters, and how each write of a plan becomes a request. A member
//! that cannot be read counts as a member that nobody hears of: it keeps what it has. Never picks a cluster: that is
//! `fleet_core::scheduler`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use fleet_api::conditions::ConditionStatus;
use fleet_api::conditions::decode_ignoring_generation;
use fleet_api::conditions::policy_snapshot::PolicySnapshotScheduled;
use fleet_api::kinds::{Binding, MemberCluster, Obj, Placement, PolicySnapshot, Scope, ScopeKind};
use fleet_api::names::{ClusterName, PlacementKey};
use fleet_api::types::{BindingState, ObservedCluster, PlacementPolicy, PlacementType, PropertyValue};
use fleet_api::well_known::{annotations, finalizers};
use fleet_core::scheduler::{
    BindingFacts, ClusterFacts, EligibilityLimits, LatestPolicy, Namespaces, Observed, PlacementFacts,
    Write as Planned, eligibility, plan,
};
use fleet_runtime::{Actions, Cache, Clock, Controller, Event, Marks, Moment, ObjectKey, Runtime, Triggers, Write};

use crate::caches::{Caches, PlacementCaches, by};
use crate::keys::{key_of, object_key, parent_of};
use crate::meta;
use crate::names;
use crate::options::HubOptions;

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
    type Facts = ();

    fn plan(&self, key: &PlacementKey, (): (), moment: Moment) -> Actions {
        let Some(placement) = self.caches.placements.get(&object_key(key)) else { return Actions::none() };
        let snapshots = self.caches.policy_snapshots.by(by::PLACEMENT, &key.to_string());
        let marked: Vec<&Obj<PolicySnapshot, S>> = snapshots
            .iter()
            .map(Arc::as_ref)
            .filter(|snapshot| meta::is_latest(*snapshot) && !meta::is_deleting(*snapshot))
            .collect();
        let bindings = self.caches.bindings.by(by::PLACEMENT, &key.to_string());
        let members = self.members.list();
        let observed = Observed {
            placement: PlacementFacts::of(key, &*placement),
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
        actions
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
    let mut hasher = DefaultHasher::new();
    placement.metadata.uid.hash(&mut hasher);
    hasher.finish()
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
                let note = (annotations::PREVIOUS_BINDING_STATE.to_owned(), previous.to_string());
                binding.metadata.annotations = Some(BTreeMap::from([note]));
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

/// A placement is scheduled for the first time when its policy snapshot comes; of its own changes only its end counts.
fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<PlacementKey> {
    let placement = event.new?;
    let is_news = event.old.is_none_or(|old| !meta::is_deleting(old) && meta::is_deleting(placement));
    key_of(placement).filter(|_| is_news)
}

/// What the scheduler reads of a policy snapshot, and the moment when it stops being fulfilled: members that changed
/// while that was being found out were not told of it.
fn on_policy_snapshot<S: Scope>(event: Event<'_, Obj<PolicySnapshot, S>>) -> Vec<PlacementKey> {
    let read = |snapshot: &Obj<PolicySnapshot, S>| {
        let number = meta::annotation(snapshot, annotations::NUMBER_OF_CLUSTERS).map(str::to_owned);
        let generation = meta::annotation(snapshot, annotations::PLACEMENT_GENERATION).map(str::to_owned);
        let parent = parent_of(snapshot);
        (number, generation, meta::is_latest(snapshot), meta::is_deleting(snapshot), parent)
    };
    let lapsed = matches!((event.old, event.new), (Some(old), Some(new)) if is_fulfilled(old) && !is_fulfilled(new));
    if !lapsed && !event.changed(read) {
        return Vec::new();
    }
    event.sides().filter_map(parent_of).collect()
}

/// A binding that goes frees its place, whoever deletes it.
fn on_binding<S: Scope>(event: Event<'_, Obj<Binding, S>>) -> Option<PlacementKey> {
    let was_there = event.old.is_some_and(|old| !meta::is_deleting(old));
    let is_going = event.new.is_none_or(|new| meta::is_deleting(new));
    // One that was going when this process started must be let go of too.
    let found_going = event.old.is_none() && event.new.is_some_and(|new| meta::is_deleting(new));
    let binding = event.new.or(event.old)?;
    parent_of(binding).filter(|_| (was_there && is_going) || found_going)
}

/// The value under which `by::OPEN` has all snapshots that members may be added to.
pub(crate) const OPEN: &str = "open";

/// Whether a change in the fleet may change what this policy leads to: it takes every cluster that fits, or it has not got
/// what it wants.
pub(crate) fn is_open<S: Scope>(snapshot: &Obj<PolicySnapshot, S>) -> bool {
    let takes_all = snapshot
        .spec
        .policy
        .as_ref()
        .is_none_or(|policy: &PlacementPolicy| policy.placement_type() == PlacementType::PickAll);
    meta::is_latest(snapshot) && (takes_all || !is_fulfilled(snapshot))
}

fn is_fulfilled<S: Scope>(snapshot: &Obj<PolicySnapshot, S>) -> bool {
    let conditions = snapshot.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    decode_ignoring_generation::<PolicySnapshotScheduled>(conditions)
        .any()
        .is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Which placements a change of a member concerns.
struct FleetChanges<S: Scope> {
    members: Cache<MemberCluster>,
    policy_snapshots: Cache<Obj<PolicySnapshot, S>>,
    bindings: Cache<Obj<Binding, S>>,
    limits: EligibilityLimits,
    clock: Clock,
}

impl<S: Scope> FleetChanges<S> {
    fn concerned(&self, event: Event<'_, MemberCluster>) -> BTreeSet<PlacementKey> {
        // While members are listed for the first time, no placement has been looked at: each will be, with all of them.
        if !self.members.is_synced() || !self.matters(event) {
            return BTreeSet::new();
        }
        let open = self.policy_snapshots.by(by::OPEN, OPEN);
        let mut concerned: BTreeSet<PlacementKey> = open.iter().filter_map(|snapshot| parent_of(&**snapshot)).collect();
        if event.new.is_none() {
            let stranded = self.bindings.by(by::CLUSTER, event.key().name());
            concerned.extend(stranded.iter().filter_map(|binding| parent_of(&**binding)));
        }
        concerned
    }

    /// Whether a cluster may be picked that was not, or is gone. Growing old, sick or tainted takes nothing from anybody.
    fn matters(&self, event: Event<'_, MemberCluster>) -> bool {
        let Some(new) = event.new else { return true };
        if meta::is_deleting(new) {
            return false;
        }
        let Some(old) = event.old else { return self.is_eligible(new) };
        labels_differ(old, new)
            || lost_a_taint(old, new)
            || reports_differ(old, new)
            || (!self.is_eligible(old) && self.is_eligible(new))
    }

    fn is_eligible(&self, member: &MemberCluster) -> bool {
        let Ok(name) = ClusterName::parse(meta::name(member)) else { return false };
        eligibility(&ClusterFacts::of(name, member), self.clock.now(), self.limits).is_ok()
    }
}

fn labels_differ(old: &MemberCluster, new: &MemberCluster) -> bool {
    old.metadata.labels.as_ref().unwrap_or(&NO_LABELS) != new.metadata.labels.as_ref().unwrap_or(&NO_LABELS)
}

fn lost_a_taint(old: &MemberCluster, new: &MemberCluster) -> bool {
    old.spec.taints.iter().any(|taint| !new.spec.taints.contains(taint))
}

/// What agents report and policies read, but for the times of the reports.
fn reports_differ(old: &MemberCluster, new: &MemberCluster) -> bool {
    let [old, new] = [old, new].map(|member| member.status.as_ref().map(|status| &status.observed));
    let properties = |observed: Option<&ObservedCluster>| -> Vec<(String, String)> {
        let all = observed.into_iter().flat_map(|observed| &observed.properties);
        all.map(|(name, property)| (name.clone(), property.value.clone())).collect()
    };
    let usage = |observed: Option<&ObservedCluster>| {
        let usage = observed.and_then(|observed| observed.resource_usage.as_ref());
        usage.map(|usage| (usage.capacity.clone(), usage.allocatable.clone(), usage.available.clone()))
    };
    let namespaces =
        |observed: Option<&ObservedCluster>| observed.map(|observed| observed.namespaces.clone()).unwrap_or_default();
    properties(old) != properties(new) || namespaces(old) != namespaces(new) || usage(old) != usage(new)
}
