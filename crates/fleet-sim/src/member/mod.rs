//! Simulated member clusters: they join, report and acknowledge what they are given.
//!
//! Decides what such a cluster looks like: its name, labels, nodes. Its agent runs on the same runtime as every other, in
//! real or virtual time, and speaks to the hub as the identity that its MemberCluster names. Never applies a manifest.
//!
//! | file | what |
//! |---|---|
//! | `membership` | joins, sends heartbeats, leaves |
//! | `acknowledge` | says of every Work that it is applied and available |

mod acknowledge;
mod membership;

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::auth::User;
use fleet_api::kinds::{InternalMemberCluster, MemberCluster, Work};
use fleet_api::names::{ClusterName, MemberNamespace, NameError};
use fleet_api::types::{MemberClusterSpec, Subject};
use fleet_api::well_known::api_groups;
use fleet_runtime::{Grant, Kind, Ownership, Runtime, Seeds, Triggers};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use parking_lot::Mutex;

use membership::Membership;

/// Who the agent of a member is on the hub: this, and the member's name behind it.
const IDENTITY_PREFIX: &str = "fleet-member-agent-";
/// Keys of Works that are in hand at once. Acknowledging costs one small write.
const WORKS_AT_ONCE: usize = 4;

/// A cluster that exists only in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedMember {
    pub name: ClusterName,
    pub labels: BTreeMap<String, String>,
    pub nodes: u32,
    pub heartbeat_period_seconds: Option<i32>,
}

impl SimulatedMember {
    /// A member of three nodes without labels.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let name = ClusterName::parse(name)?;
        MemberNamespace::of(&name)?;
        Ok(Self { name, labels: BTreeMap::new(), nodes: 3, heartbeat_period_seconds: None })
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
            taints: Vec::new(),
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
pub fn ownership() -> Result<Ownership, Vec<fleet_runtime::Overlap>> {
    let grant = |controller, kind, fields| Grant { controller, kind, creates: false, deletes: false, fields };
    Ownership::new([
        grant(membership::NAME, "InternalMemberCluster", &["status"]),
        // Leaving lets go of Works that acknowledging holds; the two never do it at the same time.
        grant(acknowledge::NAME, "Work", &["metadata.finalizers", "status"]),
    ])
}

/// Adds a member's agent to a runtime whose client speaks to the hub.
pub fn install(runtime: &mut Runtime, member: &SimulatedMember, seeds: &Seeds) -> Result<(), NameError> {
    let namespace = MemberNamespace::of(&member.name)?;
    let mailboxes = runtime.cache(Kind::<InternalMemberCluster>::new().in_namespace(namespace.as_str()));
    let works = runtime.cache(Kind::<Work>::new().in_namespace(namespace.as_str()));
    let memory = Arc::new(Mutex::default());
    let membership = Membership {
        member: member.clone(),
        namespace: namespace.clone(),
        mailboxes: mailboxes.clone(),
        works: works.clone(),
        memory,
        seed: seeds.next(),
    };
    let own = member.name.clone();
    let also_own = member.name.clone();
    let triggers = Triggers::new().on(&mailboxes, move |_| [own.clone()]).on(&works, move |_| [also_own.clone()]);
    runtime.controller(membership, triggers, 1);
    let (boxes, all_works) = (mailboxes.clone(), works.clone());
    let acknowledge = acknowledge::Acknowledge { member: member.name.clone(), namespace, mailboxes, works };
    let triggers = Triggers::new().on(&all_works, |event| [event.key()]).on(&boxes, {
        let works = all_works.clone();
        move |_| works.keys()
    });
    runtime.controller(acknowledge, triggers, WORKS_AT_ONCE);
    Ok(())
}
