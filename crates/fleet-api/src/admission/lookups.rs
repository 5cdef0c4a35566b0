//! The input of admission checks: the request, the settings, and lookups on the hub.
//!
//! An embedded API server answers lookups from its store, a webhook from the API.

use std::collections::BTreeMap;

use kube::core::GroupVersionKind;
use serde_json::Value;

use crate::kinds::{ClusterResourceOverride, ClusterResourcePlacement, MemberCluster, ResourceOverride};

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// The user of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

impl User {
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }
}

/// One request to create, change or delete an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub operation: Operation,
    /// Kind of the object in the version that the checks use.
    pub kind: GroupVersionKind,
    /// Kind in the request, which messages name.
    pub request_kind: GroupVersionKind,
    /// Plural name of the resource.
    pub resource: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty if the server generates the name.
    pub name: String,
    pub user: User,
    /// The new object; absent for deletions.
    pub object: Option<Value>,
    /// The stored object; absent for creations.
    pub old_object: Option<Value>,
}

/// Settings of the checks from the hub agent's flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub enable_webhook: bool,
    pub enable_guard_rail: bool,
    /// User names that count as administrators for the guard rail.
    pub whitelisted_users: Vec<String>,
    pub deny_modify_member_cluster_labels: bool,
    /// Whether workloads may run on the hub itself.
    pub enable_workload: bool,
    /// Whether PodDisruptionBudgets may be created on the hub.
    pub enable_pdbs: bool,
    pub networking_agents_enabled: bool,
}

impl Default for Settings {
    /// The defaults of the flags, not those of the Helm chart.
    fn default() -> Self {
        Self {
            enable_webhook: true,
            enable_guard_rail: false,
            whitelisted_users: Vec::new(),
            deny_modify_member_cluster_labels: false,
            enable_workload: false,
            enable_pdbs: true,
            networking_agents_enabled: false,
        }
    }
}

/// What is known about a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    Namespaced,
    Cluster,
    /// The hub does not serve it.
    Unknown,
    /// The served kinds are not known yet.
    NotReady,
}

/// Which kinds the hub serves, and in which scope.
pub trait KindLookup {
    fn scope(&self, kind: &GroupVersionKind) -> Lookup;
}

/// A service that a member cluster exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceExport {
    /// `namespace/name` of the service in the member cluster.
    pub namespaced_name: String,
    pub being_deleted: bool,
}

impl ServiceExport {
    /// Reads an InternalServiceExport.
    pub fn read(export: &Value) -> Self {
        let named = export["spec"]["serviceReference"]["namespacedName"].as_str().unwrap_or_default();
        Self { namespaced_name: named.to_owned(), being_deleted: !export["metadata"]["deletionTimestamp"].is_null() }
    }
}

/// Why a lookup failed, as a text for the user.
pub type LookupError = String;

/// Lookups of checks on the hub.
pub trait AdmissionLookups: KindLookup {
    fn settings(&self) -> &Settings;
    fn cluster_resource_placement(&self, name: &str) -> Result<Option<ClusterResourcePlacement>, LookupError>;
    fn member_cluster(&self, name: &str) -> Result<Option<MemberCluster>, LookupError>;
    /// Must be current: limits and conflicts are checked against it.
    fn cluster_resource_overrides(&self) -> Result<Vec<ClusterResourceOverride>, LookupError>;
    /// Must be current: limits and conflicts are checked against it.
    fn resource_overrides(&self, namespace: &str) -> Result<Vec<ResourceOverride>, LookupError>;
    /// The InternalServiceExports of a member's namespace.
    fn service_exports(&self, namespace: &str) -> Result<Vec<ServiceExport>, LookupError>;
    /// Empty if the namespace does not exist.
    fn namespace_labels(&self, namespace: &str) -> BTreeMap<String, String>;
}
