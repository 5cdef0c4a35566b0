//! The three-way merge of built-in kinds as a strategic merge patch with its directives.
//!
//! Never passes on a directive from a manifest: no field of a built-in kind has such a name.

use serde_json::{Map, Value};

use super::lists;
use super::same;
use super::table::{Shape, Strategy};

pub(super) type Fields = Map<String, Value>;

pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
pub(super) const ELEMENT_ORDER: &str = "$setElementOrder/";

pub(super) fn merge(last: &Fields, desired: &Fields, live: &Fields, shape: &Shape) -> Fields {
    objects(last, desired, live, shape, false)
}

/// The patch of one object. With `retain_keys` it also lists the desired fields, so that the server drops all others:
/// for unions, where a new field replaces the old one.
pub(super) fn objects(last: &Fields, desired: &Fields, live: &Fields, shape: &Shape, retain_keys: bool) -> Fields {
    let mut patch = Fields::new();
    for (name, wanted) in desired.iter().filter(|(name, _)| !is_directive(name)) {
        field(name, last.get(name), wanted, live.get(name), shape, &mut patch);
    }
    let gone = last.keys().filter(|name| !is_directive(name) && !desired.contains_key(*name));
    patch.extend(gone.map(|name| (name.clone(), Value::Null)));

    let retained: Vec<Value> = desired
        .iter()
        .filter(|(name, wanted)| !wanted.is_null() && !is_directive(name))
        .map(|(name, _)| Value::from(name.as_str()))
        .collect();
    let surplus = || live.iter().any(|(name, value)| !value.is_null() && !desired.contains_key(name));
    if retain_keys && !retained.is_empty() && (!patch.is_empty() || surplus()) {
        patch.insert(RETAIN_KEYS.to_owned(), Value::Array(retained));
    }
    patch
}

fn field(name: &str, last: Option<&Value>, wanted: &Value, live: Option<&Value>, shape: &Shape, patch: &mut Fields) {
    let rule = shape.field(name);
    let change = match (live, wanted) {
        (None, Value::Null) => None,
        (Some(Value::Object(live)), Value::Object(wanted)) if rule.strategy != Strategy::Replace => {
            let nothing = Fields::new();
            let last = last.and_then(Value::as_object).unwrap_or(&nothing);
            let inner = objects(last, wanted, live, rule.shape, rule.strategy == Strategy::RetainKeys);
            (!inner.is_empty()).then_some(Value::Object(inner))
        }
        (Some(Value::Array(live)), Value::Array(wanted))
            if rule.strategy.merges_lists() && (!live.is_empty() || lists::shares_keys(wanted, rule)) =>
        {
            let last = last.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            lists::merge(name, last, wanted, live, rule, patch);
            return;
        }
        (Some(live), wanted) if same(live, wanted) => None,
        (_, wanted) => Some(without_directives(wanted)),
    };
    patch.extend(change.map(|change| (name.to_owned(), change)));
}

pub(super) fn is_directive(name: &str) -> bool {
    name == DIRECTIVE || name == RETAIN_KEYS || name.starts_with(DELETE_FROM) || name.starts_with(ELEMENT_ORDER)
}

pub(super) fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !is_directive(name));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_directives(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_directives).collect()),
        other => other.clone(),
    }
}
