//! Simulated member clusters. Their agents are real: they join, report status and apply Works, in real or virtual time,
//! with the identity that their MemberCluster names. In tests of the hub alone, `acknowledge` replaces the work
//! applier.

mod acknowledge;
mod fixed_properties;

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::{KUBERNETES_VERSION, User};
use fleet_api::kinds::MemberCluster;
use fleet_api::names::{ClusterName, MemberNamespace, NameError};
use fleet_api::types::{MemberClusterSpec, Subject, Taint};
use fleet_api::well_known::api_groups;
use fleet_core::apply::availability::Tracking;
use fleet_member::{ApplierOptions, Member, MemberOptions, Properties, ProviderOptions};
use fleet_runtime::{ClusterId, Grant, Overlap, Ownership, Runtime};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The user name of a member's agent on the hub is this prefix with the member's name.
const IDENTITY_PREFIX: &str = "fleet-member-agent-";

/// A cluster without containers, inside this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedMember {
    pub name: ClusterName,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub nodes: u32,
    /// Properties that its agent reports in addition to the built-in ones.
    pub properties: BTreeMap<String, String>,
    /// Whether its agent reports its namespaces. A member that does not report them is assumed to have all.
    pub reports_namespaces: bool,
    pub heartbeat_period_seconds: Option<i32>,
    pub works: WorkHandling,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkHandling {
    /// Reports Works as applied and available without applying them, for tests of the hub.
    #[default]
    Acknowledged,
    /// Applies Works as a real agent does.
    Applied,
}

impl SimulatedMember {
    /// A member with three nodes and without labels.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let name = ClusterName::parse(name)?;
        MemberNamespace::of(&name)?;
        Ok(Self {
            name,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            nodes: 3,
            properties: BTreeMap::new(),
            reports_namespaces: false,
            heartbeat_period_seconds: None,
            works: WorkHandling::default(),
        })
    }

    /// Lets the agent apply Works.
    #[must_use]
    pub fn applying(mut self) -> Self {
        self.works = WorkHandling::Applied;
        self
    }

    /// Lets the agent report its namespaces instead of `properties`.
    #[must_use]
    pub fn reporting_namespaces(mut self) -> Self {
        self.reports_namespaces = true;
        self
    }

    #[must_use]
    pub fn labelled(mut self, labels: &[(&str, &str)]) -> Self {
        self.labels.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        self
    }

    pub fn member_cluster(&self) -> MemberCluster {
        let identity = Subject {
            kind: "User".to_owned(),
            api_group: api_groups::RBAC.to_owned(),
            name: identity_name(&self.name),
            namespace: String::new(),
        };
        let spec = MemberClusterSpec {
            identity,
            heartbeat_period_seconds: self.heartbeat_period_seconds,
            taints: self.taints.clone(),
            delete_options: None,
        };
        let mut member = MemberCluster::named(self.name.as_str(), spec);
        member.metadata.labels = Some(self.labels.clone()).filter(|labels| !labels.is_empty());
        member
    }

    pub fn node_objects(&self) -> Vec<Node> {
        (1..=self.nodes).map(|number| node(&format!("{}-node{number}", self.name))).collect()
    }
}

/// Four CPUs and 16 GiB, a little less of it allocatable.
fn node(name: &str) -> Node {
    let list = |cpu: &str, memory: &str| {
        let quantity = |text: &str| Quantity(text.to_owned());
        Some(BTreeMap::from([("cpu".to_owned(), quantity(cpu)), ("memory".to_owned(), quantity(memory))]))
    };
    let mut node = Node::default();
    node.metadata.name = Some(name.to_owned());
    let status = node.status.get_or_insert_default();
    status.capacity = list("4", "16Gi");
    status.allocatable = list("3800m", "14Gi");
    let ready = NodeCondition { type_: "Ready".to_owned(), status: "True".to_owned(), ..NodeCondition::default() };
    status.conditions = Some(vec![ready]);
    let info = status.node_info.get_or_insert_default();
    KUBERNETES_VERSION.clone_into(&mut info.kubelet_version);
    node
}

fn identity_name(member: &ClusterName) -> String {
    format!("{IDENTITY_PREFIX}{member}")
}

/// The identity of a member's agent on the hub. It has the RBAC rules that the hub agent creates for it.
pub fn identity(member: &ClusterName) -> User {
    User::authenticated(identity_name(member), [])
}

/// The single-writer table of the agents of simulated members.
pub fn ownership(works: WorkHandling) -> Result<Ownership, Vec<Overlap>> {
    if works == WorkHandling::Applied {
        return Ownership::new(fleet_member::ownership());
    }
    // The simulated applier replaces the real one, so it owns the same fields.
    let replaced = |grant: Grant| match grant.controller {
        fleet_member::APPLIER => Grant { controller: acknowledge::NAME, ..grant },
        _ => grant,
    };
    Ownership::new(fleet_member::ownership().into_iter().map(replaced))
}

/// Adds a member's agent to a runtime whose main client is one of the hub; `own` is the member's API server.
pub fn install(runtime: &mut Runtime, own: ClusterId, member: &SimulatedMember) -> Result<Member, NameError> {
    let options = options_of(member)?;
    if member.works == WorkHandling::Applied {
        return Ok(fleet_member::install(runtime, own, &options));
    }
    let installed = fleet_member::install(runtime, own, &options.without_applier());
    acknowledge::start(runtime, &installed);
    Ok(installed)
}

fn options_of(member: &SimulatedMember) -> Result<MemberOptions, NameError> {
    // Users of a simulated fleet expect a Job to become available, and no script depends on the other reasons.
    let applier = ApplierOptions { tracking: Tracking::Extended, ..ApplierOptions::default() };
    let mut options = MemberOptions::new(member.name.as_str())?.with_applier(applier);
    if member.reports_namespaces {
        let provider = ProviderOptions { namespaces: true, ..ProviderOptions::default() };
        options = options.with_properties(Properties::Provider(provider));
    } else if !member.properties.is_empty() {
        let fixed = fixed_properties::FixedProperties { properties: member.properties.clone() };
        options = options.with_properties(Properties::PlugIn(Arc::new(fixed)));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_08_simulated_members_track_jobs_and_ingresses() {
        let options = options_of(&SimulatedMember::new("m1").unwrap()).unwrap();
        assert_eq!(options.applier.tracking, Tracking::Extended);
    }
}
