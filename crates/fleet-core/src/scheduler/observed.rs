//! The facts for scheduling, borrowed from the objects.

use std::collections::BTreeMap;

use fleet_api::conditions::member::{AgentHealthy, AgentJoined, NamespaceCollectionSucceeded};
use fleet_api::conditions::{Condition, ConditionStatus, decode_ignoring_generation};
use fleet_api::kinds::{Binding, MemberCluster, Obj, Placement, PolicySnapshot, Scope};
use fleet_api::names::{ClusterName, PlacementKey};
use fleet_api::time::Time;
use fleet_api::types::{
    AgentType, BindingState, ClusterDecision, PlacementPolicy, PropertyValue, ResourceUsage,
    SchedulingPolicySnapshotStatus, Taint,
};
use fleet_api::well_known::{annotations, finalizers};
use jiff::Timestamp;

use super::eligibility::EligibilityLimits;
use crate::rollout;

/// Everything that a plan depends on.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub placement: PlacementFacts<'a>,
    pub policy: LatestPolicy<'a>,
    /// All members of the fleet, in any order.
    pub clusters: Vec<ClusterFacts<'a>>,
    /// All bindings of the placement, in any order.
    pub bindings: Vec<BindingFacts<'a>>,
    pub limits: EligibilityLimits,
    /// Random bits for the name suffixes of new bindings. Equal for every plan of one placement, so that a creation
    /// with an unknown result is retried under the same name.
    pub suffix_seed: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct PlacementFacts<'a> {
    pub key: &'a PlacementKey,
    pub deleting: bool,
    /// Whether the placement has the scheduler's finalizer.
    pub has_finalizer: bool,
    /// Whether its resources stay on the clusters when it is deleted.
    pub abandons: bool,
}

impl<'a> PlacementFacts<'a> {
    pub fn of<S: Scope>(key: &'a PlacementKey, placement: &Obj<Placement, S>) -> Self {
        Self {
            key,
            deleting: placement.is_deleting(),
            has_finalizer: placement.has_finalizer(finalizers::SCHEDULER),
            abandons: rollout::PlacementFacts::of(placement).abandons(),
        }
    }

    /// Whether the placement is deleted and still has our finalizer. Its bindings must then be read from the server:
    /// one that is missing in the cache would be left behind for good.
    pub fn is_released(&self) -> bool {
        self.deleting && self.has_finalizer
    }
}

/// The policy snapshot that is marked as the latest.
#[derive(Debug, Clone, Copy)]
pub enum LatestPolicy<'a> {
    /// Not created yet.
    Missing,
    /// More than one is marked, as in the middle of a change.
    Several(usize),
    One(PolicyFacts<'a>),
}

