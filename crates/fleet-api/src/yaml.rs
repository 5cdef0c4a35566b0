//! YAML in and out, for manifests that people write and files that we commit.
//!
//! Decides how documents are printed: two-space indent, sorted keys, no anchors. Never guesses a kind.

use serde::Serialize;
use serde_json::Value;

/// Why a text is not YAML that Kubernetes would take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not valid YAML: {0}")]
pub struct YamlError(String);

/// A document as YAML text, ending with a line break.
pub fn to_string(value: &impl Serialize) -> String {
    // A JSON tree has string keys and no cycles, so there is nothing that could fail to print.
    serde_saphyr::to_string(value).unwrap_or_default()
}

/// All documents of a text; empty ones are left out.
pub fn documents(text: &str) -> Result<Vec<Value>, YamlError> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| YamlError(error.to_string()))?;
    Ok(all.into_iter().filter(|document| !document.is_null()).collect())
}
