//! What a member has on the hub: its namespace, the role and role binding of its identity, its mailbox.
//!
//! Decides their content and whether what is there says the same. Never decides when one is written.

use std::collections::BTreeMap;

use fleet_api::kinds::{CLUSTER_GROUP, InternalMemberCluster, MemberCluster, Obj, PLACEMENT_GROUP};
use fleet_api::names::{ClusterName, MemberNamespace, MemberRoleBindingName, MemberRoleName};
use fleet_api::time::Time;
use fleet_api::types::{ClusterState, InternalMemberClusterSpec, Subject as Identity};
use fleet_api::well_known::{annotations, api_groups, label_values, labels};
use jiff::Timestamp;
use k8s_openapi::Resource;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::observed::MemberFacts;

/// What agents of a member may do in its namespace: everything with our kinds and those of the networking agents, and
/// write events.
const RIGHTS: [(&str, &str, &[&str]); 4] = [
    (CLUSTER_GROUP, "*", &["*"]),
    (PLACEMENT_GROUP, "*", &["*"]),
    (api_groups::NETWORKING, "*", &["*"]),
    ("", "events", &["get", "list", "update", "patch", "watch", "create"]),
];

/// The reference by which everything of a member goes when its MemberCluster does.
pub fn owner_of(member: &MemberCluster) -> OwnerReference {
    let info = MemberCluster::INFO;
    OwnerReference {
        api_version: info.api_version(),
        kind: info.kind.to_owned(),
        name: member.metadata.name.clone().unwrap_or_default(),
        uid: member.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn metadata(name: &str, namespace: Option<&MemberNamespace>, owner: OwnerReference) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(ToString::to_string),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    }
}

/// A member's namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNamespace {
    pub name: MemberNamespace,
}

impl NewNamespace {
    /// The labels that the namespace has at least.
    pub fn labels() -> BTreeMap<String, String> {
        BTreeMap::from([(labels::IS_FLEET_RESOURCE.to_owned(), label_values::TRUE.to_owned())])
    }

    pub fn object(&self, owner: OwnerReference) -> Namespace {
        let mut metadata = metadata(self.name.as_str(), None, owner);
        metadata.labels = Some(Self::labels());
        Namespace { metadata, ..Namespace::default() }
    }
}

/// What a member's identity may do in its namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberRole {
    pub namespace: MemberNamespace,
    pub name: String,
    pub rules: Vec<PolicyRule>,
}

impl MemberRole {
    pub(super) fn of(member: &ClusterName, namespace: &MemberNamespace) -> Self {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let rule = |&(group, resource, verbs): &(&str, &str, &[&str])| PolicyRule {
            api_groups: Some(words(&[group])),
            resources: Some(words(&[resource])),
            verbs: words(verbs),
            ..PolicyRule::default()
        };
        Self {
            namespace: namespace.clone(),
            name: MemberRoleName(member.clone()).to_string(),
            rules: RIGHTS.iter().map(rule).collect(),
        }
    }

    pub fn object(&self, owner: OwnerReference) -> Role {
        Role { metadata: metadata(&self.name, Some(&self.namespace), owner), rules: Some(self.rules.clone()) }
    }

    pub(super) fn is(&self, found: &Role) -> bool {
        let found = found.rules.as_deref().unwrap_or_default();
        found.len() == self.rules.len() && found.iter().zip(&self.rules).all(|(one, other)| same_rule(one, other))
    }
}

/// Absent and empty lists mean the same, and servers differ in which they give back.
fn same_rule(one: &PolicyRule, other: &PolicyRule) -> bool {
    let lists = |rule: &PolicyRule| {
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        [list(&rule.api_groups), list(&rule.resources), list(&rule.resource_names), list(&rule.non_resource_urls)]
    };
    one.verbs == other.verbs && lists(one) == lists(other)
}

/// Who has the member's role.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberRoleBinding {
    pub namespace: MemberNamespace,
    pub name: String,
    pub role: RoleRef,
    pub subject: Subject,
}

/// How an existing role binding compares with the wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Same,
    OtherSubjects,
    /// Only a new role binding can give another role.
    OtherRole,
}

