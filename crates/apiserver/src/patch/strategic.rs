//! Strategic merge patch: lists are merged by the keys that the schema names; directives delete, replace or reorder.
//!
//! Without a patch strategy in the schema, objects merge and other values are replaced.

mod order;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::unprocessable;
use crate::error::ApiError;
use crate::schema::Schema;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// The original with the patch merged into it.
#[allow(clippy::result_large_err)] // a refused patch is rare, and every caller passes the error on as it is
pub(crate) fn strategic_merge_patch(schema: &Schema, original: &Value, patch: &Value) -> Result<Value, ApiError> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(Failure::Format("invalid JSON document").into());
    };
    Ok(Value::Object(merge_map(schema, original.clone(), patch.clone())?))
}

/// Why a patch cannot be merged.
#[derive(Debug, PartialEq)]
enum Failure {
    /// The patch itself is malformed.
    Format(&'static str),
    /// The patch contradicts the document.
    Content,
    /// An internal error in the real server.
    Other(String),
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Format(text) => ApiError::bad_request(text),
            Failure::Content => unprocessable(),
            Failure::Other(text) => ApiError::unclassified(text),
        }
    }
}

type Fields = Map<String, Value>;

const BAD_RETAIN_KEYS: Failure = Failure::Format("invalid patch format of retainKeys");
const BAD_ORDER: Failure = Failure::Format("invalid patch format of setElementOrder list");
const BAD_PRIMITIVES: Failure = Failure::Format("invalid patch format of primitive list");

fn no_merge_key(item: &Value, key: &str) -> Failure {
    Failure::Other(format!("map: {} does not contain declared merge key: {key}", go_map(item)))
}

