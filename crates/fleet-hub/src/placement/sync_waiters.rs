//! Placements that wait until the cache of a kind is synced, so that the first lists of many kinds do not enqueue
//! every placement each time.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::names::PlacementKey;
use fleet_runtime::{KindId, MetadataCaches};
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(super) struct SyncWaiters(Mutex<BTreeMap<String, BTreeSet<PlacementKey>>>);

impl SyncWaiters {
    /// Adds a placement that waits for a resource, as selection names it. Returns whether the cache is synced
    /// already: that event came before the placement was added.
    pub(super) fn add(&self, resource: &str, key: &PlacementKey, metadata: &MetadataCaches) -> bool {
        self.0.lock().entry(resource.to_owned()).or_default().insert(key.clone());
        metadata.kinds().iter().any(|kind| resource_of(kind) == resource && metadata.is_complete(kind))
    }

    /// Removes and returns the placements that waited for this kind.
    pub(super) fn take(&self, kind: &KindId) -> BTreeSet<PlacementKey> {
        self.0.lock().remove(&resource_of(kind)).unwrap_or_default()
    }
}

/// The same text as `fleet_core::placement::Kind`.
fn resource_of(kind: &KindId) -> String {
    format!("{}/{}, Resource={}", kind.group, kind.version, kind.plural)
}

#[cfg(test)]
mod tests {
    use fleet_core::placement::Kind;

    use super::*;

    #[test]
    fn resources_have_the_names_that_selection_uses() {
        let words = ["apps", "v1", "Deployment", "deployments"].map(str::to_owned);
        let id = KindId::new(&words[0], &words[1], &words[2], &words[3]);
        let [group, version, kind, plural] = words;
        let kind = Kind { group, version, kind, plural, namespaced: true, preferred: true };
        assert_eq!(resource_of(&id), kind.to_string());
    }
}
