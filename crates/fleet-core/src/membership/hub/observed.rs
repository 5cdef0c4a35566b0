//! The facts for a plan of a MemberCluster, borrowed from the objects.

use fleet_api::kinds::{InternalMemberCluster, MemberCluster, Work};
use fleet_api::names::ClusterName;
use fleet_api::types::{
    InternalMemberClusterSpec, InternalMemberClusterStatus, MemberClusterSpec, MemberClusterStatus,
};
use fleet_api::well_known::{annotations, finalizers, label_values, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Everything that a plan depends on.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub member: MemberFacts<'a>,
    pub namespace: NamespaceFacts,
    pub role: Option<&'a Role>,
    pub role_binding: Option<&'a RoleBinding>,
    pub internal_member_cluster: Option<InternalMemberClusterFacts<'a>>,
    /// All Works in the member's namespace, in any order.
    pub works: Vec<WorkFacts<'a>>,
    pub settings: Settings,
}

/// Settings of the hub agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether the two networking agents have to join too.
    pub networking_agents: bool,
    /// How long the hub waits after the leave request before it removes a member whose agent does not answer.
    pub force_delete_after: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { networking_agents: false, force_delete_after: SignedDuration::from_mins(15) }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct MemberFacts<'a> {
    pub name: &'a ClusterName,
    pub generation: i64,
    /// The deletion timestamp.
    pub leaving_since: Option<Timestamp>,
    /// Whether the MemberCluster has our finalizer.
    pub has_finalizer: bool,
    /// Whether the label with the member's name is correct.
    pub labelled: bool,
    pub spec: &'a MemberClusterSpec,
    pub status: Option<&'a MemberClusterStatus>,
}

impl<'a> MemberFacts<'a> {
    pub fn of(name: &'a ClusterName, member: &'a MemberCluster) -> Self {
        let metadata = &member.metadata;
        Self {
            name,
            generation: member.generation(),
            leaving_since: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            has_finalizer: metadata.finalizers.iter().flatten().any(|one| one == finalizers::MEMBER_CLUSTER),
            labelled: label(metadata, labels::MEMBER_NAME) == Some(name.as_str()),
            spec: &member.spec,
            status: member.status.as_ref(),
        }
    }
}

/// The state of a member's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceFacts {
    Missing,
    Present {
        /// Whether it has the label that marks namespaces of members.
        marked: bool,
    },
    Terminating {
        since: Timestamp,
        /// Whether it belongs to a deleted MemberCluster of the same name.
        of_former_member: bool,
    },
}

impl NamespaceFacts {
    /// `member` is the MemberCluster of that name, if there is one.
    pub fn of(namespace: Option<&Namespace>, member: Option<&MemberCluster>) -> Self {
        let Some(Namespace { metadata, .. }) = namespace else { return NamespaceFacts::Missing };
        let uid = member.and_then(|member| member.metadata.uid.as_ref());
        let owners = metadata.owner_references.iter().flatten();
        let mut owners = owners.filter(|owner| owner.kind == MemberCluster::INFO.kind);
        match &metadata.deletion_timestamp {
            Some(time) => NamespaceFacts::Terminating {
                since: time.0,
                of_former_member: member.is_none() || owners.any(|owner| Some(&owner.uid) != uid),
            },
            None => NamespaceFacts::Present {
                marked: label(metadata, labels::IS_FLEET_RESOURCE) == Some(label_values::TRUE),
            },
        }
    }
}

/// The InternalMemberCluster: the state that the hub requests, and what the agents report.
#[derive(Debug, Clone, Copy)]
pub struct InternalMemberClusterFacts<'a> {
    pub spec: &'a InternalMemberClusterSpec,
    pub status: Option<&'a InternalMemberClusterStatus>,
    /// When the member was asked to leave; `None` if that was not recorded, as by hubs of other releases.
    pub leave_requested_at: Option<Timestamp>,
}

impl<'a> InternalMemberClusterFacts<'a> {
    pub fn of(internal_member_cluster: &'a InternalMemberCluster) -> Self {
        let asked = internal_member_cluster
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(annotations::LEAVE_REQUESTED_AT));
        let leave_requested_at = asked.and_then(|text| text.parse().ok());
        Self {
            spec: &internal_member_cluster.spec,
            status: internal_member_cluster.status.as_ref(),
            leave_requested_at,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkFacts<'a> {
    pub name: &'a str,
    /// Whether the Work has any finalizer, ours or another's.
    pub has_finalizer: bool,
}

impl<'a> WorkFacts<'a> {
    pub fn of(work: &'a Work) -> Self {
        let metadata = &work.metadata;
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            has_finalizer: metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty()),
        }
    }
}

fn label<'o>(metadata: &'o ObjectMeta, key: &str) -> Option<&'o str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}
