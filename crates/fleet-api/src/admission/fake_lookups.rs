//! Lookups from a few objects in memory, for the tests of this module.

use std::collections::BTreeMap;

use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::lookups::{
    AdmissionLookups, KindLookup, Lookup, LookupError, Operation, Request, ServiceExport, Settings, User,
};
use crate::kinds::{ClusterResourceOverride, ClusterResourcePlacement, MemberCluster, ResourceOverride};

/// The objects of the hub. With `broken`, every lookup fails.
#[derive(Debug, Default)]
pub(super) struct FakeLookups {
    pub(super) settings: Settings,
    pub(super) kinds_not_ready: bool,
    pub(super) broken: bool,
    pub(super) placements: Vec<Value>,
    pub(super) members: Vec<Value>,
    pub(super) cluster_overrides: Vec<Value>,
    pub(super) overrides: Vec<Value>,
    pub(super) exports: BTreeMap<String, Vec<ServiceExport>>,
    pub(super) labelled_namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

impl FakeLookups {
    fn all<T: serde::de::DeserializeOwned>(&self, objects: &[Value]) -> Result<Vec<T>, LookupError> {
        if self.broken {
            return Err("the hub is gone".to_owned());
        }
        Ok(objects.iter().map(|object| serde_json::from_value(object.clone()).unwrap()).collect())
    }

    fn named<T: serde::de::DeserializeOwned>(&self, objects: &[Value], name: &str) -> Result<Option<T>, LookupError> {
        let found: Vec<Value> = objects.iter().filter(|object| object["metadata"]["name"] == name).cloned().collect();
        Ok(self.all(&found)?.into_iter().next())
    }
}

impl KindLookup for FakeLookups {
    fn scope(&self, kind: &GroupVersionKind) -> Lookup {
        match (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()) {
            _ if self.kinds_not_ready => Lookup::NotReady,
            ("", "v1", "Namespace") | ("rbac.authorization.k8s.io", "v1", "ClusterRole") => Lookup::Cluster,
            ("", "v1", "ConfigMap") | ("apps", "v1", "Deployment") => Lookup::Namespaced,
            _ => Lookup::Unknown,
        }
    }
}

impl AdmissionLookups for FakeLookups {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn cluster_resource_placement(&self, name: &str) -> Result<Option<ClusterResourcePlacement>, LookupError> {
        self.named(&self.placements, name)
    }

    fn member_cluster(&self, name: &str) -> Result<Option<MemberCluster>, LookupError> {
        self.named(&self.members, name)
    }

    fn cluster_resource_overrides(&self) -> Result<Vec<ClusterResourceOverride>, LookupError> {
        self.all(&self.cluster_overrides)
    }

    fn resource_overrides(&self, _: &str) -> Result<Vec<ResourceOverride>, LookupError> {
        self.all(&self.overrides)
    }

    fn service_exports(&self, namespace: &str) -> Result<Vec<ServiceExport>, LookupError> {
        if self.broken {
            return Err("the hub is gone".to_owned());
        }
        Ok(self.exports.get(namespace).cloned().unwrap_or_default())
    }

    fn namespace_labels(&self, namespace: &str) -> BTreeMap<String, String> {
        self.labelled_namespaces.get(namespace).cloned().unwrap_or_default()
    }
}

/// A request of a plain user. `kind` is written `group/version/Kind`; the namespace comes from the object.
pub(super) fn request(operation: Operation, kind: &str, object: Value) -> Request {
    let [group, version, kind] = kind.split('/').collect::<Vec<_>>()[..] else { panic!("not a kind: {kind}") };
    let plural = match kind.to_lowercase() {
        name if name.ends_with("endpoints") => name,
        name => format!("{name}s"),
    };
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (text("name"), text("namespace"));
    let (object, old_object) = match operation {
        Operation::Create => (Some(object), None),
        Operation::Update => (Some(object.clone()), Some(object)),
        Operation::Delete => (None, Some(object)),
    };
    Request {
        operation,
        kind: GroupVersionKind::gvk(group, version, kind),
        request_kind: GroupVersionKind::gvk(group, version, kind),
        resource: plural,
        subresource: String::new(),
        namespace,
        name,
        user: user("ann", &["system:authenticated"]),
        object,
        old_object,
    }
}

pub(super) fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
}

pub(super) const CRP: &str = "placement.kubernetes-fleet.io/v1beta1/ClusterResourcePlacement";
pub(super) const RP: &str = "placement.kubernetes-fleet.io/v1beta1/ResourcePlacement";
pub(super) const CRO: &str = "placement.kubernetes-fleet.io/v1beta1/ClusterResourceOverride";
pub(super) const RO: &str = "placement.kubernetes-fleet.io/v1beta1/ResourceOverride";
pub(super) const BUDGET: &str = "placement.kubernetes-fleet.io/v1beta1/ClusterResourcePlacementDisruptionBudget";
pub(super) const MEMBER: &str = "cluster.kubernetes-fleet.io/v1beta1/MemberCluster";

/// An object of a kind with a name and a spec.
pub(super) fn object(kind: &str, name: &str, spec: Value) -> Value {
    let (api_version, kind) = kind.rsplit_once('/').unwrap();
    json!({"apiVersion": api_version.trim_start_matches('/'), "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A selector of ClusterRoles, which a cluster-scoped placement may select.
pub(super) fn roles() -> Value {
    json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "reader"})
}
