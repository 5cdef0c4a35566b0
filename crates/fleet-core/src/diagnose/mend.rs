//! Strategies put right: the same stages with tasks and selectors that are possible.
//!
//! Decides the smallest change. Never changes what was possible already.

use fleet_api::types::{StageConfig, StageTask, StageTaskType, UpdateStrategySpec};
use serde_json::{Value, json};

use crate::updaterun::duration;

/// Operators that label selectors know.
const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist"];
/// What the user has to put in the place of an operator that does not exist.
const OPEN_OPERATOR: &str = "<operator>";

/// The strategy with tasks that are possible, and what was changed.
pub(super) fn tasks(spec: &UpdateStrategySpec) -> (UpdateStrategySpec, Vec<String>) {
    let (mut mended, mut changes) = (spec.clone(), Vec::new());
    for stage in &mut mended.stages {
        mend_before(stage, &mut changes);
        mend_after(stage, &mut changes);
    }
    (mended, changes)
}

fn mend_before(stage: &mut StageConfig, changes: &mut Vec<String>) {
    let name = &stage.name;
    let before = &mut stage.before_stage_tasks;
    if before.iter().any(|task| task.type_ != StageTaskType::Approval) {
        before.retain(|task| task.type_ == StageTaskType::Approval);
        changes.push(format!("take the wait before stage {name} away: only an approval can stand there"));
    }
    if before.len() > 1 {
        before.truncate(1);
        changes.push(format!("leave one approval before stage {name}"));
    }
    for task in before.iter_mut().filter(|task| task.wait_time.is_some()) {
        task.wait_time = None;
        changes.push(format!("take the waitTime of the approval before stage {name} away"));
    }
}

fn mend_after(stage: &mut StageConfig, changes: &mut Vec<String>) {
    let name = &stage.name;
    let after = &mut stage.after_stage_tasks;
    let impossible = |task: &StageTask| task.type_ == StageTaskType::TimedWait && !has_time_to_wait(task);
    if after.iter().any(impossible) {
        after.retain(|task| !impossible(task));
        changes.push(format!("take the wait after stage {name} away, which has no time to wait"));
    }
    if let [one, other] = &after[..]
        && one.type_ == other.type_
    {
        let type_ = one.type_;
        after.truncate(1);
        changes.push(format!("leave one {type_} after stage {name}"));
    }
}

fn has_time_to_wait(task: &StageTask) -> bool {
    task.wait_time.as_deref().and_then(duration::parse).is_some_and(|wait| wait.is_positive())
}

/// The stages as JSON, with a word to fill in where an operator does not exist.
pub(super) fn with_open_operators(spec: &UpdateStrategySpec) -> Value {
    let mut stages = json!(spec.stages);
    for stage in stages.as_array_mut().into_iter().flatten() {
        let expressions = stage.pointer_mut("/labelSelector/matchExpressions").and_then(Value::as_array_mut);
        for expression in expressions.into_iter().flatten() {
            let known = expression["operator"].as_str().is_some_and(|operator| OPERATORS.contains(&operator));
            if !known {
                expression["operator"] = json!(OPEN_OPERATOR);
            }
        }
    }
    stages
}

/// `before: Approval; after: Approval, TimedWait 1h`
pub(super) fn task_words(spec: &UpdateStrategySpec, stage: &str) -> String {
    let Some(stage) = spec.stages.iter().find(|one| one.name == stage) else { return "no such stage".to_owned() };
    let words = |tasks: &[StageTask]| -> String {
        let word = |task: &StageTask| match &task.wait_time {
            Some(wait) => format!("{} {wait}", task.type_),
            None => task.type_.to_string(),
        };
        let all: Vec<String> = tasks.iter().map(word).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    };
    format!("before: {}; after: {}", words(&stage.before_stage_tasks), words(&stage.after_stage_tasks))
}

/// With waits in one spelling, as a run records them, and with what is left out spelled out.
pub(super) fn normalised(spec: &UpdateStrategySpec) -> UpdateStrategySpec {
    let mut spec = spec.clone();
    for stage in &mut spec.stages {
        stage.max_concurrency.get_or_insert(1.into());
        for task in stage.before_stage_tasks.iter_mut().chain(&mut stage.after_stage_tasks) {
            let wait = task.wait_time.as_deref().and_then(duration::parse);
            task.wait_time = wait.map(duration::print).or(task.wait_time.take());
        }
    }
    spec
}
