//! Changes labels, annotations and finalizers of objects.

use std::collections::BTreeMap;

use fleet_api::well_known::{label_values, labels};
use fleet_runtime::{Writable, Write};
use kube::Resource;

/// Whether a snapshot is marked as the latest.
pub(crate) fn is_latest<K: Resource>(snapshot: &K) -> bool {
    let labels = snapshot.meta().labels.as_ref();
    labels.and_then(|labels| labels.get(labels::IS_LATEST_SNAPSHOT)).is_some_and(|value| value == label_values::TRUE)
}

/// Adds the finalizer if it is missing. Keeps the order of existing finalizers: another order would change entries of
/// other controllers.
pub(crate) fn with_finalizer<K: Resource + Clone>(object: &K, finalizer: &str) -> K {
    let mut changed = object.clone();
    let finalizers = changed.meta_mut().finalizers.get_or_insert_default();
    if !finalizers.iter().any(|one| one == finalizer) {
        finalizers.push(finalizer.to_owned());
    }
    changed
}

pub(crate) fn without_finalizer<K: Resource + Clone>(object: &K, finalizer: &str) -> K {
    let mut changed = object.clone();
    if let Some(finalizers) = &mut changed.meta_mut().finalizers {
        finalizers.retain(|one| one != finalizer);
    }
    changed
}

pub(crate) fn set_latest<K: Resource>(snapshot: &mut K, latest: bool) {
    let value = if latest { label_values::TRUE } else { label_values::FALSE };
    put(&mut snapshot.meta_mut().labels, labels::IS_LATEST_SNAPSHOT, value.to_owned());
}

pub(crate) fn annotate<K: Resource>(object: &mut K, key: &str, value: String) {
    put(&mut object.meta_mut().annotations, key, value);
}

/// A write that changes an object.
pub(crate) fn changed<K: Writable + Clone>(object: &K, alter: impl FnOnce(&mut K)) -> Write {
    let mut new = object.clone();
    alter(&mut new);
    Write::change(object, &new)
}

fn put(map: &mut Option<BTreeMap<String, String>>, key: &str, value: String) {
    map.get_or_insert_default().insert(key.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn a_finalizer_is_added_once_and_removed() {
        let object = ConfigMap::default();
        let held = with_finalizer(&with_finalizer(&object, "a"), "a");
        assert_eq!(held.metadata.finalizers, Some(vec!["a".to_owned()]));
        assert_eq!(without_finalizer(&held, "a").metadata.finalizers, Some(Vec::new()));
        assert_eq!(without_finalizer(&object, "a"), object);
    }

    #[test]
    fn last_05_an_existing_finalizer_keeps_its_position() {
        let mut object = ConfigMap::default();
        object.metadata.finalizers = Some(vec!["ours".to_owned(), "theirs".to_owned()]);
        assert_eq!(with_finalizer(&object, "ours"), object);
        let added = with_finalizer(&object, "third").metadata.finalizers;
        assert_eq!(added, Some(["ours", "theirs", "third"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn the_latest_label_is_added_and_removed() {
        let mut object = ConfigMap::default();
        assert!(!is_latest(&object));
        set_latest(&mut object, true);
        assert!(is_latest(&object));
        set_latest(&mut object, false);
        assert!(!is_latest(&object));
        annotate(&mut object, "k", "v".to_owned());
        assert_eq!(object.metadata.annotations, Some([("k".to_owned(), "v".to_owned())].into()));
    }
}
