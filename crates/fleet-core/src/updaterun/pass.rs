//! One look at a run: its status as it will be, and what is to be written on the way.
//!
//! Decides how conditions enter the status: each is about the run's generation of this moment. Never decides which.

use fleet_api::conditions::run_fault::RunFailure;
use fleet_api::conditions::update_run::{
    StageProgressing, StageSucceeded, UpdateRunInitialized, UpdateRunProgressing, UpdateRunSucceeded,
};
use fleet_api::conditions::{Condition, ConditionState, Decoded, decode, put};
use fleet_api::time::Time;
use fleet_api::types::{StageUpdatingStatus, UpdateRunStatus};
use jiff::Timestamp;

use super::Write;
use super::observed::Observed;
use super::report::Blocker;
use super::task_rules;
use crate::plan::Wake;

#[derive(Debug)]
pub(super) struct Pass<'a> {
    pub observed: &'a Observed<'a>,
    pub pen: Pen,
    pub status: UpdateRunStatus,
    pub writes: Vec<Write>,
    pub wake: Wake,
    pub blockers: Vec<Blocker>,
}

/// Writes conditions and times; a copy can be used while the status is borrowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pen {
    pub generation: i64,
    pub now: Timestamp,
}

impl Pen {
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

impl<'a> Pass<'a> {
    /// Starts from the newest status. What was found stays true for a run whose wanted state was edited, so every
    /// condition follows the generation.
    pub(super) fn new(observed: &'a Observed<'a>, now: Timestamp) -> Self {
        let pen = Pen { generation: observed.run.generation_to_be(), now };
        let mut status = observed.run.status.cloned().unwrap_or_default();
        for conditions in condition_lists(&mut status) {
            for condition in conditions {
                condition.observed_generation = pen.generation;
            }
        }
        if let Some(strategy) = &mut status.staged_update_strategy_snapshot {
            task_rules::drop_waits_of_approvals(strategy);
        }
        Self { observed, pen, status, writes: Vec::new(), wake: Wake::OnChange, blockers: Vec::new() }
    }

    pub(super) fn initialized(&self) -> Decoded<'_, <UpdateRunInitialized as ConditionState>::Reason> {
        self.pen.read::<UpdateRunInitialized>(&self.status.conditions)
    }

    pub(super) fn progressing(&self) -> Decoded<'_, <UpdateRunProgressing as ConditionState>::Reason> {
        self.pen.read::<UpdateRunProgressing>(&self.status.conditions)
    }

    pub(super) fn succeeded(&self) -> Decoded<'_, <UpdateRunSucceeded as ConditionState>::Reason> {
        self.pen.read::<UpdateRunSucceeded>(&self.status.conditions)
    }

    pub(super) fn say(&mut self, state: &impl ConditionState<Scope = ()>) {
        self.pen.put(&mut self.status.conditions, state);
    }

    pub(super) fn fail(&mut self, cause: &RunFailure) {
        self.say(&UpdateRunProgressing::Failed);
        self.say(&UpdateRunSucceeded::Failed { cause: cause.clone() });
    }

    pub(super) fn succeed(&mut self) {
        self.say(&UpdateRunProgressing::Succeeded);
        self.say(&UpdateRunSucceeded::Succeeded);
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
