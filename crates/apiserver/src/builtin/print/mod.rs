//! Columns and cells of `kubectl get` (server-side tables) for built-in kinds.

mod columns;
mod format;
mod network;
mod other;
mod pod;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::Value;
#[cfg(test)]
use serde_json::json;

use super::BuiltinKind;
use super::values::at;
#[cfg(test)]
use super::values::text;

/// One column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) format: &'static str,
    pub(crate) description: &'static str,
    /// 0 is always shown, 1 only with `-o wide`.
    pub(crate) priority: i32,
}

/// Cells of one object at a time.
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// The columns of a kind, the wide ones included.
pub(crate) fn columns(kind: &BuiltinKind) -> &'static [Column] {
    printer(kind).0
}

/// The cells of an object in the order of `columns`. The object is in its stored form: events as core events, autoscalers
/// as autoscaling/v2.
pub(crate) fn cells(kind: &BuiltinKind, object: &Value, now: Timestamp) -> Vec<Value> {
    printer(kind).1(object, now)
}

/// Conditions of a row: pods that have ended are marked as such. Tables are served without them so far.
#[cfg(test)]
pub(crate) fn row_conditions(kind: &BuiltinKind, object: &Value) -> Vec<Value> {
    if (kind.group, kind.kind) != ("", "Pod") {
        return Vec::new();
    }
    let message = match text(object, "status.phase") {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return Vec::new(),
    };
    let reason = text(object, "status.phase");
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

fn printer(kind: &BuiltinKind) -> (&'static [Column], Cells) {
    let found = columns::PRINTERS.iter().find(|row| row.0 == kind.kind);
    found.map_or((columns::PLAIN, plain as Cells), |row| (row.1, row.2))
}

/// Kinds without columns of their own show when they were made.
fn plain(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![at(object, "metadata.name").clone(), at(object, "metadata.creationTimestamp").clone()]
}

#[cfg(test)]
mod tests;