impl<'a> LatestPolicy<'a> {
    /// From all snapshots of the placement that are marked as latest.
    pub fn of<S: Scope>(marked: &[&'a Obj<PolicySnapshot, S>]) -> Self {
        match marked {
            [] => LatestPolicy::Missing,
            [one] => LatestPolicy::One(PolicyFacts::of(one)),
            several => LatestPolicy::Several(several.len()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PolicyFacts<'a> {
    pub name: &'a str,
    pub generation: i64,
    /// `None` means every cluster.
    pub policy: Option<&'a PlacementPolicy>,
    /// The number of wanted clusters; `None` if the annotation is missing or unreadable.
    pub number_of_clusters: Option<usize>,
    /// Generation of the placement that the snapshot reflects; `None` if the annotation is missing or unreadable.
    pub placement_generation: Option<i64>,
    pub status: Option<&'a SchedulingPolicySnapshotStatus>,
}

impl<'a> PolicyFacts<'a> {
    pub fn of<S: Scope>(snapshot: &'a Obj<PolicySnapshot, S>) -> Self {
        let number = |key| snapshot.annotation(key).and_then(|text| text.parse::<i64>().ok());
        Self {
            name: snapshot.name(),
            generation: snapshot.generation(),
            policy: snapshot.spec.policy.as_ref(),
            number_of_clusters: number(annotations::NUMBER_OF_CLUSTERS).and_then(|wanted| usize::try_from(wanted).ok()),
            placement_generation: number(annotations::PLACEMENT_GENERATION),
            status: snapshot.status.as_ref(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct ClusterFacts<'a> {
    pub name: ClusterName,
    /// `None` if the object cannot be read.
    pub uid: Option<&'a str>,
    /// Its object is being deleted.
    pub leaving: bool,
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    pub properties: &'a BTreeMap<String, PropertyValue>,
    pub usage: Option<&'a ResourceUsage>,
    /// The report of the member agent; `None` before its first report.
    pub agent: Option<AgentFacts>,
    pub namespaces: Namespaces<'a>,
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
static NO_PROPERTIES: BTreeMap<String, PropertyValue> = BTreeMap::new();

impl<'a> ClusterFacts<'a> {
    pub fn of(name: ClusterName, cluster: &'a MemberCluster) -> Self {
        let status = cluster.status.as_ref();
        let observed = status.map(|status| &status.observed);
        Self {
            name,
            uid: cluster.metadata.uid.as_deref(),
            leaving: cluster.is_deleting(),
            labels: cluster.metadata.labels.as_ref().unwrap_or(&NO_LABELS),
            taints: &cluster.spec.taints,
            properties: observed.map_or(&NO_PROPERTIES, |observed| &observed.properties),
            usage: observed.and_then(|observed| observed.resource_usage.as_ref()),
            agent: observed
                .and_then(|observed| observed.agent_status.iter().find(|agent| agent.type_ == AgentType::MemberAgent))
                .map(|agent| AgentFacts::of(&agent.conditions, agent.last_received_heartbeat.map(Time::instant))),
            namespaces: status.map_or(Namespaces::NotCollected, |status| {
                Namespaces::of(&status.conditions, &status.observed.namespaces)
            }),
        }
    }
}

/// The report of the member agent. Generations are not compared: an older report still shows that the agent is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentFacts {
    pub heartbeat: Option<Timestamp>,
    pub joined: bool,
    pub health: Health,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    NotReported,
    Healthy,
    NotHealthySince(Timestamp),
}

impl AgentFacts {
    fn of(conditions: &[Condition], heartbeat: Option<Timestamp>) -> Self {
        let joined = decode_ignoring_generation::<AgentJoined>(conditions);
        let health = match decode_ignoring_generation::<AgentHealthy>(conditions).any() {
            None => Health::NotReported,
            Some(condition) if condition.status == ConditionStatus::True => Health::Healthy,
            Some(condition) => Health::NotHealthySince(condition.last_transition_time.instant()),
        };
        Self { heartbeat, joined: joined.is_true(), health }
    }
}

/// The namespaces of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespaces<'a> {
    /// The member does not collect them.
    NotCollected,
    /// The member collects them but has reported none; an empty list looks the same on the wire.
    Unknown,
    Known(&'a BTreeMap<String, String>),
}

impl<'a> Namespaces<'a> {
    fn of(conditions: &[Condition], namespaces: &'a BTreeMap<String, String>) -> Self {
        match decode_ignoring_generation::<NamespaceCollectionSucceeded>(conditions).any() {
            None => Namespaces::NotCollected,
            Some(_) if namespaces.is_empty() => Namespaces::Unknown,
            Some(_) => Namespaces::Known(namespaces),
        }
    }
}

#[derive(Debug, Clone)]
pub struct BindingFacts<'a> {
    pub name: &'a str,
    pub cluster: &'a str,
    /// The uid of the cluster for which it was created or picked again. Other releases record none.
    pub cluster_uid: Option<&'a str>,
    pub state: &'a BindingState,
    pub policy_snapshot: &'a str,
    pub decision: &'a ClusterDecision,
    /// The state of an unscheduled binding before that.
    pub previous_state: Option<BindingState>,
    pub deleting: bool,
    /// Whether the binding has the scheduler's finalizer.
    pub has_finalizer: bool,
    /// Whether it records that its resources stay on the cluster.
    pub abandoned: bool,
}

impl<'a> BindingFacts<'a> {
    pub fn of<S: Scope>(binding: &'a Obj<Binding, S>) -> Self {
        Self {
            name: binding.name(),
            cluster: &binding.spec.target_cluster,
            cluster_uid: binding.annotation(annotations::MEMBER_CLUSTER_UID),
            state: &binding.spec.state,
            policy_snapshot: &binding.spec.scheduling_policy_snapshot_name,
            decision: &binding.spec.cluster_decision,
            previous_state: binding.annotation(annotations::PREVIOUS_BINDING_STATE).and_then(previous_state),
            deleting: binding.is_deleting(),
            has_finalizer: binding.has_finalizer(finalizers::SCHEDULER_BINDING),
            abandoned: rollout::BindingFacts::of(binding).abandoned,
        }
    }
}

/// Whether a binding belongs to the current membership of its cluster, and not to one before the cluster left and joined
/// again. Unknown uids count as equal.
pub fn is_of_membership(of_binding: Option<&str>, of_cluster: Option<&str>) -> bool {
    of_binding.zip(of_cluster).is_none_or(|(of_binding, of_cluster)| of_binding == of_cluster)
}

/// Other releases may record `Unscheduled` when they repeat a write, which loses the previous state. Scheduled, the
/// first state of every binding, is then safe, because the rollout continues from it.
fn previous_state(word: &str) -> Option<BindingState> {
    match BindingState::from(word.to_owned()) {
        BindingState::Scheduled | BindingState::Unscheduled => Some(BindingState::Scheduled),
        BindingState::Bound => Some(BindingState::Bound),
        BindingState::Other(_) => None,
    }
}
