//! Reads and checks managedFields in the metadata of an object, and restores times if a write changed nothing else.

use std::sync::OnceLock;

use serde_json::{Map, Value};

#[cfg(test)]
use super::element::equal;
use super::fieldset::FieldSet;
use super::limits::MAX_MANAGER_BYTES;
#[cfg(any(test, feature = "internals"))]
use super::limits::MAX_SUBRESOURCE_BYTES;
use crate::field::FieldError;

/// The fields that never have an owner.
pub(super) fn never_owned() -> &'static FieldSet<'static> {
    static NEVER_OWNED: OnceLock<FieldSet<'static>> = OnceLock::new();
    NEVER_OWNED.get_or_init(|| {
        FieldSet::of_fields(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "clusterName"],
            &["metadata", "creationTimestamp"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "resourceVersion"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
        ])
    })
}

pub(super) fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

pub(super) fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

pub(super) fn put_managed_fields(object: &mut Value, list: Option<Value>) {
    let Some(root) = object.as_object_mut() else { return };
    let metadata = root.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let (Some(metadata), Some(list)) = (metadata.as_object_mut(), list) {
        metadata.insert("managedFields".to_owned(), list);
    }
}

/// A text field of the metadata, empty if there is none.
pub(super) fn metadata_text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// Puts the managedFields of the live object back if the new object differs from it in nothing but their times, so that
/// a write that changes nothing is seen as such. To be called on the object as it would be stored.
#[cfg(test)]
pub(crate) fn keep_times_of_no_op(live: &Value, new: &mut Value) {
    let same_entries = match (managed_fields(live), managed_fields(new)) {
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| equal_without(old, new, &["time"]))
        }
        _ => false,
    };
    if same_entries && equal_without(live, new, &["metadata", "managedFields"]) {
        put_managed_fields(new, managed_fields(live).cloned());
    }
}

/// Whether two maps are equal but for what stands at the path.
#[cfg(test)]
fn equal_without(a: &Value, b: &Value, path: &[&str]) -> bool {
    let (Some((left_out, rest)), Value::Object(a), Value::Object(b)) = (path.split_first(), a, b) else {
        return path.is_empty() || equal(a, b);
    };
    let others = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(*left_out));
    if others(a) != others(b) {
        return false;
    }
    let same = a
        .iter()
        .filter(|(name, _)| name != left_out)
        .all(|(name, value)| b.get(name).is_some_and(|other| equal(value, other)));
    match (same, a.get(*left_out), b.get(*left_out)) {
        (true, Some(a), Some(b)) => equal_without(a, b, rest),
        (same, ..) => same && rest.is_empty(),
    }
}

/// What is wrong with the managedFields of an object that is to be stored. `path` is that of the list.
#[cfg(any(test, feature = "internals"))]
pub(crate) fn validate_managed_fields(object: &Value, path: &str) -> Vec<FieldError> {
    let mut findings = Vec::new();
    let entries = managed_fields(object).and_then(Value::as_array);
    for (position, entry) in entries.into_iter().flatten().enumerate() {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let at = |key: &str| format!("{path}[{position}].{key}");
        let operation = text("operation");
        if operation != "Apply" && operation != "Update" {
            let detail = "must be `Apply` or `Update`";
            findings.push(FieldError::invalid(at("operation"), &Value::from(operation), detail));
        }
        let fields_type = text("fieldsType");
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            findings.push(FieldError::invalid(at("fieldsType"), &Value::from(fields_type), "must be `FieldsV1`"));
        }
        findings.extend(validate_manager_name(text("manager"), &at("manager")));
        if text("subresource").len() > MAX_SUBRESOURCE_BYTES {
            findings.push(FieldError::too_long(at("subresource"), MAX_SUBRESOURCE_BYTES));
        }
    }
    findings
}

/// What is wrong with the name of a field manager, also that of a request (`path` is `fieldManager` then).
pub(crate) fn validate_manager_name(name: &str, path: &str) -> Vec<FieldError> {
    let mut findings = Vec::new();
    if name.len() > MAX_MANAGER_BYTES {
        findings.push(FieldError::too_long(path, MAX_MANAGER_BYTES));
    }
    for (position, letter) in name.char_indices() {
        // Of white space only the plain blank is printable.
        if letter.is_control() || (letter.is_whitespace() && letter != ' ') {
            let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(letter));
            findings.push(FieldError::invalid(path, &Value::from(name), detail));
        }
    }
    findings
}
