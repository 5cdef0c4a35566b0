//! Sums over nodes and pods: capacity, allocatable and available CPU and memory.
//!
//! Every existing node counts, also a cordoned one or one that is not ready. Every pod counts that has a node and has
//! not ended. Amounts are exact.

use std::collections::BTreeMap;
use std::ops::Add;

use fleet_api::types::{IntOrString, ResourceList, ResourceUsage};
use fleet_api::well_known::{node_labels, pod_phases};
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_values::Quantity;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";

/// Amounts of the reported resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Amounts {
    pub cpu: Quantity,
    pub memory: Quantity,
}

impl Amounts {
    fn zero() -> Self {
        Self { cpu: Quantity::zero(), memory: Quantity::zero() }
    }

    /// Missing or unreadable amounts count as zero.
    fn of(list: Option<&BTreeMap<String, Text>>) -> Self {
        let amount = |name| {
            let text = list.and_then(|list| list.get(name));
            text.and_then(|Text(text)| text.parse().ok()).unwrap_or_else(Quantity::zero)
        };
        Self { cpu: amount(CPU), memory: amount(MEMORY) }
    }

    /// The difference, at least zero.
    fn without(&self, taken: &Self) -> Self {
        let left = |whole: &Quantity, part: &Quantity| if whole > part { whole - part } else { Quantity::zero() };
        Self { cpu: left(&self.cpu, &taken.cpu), memory: left(&self.memory, &taken.memory) }
    }

    fn list(&self) -> ResourceList {
        let text = |amount: &Quantity| IntOrString::String(amount.to_string());
        BTreeMap::from([(CPU.to_owned(), text(&self.cpu)), (MEMORY.to_owned(), text(&self.memory))])
    }
}

impl Add<&Amounts> for Amounts {
    type Output = Amounts;

    fn add(self, other: &Amounts) -> Amounts {
        Amounts { cpu: &self.cpu + &other.cpu, memory: &self.memory + &other.memory }
    }
}

fn sum<'a>(amounts: impl Iterator<Item = &'a Amounts>) -> Amounts {
    amounts.fold(Amounts::zero(), Add::add)
}

/// The counted facts of a node.
#[derive(Debug, Clone)]
pub struct NodeFacts<'a> {
    pub(super) capacity: Amounts,
    pub(super) allocatable: Amounts,
    /// The machine size; `None` if the node does not say.
    pub(super) machine_size: Option<&'a str>,
    pub(super) region: Option<&'a str>,
}

impl<'a> NodeFacts<'a> {
    pub fn of(node: &'a Node) -> Self {
        let status = node.status.as_ref();
        let label = |key| {
            let label = node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
            label.filter(|text| !text.is_empty())
        };
        Self {
            capacity: Amounts::of(status.and_then(|status| status.capacity.as_ref())),
            allocatable: Amounts::of(status.and_then(|status| status.allocatable.as_ref())),
            machine_size: label(node_labels::INSTANCE_TYPE),
            region: label(node_labels::REGION),
        }
    }
}

/// The counted facts of a pod.
#[derive(Debug, Clone)]
pub struct PodFacts {
    /// `None` for a pod that uses no node: it has none yet, or it has ended.
    pub(super) requested: Option<Amounts>,
}

impl PodFacts {
    pub fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let placed = spec.and_then(|spec| spec.node_name.as_deref()).is_some_and(|node| !node.is_empty());
        let ended = matches!(phase, Some(pod_phases::SUCCEEDED | pod_phases::FAILED));
        let containers = spec.map_or(&[][..], |spec| &spec.containers);
        Self { requested: (placed && !ended).then(|| sum(containers.iter().map(request).collect::<Vec<_>>().iter())) }
    }
}

fn request(container: &Container) -> Amounts {
    Amounts::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

pub(super) fn capacity(nodes: &[NodeFacts<'_>]) -> Amounts {
    sum(nodes.iter().map(|node| &node.capacity))
}

/// The capacity of the nodes and, if pods are given, what is available. Does not set a time.
pub(super) fn usage<'p>(nodes: &[NodeFacts<'_>], pods: Option<impl Iterator<Item = &'p PodFacts>>) -> ResourceUsage {
    let allocatable = sum(nodes.iter().map(|node| &node.allocatable));
    let available = pods.map(|pods| allocatable.without(&sum(pods.filter_map(|pod| pod.requested.as_ref()))));
    ResourceUsage {
        capacity: capacity(nodes).list(),
        allocatable: allocatable.list(),
        available: available.map(|available| available.list()).unwrap_or_default(),
        observation_time: None,
    }
}
