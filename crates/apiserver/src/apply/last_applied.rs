//! The bridge from client-side to server-side apply: the annotation with the last applied configuration.
//!
//! Finds conflicts of kubectl with its own earlier client-side applies, and updates the annotation when kubectl applies.

use serde_json::{Map, Value};

use super::element::html_escaped;
use super::limits::{LAST_APPLIED, MAX_ANNOTATIONS_BYTES};
use super::ownership::Conflicts;
use super::typed::{compare, fields_of};
use super::types::Type;
use super::validate::validate;

/// The conflicts that remain when the fields are left out that the live object still has as they were last applied by
/// the client. `None` when the annotation explains nothing.
pub(super) fn unexplained(
    ty: Type<'_>,
    live: &Value,
    api_version: &str,
    conflicts: &Conflicts<'_>,
) -> Option<Conflicts<'static>> {
    let text = annotations(live)?.get(LAST_APPLIED)?.as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last.get("apiVersion")?.as_str()? != api_version || validate(ty, &last).is_err() {
        return None;
    }
    let changes = compare(ty, &last, live);
    let kept = fields_of(ty, &last).difference(&changes.written()).difference(&changes.removed);
    let rest = conflicts.iter().map(|(identity, set)| (identity.clone(), set.difference(&kept).into_owned()));
    Some(rest.filter(|(_, set)| !set.is_empty()).collect())
}

/// Writes the applied configuration into the annotation, if the object has that. Drops it where it would make the
/// annotations too large.
pub(super) fn keep_in_step(object: &mut Value, applied: &Value) {
    let present = annotations(object).and_then(|annotations| annotations.get(LAST_APPLIED)).and_then(Value::as_str);
    if present.is_none_or(str::is_empty) {
        return;
    }
    let mut configuration = applied.clone();
    if let Some(annotations) = annotations_mut(&mut configuration) {
        annotations.remove(LAST_APPLIED);
    }
    // Go's encoder escapes like this and ends with a line break.
    let text = html_escaped(&configuration.to_string()) + "\n";
    let Some(annotations) = annotations_mut(object) else { return };
    annotations.insert(LAST_APPLIED.to_owned(), Value::from(text));
    let bytes: usize =
        annotations.iter().map(|(name, value)| name.len() + value.as_str().unwrap_or_default().len()).sum();
    if bytes > MAX_ANNOTATIONS_BYTES {
        annotations.remove(LAST_APPLIED);
    }
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.get("annotations")?.as_object()
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}
