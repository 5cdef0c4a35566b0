//! Small formats that several kinds share: ages, selectors, container lists.

use jiff::Timestamp;
use k8s_values::Selector;
use serde_json::{Value, json};

use crate::builtin::values::{at, list, text, texts};
use crate::table::duration::human_duration;

pub(super) const NONE: &str = "<none>";
pub(super) const UNSET: &str = "<unset>";
pub(super) const UNKNOWN: &str = "<unknown>";

/// How long ago the time at `path` was.
pub(super) fn since(object: &Value, path: &str, now: Timestamp) -> String {
    match text(object, path).parse::<Timestamp>() {
        Ok(then) => human_duration(now.duration_since(then).as_secs()),
        Err(_) => UNKNOWN.to_owned(),
    }
}

pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    json!(since(object, "metadata.creationTimestamp", now))
}

pub(super) fn name(object: &Value) -> Value {
    json!(text(object, "metadata.name"))
}

pub(super) fn int(object: &Value, path: &str) -> i64 {
    at(object, path).as_i64().unwrap_or_default()
}

/// The text at a path, or what stands for its absence.
pub(super) fn or<'a>(object: &'a Value, path: &str, absent: &'a str) -> &'a str {
    at(object, path).as_str().unwrap_or(absent)
}

/// As `or`, where an empty text counts as absent too.
pub(super) fn or_empty<'a>(object: &'a Value, path: &str, absent: &'a str) -> &'a str {
    Some(text(object, path)).filter(|found| !found.is_empty()).unwrap_or(absent)
}

/// An int-or-string as text.
pub(super) fn int_or_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Names and images of the containers at a path, each joined by commas.
pub(super) fn containers(object: &Value, path: &str) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let all: Vec<&str> = list(object, path).iter().map(|container| text(container, field)).collect();
        json!(all.join(","))
    })
}

/// `a=b,c=d` of a map, or empty.
pub(super) fn labels(object: &Value, path: &str) -> String {
    let all: Vec<String> = texts(object, path).map(|(key, value)| format!("{key}={value}")).collect();
    all.join(",")
}

pub(super) fn labels_or_none(object: &Value, path: &str) -> String {
    Some(labels(object, path)).filter(|all| !all.is_empty()).unwrap_or_else(|| NONE.to_owned())
}

/// A label selector in the form of a query. An absent selector selects nothing and is empty.
pub(super) fn selector(selector: &Value) -> String {
    Selector::of_value(selector).map_or_else(|_| "<error>".to_owned(), |selector| selector.to_string())
}

pub(super) fn selector_or_none(value: &Value) -> String {
    Some(selector(value)).filter(|all| !all.is_empty()).unwrap_or_else(|| NONE.to_owned())
}

/// At most `shown` items; the rest as a count.
pub(super) fn some_of(items: &[String], shown: usize, separator: &str) -> String {
    let head = items.iter().take(shown).cloned().collect::<Vec<_>>().join(separator);
    if items.len() > shown { format!("{head} + {} more...", items.len() - shown) } else { head }
}

/// Whether a condition of the type has status True.
pub(super) fn condition_is_true(object: &Value, kind: &str) -> bool {
    list(object, "status.conditions").iter().any(|c| text(c, "type") == kind && text(c, "status") == "True")
}
