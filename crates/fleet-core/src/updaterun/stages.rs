//! Which cluster is updated in which stage and order, and how many at once: from the strategy, the current labels of
//! the clusters and the selected bindings.

use std::collections::BTreeMap;
use std::num::IntErrorKind;

use fleet_api::conditions::run_fault::{RunFault, SortingLabelProblem, UnplacedClusters};
use fleet_api::names::{ApprovalRequestName, GatePosition, RunName, StageName};
use fleet_api::types::{
    ClusterUpdatingStatus, IntOrString, PercentError, Rounding, StageConfig, StageTask, StageTaskStatus, StageTaskType,
    StageUpdatingStatus, UpdateStrategySpec,
};
use fleet_api::well_known::DELETE_STAGE;
use k8s_values::Selector;

use super::observed::Observed;
use super::prerequisites::{self, Targets};

/// The stages with their clusters in update order. The first plan records the result; later plans compute it again and
/// compare.
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
        prerequisites::check_tasks(&key, stage)?;
        let invalid =
            |error: String| RunFault::InvalidStageSelector { strategy: key.clone(), stage: stage.name.clone(), error };
        let selector = Selector::new(stage.label_selector.as_ref()).map_err(|error| invalid(error.to_string()))?;
        // The schema rejects other names; the name is part of the name of approval requests.
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

/// The last stage, which removes unscheduled bindings.
pub(super) fn delete_stage(targets: &Targets<'_>) -> StageUpdatingStatus {
    let clusters = targets.to_remove.keys().map(|cluster| cluster_entry(cluster)).collect();
    StageUpdatingStatus { stage_name: DELETE_STAGE.to_owned(), clusters, ..StageUpdatingStatus::default() }
}

/// Clusters with smaller numbers come first. A missing label counts as an invalid number.
fn rank(stage: &StageConfig, cluster: &str, labels: &BTreeMap<String, String>) -> Result<i64, RunFault> {
    let Some(key) = stage.sorting_label_key.as_deref() else { return Ok(0) };
    let value = labels.get(key).map(String::as_str).unwrap_or_default();
    integer(value).map_err(|problem| RunFault::InvalidSortingLabel {
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

/// How many clusters of the stage may be updated at once. A percentage is rounded down; at least one cluster is
/// allowed.
pub(super) fn concurrency(stage: &StageConfig, clusters: usize) -> Result<usize, RunFault> {
    let given = stage.max_concurrency.as_ref().unwrap_or(&IntOrString::Int(1));
    let invalid = |error: PercentError| RunFault::InvalidConcurrency { error: error.to_string() };
    let share = given.scaled(clusters, Rounding::Down).map_err(invalid)?;
    Ok(usize::try_from(share).unwrap_or(0).max(1))
}

/// Parses a base-10 integer as Go's `strconv.Atoi` does. A sign and leading zeros are allowed.
pub(super) fn integer(text: &str) -> Result<i64, SortingLabelProblem> {
    text.parse::<i64>().map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => SortingLabelProblem::OutOfRange,
        _ => SortingLabelProblem::NotAnInteger,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, number) in [("007", 7), ("-3", -3), ("+3", 3), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer(text), Ok(number), "{text}");
        }
        for text in ["", " 1", "1 ", "1_000", "0x1", "1.0", "one", "+", "-"] {
            assert_eq!(integer(text), Err(SortingLabelProblem::NotAnInteger), "{text:?}");
        }
        assert_eq!(integer("9223372036854775808"), Err(SortingLabelProblem::OutOfRange));
    }

    fn allowed(given: Option<IntOrString>, clusters: usize) -> Result<usize, RunFault> {
        concurrency(&StageConfig { max_concurrency: given, ..StageConfig::default() }, clusters)
    }

    /// updaterun.md 24, item 7.
    #[test]
    fn checklist_07_percentages_are_rounded_down_to_at_least_one_and_numbers_are_not_capped() {
        for (percent, clusters, expected) in
            [("30%", 1, 1), ("50%", 3, 1), ("70%", 3, 2), ("25%", 7, 1), ("33%", 10, 3), ("100%", 9, 9)]
        {
            assert_eq!(allowed(Some(percent.into()), clusters), Ok(expected), "{percent} of {clusters}");
        }
        assert_eq!(allowed(Some(500.into()), 3), Ok(500));
        assert_eq!(allowed(None, 3), Ok(1));
        assert_eq!(allowed(Some((-4).into()), 3), Ok(1));
    }

    #[test]
    fn a_concurrency_that_is_neither_number_nor_percentage_ends_the_run() {
        let fault = allowed(Some("many".into()), 3).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "cannot continue the updateRun: invalid value for IntOrString: invalid type: string is not a percentage"
        );
    }
}
