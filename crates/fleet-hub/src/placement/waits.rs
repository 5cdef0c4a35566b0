//! Which placements wait until all objects of a resource are known.
//!
//! Decides whom to wake when one is complete, so that the first lists of many kinds do not wake every placement each time.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::names::PlacementKey;
use fleet_runtime::{KindId, MetadataCaches};
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<BTreeMap<String, BTreeSet<PlacementKey>>>);

impl Waits {
    /// The placement waits for a resource, as selection names it. Says whether that is complete by now: whoever
    /// completed it did not know of this placement.
    pub(super) fn add(&self, resource: &str, key: &PlacementKey, metadata: &MetadataCaches) -> bool {
        self.0.lock().entry(resource.to_owned()).or_default().insert(key.clone());
        metadata.kinds().iter().any(|kind| resource_of(kind) == resource && metadata.is_complete(kind))
    }

    /// Those that waited for this kind.
    pub(super) fn take(&self, kind: &KindId) -> BTreeSet<PlacementKey> {
        self.0.lock().remove(&resource_of(kind)).unwrap_or_default()
    }
}

/// As `fleet_core::placement::Kind` prints.
fn resource_of(kind: &KindId) -> String {
    format!("{}/{}, Resource={}", kind.group, kind.version, kind.plural)
}

#[cfg(test)]
mod tests {
    use fleet_core::placement::Kind;

    use super::*;

    #[test]
    fn resources_are_named_as_selection_names_them() {
        let words = ["apps", "v1", "Deployment", "deployments"].map(str::to_owned);
        let id = KindId::new(&words[0], &words[1], &words[2], &words[3]);
        let [group, version, kind, plural] = words;
        let kind = Kind { group, version, kind, plural, namespaced: true, preferred: true };
        assert_eq!(resource_of(&id), kind.to_string());
    }
}
