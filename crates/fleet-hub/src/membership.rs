//! The controller of MemberClusters; `fleet_core::membership::hub` plans.
//!
//! While an object of a member cannot be read, nothing is done for that member: an unreadable object must not be
//! taken for a missing one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{InternalMemberCluster, MemberCluster, Work};
use fleet_api::names::{ClusterName, MemberNamespace, MemberRoleBindingName, MemberRoleName};
use fleet_api::types::MemberClusterStatus;
use fleet_api::well_known::{field_managers, finalizers, labels, metrics};
use fleet_core::apply::finalize::with_accepted_status;
use fleet_core::membership::Counter;
use fleet_core::membership::hub::{
    InternalMemberClusterFacts, Leaving, MemberFacts, MemberOutcome, NamespaceFacts, NewNamespace, Observed, Plan,
    Settings, WorkFacts, Write as Planned, owner_of, plan, plan_without_member,
};
use fleet_runtime::{
    Actions, Cache, Cached, Controller, CounterName, Counters, Event, KubeEvent, ObjectKey, PlanInput, Runtime,
    Triggers, Writable, Write,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;

use crate::caches::{Caches, MemberResources};
use crate::meta::{with_finalizer, without_finalizer};
use crate::names;
use crate::options::HubOptions;

/// Starts the controller and returns the counters of joins and leaves.
pub(crate) fn start(runtime: &mut Runtime, options: &HubOptions, caches: &Caches) -> Counters {
    let counters = Counters::new([Counter::Joined, Counter::Left].map(counter_name));
    let membership = Membership {
        members: caches.members.clone(),
        member_resources: caches.member_resources.clone(),
        works: caches.works.clone(),
        settings: Settings {
            networking_agents: options.networking_agents,
            force_delete_after: signed(options.force_delete_wait),
        },
        counters: counters.clone(),
        uncounted: Mutex::default(),
    };
    let own = &caches.member_resources;
    let (members, namespaces) = (caches.members.clone(), own.namespaces.clone());
    let triggers = Triggers::new()
        .on(&caches.members, on_member)
        .on(&own.namespaces, |event| MemberNamespace::cluster_of(event.key().name()))
        .on(&own.roles, |event| member_with(&event.key(), |cluster| MemberRoleName(cluster).to_string()))
        .on(&own.role_bindings, |event| member_with(&event.key(), |cluster| MemberRoleBindingName(cluster).to_string()))
        .on(&own.internal_member_clusters, |event| member_with(&event.key(), |cluster| cluster.to_string()))
        .on(&caches.works, move |event| on_work(&members, &namespaces, event));
    runtime.controller(membership, triggers, options.member_workers());
    counters
}

fn counter_name(counter: Counter) -> CounterName {
    let help = match counter {
        Counter::Joined => "Members that have joined",
        Counter::Left => "Members that have left",
    };
    CounterName { name: counter.name(), help, label: (metrics::RESULT_LABEL, metrics::RESULT_SUCCESS) }
}

pub(crate) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// A change of the status is ignored, because only this controller writes it.
fn on_member(event: Event<'_, MemberCluster>) -> Option<ClusterName> {
    let is_news = event.changed(|member| {
        let ObjectMeta { generation, labels, finalizers, deletion_timestamp, .. } = &member.metadata;
        (generation, labels, finalizers, deletion_timestamp)
    });
    is_news.then(|| ClusterName::parse(event.key().name()).ok()).flatten()
}

/// The member in whose namespace an object is, if the object has the expected name.
fn member_with(key: &ObjectKey, name: impl Fn(ClusterName) -> String) -> Option<ClusterName> {
    let member = MemberNamespace::cluster_of(key.namespace()?)?;
    (name(member.clone()) == key.name()).then_some(member)
}

/// Works matter only while the member leaves or its namespace terminates, because their finalizers block the
/// termination.
fn on_work(
    members: &Cache<MemberCluster>,
    namespaces: &Cache<Namespace>,
    event: Event<'_, Work>,
) -> Option<ClusterName> {
    let held = |work: &Work| WorkFacts::of(work).has_finalizer;
    let namespace = ObjectKey::cluster(event.key().namespace()?);
    let member = MemberNamespace::cluster_of(namespace.name()).filter(|_| event.changed(held))?;
    let leaves = members.get(&ObjectKey::cluster(member.as_str())).is_none_or(|member| member.is_deleting());
    let terminates =
        || namespaces.get(&namespace).is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some());
    (leaves || terminates()).then_some(member)
}

struct Membership {
    members: Cache<MemberCluster>,
    member_resources: MemberResources,
    works: Cache<Work>,
    settings: Settings,
    counters: Counters,
    /// Counters to increment when the writes of the current plan have succeeded.
    uncounted: Mutex<BTreeMap<ClusterName, Counter>>,
}

impl Controller for Membership {
    const NAME: &'static str = names::MEMBERSHIP;
    type Key = ClusterName;
    type Facts = ();

