//! Simulated member clusters: they join, report, and apply or acknowledge what they are given.
//!
//! Decides what such a cluster looks like: its name, labels, taints, nodes, properties. Its agent is the real one, in real or virtual time, and
//! speaks to the hub as the identity that its MemberCluster names. Where only the hub is of interest the work applier is
//! replaced by one that says yes (`acknowledge`) and applies nothing.

mod acknowledge;
mod described;

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::auth::User;
use apiserver::discovery::info::KUBERNETES_VERSION;
use fleet_api::kinds::MemberCluster;
use fleet_api::names::{ClusterName, MemberNamespace, NameError};
use fleet_api::types::{MemberClusterSpec, Subject, Taint};
use fleet_api::well_known::api_groups;
use fleet_member::{Member, MemberOptions, Properties, ProviderOptions};
use fleet_runtime::{Grant, Overlap, Ownership, Runtime, Side};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Who the agent of a member is on the hub: this, and the member's name behind it.
const IDENTITY_PREFIX: &str = "fleet-member-agent-";

/// A cluster that exists only in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedMember {
    pub name: ClusterName,
    pub labels: BTreeMap<String, String>,
    /// What keeps placements away that do not tolerate it.
    pub taints: Vec<Taint>,
    pub nodes: u32,
    /// What its agent tells of it beside what every agent tells.
    pub properties: BTreeMap<String, String>,
    /// Whether its agent tells which namespaces it has. Those that do not are taken to have any.
    pub tells_namespaces: bool,
    pub heartbeat_period_seconds: Option<i32>,
    pub works: Works,
}

/// What a member's agent does with Works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Works {
    /// Says that they are applied and available. For stories that are about the hub.
    #[default]
    Acknowledged,
    /// Applies them as every real agent does.
    Applied,
}

impl SimulatedMember {
    /// A member of three nodes without labels.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let name = ClusterName::parse(name)?;
        MemberNamespace::of(&name)?;
        Ok(Self {
            name,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            nodes: 3,
            properties: BTreeMap::new(),
            tells_namespaces: false,
            heartbeat_period_seconds: None,
            works: Works::default(),
        })
    }

    /// The same with an agent that applies what it is given.
    #[must_use]
    pub fn applying(mut self) -> Self {
        self.works = Works::Applied;
        self
    }

    /// The same with an agent that tells which namespaces it has, in the place of properties that are made up.
    #[must_use]
    pub fn telling_namespaces(mut self) -> Self {
        self.tells_namespaces = true;
        self
    }

    #[must_use]
    pub fn labelled(mut self, labels: &[(&str, &str)]) -> Self {
        self.labels.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        self
    }

    /// The object by which the hub learns of it.
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

    /// Its nodes, as its own API server would list them.
    pub fn node_objects(&self) -> Vec<Node> {
        (1..=self.nodes).map(|number| node(&format!("{}-node{number}", self.name))).collect()
    }
}

/// Four processors and 16 GiB, a little less of it for workloads.
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

/// Who a member's agent is on the hub. It may do what the hub lets this identity do, and nothing else.
pub fn identity(member: &ClusterName) -> User {
    User::authenticated(identity_name(member), [])
}

/// What the agents of simulated members write.
pub fn ownership(works: Works) -> Result<Ownership, Vec<Overlap>> {
    if works == Works::Applied {
        return Ownership::new(fleet_member::ownership());
    }
    let fields = &["status", "~metadata.finalizers[kubernetes-fleet.io/work-cleanup]"];
    let acknowledge = Grant { controller: acknowledge::NAME, kind: "Work", creates: false, deletes: false, fields };
    // It takes the real applier's place, so it takes what that may write.
    let others = fleet_member::ownership()
        .into_iter()
        .filter(|grant| !(grant.kind == "Work" && grant.fields.contains(&"status")));
    Ownership::new(others.chain([acknowledge]))
}

/// Adds a member's agent to a runtime whose main client speaks to the hub; `own` is the member's API server.
pub fn install(runtime: &mut Runtime, own: Side, member: &SimulatedMember) -> Result<Member, NameError> {
    let mut options = MemberOptions::new(member.name.as_str())?;
    if member.tells_namespaces {
        let provider = ProviderOptions { namespaces: true, ..ProviderOptions::default() };
        options = options.telling(Properties::Provider(provider));
    } else if !member.properties.is_empty() {
        let described = described::Described { properties: member.properties.clone() };
        options = options.telling(Properties::PlugIn(Arc::new(described)));
    }
    if member.works == Works::Applied {
        return Ok(fleet_member::install(runtime, own, &options));
    }
    let installed = fleet_member::install(runtime, own, &options.without_applier());
    acknowledge::start(runtime, &installed);
    Ok(installed)
}
