//! State of one planning call: the new status, the planned writes, the condition writer, and errors that end the call
//! early. Every condition gets the current generation of the run.

use fleet_api::conditions::run_fault::{RunFailure, RunFault};
use fleet_api::conditions::update_run::{
    StageProgressing, StageSucceeded, UpdateRunInitialized, UpdateRunProgressing, UpdateRunSucceeded,
};
use fleet_api::conditions::{Condition, ConditionState, Decoded, decode, put};
use fleet_api::time::Time;
use fleet_api::types::{StageUpdatingStatus, UpdateRunStatus};
use jiff::Timestamp;

use super::Write;
use super::observed::Observed;
use super::prerequisites;
use super::report::{Blocker, Cause};
use crate::plan::Wake;

#[derive(Debug)]
pub(super) struct PlanContext<'a> {
    pub observed: &'a Observed<'a>,
    pub writer: ConditionWriter,
    pub status: UpdateRunStatus,
    pub writes: Vec<Write>,
    pub wake: Wake,
    pub blockers: Vec<Blocker>,
}

/// Writes conditions and times. It is `Copy`, so it can be used while the status is borrowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConditionWriter {
    pub generation: i64,
    pub now: Timestamp,
}

impl ConditionWriter {
    pub(super) fn put(self, conditions: &mut Vec<Condition>, state: &impl ConditionState<Scope = ()>) {
        put(conditions, state.finding(self.generation), self.now);
    }

    pub(super) fn read<T: ConditionState<Scope = ()>>(self, conditions: &[Condition]) -> Decoded<'_, T::Reason> {
        decode::<T>(conditions, self.generation)
    }

    pub(super) fn time(self) -> Time {
        Time::new(self.now)
    }

    pub(super) fn fail_stage(self, stage: &mut StageUpdatingStatus, cause: &RunFailure) {
        stage.end_time = Some(self.time());
        self.put(&mut stage.conditions, &StageProgressing::Failed);
        self.put(&mut stage.conditions, &StageSucceeded::Failed { cause: cause.clone() });
    }

    pub(super) fn complete_stage(self, stage: &mut StageUpdatingStatus) {
        stage.end_time = Some(self.time());
        self.put(&mut stage.conditions, &StageProgressing::Succeeded);
        self.put(&mut stage.conditions, &StageSucceeded::Succeeded);
    }
}

impl<'a> PlanContext<'a> {
    /// Starts from the newest status, stored or deferred. The recorded conditions stay valid when `spec.state` is
    /// edited, so all of them get the current generation.
    pub(super) fn new(observed: &'a Observed<'a>, now: Timestamp) -> Self {
        let writer = ConditionWriter { generation: observed.run.condition_generation(), now };
        let mut status = observed.run.status.cloned().unwrap_or_default();
        for conditions in condition_lists(&mut status) {
            for condition in conditions {
                condition.observed_generation = writer.generation;
            }
        }
        if let Some(strategy) = &mut status.staged_update_strategy_snapshot {
            prerequisites::drop_approval_wait_times(strategy);
        }
        Self { observed, writer, status, writes: Vec::new(), wake: Wake::OnChange, blockers: Vec::new() }
    }

    pub(super) fn initialized(&self) -> Decoded<'_, <UpdateRunInitialized as ConditionState>::Reason> {
        self.writer.read::<UpdateRunInitialized>(&self.status.conditions)
    }

    pub(super) fn progressing(&self) -> Decoded<'_, <UpdateRunProgressing as ConditionState>::Reason> {
        self.writer.read::<UpdateRunProgressing>(&self.status.conditions)
    }

    pub(super) fn succeeded(&self) -> Decoded<'_, <UpdateRunSucceeded as ConditionState>::Reason> {
        self.writer.read::<UpdateRunSucceeded>(&self.status.conditions)
    }

    pub(super) fn set_condition(&mut self, state: &impl ConditionState<Scope = ()>) {
        self.writer.put(&mut self.status.conditions, state);
    }

    pub(super) fn fail(&mut self, cause: &RunFailure) {
        self.set_condition(&UpdateRunProgressing::Failed);
        self.set_condition(&UpdateRunSucceeded::Failed { cause: cause.clone() });
    }

    pub(super) fn succeed(&mut self) {
        self.set_condition(&UpdateRunProgressing::Succeeded);
        self.set_condition(&UpdateRunSucceeded::Succeeded);
    }

    pub(super) fn wake_at(&mut self, instant: Timestamp) {
        self.wake = self.wake.earlier(Wake::At(instant));
    }
}

/// Every list of conditions in a run's status.
fn condition_lists(status: &mut UpdateRunStatus) -> impl Iterator<Item = &mut Vec<Condition>> {
    let stages = status.stages_status.iter_mut().chain(&mut status.deletion_stage_status);
    let nested = stages.flat_map(|stage| {
        let tasks = stage.before_stage_task_status.iter_mut().chain(&mut stage.after_stage_task_status);
        let tasks = tasks.map(|task| &mut task.conditions);
        let clusters = stage.clusters.iter_mut().map(|cluster| &mut cluster.conditions);
        std::iter::once(&mut stage.conditions).chain(tasks).chain(clusters)
    });
    std::iter::once(&mut status.conditions).chain(nested)
}

/// Why a planning step ended early.
#[derive(Debug)]
pub(super) enum StepError {
    /// The fault says whether it ends the run or is retried.
    Fault(RunFault),
    /// The observation is incomplete or outdated.
    Unknown(Cause),
}

impl From<RunFault> for StepError {
    fn from(fault: RunFault) -> Self {
        StepError::Fault(fault)
    }
}

impl StepError {
    pub(super) fn blocker(&self) -> Blocker {
        match self {
            StepError::Fault(fault) => Blocker::of_fault(fault),
            StepError::Unknown(cause) => Blocker::about_run(cause.clone()),
        }
    }
}
