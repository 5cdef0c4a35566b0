//! The objects of a member on the hub: namespace, role, role binding and InternalMemberCluster, and how they are
//! compared with stored ones.

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

const READ: &[&str] = &["get", "list", "watch"];
const READ_AND_CHANGE: &[&str] = &["get", "list", "watch", "update", "patch"];
const EVERYTHING_BY_NAME: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
const REPORT: &[&str] = &["get", "update", "patch"];

/// What the agents of a member may do in its namespace: API group, resources and verbs.
///
/// The member agent reads its InternalMemberCluster and its Works, reports on both, and adds a finalizer to Works,
/// which is an update of the Work. The networking agents have four kinds of their own there. Never lets a member
/// create a Work, or write a kind that makes the hub place something: a member must not reach other members.
const RIGHTS: [(&str, &[&str], &[&str]); 8] = [
    (CLUSTER_GROUP, &["internalmemberclusters"], READ),
    (CLUSTER_GROUP, &["internalmemberclusters/status"], REPORT),
    (PLACEMENT_GROUP, &["works"], READ_AND_CHANGE),
    (PLACEMENT_GROUP, &["works/status"], REPORT),
    (
        api_groups::NETWORKING,
        &["endpointsliceexports", "endpointsliceimports", "internalserviceexports", "internalserviceimports"],
        EVERYTHING_BY_NAME,
    ),
    (
        api_groups::NETWORKING,
        &[
            "endpointsliceexports/status",
            "endpointsliceimports/status",
            "internalserviceexports/status",
            "internalserviceimports/status",
        ],
        REPORT,
    ),
    (
        api_groups::NETWORKING,
        &[
            "endpointsliceexports/finalizers",
            "endpointsliceimports/finalizers",
            "internalserviceexports/finalizers",
            "internalserviceimports/finalizers",
        ],
        &["update"],
    ),
    ("", &["events"], &["get", "list", "update", "patch", "watch", "create"]),
];

/// The owner reference by which the objects of a member are garbage collected with its MemberCluster.
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
    /// The labels that every namespace of a member has.
    pub fn labels() -> BTreeMap<String, String> {
        BTreeMap::from([(labels::IS_FLEET_RESOURCE.to_owned(), label_values::TRUE.to_owned())])
    }

    pub fn object(&self, owner: OwnerReference) -> Namespace {
        let mut metadata = metadata(self.name.as_str(), None, owner);
        metadata.labels = Some(Self::labels());
        Namespace { metadata, ..Namespace::default() }
    }
}

/// The permissions of a member's identity in its namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberRole {
    pub namespace: MemberNamespace,
    pub name: String,
    pub rules: Vec<PolicyRule>,
}

impl MemberRole {
    pub(super) fn of(member: &ClusterName, namespace: &MemberNamespace) -> Self {
        Self { namespace: namespace.clone(), name: MemberRoleName(member.clone()).to_string(), rules: Self::rules() }
    }

    /// The rules of every member's Role.
    pub fn rules() -> Vec<PolicyRule> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let rule = |&(group, resources, verbs): &(&str, &[&str], &[&str])| PolicyRule {
            api_groups: Some(words(&[group])),
            resources: Some(words(resources)),
            verbs: words(verbs),
            ..PolicyRule::default()
        };
        RIGHTS.iter().map(rule).collect()
    }

    pub fn object(&self, owner: OwnerReference) -> Role {
        Role { metadata: metadata(&self.name, Some(&self.namespace), owner), rules: Some(self.rules.clone()) }
    }

    pub(super) fn is(&self, found: &Role) -> bool {
        let found = found.rules.as_deref().unwrap_or_default();
        found.len() == self.rules.len() && found.iter().zip(&self.rules).all(|(one, other)| same_rule(one, other))
    }
}

/// Absent and empty lists mean the same; servers differ in which of them they return.
fn same_rule(one: &PolicyRule, other: &PolicyRule) -> bool {
    let lists = |rule: &PolicyRule| {
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        [list(&rule.api_groups), list(&rule.resources), list(&rule.resource_names), list(&rule.non_resource_urls)]
    };
    one.verbs == other.verbs && lists(one) == lists(other)
}

/// Binds the role to the member's identity.
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
    /// The role reference is immutable, so the role binding must be recreated.
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

/// The member's identity as an RBAC subject. Users and groups get the API group of RBAC if none is given.
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

/// An InternalMemberCluster as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedInternalMemberCluster {
    pub namespace: MemberNamespace,
    pub name: String,
    pub spec: InternalMemberClusterSpec,
    /// When the member is asked to leave; recorded as an annotation.
    pub leave_requested_at: Option<Time>,
}

impl WantedInternalMemberCluster {
    /// For a member that joins.
    pub(super) fn to_join(member: &MemberFacts<'_>, namespace: &MemberNamespace) -> Self {
        let period = member.spec.heartbeat_period_seconds();
        Self {
            namespace: namespace.clone(),
            name: member.name.to_string(),
            spec: InternalMemberClusterSpec { state: ClusterState::Join, heartbeat_period_seconds: Some(period) },
            leave_requested_at: None,
        }
    }

    /// For a member that leaves.
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
            leave_requested_at: Some(Time::new(now)),
        }
    }

    /// Sets spec and annotation of the stored object.
    pub fn change(&self, found: &mut InternalMemberCluster) {
        found.spec = self.spec.clone();
        if let Some(asked) = self.leave_requested_at {
            let notes = found.metadata.annotations.get_or_insert_default();
            notes.insert(annotations::LEAVE_REQUESTED_AT.to_owned(), asked.to_string());
        }
    }

    pub fn object(&self, owner: OwnerReference) -> InternalMemberCluster {
        Obj::new(metadata(&self.name, Some(&self.namespace), owner), self.spec.clone())
    }

    pub(super) fn is(&self, found: &InternalMemberClusterSpec) -> bool {
        found.state == self.spec.state && found.heartbeat_period_seconds() == self.spec.heartbeat_period_seconds()
    }
}