impl MemberRoleBinding {
    pub(super) fn of(member: &MemberFacts<'_>, namespace: &MemberNamespace) -> Self {
        Self {
            namespace: namespace.clone(),
            name: MemberRoleBindingName(member.name.clone()).to_string(),
            role: RoleRef {
                api_group: api_groups::RBAC.to_owned(),
                kind: Role::KIND.to_owned(),
                name: MemberRoleName(member.name.clone()).to_string(),
            },
            subject: subject(&member.spec.identity),
        }
    }

    pub fn object(&self, owner: OwnerReference) -> RoleBinding {
        RoleBinding {
            metadata: metadata(&self.name, Some(&self.namespace), owner),
            role_ref: self.role.clone(),
            subjects: Some(vec![self.subject.clone()]),
        }
    }

    pub(super) fn compare(&self, found: &RoleBinding) -> Comparison {
        if found.role_ref != self.role {
            return Comparison::OtherRole;
        }
        match found.subjects.as_deref().unwrap_or_default() {
            [one] if same_subject(one, &self.subject) => Comparison::Same,
            _ => Comparison::OtherSubjects,
        }
    }
}

/// The member's identity as RBAC wants it: users and groups belong to its API group, also where nobody said so.
fn subject(identity: &Identity) -> Subject {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let is_rbac = matches!(identity.kind.as_str(), "User" | "Group");
    Subject {
        api_group: filled(&identity.api_group).or_else(|| is_rbac.then(|| api_groups::RBAC.to_owned())),
        kind: identity.kind.clone(),
        name: identity.name.clone(),
        namespace: filled(&identity.namespace),
    }
}

fn same_subject(one: &Subject, other: &Subject) -> bool {
    let filled = |text: &Option<String>| text.clone().unwrap_or_default();
    let all = |subject: &Subject| {
        (filled(&subject.api_group), subject.kind.clone(), subject.name.clone(), filled(&subject.namespace))
    };
    all(one) == all(other)
}

/// The mailbox between the hub and a member's agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    pub namespace: MemberNamespace,
    pub name: String,
    pub spec: InternalMemberClusterSpec,
    /// When the member is asked to leave; to be noted on it.
    pub asked_to_leave_at: Option<Time>,
}

impl Mailbox {
    /// The mailbox of a member that shall join.
    pub(super) fn to_join(member: &MemberFacts<'_>, namespace: &MemberNamespace) -> Self {
        let period = member.spec.heartbeat_period_seconds();
        Self {
            namespace: namespace.clone(),
            name: member.name.to_string(),
            spec: InternalMemberClusterSpec { state: ClusterState::Join, heartbeat_period_seconds: Some(period) },
            asked_to_leave_at: None,
        }
    }

    /// The mailbox that is there, of a member that shall leave.
    pub(super) fn to_leave(
        member: &MemberFacts<'_>,
        namespace: &MemberNamespace,
        found: &InternalMemberClusterSpec,
        now: Timestamp,
    ) -> Self {
        Self {
            namespace: namespace.clone(),
            name: member.name.to_string(),
            spec: InternalMemberClusterSpec { state: ClusterState::Leave, ..found.clone() },
            asked_to_leave_at: Some(Time::new(now)),
        }
    }

    /// Brings the mailbox that is there in line.
    pub fn change(&self, found: &mut InternalMemberCluster) {
        found.spec = self.spec.clone();
        if let Some(asked) = self.asked_to_leave_at {
            let notes = found.metadata.annotations.get_or_insert_default();
            notes.insert(annotations::ASKED_TO_LEAVE_AT.to_owned(), asked.to_string());
        }
    }

    pub fn object(&self, owner: OwnerReference) -> InternalMemberCluster {
        Obj::new(metadata(&self.name, Some(&self.namespace), owner), self.spec.clone())
    }

    pub(super) fn is(&self, found: &InternalMemberClusterSpec) -> bool {
        found.state == self.spec.state && found.heartbeat_period_seconds() == self.spec.heartbeat_period_seconds()
    }
}
