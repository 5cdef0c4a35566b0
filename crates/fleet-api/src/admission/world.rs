//! What an admission check is told: the request, the settings, and the questions it may ask about the hub.
//!
//! Decides nothing. An embedded API server answers the questions from its store, a webhook from the API.

use std::collections::BTreeMap;

use kube::core::GroupVersionKind;
use serde_json::Value;

use crate::kinds::{ClusterResourceOverride, ClusterResourcePlacement, MemberCluster, ResourceOverride};

/// What is being done to an object.
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

/// Who asks.
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
    /// Kind of the object as the checks see it, that is in the version that they know.
    pub kind: GroupVersionKind,
    /// Kind as the user asked for it, which messages name.
    pub request_kind: GroupVersionKind,
    /// Plural name of the resource.
    pub resource: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty where the server still has to make up a name.
    pub name: String,
    pub user: User,
    /// The object as it is to be; absent for deletions.
    pub object: Option<Value>,
    /// The object as it is; absent for creations.
    pub old_object: Option<Value>,
}

/// How the checks are set up: the hub agent's flags.
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

/// What is known of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    Namespaced,
    Cluster,
    /// The hub does not serve it.
    Unknown,
    /// What the hub serves is not known yet.
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
    /// What an InternalServiceExport says.
    pub fn read(export: &Value) -> Self {
        let named = export["spec"]["serviceReference"]["namespacedName"].as_str().unwrap_or_default();
        Self { namespaced_name: named.to_owned(), being_deleted: !export["metadata"]["deletionTimestamp"].is_null() }
    }
}

/// Why a question could not be answered, in words for the user.
pub type LookupError = String;

/// The questions that checks ask about the hub.
pub trait World: KindLookup {
    fn settings(&self) -> &Settings;
    fn cluster_resource_placement(&self, name: &str) -> Result<Option<ClusterResourcePlacement>, LookupError>;
    fn member_cluster(&self, name: &str) -> Result<Option<MemberCluster>, LookupError>;
    /// Must be up to date: limits and conflicts are judged by it.
    fn cluster_resource_overrides(&self) -> Result<Vec<ClusterResourceOverride>, LookupError>;
    /// Must be up to date: limits and conflicts are judged by it.
    fn resource_overrides(&self, namespace: &str) -> Result<Vec<ResourceOverride>, LookupError>;
    /// The InternalServiceExports of a member's namespace.
    fn service_exports(&self, namespace: &str) -> Result<Vec<ServiceExport>, LookupError>;
    /// Empty for a namespace that does not exist.
    fn namespace_labels(&self, namespace: &str) -> BTreeMap<String, String>;
}
