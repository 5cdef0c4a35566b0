//! Uniqueness of items in sets and list maps.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path::{child, index, key};
use super::{Additional, ListType, Schema};
use crate::field::FieldError;

/// Every second occurrence of an item in a set, or of a key in a list map, anywhere in `value`.
pub(super) fn check(path: &str, schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut findings = Vec::new();
    walk(path, schema, value, &mut findings);
    findings
}

fn walk(path: &str, schema: &Schema, value: &Value, findings: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    walk(&child(path, name), property, value, findings);
                } else if let Additional::Schema(shared) = &schema.additional {
                    walk(&key(path, name), shared, value, findings);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => duplicates(path, items.iter().cloned(), findings),
                ListType::Map(keys) => map_keys(path, keys, items, findings),
            }
            if let Some(item_schema) = &schema.items {
                for (position, item) in items.iter().enumerate() {
                    walk(&index(path, position), item_schema, item, findings);
                }
            }
        }
        _ => {}
    }
}

fn map_keys(path: &str, keys: &[String], items: &[Value], findings: &mut Vec<FieldError>) {
    if let Some((position, item)) = items.iter().enumerate().find(|(_, item)| !item.is_null() && !item.is_object()) {
        let detail = "must be an object for an array of list-type map";
        findings.push(FieldError::invalid(index(path, position), item, detail));
        return;
    }
    let key_of = |item: &Value| {
        let present = keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
        Value::Object(present.collect::<Map<_, _>>())
    };
    duplicates(path, items.iter().map(key_of), findings);
}

/// Reports a value once, at its second place, however often it is repeated.
fn duplicates(path: &str, values: impl Iterator<Item = Value>, findings: &mut Vec<FieldError>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (position, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            findings.push(FieldError::duplicate(index(path, position), &value));
        }
    }
}