    fn plan(&self, key: &ClusterName, _: Option<()>, input: PlanInput) -> Actions {
        self.uncounted.lock().remove(key);
        let observation = match self.observe(key) {
            Ok(Some(observation)) => observation,
            Ok(None) => return self.release_abandoned_namespace(key),
            Err(unreadable) => return Actions { note: Some(unreadable.to_string()), ..Actions::none() },
        };
        let plan = plan(&observation.facts(key, self.settings), input.now);
        if let MemberOutcome::Leaving(Leaving::AwaitingNamespace { since, stuck: true }) = plan.report.outcome {
            tracing::error!(member = %key, %since, "namespace of a leaving member does not terminate");
        }
        self.execute(key, &observation, plan)
    }

    fn on_committed(&self, key: &ClusterName) {
        if let Some(counter) = self.uncounted.lock().remove(key) {
            self.counters.count(counter.name());
        }
    }
}

/// An object of a member that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("waiting until {kind} {key} can be read")]
struct Unreadable {
    kind: String,
    key: ObjectKey,
}

/// Returns the object if it exists, and an error if it cannot be read.
fn find<K: Cached>(cache: &Cache<K>, key: &ObjectKey) -> Result<Option<Arc<K>>, Unreadable> {
    if cache.is_unreadable(key) {
        return Err(Unreadable { kind: cache.kind().to_string(), key: key.clone() });
    }
    Ok(cache.get(key))
}

impl Membership {
    /// Returns `None` if there is no such member.
    fn observe(&self, name: &ClusterName) -> Result<Option<Observation>, Unreadable> {
        let Some(member) = find(&self.members, &ObjectKey::cluster(name.as_str()))? else { return Ok(None) };
        let mut observation = Observation::new(member);
        // A name that cannot have a namespace has no objects in it.
        let Ok(namespace) = MemberNamespace::of(name) else { return Ok(Some(observation)) };
        let inside = |name: String| ObjectKey::namespaced(namespace.as_str(), name);
        let own = &self.member_resources;
        observation.namespace = find(&own.namespaces, &ObjectKey::cluster(namespace.as_str()))?;
        observation.role = find(&own.roles, &inside(MemberRoleName(name.clone()).to_string()))?;
        observation.role_binding = find(&own.role_bindings, &inside(MemberRoleBindingName(name.clone()).to_string()))?;
        observation.internal_member_cluster = find(&own.internal_member_clusters, &inside(name.to_string()))?;
        // A member may have thousands of Works, and they matter only while the member or its namespace is deleted.
        if observation.member.is_deleting()
            || observation.namespace.as_ref().is_some_and(|one| one.metadata.deletion_timestamp.is_some())
        {
            observation.works = self.works.in_namespace(namespace.as_str());
        }
        Ok(Some(observation))
    }

    /// Lets the namespace of a deleted MemberCluster terminate.
    fn release_abandoned_namespace(&self, name: &ClusterName) -> Actions {
        let Ok(namespace) = MemberNamespace::of(name) else { return Actions::none() };
        let found = match find(&self.member_resources.namespaces, &ObjectKey::cluster(namespace.as_str())) {
            Ok(found) => found.filter(|namespace| namespace.metadata.deletion_timestamp.is_some()),
            Err(unreadable) => return Actions { note: Some(unreadable.to_string()), ..Actions::none() },
        };
        if found.is_none() {
            return Actions::none();
        }
        let works = self.works.in_namespace(namespace.as_str());
        let facts: Vec<_> = works.iter().map(|work| WorkFacts::of(work)).collect();
        let plan = plan_without_member(&NamespaceFacts::of(found.as_deref(), None), &facts);
        let mut actions = Actions::none();
        for planned in &plan.writes {
            if let Planned::RemoveWorkFinalizer { work } = planned {
                remove_work_finalizers(&works, work, &mut actions);
            }
        }
        set_field_manager(&mut actions);
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions
    }

    fn execute(&self, key: &ClusterName, observation: &Observation, plan: Plan) -> Actions {
        let mut actions = Actions::none().with_wake(plan.wake);
        for planned in &plan.writes {
            observation.write(planned, &mut actions);
        }
        if let Some(status) = plan.status {
            actions.write(observation.status(status));
        }
        if let Some(counter) = plan.report.counted {
            self.uncounted.lock().insert(key.clone(), counter);
        }
        set_field_manager(&mut actions);
        actions.events = plan.report.events.iter().map(|event| KubeEvent::about(&*observation.member, event)).collect();
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions
    }
}

/// A member and its objects on the hub.
struct Observation {
    member: Arc<MemberCluster>,
    namespace: Option<Arc<Namespace>>,
    role: Option<Arc<Role>>,
    role_binding: Option<Arc<RoleBinding>>,
    internal_member_cluster: Option<Arc<InternalMemberCluster>>,
    works: Vec<Arc<Work>>,
}

