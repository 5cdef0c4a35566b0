//! Which members a change of a watched object enqueues.

use fleet_api::kinds::{MemberCluster, Work};
use fleet_api::names::{ClusterName, MemberNamespace};
use fleet_core::membership::hub::WorkFacts;
use fleet_runtime::{Cache, Event, ObjectKey};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A change of the status is ignored, because only this controller writes it.
pub(super) fn on_member(event: Event<'_, MemberCluster>) -> Option<ClusterName> {
    let is_news = event.changed(|member| {
        let ObjectMeta { generation, labels, finalizers, deletion_timestamp, .. } = &member.metadata;
        (generation, labels, finalizers, deletion_timestamp)
    });
    is_news.then(|| ClusterName::parse(event.key().name()).ok()).flatten()
}

/// The member in whose namespace an object is, if the object has the expected name.
pub(super) fn member_with(key: &ObjectKey, name: impl Fn(ClusterName) -> String) -> Option<ClusterName> {
    let member = MemberNamespace::cluster_of(key.namespace()?)?;
    (name(member.clone()) == key.name()).then_some(member)
}

/// Works matter only while the member leaves or its namespace terminates, because their finalizers block the
/// termination.
pub(super) fn on_work(
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
