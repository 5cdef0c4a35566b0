//! Reads and builds objects of a simulated cluster: times, conditions, owners, hashes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::{Timestamp, TimestampArithmetic};
use k8s_values::Selector;
use k8s_values::int_or_string::{IntOrString, Rounding};
use serde_json::{Value, json};

use super::kinds::Kind;

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// An integer; 0 if it is absent.
pub(super) fn count(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn instant(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(super) fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Whether the controller of an object has this uid.
pub(super) fn is_controlled_by(object: &Value, owner: &str) -> bool {
    list(object, "/metadata/ownerReferences").iter().any(|one| one["controller"] == true && one["uid"] == owner)
}

/// The owner reference to a controller.
pub(super) fn owner_reference(kind: Kind, owner: &Value) -> Value {
    json!([{
        "apiVersion": kind.api_version(), "kind": kind.names().kind, "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// A time in the format of objects: whole seconds.
pub(super) fn printed(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Saturating addition: objects may specify any number of seconds.
pub(super) fn later(time: Timestamp, wait: impl Into<TimestampArithmetic>) -> Timestamp {
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

/// A hash of the text.
pub(super) fn number_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Letters and digits that cannot form words, as in suffixes of Kubernetes.
const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A hash of ten of these characters.
pub(super) fn safe_hash(text: &str) -> String {
    const LETTERS: usize = 10;
    let mut rest = number_of(text);
    let mut hash = String::with_capacity(LETTERS);
    for _ in 0..LETTERS {
        let index = usize::try_from(rest % SAFE.len() as u64).unwrap_or_default();
        hash.push(char::from(SAFE[index]));
        rest /= SAFE.len() as u64;
    }
    hash
}

pub(super) fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    list(object, "/status/conditions").iter().find(|one| one["type"] == type_)
}

pub(super) fn condition_is_true(object: &Value, type_: &str) -> bool {
    condition(object, type_).is_some_and(|one| one["status"] == "True")
}

/// A condition to set.
#[derive(Debug, Clone, Default)]
pub(super) struct Condition {
    pub(super) type_: &'static str,
    pub(super) status: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

/// The conditions of an object with these set. `lastTransitionTime` changes only with the status.
pub(super) fn with_conditions(object: &Value, changes: &[Condition], now: Timestamp) -> Value {
    let mut all = list(object, "/status/conditions").to_vec();
    for new in changes {
        let status = if new.status { "True" } else { "False" };
        let position = all.iter().position(|one| one["type"] == new.type_);
        let before = position.map(|at| all[at].clone()).filter(|one| one["status"] == status);
        let since = before.as_ref().map_or_else(|| json!(printed(now)), |one| one["lastTransitionTime"].clone());
        let mut condition = json!({"type": new.type_, "status": status, "lastTransitionTime": since});
        if !new.reason.is_empty() {
            condition["reason"] = new.reason.as_str().into();
        }
        if !new.message.is_empty() {
            condition["message"] = new.message.as_str().into();
        }
        match position {
            Some(at) => all[at] = condition,
            None => all.push(condition),
        }
    }
    Value::Array(all)
}

/// A number or a percentage of a total, as in `maxSurge`.
pub(super) fn share(value: &Value, total: i64, rounding: Rounding) -> Option<i64> {
    IntOrString::of_value(value)?.scaled(usize::try_from(total).unwrap_or_default(), rounding).ok()
}

/// Whether a label selector selects these labels. An empty selector selects everything, an absent one nothing.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    Selector::of_value(selector).is_ok_and(|selector| selector.matches_by(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up_or_down() {
        assert_eq!(share(&json!(2), 10, Rounding::Up), Some(2));
        assert_eq!(
            [share(&json!("25%"), 10, Rounding::Up), share(&json!("25%"), 10, Rounding::Down)],
            [Some(3), Some(2)]
        );
        assert_eq!(share(&json!("all"), 10, Rounding::Up), None);
        assert_eq!(share(&Value::Null, 10, Rounding::Up), None);
    }

    #[test]
    fn selectors_select_by_labels_and_expressions() {
        let labels = json!({"app": "web", "tier": "prod"});
        assert!(selects(&json!({"matchLabels": {"app": "web"}}), &labels));
        assert!(!selects(&json!({"matchLabels": {"app": "db"}}), &labels));
        assert!(selects(&json!({}), &labels) && !selects(&Value::Null, &labels));
        let expression = |operator: &str, key: &str| {
            let values = if operator.ends_with("In") { json!(["prod"]) } else { json!([]) };
            json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
        };
        assert!(selects(&expression("In", "tier"), &labels) && !selects(&expression("NotIn", "tier"), &labels));
        assert!(
            selects(&expression("DoesNotExist", "zone"), &labels) && !selects(&expression("Exists", "zone"), &labels)
        );
        assert!(selects(&expression("NotIn", "zone"), &labels));
        assert!(!selects(&expression("Near", "zone"), &labels), "an invalid selector selects nothing");
    }

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let ready = |status| [Condition { type_: "Ready", status, ..Condition::default() }];
        let mut object = json!({});
        object["status"]["conditions"] = with_conditions(&object, &ready(false), at(1));
        object["status"]["conditions"] = with_conditions(&object, &ready(false), at(2));
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:01Z");
        object["status"]["conditions"] = with_conditions(&object, &ready(true), at(3));
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:03Z");
        assert!(condition_is_true(&object, "Ready"));
    }

    #[test]
    fn hashes_have_ten_safe_letters_and_depend_on_the_text_alone() {
        let hash = safe_hash("a template");
        assert!(hash.len() == 10 && hash.bytes().all(|letter| SAFE.contains(&letter)), "{hash}");
        assert_eq!(hash, safe_hash("a template"));
        assert_ne!(hash, safe_hash("another template"));
    }
}
