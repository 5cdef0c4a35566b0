//! Whether an applied configuration fits the schema: unknown fields, wrong types and ambiguous list items, with
//! kube-apiserver's messages.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::element::Element;
use super::types::{Scalar, Shape, Type};
use crate::schema::ListType;
use crate::schema::path::{MAX_PATH_BYTES, cut};

/// One line per misfit, or the misfit itself if there is just one.
pub(super) fn validate(ty: Type<'_>, value: &Value) -> Result<(), String> {
    summed_up(faults_of(ty, value))
}

/// As `validate`, for an object that was stored: its lists may have items twice.
pub(super) fn validate_stored(ty: Type<'_>, value: &Value) -> Result<(), String> {
    let mut faults = faults_of(ty, value);
    faults.retain(|fault| !fault.contains(DUPLICATE));
    summed_up(faults)
}

const DUPLICATE: &str = ": duplicate entries for key ";

fn faults_of(ty: Type<'_>, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(ty, value, &mut String::new(), &mut faults);
    faults
}

fn summed_up(mut faults: Vec<String>) -> Result<(), String> {
    match faults.len() {
        0 => Ok(()),
        1 => Err(faults.remove(0)),
        _ => Err(format!("errors:\n  {}", faults.join("\n  "))),
    }
}

fn check(ty: Type<'_>, value: &Value, path: &mut String, faults: &mut Vec<String>) {
    match (ty.shape(value), value) {
        (_, Value::Null) => {}
        (Shape::Map { .. }, Value::Object(entries)) => check_map(ty, entries, path, faults),
        (Shape::Map { .. }, other) => report(path, &format!("expected map, got &{{{}}}", go_text(other)), faults),
        (Shape::List(list), Value::Array(items)) => check_list(ty, list, items, path, faults),
        (Shape::List(_), other) => report(path, &format!("expected list, got &{{{}}}", go_text(other)), faults),
        (Shape::Scalar(scalar), value) => {
            if let Some(fault) = scalar_fault(scalar, value) {
                report(path, &fault, faults);
            }
        }
    }
}

fn check_map(ty: Type<'_>, entries: &Map<String, Value>, path: &mut String, faults: &mut Vec<String>) {
    for (name, value) in entries {
        let length = path.len();
        extend(path, ".");
        extend(path, name);
        match ty.field(name).declared {
            Some(below) => check(below, value, path, faults),
            None => report(path, "field not declared in schema", faults),
        }
        path.truncate(length);
    }
}

fn check_list(ty: Type<'_>, list: &ListType, items: &[Value], path: &mut String, faults: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (position, item) in items.iter().enumerate() {
        let element = match list {
            ListType::Atomic => Element::Index(i64::try_from(position).unwrap_or(i64::MAX)),
            ListType::Set | ListType::Map(_) => match ty.item_element(list, item) {
                Ok(element) => element,
                // Without a name for the item nothing more can be said of this list.
                Err(why) => return report(path, &format!("element {position}: {why}"), faults),
            },
        };
        let length = path.len();
        let text = element.to_string();
        if !seen.insert(element) {
            report(path, &format!("duplicate entries for key {text}"), faults);
        }
        extend(path, &text);
        check(ty.item(), item, path, faults);
        path.truncate(length);
    }
}

fn scalar_fault(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, other) => Some(format!("expected numeric (int or float), got {}", go_type(other))),
        (Scalar::String, other) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_literal(other)))
        }
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", go_text(other))),
        (Scalar::Untyped, other) => Some(format!("expected any scalar, got &{{{}}}", go_text(other))),
    }
}

/// Goes on in a path; of a very long one only the beginning is shown.
fn extend(path: &mut String, step: &str) {
    if path.len() < MAX_PATH_BYTES {
        path.push_str(cut(step));
    }
}

fn report(path: &str, what: &str, faults: &mut Vec<String>) {
    faults.push(if path.is_empty() { what.to_owned() } else { format!("{path}: {what}") });
}

/// The type of a decoded JSON value as Go names it.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The value as Go prints it plainly.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(entries) => {
            let pairs: Vec<String> = entries.iter().map(|(name, value)| format!("{name}:{}", go_text(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        other => other.to_string(),
    }
}

/// The value as Go prints it in source form.
fn go_literal(value: &Value) -> String {
    let list = |items: Vec<String>| format!("{}{{{}}}", go_type(value), items.join(", "));
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => list(items.iter().map(go_literal).collect()),
        Value::Object(entries) => {
            list(entries.iter().map(|(name, value)| format!("{name:?}:{}", go_literal(value))).collect())
        }
        other => other.to_string(),
    }
}
