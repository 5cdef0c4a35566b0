//! Repairs update strategies: the same stages with valid tasks and selectors. Valid parts stay unchanged.

use fleet_api::time::go_duration;
use fleet_api::types::{StageConfig, StageTask, StageTaskType, UpdateStrategySpec};
use serde_json::{Value, json};

/// The operators of label selectors.
const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist"];
/// The placeholder for an invalid operator.
const OPEN_OPERATOR: &str = "<operator>";

/// The strategy with valid tasks, and the list of changes.
pub(super) fn tasks(spec: &UpdateStrategySpec) -> (UpdateStrategySpec, Vec<String>) {
    let (mut fixed, mut changes) = (spec.clone(), Vec::new());
    for stage in &mut fixed.stages {
        fix_before_tasks(stage, &mut changes);
        fix_after_tasks(stage, &mut changes);
    }
    (fixed, changes)
}

fn fix_before_tasks(stage: &mut StageConfig, changes: &mut Vec<String>) {
    let name = &stage.name;
    let before = &mut stage.before_stage_tasks;
    if before.iter().any(|task| task.type_ != StageTaskType::Approval) {
        before.retain(|task| task.type_ == StageTaskType::Approval);
        changes.push(format!("remove the wait before stage {name}: only an approval is allowed there"));
    }
    if before.len() > 1 {
        before.truncate(1);
        changes.push(format!("keep one approval before stage {name}"));
    }
    for task in before.iter_mut().filter(|task| task.wait_time.is_some()) {
        task.wait_time = None;
        changes.push(format!("remove the waitTime of the approval before stage {name}"));
    }
}

fn fix_after_tasks(stage: &mut StageConfig, changes: &mut Vec<String>) {
    let name = &stage.name;
    let after = &mut stage.after_stage_tasks;
    let impossible = |task: &StageTask| task.type_ == StageTaskType::TimedWait && !has_time_to_wait(task);
    if after.iter().any(impossible) {
        after.retain(|task| !impossible(task));
        changes.push(format!("remove the wait after stage {name}, which has no duration"));
    }
    if let [one, other] = &after[..]
        && one.type_ == other.type_
    {
        let type_ = one.type_;
        after.truncate(1);
        changes.push(format!("keep one {type_} after stage {name}"));
    }
}

fn has_time_to_wait(task: &StageTask) -> bool {
    task.wait().is_some_and(|wait| wait.is_positive())
}

/// The stages as JSON, with a placeholder for each invalid operator.
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

/// The strategy as a run records it: canonical durations and explicit defaults.
pub(super) fn normalised(spec: &UpdateStrategySpec) -> UpdateStrategySpec {
    let mut spec = spec.clone();
    for stage in &mut spec.stages {
        stage.max_concurrency.get_or_insert(1.into());
        for task in stage.before_stage_tasks.iter_mut().chain(&mut stage.after_stage_tasks) {
            let wait = task.wait();
            task.wait_time = wait.map(|wait| go_duration(wait).to_string()).or(task.wait_time.take());
        }
    }
    spec
}
