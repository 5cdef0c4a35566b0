//! The table of webhook entries: which requests reach which check, and the failure policy of each.
//!
//! `manifests` builds the objects that an agent writes.

use std::sync::LazyLock;

use super::guard_rail::NETWORKING_GROUP;
use super::lookups::{AdmissionLookups, Operation, Request, Settings};
use super::reserved;
use super::workloads::Workload;
use crate::kinds::{CLUSTER_GROUP, PLACEMENT_GROUP};
use crate::well_known::{label_values, labels, namespaces, webhook_configurations};

mod manifests;

pub use manifests::{CaBundle, Connection, Installation, manifests};

const GUARD_RAIL_PATH: &str = "/validate-fleetresourcehandler";
const RESERVED_PATH: &str = "/validate-reservednamespaces";
/// Checks are quick; an API server should not wait longer.
const TIMEOUT_SECONDS: u8 = 5;
/// The guard rail sees every write in guarded namespaces and must not delay them.
const GUARD_RAIL_TIMEOUT_SECONDS: u8 = 1;

const C: &[Operation] = &[Operation::Create];
const CU: &[Operation] = &[Operation::Create, Operation::Update];
const CUD: &[Operation] = &[Operation::Create, Operation::Update, Operation::Delete];
const D: &[Operation] = &[Operation::Delete];

/// The check behind an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handler {
    FillPlacement,
    ClusterResourcePlacement,
    ResourcePlacement,
    MemberCluster,
    ClusterResourceOverride,
    ResourceOverride,
    Eviction,
    DisruptionBudget,
    Workload(Workload),
    ReservedNamespaces,
    GuardRail,
}

/// What an API server does when a webhook does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

/// Which requests an entry matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub operations: &'static [Operation],
    /// `*` for all, as in the two fields below.
    pub group: &'static str,
    pub version: &'static str,
    /// Plural names, with `/` and the subresource if one is meant; `*/*` for everything.
    pub resources: Vec<&'static str>,
    pub namespaced_only: bool,
}

/// Which namespaces an entry matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    All,
    /// Those with this label.
    Labelled(&'static str, &'static str),
    Named(&'static [&'static str]),
    /// All except the reserved ones, which the API server excludes by itself: objects that an agent needs to start
    /// must not wait for that agent.
    Unreserved,
    /// The reserved ones only.
    Reserved,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub path: String,
    pub rules: Vec<Rule>,
    pub namespaces: Namespaces,
    pub failure_policy: FailurePolicy,
    pub timeout_seconds: u8,
    pub handler: Handler,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    pub name: &'static str,
    pub mutating: bool,
    pub entries: Vec<Entry>,
}

/// The configurations for these settings, in the order in which they take effect.
pub fn configurations(settings: &Settings) -> Vec<Configuration> {
    let mut installed = table().to_vec();
    for configuration in &mut installed {
        configuration.entries.retain(|entry| is_installed(entry.handler, settings));
    }
    installed.retain(|configuration| !configuration.entries.is_empty());
    installed
}

/// The check at a path, whether or not its entry is installed.
pub fn handler_at(path: &str) -> Option<Handler> {
    let mut entries = table().iter().flat_map(|configuration| &configuration.entries);
    entries.find(|entry| entry.path == path).map(|entry| entry.handler)
}

/// All possible entries. Computed once, because every write to a hub is matched against it.
pub(super) fn table() -> &'static [Configuration] {
    static TABLE: LazyLock<[Configuration; 3]> = LazyLock::new(|| {
        [
            Configuration { name: webhook_configurations::MUTATING, mutating: true, entries: mutating_entries() },
            Configuration { name: webhook_configurations::VALIDATING, mutating: false, entries: validating_entries() },
            Configuration { name: webhook_configurations::GUARD_RAIL, mutating: false, entries: guard_rail_entries() },
        ]
    });
    &*TABLE
}

pub(super) fn is_installed(handler: Handler, settings: &Settings) -> bool {
    settings.enable_webhook
        && match handler {
            Handler::Workload(Workload::Pod | Workload::ReplicaSet) => !settings.enable_workload,
            Handler::Workload(Workload::PodDisruptionBudget) => !settings.enable_pdbs,
            Handler::GuardRail => settings.enable_guard_rail,
            _ => true,
        }
}

impl Entry {
    /// Whether a request of this operation and resource, in some version and some namespace, would match this entry.
    /// `resource` is written as in rules.
    pub fn may_match(&self, operation: Operation, group: &str, resource: &str) -> bool {
        self.rules.iter().any(|rule| rule.covers(operation, group, resource))
    }

    /// Whether an API server would send this request to this entry.
    pub fn matches(&self, request: &Request, lookups: &dyn AdmissionLookups) -> bool {
        self.rules.iter().any(|rule| rule.matches(request)) && self.watches(request, lookups)
    }

