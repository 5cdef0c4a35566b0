//! What a run needs: its placement, a scheduled policy, the bindings of that policy, and valid tasks in the strategy.
//! The first plan and every later one make these checks, in the order in which faults are reported.

use std::collections::BTreeMap;

use fleet_api::admission::defaults::fill_apply_strategy;
use fleet_api::conditions::decode;
use fleet_api::conditions::policy_snapshot::PolicySnapshotScheduled;
use fleet_api::conditions::run_fault::{
    AfterStageTasksProblem, BeforeStageTasksProblem, ClusterCountProblem, RunFault,
};
use fleet_api::time::go_duration;
use fleet_api::types::{
    ApplyStrategy, BindingState, PlacementPolicy, PlacementType, RolloutStrategyType, StageConfig, StageTask,
    StageTaskType, UpdateStrategySpec,
};

use super::context::StepError;
use super::observed::{BindingFacts, Observed, PolicySnapshotFacts};
use super::report::Cause;
use super::stages;

/// The apply strategy of the placement, defaults filled in. A placement that is being deleted counts as gone.
pub(super) fn apply_strategy(observed: &Observed<'_>) -> Result<ApplyStrategy, RunFault> {
    let placement = observed.placement.filter(|placement| !placement.deleting).ok_or(RunFault::PlacementNotFound)?;
    let strategy_type = placement.spec.strategy_type();
    if strategy_type != RolloutStrategyType::External {
        return Err(RunFault::StrategyNotExternal { strategy_type: strategy_type.to_string() });
    }
    let given = placement.spec.strategy.as_ref().and_then(|strategy| strategy.apply_strategy.clone());
    let mut strategy = given.unwrap_or_default();
    fill_apply_strategy(&mut strategy);
    Ok(strategy)
}

/// The latest policy snapshot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy<'a> {
    pub snapshot: &'a PolicySnapshotFacts<'a>,
    pub index: &'a str,
}

/// If snapshots exist but none is marked latest, the placement controller is replacing the policy: retry.
pub(super) fn latest_policy<'a>(observed: &'a Observed<'a>) -> Result<Policy<'a>, StepError> {
    let latest: Vec<_> = observed.policy_snapshots.iter().filter(|snapshot| snapshot.latest).collect();
    let placement = || observed.run.key_of(&observed.run.spec.placement_name);
    match latest[..] {
        [] if !observed.policy_snapshots.is_empty() => Err(StepError::Unknown(Cause::ObservationStale)),
        [] => Err(RunFault::NoPolicySnapshot { placement: placement() }.into()),
        [snapshot] => match snapshot.index {
            Some(index) => Ok(Policy { snapshot, index }),
            None => Err(RunFault::NoPolicyIndex { snapshot: observed.run.key_of(snapshot.name) }.into()),
        },
        _ => Err(RunFault::SeveralPolicySnapshots { placement: placement(), found: latest.len() }.into()),
    }
}

impl Policy<'_> {
    /// How many clusters the policy asks for; `None` for PickAll.
    pub(super) fn cluster_count(&self, observed: &Observed<'_>) -> Result<Option<i64>, RunFault> {
        match self.snapshot.policy.map(PlacementPolicy::placement_type).unwrap_or_default() {
            PlacementType::PickAll => Ok(None),
            PlacementType::PickFixed => {
                let names = self.snapshot.policy.and_then(|policy| policy.cluster_names.as_deref());
                Ok(Some(names.map_or(0, <[_]>::len).try_into().unwrap_or(i64::MAX)))
            }
            PlacementType::PickN => match count(self.snapshot.number_of_clusters) {
                Ok(count) => Ok(Some(count)),
                Err(why) => Err(RunFault::NoClusterCount { why, snapshot: observed.run.key_of(self.snapshot.name) }),
            },
        }
    }

    pub(super) fn check_scheduled(&self) -> Result<(), RunFault> {
        let scheduled = decode::<PolicySnapshotScheduled>(self.snapshot.conditions, self.snapshot.generation);
        if scheduled.is_true() {
            return Ok(());
        }
        Err(RunFault::NotFullyScheduled { snapshot_name: self.snapshot.name.to_owned() })
    }
}

fn count(text: Option<&str>) -> Result<i64, ClusterCountProblem> {
    let value = text.ok_or(ClusterCountProblem::Missing)?;
    match stages::integer(value) {
        Ok(count) if count >= 0 => Ok(count),
        read => Err(ClusterCountProblem::not_a_count(value, read.err())),
    }
}

/// The bindings of the run's placement, by cluster.
#[derive(Debug)]
pub(super) struct Targets<'a> {
    /// Bindings to update.
    pub selected: BTreeMap<&'a str, &'a BindingFacts<'a>>,
    /// Unscheduled bindings, removed in the delete stage.
    pub to_remove: BTreeMap<&'a str, &'a BindingFacts<'a>>,
    /// Number of selected bindings. Larger than `selected` if a cluster has two.
    selected_count: usize,
}

