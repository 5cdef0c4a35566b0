//! Reads and writes JSON values by dotted path. An absent field reads as Go's zero value.
//!
//! Paths name struct fields only; map keys, which may contain dots, are read with `get`.

use std::sync::OnceLock;

use k8s_values::Quantity;
use serde_json::{Map, Value};

pub(super) type Object = Map<String, Value>;

static NULL: Value = Value::Null;

/// The value at a dotted path; null when any step is missing.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, step| value.get(step).unwrap_or(&NULL))
}

pub(super) fn field<'a>(object: &'a Object, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&NULL)
}

/// The text at a path, or empty.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// The integer at a path, or `None`.
pub(super) fn int(value: &Value, path: &str) -> Option<i64> {
    at(value, path).as_i64()
}

pub(super) fn flag(value: &Value, path: &str) -> bool {
    at(value, path).as_bool().unwrap_or_default()
}

/// The quantity in a text. Stored objects contain no other texts where a quantity belongs.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

/// The items at a path, or none.
pub(super) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// The map at a path, or an empty one.
pub(super) fn map<'a>(value: &'a Value, path: &str) -> &'a Object {
    static EMPTY: OnceLock<Object> = OnceLock::new();
    at(value, path).as_object().unwrap_or_else(|| EMPTY.get_or_init(Object::new))
}

/// Entries of a map of strings.
pub(super) fn texts<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    map(value, path).iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// The object below `name`, made when it is not there.
pub(super) fn sub<'a>(object: &'a mut Object, name: &str) -> &'a mut Object {
    let value = object.entry(name.to_owned()).or_insert_with(|| Value::Object(Object::new()));
    if !value.is_object() {
        *value = Value::Object(Object::new());
    }
    match value {
        Value::Object(inner) => inner,
        _ => unreachable!("made an object above"),
    }
}

/// The object at a dotted path, made where it is not there.
pub(super) fn sub_path<'a>(object: &'a mut Object, path: &str) -> &'a mut Object {
    path.split('.').fold(object, sub)
}

/// Puts a value where there is none.
pub(super) fn put(object: &mut Object, name: &str, value: impl Into<Value>) {
    if field(object, name).is_null() {
        object.insert(name.to_owned(), value.into());
    }
}

/// Sets the value at a path, or removes it when it is null.
pub(super) fn set_path(object: &mut Object, path: &str, value: Value) {
    let (parents, last) = path.rsplit_once('.').map_or(("", path), |(parents, last)| (parents, last));
    if value.is_null() {
        let mut parent = Some(object);
        for step in parents.split('.').filter(|step| !step.is_empty()) {
            parent = parent.and_then(|object| object.get_mut(step)).and_then(Value::as_object_mut);
        }
        if let Some(parent) = parent {
            parent.remove(last);
        }
        return;
    }
    let parent = if parents.is_empty() { object } else { sub_path(object, parents) };
    parent.insert(last.to_owned(), value);
}

/// The items of a list below `name`, as objects.
pub(super) fn items<'a>(object: &'a mut Object, name: &str) -> impl Iterator<Item = &'a mut Object> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_fields_are_zero() {
        let value = json!({"a": {"b": "x", "n": 3, "l": [1]}});
        assert_eq!(text(&value, "a.b"), "x");
        assert_eq!(text(&value, "a.c.d"), "");
        assert_eq!(int(&value, "a.n"), Some(3));
        assert_eq!(list(&value, "a.l").len(), 1);
        assert!(list(&value, "a.x").is_empty() && map(&value, "q").is_empty() && !flag(&value, "a.b"));
    }

    #[test]
    fn setting_null_removes_without_creating_parents() {
        let mut value = json!({"a": {"b": 1}});
        let object = value.as_object_mut().unwrap();
        set_path(object, "a.b", Value::Null);
        set_path(object, "x.y", Value::Null);
        set_path(object, "c.d", json!(2));
        assert_eq!(value, json!({"a": {}, "c": {"d": 2}}));
    }
}
