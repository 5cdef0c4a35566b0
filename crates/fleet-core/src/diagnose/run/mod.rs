//! The rules about runs, in order of precedence: the first rule that matches gives the root cause.

mod execution;
mod initialization;
mod not_running;
mod preview;
mod progress;
mod stuck;
mod waiting;

use fleet_api::conditions::decode_ignoring_generation;
use fleet_api::conditions::run_message::RunMessage;
use fleet_api::conditions::update_run::{
    UpdateRunInitialized, UpdateRunInitializedReason, UpdateRunProgressing, UpdateRunProgressingReason,
    UpdateRunSucceeded,
};
use fleet_api::conditions::{Condition, ConditionStatus};
use fleet_api::kinds::UpdateRun;
use fleet_api::types::{StageUpdatingStatus, UpdateRunStatus, UpdateStrategySpec};

use super::finding::{Finding, ObjectRef, Step};
use super::inputs::{Inputs, ObservedObject, condition, is_done, quote};
use super::new_run;

pub(super) use preview::notices;
pub(super) use progress::summary;

/// A run with its status and the inputs.
pub(super) struct Run<'a> {
    pub inputs: &'a Inputs,
    pub object: &'a ObservedObject<UpdateRun>,
    pub status: UpdateRunStatus,
}

/// One rule: the entries that it can report, and its check.
pub(super) struct Rule {
    pub entries: &'static [&'static str],
    pub check: fn(&Run<'_>) -> Option<Finding>,
}

const fn rule(entries: &'static [&'static str], check: fn(&Run<'_>) -> Option<Finding>) -> Rule {
    Rule { entries, check }
}

/// In order of precedence.
pub(super) const RULES: &[Rule] = &[
    rule(&["UR-16"], initialization::not_processed),
    rule(&["UR-04"], initialization::snapshot_not_found),
    rule(&["UR-05"], initialization::placement_not_found),
    rule(&["UR-06"], initialization::not_external),
    rule(&["UR-07"], initialization::strategy_not_found),
    rule(&["UR-08"], initialization::invalid_stage_tasks),
    rule(&["UR-09"], initialization::cluster_in_several_stages),
    rule(&["UR-10"], initialization::clusters_in_no_stage),
    rule(&["UR-11"], initialization::invalid_sorting_label),
    rule(&["UR-12"], initialization::invalid_index),
    rule(&["UR-13"], initialization::not_scheduled),
    rule(&["UR-14"], initialization::bindings_do_not_fit),
    rule(&["UR-15"], initialization::invalid_selector),
    rule(&["UR-30"], initialization::other),
    rule(&["UR-24"], execution::preempted),
    rule(&["UR-20"], execution::placement_deleted),
    rule(&["UR-21"], execution::strategy_deleted),
    rule(&["UR-22"], execution::strategy_broken),
    rule(&["UR-23"], execution::cluster_in_several_stages),
    rule(&["UR-25"], execution::policy_changed),
    rule(&["UR-26"], execution::cluster_count_changed),
    rule(&["UR-27"], execution::stage_membership_changed),
    rule(&["UR-28"], execution::apply_strategy_changed),
    rule(&["UR-29"], execution::foreign_request),
    rule(&["UR-30"], execution::other),
    rule(&["UR-42"], stuck::while_stopping),
    rule(&["UR-40", "UR-41", "UR-43"], stuck::stuck),
    rule(&["UR-61"], not_running::stopping_in_the_delete_stage),
    rule(&["UR-60", "UR-03"], not_running::stopped),
    rule(&["UR-51"], waiting::approved_for_another_generation),
    rule(&["UR-54"], waiting::request_missing),
    rule(&["UR-55"], waiting::timed_wait),
    rule(&["UR-50", "UR-53"], waiting::not_approved),
    rule(&["UR-52"], not_running::approved_but_not_running),
    rule(&["UR-02"], not_running::not_asked_to_run),
    rule(&["UR-62"], progress::removal_does_not_finish),
    rule(&["UR-44"], progress::nothing_started),
    rule(&["UR-80"], progress::old_content),
];

