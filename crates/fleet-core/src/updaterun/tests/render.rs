//! Renders plans and statuses as text, for expectations.

use std::fmt::Write as _;

use fleet_api::conditions::Condition;
use fleet_api::types::{StageTaskStatus, StageUpdatingStatus, UpdateRunStatus};
use jiff::Timestamp;

use super::fixture::START;
use crate::updaterun::{Plan, Write};

fn seconds(time: fleet_api::time::Time) -> String {
    let start: Timestamp = START.parse().unwrap();
    format!("{}s", time.instant().duration_since(start).as_secs())
}

/// `Progressing=False UpdateRunWaiting +5s`, all in one line.
fn conditions(list: &[Condition]) -> String {
    let one =
        |one: &Condition| format!(" {}={}/{}@{}", one.type_, one.status, one.reason, seconds(one.last_transition_time));
    list.iter().map(one).collect()
}

/// One line for the run, one a stage, one a cluster or task.
pub(crate) fn status_text(status: &UpdateRunStatus) -> String {
    let mut text = format!("run{}\n", conditions(&status.conditions));
    for stage in status.stages_status.iter().chain(&status.deletion_stage_status) {
        stage_text(stage, &mut text);
    }
    text.trim_end().to_owned()
}

fn stage_text(stage: &StageUpdatingStatus, text: &mut String) {
    let name = stage.stage_name.rsplit('/').next().unwrap();
    write!(text, "{name}").unwrap();
    if let Some(start) = stage.start_time {
        write!(text, " {}..", seconds(start)).unwrap();
    }
    if let Some(end) = stage.end_time {
        write!(text, "{}", seconds(end)).unwrap();
    }
    writeln!(text, "{}", conditions(&stage.conditions)).unwrap();
    let mut tasks = |position: &str, tasks: &[StageTaskStatus]| {
        for task in tasks {
            let name = if task.approval_request_name.is_empty() { "wait" } else { &task.approval_request_name };
            writeln!(text, "  {position} {name}{}", conditions(&task.conditions)).unwrap();
        }
    };
    tasks("before", &stage.before_stage_task_status);
    tasks("after", &stage.after_stage_task_status);
    for cluster in &stage.clusters {
        writeln!(text, "  {}{}", cluster.cluster_name, conditions(&cluster.conditions)).unwrap();
    }
}

/// Writes in few words, the cluster for the binding.
pub(crate) fn writes_text(plan: &Plan) -> String {
    let words: Vec<_> = plan.writes.iter().map(write_text).collect();
    words.join(", ")
}

pub(crate) fn write_text(write: &Write) -> String {
    let cluster = |binding: &str| {
        let (rest, _) = binding.rsplit_once('-').unwrap();
        rest.strip_prefix("example-placement-").or(rest.strip_prefix("web-app-placement-")).unwrap().to_owned()
    };
    match write {
        Write::AddFinalizer => "hold".to_owned(),
        Write::RemoveFinalizer => "release".to_owned(),
        Write::Content(_) => "content".to_owned(),
        Write::Record(_) => "record".to_owned(),
        Write::MoveBinding(change) => {
            let index = change.resource_snapshot.rsplit('-').nth(1).unwrap();
            format!("move {} to {index}", cluster(&change.binding))
        }
        Write::RenewMovedBy { binding, moved_by } => format!("note {} {moved_by}", cluster(binding)),
        Write::DeleteBinding { binding } => format!("delete {}", cluster(binding)),
        Write::RequestApproval(new) => format!("request {}", new.name),
        Write::AcceptApproval { request, generation } => format!("accept {request}@{generation}"),
        Write::DeleteRequest { request } => format!("delete {request}"),
    }
}

/// The message of a condition of the run.
pub(crate) fn message(status: &UpdateRunStatus, type_: &str) -> String {
    let found = status.conditions.iter().find(|one| one.type_ == type_);
    found.map_or_else(|| format!("no {type_}"), |one| one.message.clone())
}
