//! Strict decoding: reports fields that the kind does not have.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Crd, Family, Obj, Scope, all_crds};

/// Why a document was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrictError {
    /// The same text as the API server's.
    #[error("strict decoding error: {}", .0.iter().map(|path| format!("unknown field {path:?}")).collect::<Vec<_>>().join(", "))]
    UnknownFields(Vec<String>),
    #[error("{kind} cannot be read: {reason}")]
    Malformed { kind: &'static str, reason: String },
}

/// The fields of `metadata` that Kubernetes has.
const METADATA_FIELDS: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Decodes a document of a known kind and refuses fields that the kind does not have.
pub fn decode_strict<F: Family, S: Scope>(document: &Value) -> Result<Obj<F, S>, StrictError> {
    let info = Obj::<F, S>::INFO;
    let malformed = |reason: String| StrictError::Malformed { kind: info.kind, reason };
    let object = serde_json::from_value(document.clone()).map_err(|error| malformed(error.to_string()))?;
    let crds = all_crds();
    let crd = crds.iter().find(|crd| crd.info == info).ok_or_else(|| malformed("no such kind".to_owned()))?;
    let unknown = unknown_fields(crd, document);
    if unknown.is_empty() { Ok(object) } else { Err(StrictError::UnknownFields(unknown)) }
}

/// Paths of the fields that the kind does not have, as `spec.polcy` and `spec.stages[0].nmae`, sorted.
pub fn unknown_fields(crd: &Crd, document: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    walk(crd.storage_schema(), document, "", &mut found);
    if let Some(metadata) = document.get("metadata").and_then(Value::as_object) {
        let unknown = metadata.keys().filter(|key| !METADATA_FIELDS.contains(&key.as_str()));
        found.extend(unknown.map(|key| format!("metadata.{key}")));
    }
    found.into_iter().collect()
}

fn walk(schema: &Value, value: &Value, path: &str, found: &mut BTreeSet<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(fields) => {
            let additional = schema.get("additionalProperties");
            for (key, inner) in fields {
                let here = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match schema["properties"].get(key).or(additional) {
                    // Its fields are not in our schema; they are checked against the table above.
                    Some(_) if here == "metadata" => {}
                    Some(known) => walk(known, inner, &here, found),
                    None => drop(found.insert(here)),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}