/// The finding of the first rule that matches.
pub(super) fn cause(inputs: &Inputs) -> Option<Finding> {
    let run = Run::of(inputs)?;
    RULES.iter().find_map(|rule| {
        let found = (rule.check)(&run);
        debug_assert!(
            found.as_ref().is_none_or(|finding| rule.entries.contains(&finding.entry)),
            "a rule that finds what it does not declare: {found:?}"
        );
        found
    })
}

/// Whether the run has succeeded or failed.
pub(super) fn is_final(run: &ObservedObject<UpdateRun>) -> bool {
    let conditions = run.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    decode_ignoring_generation::<UpdateRunInitialized>(conditions).is_false()
        || condition::<UpdateRunSucceeded>(conditions).is_some()
}

pub(super) fn has_succeeded(run: &ObservedObject<UpdateRun>) -> bool {
    let conditions = run.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    decode_ignoring_generation::<UpdateRunSucceeded>(conditions).is_true()
}

impl<'a> Run<'a> {
    pub(super) fn of(inputs: &'a Inputs) -> Option<Self> {
        let run = inputs.the_run()?;
        Some(Self { inputs, object: run, status: run.status.clone().unwrap_or_default() })
    }

    fn reference(&self) -> ObjectRef {
        self.object.reference()
    }

    fn conditions(&self) -> &[Condition] {
        &self.status.conditions
    }

    /// The message of a failed initialization.
    fn initialization(&self) -> Option<(RunMessage, &Condition)> {
        let failed = condition::<UpdateRunInitialized>(self.conditions())
            .filter(|condition| condition.status == ConditionStatus::False)?;
        Some((RunMessage::read(&failed.message), failed))
    }

    /// The message of a failed run.
    fn failure(&self) -> Option<(RunMessage, &Condition)> {
        let failed = condition::<UpdateRunSucceeded>(self.conditions())
            .filter(|condition| condition.status == ConditionStatus::False)?;
        Some((RunMessage::read(&failed.message), failed))
    }

    fn is_initialized(&self) -> bool {
        decode_ignoring_generation::<UpdateRunInitialized>(self.conditions()).reason()
            == Some(UpdateRunInitializedReason::Initialized)
    }

    fn progressing(&self) -> Option<(UpdateRunProgressingReason, &Condition)> {
        let decoded = decode_ignoring_generation::<UpdateRunProgressing>(self.conditions());
        decoded.reason().zip(decoded.any())
    }

    /// The `Progressing` condition, if it has this reason.
    fn progresses_as(&self, reason: UpdateRunProgressingReason) -> Option<&Condition> {
        self.progressing().filter(|(found, _)| *found == reason).map(|(_, condition)| condition)
    }

    /// The first stage that is not done.
    fn current_stage(&self) -> Option<&StageUpdatingStatus> {
        self.status.stages_status.iter().find(|stage| !is_done(stage))
    }

    /// The recorded stages, or else those of the strategy.
    fn stages(&self) -> Option<&UpdateStrategySpec> {
        let recorded = self.status.staged_update_strategy_snapshot.as_ref();
        recorded.or_else(|| self.inputs.strategy(&self.object.spec.staged_update_strategy_name).map(|one| &one.spec))
    }

    /// Adds the condition as evidence.
    fn quoting(&self, finding: Finding, condition: &Condition) -> Finding {
        finding.with_evidence(&self.reference(), format!("status.conditions[{}]", condition.type_), quote(condition))
    }

    /// A new run like this one, with the same index if that snapshot exists.
    fn again(&self) -> Step {
        new_run::like(self.inputs, self.object, self.index_to_keep())
    }

    /// The index that the run asks for, if there is such a snapshot.
    fn index_to_keep(&self) -> Option<u32> {
        let index = self.object.spec.resource_snapshot_index().parse().ok()?;
        self.inputs.snapshot_indices().contains(&index).then_some(index)
    }

    /// Sets the state to Run.
    fn set_state_run(&self) -> Step {
        let patch = serde_json::json!({"spec": {"state": "Run"}});
        self.inputs.kubectl.patch("let it run", &self.reference(), patch)
    }
}
