//! Turns plans into API writes and events.

use std::sync::Arc;

use fleet_api::kinds::{MemberCluster, Work};
use fleet_api::names::{ClusterName, MemberNamespace};
use fleet_api::types::MemberClusterStatus;
use fleet_api::well_known::{field_managers, finalizers, labels};
use fleet_core::apply::finalize::with_accepted_status;
use fleet_core::membership::hub::{
    NamespaceFacts, NewNamespace, Plan, WorkFacts, Write as Planned, owner_of, plan_without_member,
};
use fleet_runtime::{Actions, KubeEvent, ObjectKey, Writable, Write};

use super::Membership;
use super::observe::{Observation, find};
use crate::meta::{changed, with_finalizer, without_finalizer};

impl Membership {
    pub(super) fn execute(&self, key: &ClusterName, observation: &Observation, plan: Plan) -> Actions {
        let mut actions = Actions::none().with_wake(plan.wake);
        for planned in &plan.writes {
            observation.write(planned, &mut actions);
        }
        if let Some(new) = plan.status {
            actions.write(observation.status(new.status).deferrable_for(new.defer));
        }
        if let Some(counter) = plan.report.counted {
            self.uncounted.lock().insert(key.clone(), counter);
        }
        set_field_manager(&mut actions);
        actions.events = plan.report.events.iter().map(|event| KubeEvent::about(&*observation.member, event)).collect();
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions
    }

    /// Lets the namespace of a deleted MemberCluster terminate.
    pub(super) fn release_abandoned_namespace(&self, name: &ClusterName) -> Actions {
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
}

impl Observation {
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

fn change<K: Writable + Clone>(object: Option<&K>, actions: &mut Actions, alter: impl FnOnce(&mut K)) {
    if let Some(object) = object {
        actions.write(changed(object, alter));
    }
}