    /// Cluster-scoped objects pass every namespace selector, except that a Namespace is matched by its own labels.
    fn watches(&self, request: &Request, lookups: &dyn AdmissionLookups) -> bool {
        let namespace = if is_namespace(request) { &request.name } else { &request.namespace };
        if namespace.is_empty() {
            return true;
        }
        match self.namespaces {
            Namespaces::All => true,
            Namespaces::Labelled(key, value) => {
                lookups.namespace_labels(namespace).get(key).is_some_and(|v| v == value)
            }
            Namespaces::Named(names) => names.contains(&namespace.as_str()),
            Namespaces::Unreserved => !namespaces::is_reserved(namespace),
            Namespaces::Reserved => namespaces::is_reserved(namespace),
        }
    }
}

impl Rule {
    fn new(
        operations: &'static [Operation],
        group: &'static str,
        version: &'static str,
        resources: &[&'static str],
    ) -> Self {
        Self { operations, group, version, resources: resources.to_vec(), namespaced_only: false }
    }

    fn matches(&self, request: &Request) -> bool {
        let asked = match request.subresource.as_str() {
            "" => request.resource.clone(),
            subresource => format!("{}/{subresource}", request.resource),
        };
        self.covers(request.operation, &request.kind.group, &asked)
            && is_or_all(self.version, &request.kind.version)
            && (!self.namespaced_only || !request.namespace.is_empty() && !is_namespace(request))
    }

    fn covers(&self, operation: Operation, group: &str, resource: &str) -> bool {
        self.operations.contains(&operation)
            && is_or_all(self.group, group)
            && self.resources.iter().any(|one| *one == "*/*" || *one == resource)
    }
}

fn is_or_all(pattern: &str, text: &str) -> bool {
    pattern == "*" || pattern == text
}

fn is_namespace(request: &Request) -> bool {
    request.kind.group.is_empty() && request.kind.kind == "Namespace"
}

/// `/validate-<group>-<version>-<kind>`; the core group is the empty text.
fn path(verb: &str, group: &str, version: &str, kind: &str) -> String {
    format!("/{verb}-{group}-{version}-{kind}")
}

fn entry(
    name: &str,
    verb: &str,
    operations: &'static [Operation],
    (group, version, kind): (&'static str, &'static str, &'static str),
    resource: &'static str,
    handler: Handler,
) -> Entry {
    Entry {
        name: name.to_owned(),
        path: path(verb, group, version, kind),
        rules: vec![Rule::new(operations, group, version, &[resource])],
        namespaces: if matches!(handler, Handler::Workload(_)) { Namespaces::Unreserved } else { Namespaces::All },
        failure_policy: if handler == Handler::FillPlacement { FailurePolicy::Ignore } else { FailurePolicy::Fail },
        timeout_seconds: TIMEOUT_SECONDS,
        handler,
    }
}

fn placement_kind(kind: &'static str) -> (&'static str, &'static str, &'static str) {
    (PLACEMENT_GROUP, "v1beta1", kind)
}

fn mutating_entries() -> Vec<Entry> {
    [("clusterresourceplacement", "clusterresourceplacements"), ("resourceplacement", "resourceplacements")]
        .into_iter()
        .map(|(kind, resource)| {
            let name = format!("fleet.{kind}v1beta1.mutating");
            entry(&name, "mutate", CU, placement_kind(kind), resource, Handler::FillPlacement)
        })
        .collect()
}

fn validating_entries() -> Vec<Entry> {
    let check = |name: &str, operations, kind, resource, handler| {
        entry(&format!("fleet.{name}.validating"), "validate", operations, kind, resource, handler)
    };
    vec![
        check("pod", C, ("", "v1", "pod"), "pods", Handler::Workload(Workload::Pod)),
        check("replicaset", C, ("apps", "v1", "replicaset"), "replicasets", Handler::Workload(Workload::ReplicaSet)),
        check(
            "poddisruptionbudget",
            C,
            ("policy", "v1", "poddisruptionbudget"),
            "poddisruptionbudgets",
            Handler::Workload(Workload::PodDisruptionBudget),
        ),
        check(
            "clusterresourceplacementv1beta1",
            CU,
            placement_kind("clusterresourceplacement"),
            "clusterresourceplacements",
            Handler::ClusterResourcePlacement,
        ),
        check(
            "resourceplacementv1beta1",
            CU,
            placement_kind("resourceplacement"),
            "resourceplacements",
            Handler::ResourcePlacement,
        ),
        check(
            "membercluster",
            CUD,
            (CLUSTER_GROUP, "v1beta1", "membercluster"),
            "memberclusters",
            Handler::MemberCluster,
        ),
        check(
            "clusterresourceoverride",
            CU,
            placement_kind("clusterresourceoverride"),
            "clusterresourceoverrides",
            Handler::ClusterResourceOverride,
        ),
        check(
            "resourceoverride",
            CU,
            placement_kind("resourceoverride"),
            "resourceoverrides",
            Handler::ResourceOverride,
        ),
        check(
            "clusterresourceplacementeviction",
            C,
            placement_kind("clusterresourceplacementeviction"),
            "clusterresourceplacementevictions",
            Handler::Eviction,
        ),
        check(
            "clusterresourceplacementdisruptionbudget",
            CU,
            placement_kind("clusterresourceplacementdisruptionbudget"),
            "clusterresourceplacementdisruptionbudgets",
            Handler::DisruptionBudget,
        ),
        reserved_entry(),
    ]
}

/// One entry for all kinds that are refused in reserved namespaces.
fn reserved_entry() -> Entry {
    let resources: Vec<&str> = reserved::refused_kinds().iter().map(|info| info.plural).collect();
    let mut rule = Rule::new(CU, PLACEMENT_GROUP, "v1beta1", &resources);
    rule.namespaced_only = true;
    Entry {
        name: "fleet.reservednamespaces.validating".to_owned(),
        path: RESERVED_PATH.to_owned(),
        rules: vec![rule],
        namespaces: Namespaces::Reserved,
        failure_policy: FailurePolicy::Fail,
        timeout_seconds: TIMEOUT_SECONDS,
        handler: Handler::ReservedNamespaces,
    }
}

fn guard_rail_entries() -> Vec<Entry> {
    let guard = |name: &str, rules, namespaces| Entry {
        name: format!("fleet.{name}.guardrail.validating"),
        path: GUARD_RAIL_PATH.to_owned(),
        rules,
        namespaces,
        failure_policy: FailurePolicy::Ignore,
        timeout_seconds: GUARD_RAIL_TIMEOUT_SECONDS,
        handler: Handler::GuardRail,
    };
    vec![
        guard(
            "customresourcedefinition",
            vec![Rule::new(CUD, "apiextensions.k8s.io", "v1", &["customresourcedefinitions"])],
            Namespaces::All,
        ),
        guard(
            "membercluster",
            vec![Rule::new(CUD, CLUSTER_GROUP, "v1beta1", &["memberclusters", "memberclusters/status"])],
            Namespaces::All,
        ),
        guard(
            "fleetmembernamespacedresources",
            guarded_rules(),
            Namespaces::Labelled(labels::IS_FLEET_RESOURCE, label_values::TRUE),
        ),
        guard("fleetsystemnamespacedresources", guarded_rules(), Namespaces::Named(&[namespaces::FLEET_SYSTEM])),
        guard("kubenamespacedresources", guarded_rules(), Namespaces::Named(namespaces::OF_KUBERNETES)),
        guard("namespace", vec![Rule::new(CUD, "", "v1", &["namespaces"])], Namespaces::All),
    ]
}

/// All deletions, and creations and updates of important objects. Leases and events are excluded: a failing guard
/// rail could otherwise keep the control plane from recovering.
fn guarded_rules() -> Vec<Rule> {
    let mut rules = vec![Rule::new(D, "*", "*", &["*/*"])];
    rules.extend(GUARDED_WRITES.iter().map(|(group, version, resources)| Rule::new(CU, group, version, resources)));
    for rule in &mut rules {
        rule.namespaced_only = true;
    }
    rules
}

const GUARDED_WRITES: &[(&str, &str, &[&str])] = &[
    (
        "",
        "v1",
        &[
            "bindings",
            "configmaps",
            "endpoints",
            "limitranges",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "podtemplates",
            "pods",
            "pods/status",
            "replicationcontrollers",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
            "secrets",
            "serviceaccounts",
            "serviceaccounts/token",
            "services",
            "services/status",
        ],
    ),
    (
        "apps",
        "v1",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "replicasets",
            "replicasets/status",
            "deployments",
            "deployments/status",
            "statefulsets",
            "statefulsets/status",
        ],
    ),
    ("authorization.k8s.io", "v1", &["localsubjectaccessreviews", "localsubjectaccessreviews/status"]),
    ("autoscaling", "v1", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    ("batch", "v1", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    ("discovery.k8s.io", "v1", &["endpointslices"]),
    ("networking.k8s.io", "v1", &["ingresses", "ingresses/status", "networkpolicies", "networkpolicies/status"]),
    ("policy", "v1", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    ("rbac.authorization.k8s.io", "v1", &["roles", "rolebindings"]),
    ("storage.k8s.io", "v1", &["csistoragecapacities"]),
    (CLUSTER_GROUP, "v1beta1", &["internalmemberclusters", "internalmemberclusters/status"]),
    (PLACEMENT_GROUP, "v1beta1", &["works", "works/status"]),
    (
        NETWORKING_GROUP,
        "v1alpha1",
        &[
            "endpointsliceexports",
            "endpointsliceimports",
            "internalserviceexports",
            "internalserviceexports/status",
            "internalserviceimports",
            "internalserviceimports/status",
        ],
    ),
];

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