/// A value as Go's `%v` prints it, which is how it appears in messages.
pub(crate) fn go_map(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let entries: Vec<String> = fields.iter().map(|(name, value)| format!("{name}:{}", go_map(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(go_map).collect::<Vec<_>>().join(" ")),
        other => other.to_string(),
    }
}

fn merge_map(schema: &Schema, mut original: Fields, mut patch: Fields) -> Result<Fields, Failure> {
    if let Some(directive) = patch.get(DIRECTIVE).cloned() {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => {
                let (shown, map) = (go_map(&directive), go_map(&Value::Object(patch)));
                Err(Failure::Other(format!("unknown patch type: {shown} in map: {map}")))
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    ordered_lists(schema, &mut original, &mut patch)?;
    for (key, change) in patch {
        let (name, deleting) = match key.strip_prefix(DELETE_FROM) {
            Some("") => return Err(BAD_PRIMITIVES),
            Some(name) => (name.to_owned(), true),
            None => (key, false),
        };
        if change.is_null() {
            original.remove(&name);
            continue;
        }
        let current = original.remove(&name);
        let merged = merge_field(schema.field(&name).map(|node| &**node), current, change, deleting)?;
        original.extend(merged.map(|value| (name, value)));
    }
    Ok(original)
}

/// The new value of a field; `None` removes it.
fn merge_field(
    schema: Option<&Schema>,
    current: Option<Value>,
    change: Value,
    deleting: bool,
) -> Result<Option<Value>, Failure> {
    let nothing_known = Schema::default();
    let schema = schema.unwrap_or(&nothing_known);
    Ok(match (current, change) {
        (Some(Value::Object(_)), change @ Value::Object(_)) if schema.patch.replace => Some(change),
        (Some(Value::Object(current)), Value::Object(change)) => {
            Some(Value::Object(merge_map(schema, current, change)?))
        }
        (Some(Value::Array(current)), Value::Array(change)) => {
            if deleting {
                let gone: BTreeSet<String> = change.iter().map(Value::to_string).collect();
                Some(Value::Array(current.into_iter().filter(|item| !gone.contains(&item.to_string())).collect()))
            } else if schema.patch.merge {
                Some(Value::Array(merge_list(schema, current, change)?))
            } else {
                Some(Value::Array(change))
            }
        }
        (current, _) if deleting => current,
        (_, mut change) => {
            drop_nulls(&mut change);
            without_directives(change)
        }
    })
}

/// Drops nulls from a value that a patch adds: there is nothing that they could remove.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The value without directives, or none if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

/// `$retainKeys`: removes keys that are not listed; the patch may only contain listed keys.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), Failure> {
    let Some(listed) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let listed: BTreeSet<&str> = listed.as_array().ok_or(BAD_RETAIN_KEYS)?.iter().filter_map(Value::as_str).collect();
    let is_listed = |name: &str| listed.contains(name);
    let strays = patch.iter().any(|(name, value)| {
        !value.is_null() && !name.starts_with(DELETE_FROM) && !name.starts_with(ELEMENT_ORDER) && !is_listed(name)
    });
    if strays {
        return Err(BAD_RETAIN_KEYS);
    }
    original.retain(|name, _| is_listed(name));
    Ok(())
}

/// Merges the lists that come with `$setElementOrder` and takes them out of the patch.
fn ordered_lists(schema: &Schema, original: &mut Fields, patch: &mut Fields) -> Result<(), Failure> {
    let keys: Vec<String> = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for key in keys {
        let wanted_order = list_of(patch.remove(&key))?.unwrap_or_default();
        let name = &key[ELEMENT_ORDER.len()..];
        if name.is_empty() {
            return Err(BAD_ORDER);
        }
        let nothing_known = Schema::default();
        let list_schema = schema.field(name).map_or(&nothing_known, |node| &**node);
        let merge_key = list_schema.patch.merge_key.as_deref();
        let current = list_of(original.get(name).cloned())?;
        let changes = list_of(patch.get(name).cloned())?;
        order::check_order(changes.as_deref().unwrap_or_default(), &wanted_order, merge_key)?;
        let server_order = current.clone().unwrap_or_default();
        let merged = match (current, changes) {
            (None, None) => continue,
            (Some(current), None) => current,
            (None, Some(changes)) => match without_directives(Value::Array(changes)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(current), Some(changes)) if list_schema.patch.merge => merge_list(list_schema, current, changes)?,
            (Some(_), Some(changes)) => changes,
        };
        let (listed, others) = order::partition(merged, &wanted_order, merge_key)?;
        original.insert(
            name.to_owned(),
            Value::Array(order::interleave(listed, &wanted_order, others, &server_order, merge_key)),
        );
        patch.remove(name);
    }
    Ok(())
}

fn list_of(value: Option<Value>) -> Result<Option<Vec<Value>>, Failure> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(Failure::Other(format!("expected a []interface {{}}, but received a {}", go_type(&other)))),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Merges two lists by merge key, or as sets of scalars, in the patch's order where it has a say.
fn merge_list(schema: &Schema, current: Vec<Value>, changes: Vec<Value>) -> Result<Vec<Value>, Failure> {
    let mut types: Vec<&str> = current.iter().chain(&changes).map(go_type).collect();
    types.dedup();
    match types.as_slice() {
        [] => return Ok(current),
        ["[]interface {}", ..] => return Err(Failure::Content),
        [_] => {}
        _ => {
            let both = Value::from(vec![Value::from(current), Value::from(changes)]);
            return Err(Failure::Other(format!("list element types are not identical: {}", go_map(&both))));
        }
    }
    if types[0] != "map[string]interface {}" {
        let mut known = BTreeSet::new();
        let all = current.iter().chain(&changes);
        let merged = all.filter(|item| known.insert(item.to_string())).cloned().collect();
        let (listed, others) = order::partition(merged, &changes, None)?;
        return Ok(order::interleave(listed, &changes, others, &current, None));
    }
    let Some(merge_key) = schema.patch.merge_key.as_deref() else {
        return Err(Failure::Other("cannot merge lists without merge key for this field".to_owned()));
    };
    let (current, changes) = apply_list_directives(current, changes, merge_key)?;
    let server_order = current.clone();
    let merged = merge_items(schema, current, &changes, merge_key)?;
    let (listed, others) = order::partition(merged, &changes, Some(merge_key))?;
    Ok(order::interleave(listed, &changes, others, &server_order, Some(merge_key)))
}

/// Carries out `$patch` items; gives back what is left of the list and of the patch.
fn apply_list_directives(
    mut current: Vec<Value>,
    changes: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Failure> {
    let mut plain = Vec::new();
    let mut replacing = false;
    let mut deleted = BTreeSet::new();
    for change in changes {
        let Some(directive) = change.get(DIRECTIVE) else {
            plain.push(change);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let wanted = order::identity(&change, Some(merge_key));
                deleted.insert(wanted.ok_or_else(|| no_merge_key(&change, merge_key))?);
            }
            Some("replace") => replacing = true,
            Some("merge") => {
                return Err(Failure::Other("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => {
                let (shown, map) = (go_map(directive), go_map(&change));
                return Err(Failure::Other(format!("unknown patch type: {shown} in map: {map}")));
            }
        }
    }
    if !deleted.is_empty() {
        current.retain(|item| order::identity(item, Some(merge_key)).is_none_or(|key| !deleted.contains(&key)));
    }
    Ok(if replacing { (plain, Vec::new()) } else { (current, plain) })
}

fn merge_items(
    schema: &Schema,
    mut current: Vec<Value>,
    changes: &[Value],
    merge_key: &str,
) -> Result<Vec<Value>, Failure> {
    let nothing_known = Schema::default();
    let item_schema = schema.items.as_deref().unwrap_or(&nothing_known);
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (place, item) in current.iter().enumerate() {
        if let Some(identity) = order::identity(item, Some(merge_key)) {
            places.entry(identity).or_insert(place);
        }
    }
    for change in changes {
        let wanted = order::identity(change, Some(merge_key)).ok_or_else(|| no_merge_key(change, merge_key))?;
        let found = places.get(&wanted).and_then(|place| current.get_mut(*place));
        if let (Some(Value::Object(item)), Value::Object(change)) = (found, change) {
            *item = merge_map(item_schema, std::mem::take(item), change.clone())?;
        } else {
            places.entry(wanted).or_insert(current.len());
            current.push(change.clone());
        }
    }
    Ok(current)
}

#[cfg(test)]
mod tests;
