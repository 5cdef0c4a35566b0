//! Which cluster is updated in which stage, and in which order.
//!
//! Decides it from the strategy, the clusters' labels of this moment and the selected bindings. The first look at a run
//! records the result, every later one computes it again and compares. Never starts anything.

use std::collections::BTreeMap;

use fleet_api::conditions::run_fault::{RunFault, UnplacedClusters};
use fleet_api::names::{ApprovalRequestName, GatePosition, RunName, StageName};
use fleet_api::selector::Selector;
use fleet_api::types::{
    ClusterUpdatingStatus, StageConfig, StageTask, StageTaskStatus, StageTaskType, StageUpdatingStatus,
    UpdateStrategySpec,
};
use fleet_api::well_known::DELETE_STAGE;

use super::ground::Targets;
use super::observed::Observed;
use super::{numbers, task_rules};

/// The stages with their clusters in order, as they are recorded.
pub(super) fn compute(
    observed: &Observed<'_>,
    strategy: &UpdateStrategySpec,
    targets: &Targets<'_>,
) -> Result<Vec<StageUpdatingStatus>, RunFault> {
    let key = observed.run.key_of(&observed.run.spec.staged_update_strategy_name);
    let labels: BTreeMap<&str, _> = observed.members.iter().map(|member| (member.name, member.labels)).collect();
    let mut placed: BTreeMap<&str, usize> = BTreeMap::new();
    let mut stages = Vec::with_capacity(strategy.stages.len());
    for (index, stage) in strategy.stages.iter().enumerate() {
        task_rules::check(&key, stage)?;
        let invalid =
            |error: String| RunFault::InvalidStageSelector { strategy: key.clone(), stage: stage.name.clone(), error };
        let selector = Selector::new(stage.label_selector.as_ref()).map_err(|error| invalid(error.to_string()))?;
        // The schema lets no other name through; a gate could not be named after it.
        let name = StageName::parse(&stage.name).map_err(|error| invalid(error.to_string()))?;
        let mut clusters = Vec::new();
        for cluster in targets.selected.keys().copied() {
            let Some(labels) = labels.get(cluster).filter(|labels| selector.matches(labels)) else { continue };
            if placed.insert(cluster, index).is_some() {
                return Err(RunFault::ClusterInSeveralStages { cluster: cluster.to_owned() });
            }
            clusters.push((rank(stage, cluster, labels)?, cluster));
        }
        clusters.sort_unstable();
        stages.push(entry(observed.run.name, stage, name, clusters.into_iter().map(|(_, cluster)| cluster)));
    }
    Ok(stages)
}

/// Every selected cluster must be in a stage.
pub(super) fn check_all_placed(stages: &[StageUpdatingStatus], targets: &Targets<'_>) -> Result<(), RunFault> {
    let placed: std::collections::BTreeSet<&str> =
        stages.iter().flat_map(|stage| &stage.clusters).map(|cluster| cluster.cluster_name.as_str()).collect();
    let missing: Vec<_> =
        targets.selected.keys().filter(|cluster| !placed.contains(**cluster)).map(ToString::to_string).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(RunFault::ClustersInNoStage { clusters: UnplacedClusters(missing) })
}

/// The stage in which what is no longer wanted is removed; it comes after all others.
pub(super) fn delete_stage(targets: &Targets<'_>) -> StageUpdatingStatus {
    let clusters = targets.leaving.keys().map(|cluster| cluster_entry(cluster)).collect();
    StageUpdatingStatus { stage_name: DELETE_STAGE.to_owned(), clusters, ..StageUpdatingStatus::default() }
}

/// Clusters with smaller numbers go first. A label that is not there is not a number either.
fn rank(stage: &StageConfig, cluster: &str, labels: &BTreeMap<String, String>) -> Result<i64, RunFault> {
    let Some(key) = stage.sorting_label_key.as_deref() else { return Ok(0) };
    let value = labels.get(key).map(String::as_str).unwrap_or_default();
    numbers::integer(value).map_err(|problem| RunFault::InvalidSortingLabel {
        key: key.to_owned(),
        value: value.to_owned(),
        cluster: cluster.to_owned(),
        problem,
    })
}

fn entry<'c>(
    run: &RunName,
    stage: &StageConfig,
    name: StageName,
    clusters: impl Iterator<Item = &'c str>,
) -> StageUpdatingStatus {
    let tasks = |tasks: &[StageTask], position| -> Vec<StageTaskStatus> {
        let request = ApprovalRequestName { run: run.clone(), position, stage: name.clone() }.to_string();
        let task = |task: &StageTask| StageTaskStatus {
            type_: task.type_,
            approval_request_name: match task.type_ {
                StageTaskType::Approval => request.clone(),
                StageTaskType::TimedWait => String::new(),
            },
            conditions: Vec::new(),
        };
        tasks.iter().map(task).collect()
    };
    StageUpdatingStatus {
        stage_name: stage.name.clone(),
        clusters: clusters.map(cluster_entry).collect(),
        before_stage_task_status: tasks(&stage.before_stage_tasks, GatePosition::Before),
        after_stage_task_status: tasks(&stage.after_stage_tasks, GatePosition::After),
        ..StageUpdatingStatus::default()
    }
}

fn cluster_entry(cluster: &str) -> ClusterUpdatingStatus {
    ClusterUpdatingStatus { cluster_name: cluster.to_owned(), ..ClusterUpdatingStatus::default() }
}
