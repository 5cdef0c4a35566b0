//! The guard rail: which users may change the objects that the fleet depends on.
//!
//! It is a safety net against mistakes, not a security boundary: it allows what it cannot check. RBAC still applies.

use std::collections::BTreeMap;

use serde_json::Value;

use super::go_print;
use super::lookups::{AdmissionLookups, Operation, Request, User};
use super::verdict::Verdict;
use crate::kinds::{CLUSTER_GROUP, INVENTORY_GROUP, PLACEMENT_GROUP};
use crate::well_known::{annotations, labels, namespaces};

/// Group of the fleet's networking agents.
pub const NETWORKING_GROUP: &str = "networking.fleet.azure.com";

const MASTERS_GROUP: &str = "system:masters";
const KUBEADM_ADMINS_GROUP: &str = "kubeadm:cluster-admins";
const SERVICE_ACCOUNTS_GROUP: &str = "system:serviceaccounts";
const NODES_GROUP: &str = "system:nodes";
const PRIVILEGED_USERS: [&str; 3] = ["system:kube-scheduler", "system:kube-controller-manager", "aks-support"];
const FLEET_CRD_GROUPS: [&str; 4] = [NETWORKING_GROUP, CLUSTER_GROUP, PLACEMENT_GROUP, INVENTORY_GROUP];
/// Kinds that a member's agents write in the member's own namespace.
const AGENT_KINDS: [(&str, &str, &str); 6] = [
    (CLUSTER_GROUP, "v1beta1", "InternalMemberCluster"),
    (PLACEMENT_GROUP, "v1beta1", "Work"),
    (NETWORKING_GROUP, "v1alpha1", "EndpointSliceExport"),
    (NETWORKING_GROUP, "v1alpha1", "EndpointSliceImport"),
    (NETWORKING_GROUP, "v1alpha1", "InternalServiceExport"),
    (NETWORKING_GROUP, "v1alpha1", "InternalServiceImport"),
];
/// Up to this many groups are printed; of more, the first three.
const PRINTED_GROUPS_MAX: usize = 10;

pub fn admit(request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    let guard = Guard { request, lookups };
    let kind = &request.kind;
    match (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()) {
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition") => guard.crd(),
        (CLUSTER_GROUP, "v1beta1", "MemberCluster") => guard.member_cluster(),
        ("", "v1", "Namespace") => guard.namespace(),
        known if AGENT_KINDS.contains(&known) => guard.agent_object(),
        ("", "v1", "Event") => guard.only(true),
        _ if !guard.namespace_of_object().is_empty() => guard.only(guard.is_privileged()),
        _ => guard.only(true),
    }
}

struct Guard<'a> {
    request: &'a Request,
    lookups: &'a dyn AdmissionLookups,
}

