//! The three-way merge patch from the live object to the desired one.
//!
//! Fields of the last-applied document that are no longer desired are deleted, desired ones are set, and all others
//! stay. Built-in kinds get a strategic merge patch with the merge keys of `table`; all others get a JSON merge
//! patch.
//!
//! Unlike KubeFleet's agents, this loses no data: lists whose merge keys repeat (a port with two protocols) are sent
//! whole, because merging them by key would drop one, and other owners of a custom resource stay.
//!
//! Documents come from JSON text, whose parser refuses more than 128 levels; the recursion is as deep as the
//! documents.

mod json;
mod lists;
mod strategic;
mod table;

use serde_json::{Map, Value};
use thiserror::Error;

pub use self::table::{Strategy, known_strategies};

/// The type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    Strategic,
    JsonMerge,
}

/// A patch to be sent to the member.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    pub patch_type: PatchType,
    pub body: Map<String, Value>,
}

impl Patch {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Adds preconditions: the server refuses the patch if the object was recreated or, if a version is given, has
    /// changed since it was read.
    #[must_use]
    pub fn meant_for(mut self, uid: Option<&str>, resource_version: Option<&str>) -> Self {
        for (field, value) in [("uid", uid), ("resourceVersion", resource_version)] {
            let Some(value) = value else { continue };
            let metadata = self.body.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(metadata) = metadata {
                metadata.insert(field.to_owned(), Value::from(value));
            }
        }
        self
    }
}

/// Why there is no patch.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MergeFailure {
    #[error("precondition failed: the patch would change {0}")]
    Identity(&'static str),
    #[error("invalid JSON document: not an object")]
    NoObject,
}

/// The patch from the live object to the desired one.
pub fn three_way(last_applied: &Value, desired: &Value, live: &Value) -> Result<Patch, MergeFailure> {
    let (Value::Object(desired), Value::Object(live)) = (desired, live) else { return Err(MergeFailure::NoObject) };
    let nothing = Map::new();
    let last = last_applied.as_object().unwrap_or(&nothing);
    let text = |field: &str| desired.get(field).and_then(Value::as_str).unwrap_or_default();
    Ok(match table::shape_of(text("apiVersion"), text("kind")) {
        Some(shape) => Patch { patch_type: PatchType::Strategic, body: strategic::merge(last, desired, live, shape) },
        None => Patch { patch_type: PatchType::JsonMerge, body: json::merge(last, desired, live)? },
    })
}

/// Whether two values are equal to a server: 1 equals 1.0, and large integers are compared exactly.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || ((one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests;
