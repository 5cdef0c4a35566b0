//! A placement and its clusters: the resources of each cluster and their progress.

use fleet_api::conditions::per_cluster::RolloutStep;
use fleet_api::conditions::{Condition, ConditionStatus};
use fleet_api::kinds::{Binding, Obj, Placement, Scope};
use fleet_api::time::Time;
use fleet_api::types::{BindingState, PlacementType, RolloutStrategyType};
use serde::Serialize;

use super::{RunOverview, index_of, since};
use crate::placement::{Milestone, PlacementProgress};
use crate::updaterun::{BindingFacts, Progress, RunOutcome};

/// The overview of a placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementOverview {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub picks: PlacementType,
    pub rollout: RolloutStrategyType,
    pub state: PlacementState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The message of the condition that determines the state.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    pub clusters: Vec<PlacedCluster>,
    /// Its staged update runs, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PlacementState {
    Deleting,
    /// The scheduler has not decided yet.
    Scheduling,
    /// Not as many clusters as wanted, or the selectors are invalid.
    NotScheduled,
    /// Staged update runs roll out; no cluster has resources, or they have different versions.
    UpToRuns,
    RollingOut,
    /// A cluster failed to override, synchronize or apply.
    Failing,
    Available,
}

/// A placement on one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedCluster {
    pub name: String,
    pub state: ClusterState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Index of the resources that it should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_index: Option<u32>,
    /// The condition that is not True yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Snapshots of the overrides that apply, as `namespace/name` or the name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Number of resources that failed, drifted or differ.
    pub failed: usize,
    pub drifted: usize,
    pub diffed: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ClusterState {
    /// Picked; no rollout has reached it.
    Pending,
    Updating,
    Failing,
    Available,
    /// No longer picked; its resources are being removed, or wait for a run to remove them.
    Leaving,
}

/// A run of the placement as one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunLine {
    pub name: String,
    pub state: RunOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_index: Option<u32>,
    pub clusters_done: usize,
    pub clusters: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
}

impl RunLine {
    pub fn of(run: &RunOverview) -> Self {
        Self {
            name: run.name.clone(),
            state: run.state,
            resource_index: run.resource_index,
            clusters_done: run.clusters_done,
            clusters: run.clusters,
            created: run.created,
        }
    }
}

/// The overview of a placement, from all its bindings and runs.
pub fn placement<S: Scope>(
    placement: &Obj<Placement, S>,
    bindings: &[Obj<Binding, S>],
    mut runs: Vec<RunLine>,
) -> PlacementOverview {
    let (state, deciding) = standing(placement);
    let mut clusters: Vec<PlacedCluster> = bindings.iter().map(placed).collect();
    clusters.sort_by(|one, other| one.name.cmp(&other.name));
    runs.sort_by(|one, other| other.created.cmp(&one.created).then_with(|| other.name.cmp(&one.name)));
    PlacementOverview {
        name: placement.metadata.name.clone().unwrap_or_default(),
        namespace: placement.metadata.namespace.clone(),
        picks: placement.spec.placement_type(),
        rollout: placement.spec.strategy_type(),
        state,
        since: since(deciding),
        message: deciding.map(|condition| condition.message.clone()).unwrap_or_default(),
        created: placement.metadata.creation_timestamp.as_ref().map(|time| Time::new(time.0)),
        clusters,
        runs,
    }
}

/// The state, and the condition that determines it.
fn standing<S: Scope>(placement: &Obj<Placement, S>) -> (PlacementState, Option<&Condition>) {
    if placement.is_deleting() {
        return (PlacementState::Deleting, None);
    }
    let PlacementProgress { at, said, reached } = PlacementProgress::of(placement, placement.status.as_ref());
    let status = said.map(|condition| condition.status);
    let state = match (at, status) {
        (None, _) => PlacementState::Available,
        (Some(Milestone::Scheduled), Some(ConditionStatus::False)) => PlacementState::NotScheduled,
        (Some(Milestone::Scheduled), _) => PlacementState::Scheduling,
        (Some(Milestone::Step(RolloutStep::RolloutStarted)), _)
            if placement.spec.strategy_type() == RolloutStrategyType::External =>
        {
            PlacementState::UpToRuns
        }
        (Some(Milestone::Step(RolloutStep::Overridden | RolloutStep::Applied)), Some(ConditionStatus::False)) => {
            PlacementState::Failing
        }
        (Some(Milestone::Step(_)), _) => PlacementState::RollingOut,
    };
    (state, said.or(reached))
}

fn placed<S: Scope>(binding: &Obj<Binding, S>) -> PlacedCluster {
    let facts = BindingFacts::of(binding);
    let leaving = facts.deleting || *facts.state == BindingState::Unscheduled;
    let progress = (*facts.state == BindingState::Bound && !leaving).then(|| Progress::of(&facts));
    let state = match &progress {
        _ if leaving => ClusterState::Leaving,
        None => ClusterState::Pending,
        Some(Progress::Done) => ClusterState::Available,
        Some(Progress::InProgress(_)) => ClusterState::Updating,
        Some(Progress::Failing { .. }) => ClusterState::Failing,
    };
    let (step, problem) = match &progress {
        Some(Progress::InProgress(step)) => (Some(*step), None),
        Some(Progress::Failing { step, message, .. }) => (Some(*step), Some(message.clone())),
        Some(Progress::Done) | None => (None, None),
    };
    let decided = match (step, state) {
        (Some(step), _) => step.current(facts.conditions, facts.generation),
        (None, ClusterState::Available) => [RolloutStep::Available, RolloutStep::DiffReported]
            .iter()
            .find_map(|step| step.current(facts.conditions, facts.generation)),
        (None, _) => None,
    };
    let namespaced = facts.overrides.iter().map(|one| format!("{}/{}", one.namespace, one.name));
    let status = binding.status.as_ref();
    PlacedCluster {
        name: facts.cluster.to_owned(),
        state,
        since: since(decided),
        resource_index: index_of(facts.resource_snapshot),
        step: step.map(RolloutStep::type_word),
        problem,
        overrides: facts.cluster_overrides.iter().cloned().chain(namespaced).collect(),
        failed: status.map_or(0, |status| status.failed_placements.len()),
        drifted: status.map_or(0, |status| status.drifted_placements.len()),
        diffed: status.map_or(0, |status| status.diffed_placements.len()),
    }
}
