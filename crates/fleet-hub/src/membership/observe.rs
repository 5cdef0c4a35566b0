//! Collects a member and its objects on the hub from the caches.

use std::sync::Arc;

use fleet_api::kinds::{InternalMemberCluster, MemberCluster, Work};
use fleet_api::names::{ClusterName, MemberNamespace, MemberRoleBindingName, MemberRoleName};
use fleet_core::membership::hub::{
    InternalMemberClusterFacts, MemberFacts, NamespaceFacts, Observed, Settings, WorkFacts,
};
use fleet_runtime::{Cache, Cached, ObjectKey};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

use super::Membership;

/// An object of a member that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("waiting until {kind} {key} can be read")]
pub(super) struct Unreadable {
    kind: String,
    key: ObjectKey,
}

/// Returns the object if it exists, and an error if it cannot be read.
pub(super) fn find<K: Cached>(cache: &Cache<K>, key: &ObjectKey) -> Result<Option<Arc<K>>, Unreadable> {
    if cache.is_unreadable(key) {
        return Err(Unreadable { kind: cache.kind().to_string(), key: key.clone() });
    }
    Ok(cache.get(key))
}

impl Membership {
    /// Returns `None` if there is no such member.
    pub(super) fn observe(&self, name: &ClusterName) -> Result<Option<Observation>, Unreadable> {
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
}

/// A member and its objects on the hub.
pub(super) struct Observation {
    pub(super) member: Arc<MemberCluster>,
    pub(super) namespace: Option<Arc<Namespace>>,
    pub(super) role: Option<Arc<Role>>,
    pub(super) role_binding: Option<Arc<RoleBinding>>,
    pub(super) internal_member_cluster: Option<Arc<InternalMemberCluster>>,
    pub(super) works: Vec<Arc<Work>>,
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

    pub(super) fn facts<'a>(&'a self, name: &'a ClusterName, settings: Settings) -> Observed<'a> {
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
}
