//! Runs membership on the hub: members join, report and leave.
//!
//! Decides which change concerns which member, and how each write of a plan becomes a request. While something of a
//! member cannot be read, nothing is done about that member: an object that cannot be read must not pass for one that is
//! not there. Never decides what a member needs: that is `fleet_core::membership::hub`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{InternalMemberCluster, MemberCluster, Work};
use fleet_api::names::{ClusterName, MemberNamespace, MemberRoleBindingName, MemberRoleName};
use fleet_api::types::MemberClusterStatus;
use fleet_api::well_known::{field_managers, finalizers, labels, metrics};
use fleet_core::membership::Counter;
use fleet_core::membership::hub::{
    Leaving, MailboxFacts, MemberFacts, NamespaceFacts, NewNamespace, Observed, Outcome as Stand, Plan, Settings,
    WorkFacts, Write as Planned, owner_of, plan,
};
use fleet_core::plan::Wake;
use fleet_runtime::{
    Actions, Cache, Cached, Controller, CounterName, Counters, Event, KubeEvent, Moment, Next, ObjectKey, Runtime,
    Triggers, Writable, Write,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;

use crate::caches::{Belongings, Caches};
use crate::meta::{is_deleting, name, with_finalizer, without_finalizer};
use crate::names;
use crate::options::HubOptions;

/// Starts membership; gives the counters of joins and leaves.
pub(crate) fn start(runtime: &mut Runtime, options: &HubOptions, caches: &Caches) -> Counters {
    let counters = Counters::new([Counter::Joined, Counter::Left].map(shown));
    let membership = Membership {
        members: caches.members.clone(),
        belongings: caches.belongings.clone(),
        works: caches.works.clone(),
        settings: Settings {
            networking_agents: options.networking_agents,
            force_delete_after: signed(options.force_delete_wait),
        },
        counters: counters.clone(),
        uncounted: Mutex::default(),
    };
    let own = &caches.belongings;
    let members = caches.members.clone();
    let triggers = Triggers::new()
        .on(&caches.members, on_member)
        .on(&own.namespaces, |event| MemberNamespace::cluster_of(event.key().name()))
        .on(&own.roles, |event| member_with(&event.key(), |cluster| MemberRoleName(cluster).to_string()))
        .on(&own.role_bindings, |event| member_with(&event.key(), |cluster| MemberRoleBindingName(cluster).to_string()))
        .on(&own.mailboxes, |event| member_with(&event.key(), |cluster| cluster.to_string()))
        .on(&caches.works, move |event| on_work(&members, event));
    runtime.controller(membership, triggers, options.member_workers());
    counters
}

fn shown(counter: Counter) -> CounterName {
    let help = match counter {
        Counter::Joined => "Members that have joined",
        Counter::Left => "Members that have left",
    };
    CounterName { name: counter.name(), help, label: (metrics::RESULT_LABEL, metrics::RESULT_SUCCESS) }
}

pub(crate) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// Its status is ours alone, so a change of it is no news.
fn on_member(event: Event<'_, MemberCluster>) -> Option<ClusterName> {
    let is_news = event.changed(|member| {
        let ObjectMeta { generation, labels, finalizers, deletion_timestamp, .. } = &member.metadata;
        (generation, labels, finalizers, deletion_timestamp)
    });
    is_news.then(|| ClusterName::parse(event.key().name()).ok()).flatten()
}

/// The member in whose namespace an object is, if it has the name that the member's one has.
fn member_with(key: &ObjectKey, name: impl Fn(ClusterName) -> String) -> Option<ClusterName> {
    let member = MemberNamespace::cluster_of(key.namespace()?)?;
    (name(member.clone()) == key.name()).then_some(member)
}

/// Works matter only to a member that leaves: they must not hold its namespace.
fn on_work(members: &Cache<MemberCluster>, event: Event<'_, Work>) -> Option<ClusterName> {
    let held = |work: &Work| WorkFacts::of(work).held;
    let member = MemberNamespace::cluster_of(event.key().namespace()?).filter(|_| event.changed(held))?;
    is_deleting(&*members.get(&ObjectKey::cluster(member.as_str()))?).then_some(member)
}

struct Membership {
    members: Cache<MemberCluster>,
    belongings: Belongings,
    works: Cache<Work>,
    settings: Settings,
    counters: Counters,
    /// What is counted once the writes of the plan in hand have been made.
    uncounted: Mutex<BTreeMap<ClusterName, Counter>>,
}

impl Controller for Membership {
    const NAME: &'static str = names::MEMBERSHIP;
    type Key = ClusterName;
    type Facts = ();

    fn plan(&self, key: &ClusterName, (): (), moment: Moment) -> Actions {
        self.uncounted.lock().remove(key);
        let seen = match self.observe(key) {
            Ok(Some(seen)) => seen,
            Ok(None) => return Actions::none(),
            Err(unreadable) => return Actions { note: Some(unreadable.to_string()), ..Actions::none() },
        };
        let plan = plan(&seen.facts(key, self.settings), moment.now);
        if let Stand::Leaving(Leaving::AwaitingNamespace { since, stuck: true }) = plan.report.outcome {
            tracing::error!(member = %key, %since, "the namespace of a leaving member does not go");
        }
        self.carry_out(key, &seen, plan)
    }

    fn performed(&self, key: &ClusterName) {
        if let Some(counter) = self.uncounted.lock().remove(key) {
            self.counters.count(counter.name());
        }
    }
}

/// Something of a member that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("waits until {kind} {key} can be read")]
struct Unreadable {
    kind: String,
    key: ObjectKey,
}

/// An object, if it is there and can be read.
fn find<K: Cached>(cache: &Cache<K>, key: &ObjectKey) -> Result<Option<Arc<K>>, Unreadable> {
    if cache.is_broken(key) {
        return Err(Unreadable { kind: cache.kind().to_string(), key: key.clone() });
    }
    Ok(cache.get(key))
}

impl Membership {
    /// `None` if there is no such member.
    fn observe(&self, name: &ClusterName) -> Result<Option<Seen>, Unreadable> {
        let Some(member) = find(&self.members, &ObjectKey::cluster(name.as_str()))? else { return Ok(None) };
        let mut seen = Seen::new(member);
        // Without a name for a namespace there is nothing in it either.
        let Ok(namespace) = MemberNamespace::of(name) else { return Ok(Some(seen)) };
        let inside = |name: String| ObjectKey::namespaced(namespace.as_str(), name);
        let own = &self.belongings;
        seen.namespace = find(&own.namespaces, &ObjectKey::cluster(namespace.as_str()))?;
        seen.role = find(&own.roles, &inside(MemberRoleName(name.clone()).to_string()))?;
        seen.role_binding = find(&own.role_bindings, &inside(MemberRoleBindingName(name.clone()).to_string()))?;
        seen.mailbox = find(&own.mailboxes, &inside(name.to_string()))?;
        // A member may have thousands, and as long as it stays they are of no interest here.
        if is_deleting(&*seen.member) {
            seen.works = self.works.in_namespace(namespace.as_str());
        }
        Ok(Some(seen))
    }

    fn carry_out(&self, key: &ClusterName, seen: &Seen, plan: Plan) -> Actions {
        let mut actions = Actions::none().then(match plan.wake {
            Wake::OnChange => Next::OnChange,
            Wake::At(instant) => Next::At(instant),
        });
        for planned in &plan.writes {
            seen.write(planned, &mut actions);
        }
        if let Some(status) = plan.status {
            actions.write(seen.status(status));
        }
        if let Some(counter) = plan.report.counted {
            self.uncounted.lock().insert(key.clone(), counter);
        }
        let by_us = |write: Write| write.managed_by(field_managers::MEMBER_CLUSTER);
        actions.writes = actions.writes.into_iter().map(by_us).collect();
        actions.events = plan.report.events.iter().map(|event| KubeEvent::about(&*seen.member, event)).collect();
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions
    }
}

/// A member and what it has on the hub.
struct Seen {
    member: Arc<MemberCluster>,
    namespace: Option<Arc<Namespace>>,
    role: Option<Arc<Role>>,
    role_binding: Option<Arc<RoleBinding>>,
    mailbox: Option<Arc<InternalMemberCluster>>,
    works: Vec<Arc<Work>>,
}

impl Seen {
    fn new(member: Arc<MemberCluster>) -> Self {
        Self { member, namespace: None, role: None, role_binding: None, mailbox: None, works: Vec::new() }
    }

    fn facts<'a>(&'a self, name: &'a ClusterName, settings: Settings) -> Observed<'a> {
        Observed {
            member: MemberFacts::of(name, &self.member),
            namespace: NamespaceFacts::of(self.namespace.as_deref()),
            role: self.role.as_deref(),
            role_binding: self.role_binding.as_deref(),
            mailbox: self.mailbox.as_deref().map(MailboxFacts::of),
            works: self.works.iter().map(|work| WorkFacts::of(work)).collect(),
            settings,
        }
    }

    fn status(&self, status: MemberClusterStatus) -> Write {
        Write::status(&*self.member, &MemberCluster::clone(&self.member).with_status(status))
    }

    /// Adds what a planned write comes to. A plan changes only what was observed, so nothing is lost where that is absent.
    fn write(&self, planned: &Planned, actions: &mut Actions) {
        let owner = || owner_of(&self.member);
        match planned {
            Planned::HoldMember => actions.write(Write::change(&*self.member, &held(&self.member))),
            Planned::ReleaseMember => {
                let released = without_finalizer(&*self.member, finalizers::MEMBER_CLUSTER);
                actions.write(Write::change(&*self.member, &released));
            }
            Planned::CreateNamespace(namespace) => actions.write(Write::create(&namespace.object(owner()))),
            Planned::MarkNamespace(_) => change(self.namespace.as_deref(), actions, |namespace| {
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
            Planned::CreateMailbox(mailbox) => actions.write(Write::create(&mailbox.object(owner()))),
            Planned::UpdateMailbox(mailbox) => change(self.mailbox.as_deref(), actions, |found| mailbox.change(found)),
            Planned::ReleaseWork { work } => {
                let found = self.works.iter().find(|found| name(&***found) == work);
                change(found.map(|work| &**work), actions, |work| work.metadata.finalizers = None);
            }
        }
    }
}

/// With our finalizer, and the label that repeats its name.
fn held(member: &MemberCluster) -> MemberCluster {
    let mut held = with_finalizer(member, finalizers::MEMBER_CLUSTER);
    let name = name(member).to_owned();
    held.metadata.labels.get_or_insert_default().insert(labels::MEMBER_NAME.to_owned(), name);
    held
}

/// The write that changes an object so.
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
