//! Conditions of objects in JSON, in words that a test can compare.

use serde_json::Value;

/// The condition of this type in a list of conditions.
pub fn condition<'v>(conditions: &'v Value, type_: &str) -> Option<&'v Value> {
    conditions.as_array()?.iter().find(|one| one["type"] == type_)
}

/// `type=status reason` of each condition in a list, in order.
pub fn conditions_text(conditions: &Value) -> Vec<String> {
    let all = conditions.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|one| format!("{}={} {}", text(&one["type"]), text(&one["status"]), text(&one["reason"]))).collect()
}

/// The text of a value; empty if it is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