impl<'a> Targets<'a> {
    /// Fails while the scheduler is still updating bindings to the latest policy.
    pub(super) fn of(observed: &'a Observed<'a>, policy: Policy<'_>) -> Result<Self, RunFault> {
        let mut bindings: Vec<_> = observed.bindings.iter().collect();
        bindings.sort_unstable_by_key(|binding| binding.name);
        let mut targets = Self { selected: BTreeMap::new(), to_remove: BTreeMap::new(), selected_count: 0 };
        for binding in bindings {
            if *binding.state == BindingState::Unscheduled {
                targets.to_remove.insert(binding.cluster, binding);
            } else if binding.policy_snapshot == policy.snapshot.name {
                targets.selected.insert(binding.cluster, binding);
                targets.selected_count += 1;
            } else {
                return Err(RunFault::BindingOfOldPolicy {
                    old_binding: observed.run.key_of(binding.name),
                    snapshot: observed.run.key_of(binding.policy_snapshot),
                    state: binding.state.to_string(),
                });
            }
        }
        Ok(targets)
    }

    pub(super) fn check_any(&self, observed: &Observed<'_>, policy: Policy<'_>) -> Result<(), RunFault> {
        if self.selected.is_empty() && self.to_remove.is_empty() {
            return Err(RunFault::NoBindings { snapshot: observed.run.key_of(policy.snapshot.name) });
        }
        Ok(())
    }

    /// The number of selected clusters, which must equal `wanted` if that is given.
    pub(super) fn check_count(&self, wanted: Option<i64>) -> Result<i64, RunFault> {
        let selected = i64::try_from(self.selected_count).unwrap_or(i64::MAX);
        match wanted {
            Some(observed) if observed != selected => {
                Err(RunFault::BindingCountDiffers { selected: self.selected_count, observed })
            }
            _ => Ok(selected),
        }
    }
}

/// Checks the tasks of every stage, in order.
pub(super) fn check_all_tasks(strategy: &str, spec: &UpdateStrategySpec) -> Result<(), RunFault> {
    spec.stages.iter().try_for_each(|stage| check_tasks(strategy, stage))
}

/// `strategy` is the key that messages use.
pub(super) fn check_tasks(strategy: &str, stage: &StageConfig) -> Result<(), RunFault> {
    let (strategy, name) = (|| strategy.to_owned(), || stage.name.clone());
    check_before_stage(&stage.before_stage_tasks).map_err(|problem| RunFault::InvalidBeforeStageTasks {
        strategy: strategy(),
        stage: name(),
        problem,
    })?;
    check_after_stage(&stage.after_stage_tasks).map_err(|problem| RunFault::InvalidAfterStageTasks {
        strategy: strategy(),
        stage: name(),
        problem,
    })
}

fn check_before_stage(tasks: &[StageTask]) -> Result<(), BeforeStageTasksProblem> {
    if tasks.len() > 1 {
        return Err(BeforeStageTasksProblem::TooMany);
    }
    for (index, task) in tasks.iter().enumerate() {
        if task.type_ != StageTaskType::Approval {
            return Err(BeforeStageTasksProblem::NotAllowed { index, task_type: task.type_.to_string() });
        }
        if task.wait_time.is_some() {
            return Err(BeforeStageTasksProblem::ApprovalWithWait { index });
        }
    }
    Ok(())
}

fn check_after_stage(tasks: &[StageTask]) -> Result<(), AfterStageTasksProblem> {
    if let [one, other] = tasks
        && one.type_ == other.type_
    {
        return Err(AfterStageTasksProblem::SameTypeTwice { task_type: one.type_.to_string() });
    }
    for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.type_ == StageTaskType::TimedWait) {
        match task.wait() {
            None => return Err(AfterStageTasksProblem::WaitMissing { index }),
            Some(wait) if !wait.is_positive() => return Err(AfterStageTasksProblem::WaitNotPositive { index }),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The copy of the strategy that the run's status keeps, with normalized durations.
pub(super) fn normalized(spec: &UpdateStrategySpec) -> UpdateStrategySpec {
    let mut copy = spec.clone();
    for task in tasks_mut(&mut copy) {
        if let Some(wait) = task.wait() {
            task.wait_time = Some(go_duration(wait).to_string());
        }
    }
    copy
}

/// Older releases recorded a wait time for approvals; it has no meaning.
pub(super) fn drop_approval_wait_times(spec: &mut UpdateStrategySpec) {
    for task in tasks_mut(spec).filter(|task| task.type_ == StageTaskType::Approval) {
        task.wait_time = None;
    }
}

fn tasks_mut(spec: &mut UpdateStrategySpec) -> impl Iterator<Item = &mut StageTask> {
    spec.stages.iter_mut().flat_map(|stage| stage.before_stage_tasks.iter_mut().chain(&mut stage.after_stage_tasks))
}
