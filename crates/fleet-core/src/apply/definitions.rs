//! Custom resources whose CustomResourceDefinition is in the same Work: they wait for their kind instead of failing.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_json::Value;

use super::decode::Manifest;
use super::status::{CUSTOM_RESOURCE_DEFINITIONS, ManifestResult};

/// How long a kind may take to be served after its CustomResourceDefinition was applied, before its objects count as
/// failed. A healthy API server takes less than a second.
pub const SERVED_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// Whether a manifest has a kind that is not served yet and whose CustomResourceDefinition this Work has just
/// applied.
pub fn awaits_own_kinds(manifests: &[Manifest<'_>], results: &[ManifestResult]) -> bool {
    let defined: BTreeSet<(&str, &str)> = results
        .iter()
        .filter(|result| result.processed.outcome.is_applied())
        .filter(|result| result.identifier.resource == CUSTOM_RESOURCE_DEFINITIONS)
        .filter_map(|result| {
            let definition = result.processed.live.as_ref()?;
            let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str);
            Some((text("/spec/group")?, text("/spec/names/kind")?))
        })
        .collect();
    manifests
        .iter()
        .filter(|manifest| manifest.is_unknown_kind())
        .any(|manifest| defined.contains(&(manifest.identifier.group.as_str(), manifest.identifier.kind.as_str())))
}