impl Observation {
    fn new(member: Arc<MemberCluster>) -> Self {
        Self {
            member,
            namespace: None,
            role: None,
            role_binding: None,
            internal_member_cluster: None,
            works: Vec::new(),
        }
    }

    fn facts<'a>(&'a self, name: &'a ClusterName, settings: Settings) -> Observed<'a> {
        Observed {
            member: MemberFacts::of(name, &self.member),
            namespace: NamespaceFacts::of(self.namespace.as_deref(), Some(&self.member)),
            role: self.role.as_deref(),
            role_binding: self.role_binding.as_deref(),
            internal_member_cluster: self.internal_member_cluster.as_deref().map(InternalMemberClusterFacts::of),
            works: self.works.iter().map(|work| WorkFacts::of(work)).collect(),
            settings,
        }
    }

    fn status(&self, status: MemberClusterStatus) -> Write {
        Write::status(&*self.member, &MemberCluster::clone(&self.member).with_status(status))
    }

    /// Adds the requests for a planned write. A plan refers only to objects that were observed.
    fn write(&self, planned: &Planned, actions: &mut Actions) {
        let owner = || owner_of(&self.member);
        match planned {
            Planned::AddMemberFinalizer => {
                actions.write(Write::change(&*self.member, &with_finalizer_and_label(&self.member)));
            }
            Planned::RemoveMemberFinalizer => {
                let released = without_finalizer(&*self.member, finalizers::MEMBER_CLUSTER);
                actions.write(Write::change(&*self.member, &released));
            }
            Planned::CreateNamespace(namespace) => actions.write(Write::create(&namespace.object(owner()))),
            Planned::LabelNamespace(_) => change(self.namespace.as_deref(), actions, |namespace| {
                namespace.metadata.labels.get_or_insert_default().extend(NewNamespace::labels());
            }),
            Planned::DeleteNamespace { .. } => {
                self.namespace.iter().for_each(|namespace| actions.write(Write::delete(&**namespace)));
            }
            Planned::CreateRole(role) => actions.write(Write::create(&role.object(owner()))),
            Planned::UpdateRole(role) => change(self.role.as_deref(), actions, |found| {
                found.rules = Some(role.rules.clone());
            }),
            Planned::CreateRoleBinding(binding) => actions.write(Write::create(&binding.object(owner()))),
            Planned::UpdateRoleBinding(binding) => change(self.role_binding.as_deref(), actions, |found| {
                found.subjects = Some(vec![binding.subject.clone()]);
            }),
            Planned::ReplaceRoleBinding(binding) => {
                self.role_binding.iter().for_each(|found| actions.write(Write::delete(&**found)));
                actions.write(Write::create(&binding.object(owner())));
            }
            Planned::CreateInternalMemberCluster(internal_member_cluster) => {
                actions.write(Write::create(&internal_member_cluster.object(owner())));
            }
            Planned::UpdateInternalMemberCluster(internal_member_cluster) => {
                change(self.internal_member_cluster.as_deref(), actions, |found| internal_member_cluster.change(found));
            }
            Planned::RemoveWorkFinalizer { work } => remove_work_finalizers(&self.works, work, actions),
        }
    }
}

/// Sets the field manager of every write.
fn set_field_manager(actions: &mut Actions) {
    let ours = |write: Write| write.managed_by(field_managers::MEMBER_CLUSTER);
    actions.writes = std::mem::take(&mut actions.writes).into_iter().map(ours).collect();
}

/// Removes the finalizers of a Work. Before that, removes from its status what an API server would refuse.
fn remove_work_finalizers(works: &[Arc<Work>], released: &str, actions: &mut Actions) {
    let Some(work) = works.iter().find(|found| found.name() == released) else { return };
    let accepted = with_accepted_status(work);
    if let Some(accepted) = &accepted {
        actions.write(Write::status(&**work, accepted));
    }
    actions.write(changed(accepted.as_ref().unwrap_or(work), |work| work.metadata.finalizers = None));
}

/// Adds our finalizer and the label with the member's name.
fn with_finalizer_and_label(member: &MemberCluster) -> MemberCluster {
    let mut changed_member = with_finalizer(member, finalizers::MEMBER_CLUSTER);
    let name = member.name().to_owned();
    changed_member.metadata.labels.get_or_insert_default().insert(labels::MEMBER_NAME.to_owned(), name);
    changed_member
}

/// A write that changes an object.
pub(crate) fn changed<K: Writable + Clone>(object: &K, alter: impl FnOnce(&mut K)) -> Write {
    let mut new = object.clone();
    alter(&mut new);
    Write::change(object, &new)
}

fn change<K: Writable + Clone>(object: Option<&K>, actions: &mut Actions, alter: impl FnOnce(&mut K)) {
    if let Some(object) = object {
        actions.write(changed(object, alter));
    }
}
