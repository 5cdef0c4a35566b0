//! The three-way merge of kinds without a schema: objects are merged, everything else is replaced (RFC 7386, null
//! removes).
//!
//! Never changes API version, kind or name.

use serde_json::{Map, Value};

use super::{MergeFailure, same};

type Fields = Map<String, Value>;

/// The patch; an error if it would change the identity of the object.
pub(super) fn merge(last: &Fields, desired: &Fields, live: &Fields) -> Result<Fields, MergeFailure> {
    let desired = with_all_owners(last, desired, live);
    let patch = objects(last, &desired, live);
    for field in ["apiVersion", "kind"] {
        if patch.contains_key(field) {
            return Err(MergeFailure::Identity(if field == "kind" { "kind" } else { "apiVersion" }));
        }
    }
    match patch.get("metadata") {
        Some(Value::Object(metadata)) if !metadata.contains_key("name") => Ok(patch),
        None => Ok(patch),
        Some(_) => Err(MergeFailure::Identity("metadata.name")),
    }
}

fn objects(last: &Fields, desired: &Fields, live: &Fields) -> Fields {
    let mut patch = Fields::new();
    for (name, wanted) in desired {
        let change = match (live.get(name), wanted) {
            (_, Value::Null) => last.get(name).is_some_and(|before| !before.is_null()).then_some(Value::Null),
            (Some(Value::Object(live)), Value::Object(wanted)) => {
                let nothing = Fields::new();
                let last = last.get(name).and_then(Value::as_object).unwrap_or(&nothing);
                Some(objects(last, wanted, live)).filter(|inner| !inner.is_empty()).map(Value::Object)
            }
            (Some(live), wanted) if same(live, wanted) => None,
            (_, wanted) => without_nulls(wanted),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    let gone = last.keys().filter(|name| !desired.contains_key(*name));
    patch.extend(gone.map(|name| (name.clone(), Value::Null)));
    patch
}

/// A value to set, without nulls, which would remove absent fields. `None` if nothing else is left.
fn without_nulls(value: &Value) -> Option<Value> {
    let Value::Object(fields) = value else { return Some(value.clone()) };
    let kept = fields.iter().filter(|(_, value)| !value.is_null());
    let kept: Fields = kept.filter_map(|(name, value)| Some((name.clone(), without_nulls(value)?))).collect();
    (fields.is_empty() || !kept.is_empty()).then_some(Value::Object(kept))
}

/// The desired object with the other owners of the live one: a merge patch can only set the whole list.
fn with_all_owners(last: &Fields, desired: &Fields, live: &Fields) -> Fields {
    let mut desired = desired.clone();
    let Some(Value::Object(metadata)) = desired.get_mut("metadata") else { return desired };
    let Some(Value::Array(own)) = metadata.get_mut("ownerReferences") else { return desired };
    let (before, there) = (owners(last), owners(live));
    let is_in = |list: &[Value], owner: &Value| list.iter().any(|other| other.get("uid") == owner.get("uid"));
    let mut all: Vec<Value> = Vec::new();
    for owner in there.iter().filter(|owner| is_in(own, owner) || !is_in(before, owner)) {
        let ours = own.iter().find(|ours| ours.get("uid") == owner.get("uid"));
        all.push(ours.unwrap_or(owner).clone());
    }
    let missing = own.iter().filter(|ours| !is_in(there, ours));
    all.extend(missing.cloned());
    *own = all;
    desired
}

fn owners(object: &Fields) -> &[Value] {
    let list = object.get("metadata").and_then(|metadata| metadata.get("ownerReferences")).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}