impl Guard<'_> {
    fn is_admin(&self) -> bool {
        let User { name, .. } = &self.request.user;
        self.lookups.settings().whitelisted_users.contains(name)
            || self.request.user.is_in(MASTERS_GROUP)
            || self.request.user.is_in(KUBEADM_ADMINS_GROUP)
    }

    fn is_privileged(&self) -> bool {
        let user = &self.request.user;
        self.is_admin()
            || user.is_in(SERVICE_ACCOUNTS_GROUP)
            || user.is_in(NODES_GROUP)
            || PRIVILEGED_USERS.contains(&user.name.as_str())
    }

    /// For a Namespace, API servers send its own name as the namespace too.
    fn namespace_of_object(&self) -> &str {
        if self.request.kind.kind == "Namespace" { "" } else { &self.request.namespace }
    }

    fn only(&self, allowed: bool) -> Verdict {
        if allowed {
            Verdict::allowed(self.says("is allowed"))
        } else {
            Verdict::forbidden(self.says("is not allowed"))
        }
    }

    fn says(&self, may: &str) -> String {
        let Request { user, operation, request_kind, subresource, name, .. } = self.request;
        format!(
            "user: '{}' in '{}' {may} to {} resource {}/{subresource}: {}/{name}",
            user.name,
            printed_groups(&user.groups),
            operation.as_str(),
            go_print::group_version_kind(request_kind),
            self.namespace_of_object(),
        )
    }

    fn crd(&self) -> Verdict {
        let group = self.request.name.split_once('.').map_or("", |(_, group)| group);
        self.only(!FLEET_CRD_GROUPS.contains(&group) || self.is_admin())
    }

    fn namespace(&self) -> Verdict {
        self.only(!namespaces::is_reserved(&self.request.name) || self.is_privileged())
    }

    fn agent_object(&self) -> Verdict {
        let namespace = self.namespace_of_object();
        if let Some(member) = namespaces::member_of(namespace) {
            return if self.is_privileged() { self.only(true) } else { self.only_member(member) };
        }
        self.only(!namespaces::is_reserved(namespace) || self.is_privileged())
    }

    fn only_member(&self, member: &str) -> Verdict {
        let found = if member.is_empty() { Ok(None) } else { self.lookups.member_cluster(member) };
        let Ok(Some(member)) = found else {
            return Verdict::allowed(format!("{} because we failed to get MC", self.says("is allowed")));
        };
        let (user, identity) = (&self.request.user.name, &member.spec.identity.name);
        self.only(user == identity || *user == format!("system:serviceaccount:fleet-system:{identity}"))
    }

    fn member_cluster(&self) -> Verdict {
        let object = self.request.object.as_ref().unwrap_or(&Value::Null);
        let old = self.request.old_object.as_ref().unwrap_or(&Value::Null);
        match self.request.operation {
            Operation::Update if is_platform_managed(old) => self.platform_member_update(old, object),
            Operation::Update => self.upstream_member_update(old, object),
            Operation::Create if is_platform_managed(object) => self.only(self.is_privileged()),
            Operation::Delete if is_platform_managed(old) => self.only(self.is_privileged()),
            Operation::Create | Operation::Delete => self.only(true),
        }
    }

    fn upstream_member_update(&self, old: &Value, new: &Value) -> Verdict {
        if is_platform_managed(new) {
            return Verdict::forbidden(
                "no user is allowed to add a fleet pre-fixed annotation to an upstream member cluster",
            );
        }
        self.only(same(&old["status"], &new["status"]) || self.is_privileged())
    }

    fn platform_member_update(&self, old: &Value, new: &Value) -> Verdict {
        if !is_platform_managed(new) {
            return Verdict::forbidden(
                "no user is allowed to remove all fleet pre-fixed annotations from a fleet member cluster",
            );
        }
        let labels_are_fixed = self.lookups.settings().deny_modify_member_cluster_labels;
        if labels_are_fixed && !self.request.user.is_in(MASTERS_GROUP) && user_labels(old) != user_labels(new) {
            return Verdict::forbidden("users are not allowed to modify labels through hub cluster directly");
        }
        let untouched = same(&without_taints(old), &without_taints(new))
            && same(&old["status"], &new["status"])
            && same(&old["metadata"]["finalizers"], &new["metadata"]["finalizers"])
            && same(&old["metadata"]["ownerReferences"], &new["metadata"]["ownerReferences"])
            && platform_annotations_kept(old, new);
        self.only(untouched || self.is_privileged())
    }
}

fn printed_groups(groups: &[String]) -> String {
    match groups {
        [first, second, third, ..] if groups.len() > PRINTED_GROUPS_MAX => {
            format!("groups: [{first}, {second}, {third},......]")
        }
        _ => format!("groups: {}", go_print::list(groups)),
    }
}

fn texts<'a>(object: &'a Value, field: &str) -> BTreeMap<&'a str, &'a str> {
    let map = object["metadata"][field].as_object();
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).collect()
}

/// A member cluster with such an annotation is managed by the platform.
fn is_platform_managed(object: &Value) -> bool {
    texts(object, "annotations").keys().any(|key| key.starts_with(annotations::PLATFORM_PREFIX))
}

fn platform_annotations_kept(old: &Value, new: &Value) -> bool {
    let kept = texts(new, "annotations");
    texts(old, "annotations")
        .iter()
        .filter(|(key, _)| key.starts_with(annotations::PLATFORM_PREFIX))
        .all(|(key, value)| kept.get(key) == Some(value))
}

fn user_labels(object: &Value) -> BTreeMap<&str, &str> {
    let mut found = texts(object, "labels");
    // Everybody may change labels of the fleet itself.
    found.retain(|key, _| !key.starts_with(labels::PREFIX));
    found
}

fn without_taints(object: &Value) -> Value {
    let mut spec = object["spec"].clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("taints");
    }
    spec
}

/// Whether two values are equal; absent, null and empty count as equal.
fn same(left: &Value, right: &Value) -> bool {
    trimmed(left) == trimmed(right)
}

fn trimmed(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) => {
            (!items.is_empty()).then(|| items.iter().map(|item| trimmed(item).unwrap_or_default()).collect())
        }
        Value::Object(fields) => {
            let fields: serde_json::Map<String, Value> =
                fields.iter().filter_map(|(key, field)| Some((key.clone(), trimmed(field)?))).collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        scalar => Some(scalar.clone()),
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
