//! The facts that a MemberCluster's plan rests on, each read once from its object.
//!
//! Decides what an object means: whether a namespace is going, whether a mark is there. Objects are borrowed, never
//! copied. Never decides what to do about them.

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

/// Everything that one plan is made from. What belongs to the member is found by its name in its namespace.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub member: MemberFacts<'a>,
    pub namespace: NamespaceFacts,
    pub role: Option<&'a Role>,
    pub role_binding: Option<&'a RoleBinding>,
    pub mailbox: Option<MailboxFacts<'a>>,
    /// All Works in the member's namespace, in any order.
    pub works: Vec<WorkFacts<'a>>,
    pub settings: Settings,
}

/// How the hub agent was told to treat members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether the two networking agents have to join too.
    pub networking_agents: bool,
    /// So long after it was asked to leave, a member that does not answer is let go without it.
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
    /// When its deletion was asked for.
    pub leaving_since: Option<Timestamp>,
    /// Whether our finalizer is on it.
    pub held: bool,
    /// Whether the label that repeats its name is right.
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
            held: metadata.finalizers.iter().flatten().any(|one| one == finalizers::MEMBER_CLUSTER),
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
        /// Whether it has the label by which a member's namespace is known.
        marked: bool,
    },
    Terminating {
        since: Timestamp,
    },
}

impl NamespaceFacts {
    pub fn of(namespace: Option<&Namespace>) -> Self {
        let Some(Namespace { metadata, .. }) = namespace else { return NamespaceFacts::Missing };
        match &metadata.deletion_timestamp {
            Some(time) => NamespaceFacts::Terminating { since: time.0 },
            None => NamespaceFacts::Present {
                marked: label(metadata, labels::IS_FLEET_RESOURCE) == Some(label_values::TRUE),
            },
        }
    }
}

/// The mailbox: what the member's agents are asked for, and what they report.
#[derive(Debug, Clone, Copy)]
pub struct MailboxFacts<'a> {
    pub spec: &'a InternalMemberClusterSpec,
    pub status: Option<&'a InternalMemberClusterStatus>,
    /// When the member was asked to leave; `None` if that was not noted, as by hubs of other releases.
    pub asked_to_leave_at: Option<Timestamp>,
}

impl<'a> MailboxFacts<'a> {
    pub fn of(mailbox: &'a InternalMemberCluster) -> Self {
        let asked = mailbox.metadata.annotations.as_ref().and_then(|all| all.get(annotations::ASKED_TO_LEAVE_AT));
        let asked_to_leave_at = asked.and_then(|text| text.parse().ok());
        Self { spec: &mailbox.spec, status: mailbox.status.as_ref(), asked_to_leave_at }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkFacts<'a> {
    pub name: &'a str,
    /// Whether any finalizer is on it, ours or another's.
    pub held: bool,
}

impl<'a> WorkFacts<'a> {
    pub fn of(work: &'a Work) -> Self {
        let metadata = &work.metadata;
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            held: metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty()),
        }
    }
}

fn label<'o>(metadata: &'o ObjectMeta, key: &str) -> Option<&'o str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}
