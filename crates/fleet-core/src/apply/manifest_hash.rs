//! The hash by which the agent recognises the manifest from which an object was applied.
//!
//! Only compared fields count (`hashes::keep_compared`), so a label that Kubernetes itself sets does not make a
//! manifest new.

use fleet_api::hashes::spec_hash;
use fleet_api::well_known::annotations;
use serde_json::Value;

/// The hash of a manifest as received.
pub fn of_manifest(manifest: &Value) -> String {
    spec_hash(manifest)
}

/// The hash on a live object; `None` if we never applied it.
pub fn of_live(live: &Value) -> Option<&str> {
    live.get("metadata")?.get("annotations")?.get(annotations::SPEC_HASH)?.as_str()
}

/// Whether the live object was applied from exactly this manifest.
pub fn is_unchanged(manifest: &Value, live: &Value) -> bool {
    of_live(live).is_some_and(|stored| stored == of_manifest(manifest))
}

/// Sets the hash on an object that is about to be applied.
pub fn stamp(desired: &mut Value, hash: String) {
    super::sanitize::annotate(desired, annotations::SPEC_HASH, hash);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_unchanged_manifest_is_recognised_by_the_annotation() {
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}});
        let mut live = manifest.clone();
        assert_eq!(of_live(&live), None);
        assert!(!is_unchanged(&manifest, &live));
        stamp(&mut live, of_manifest(&manifest));
        assert_eq!(of_live(&live), Some("4b58955643cce460a35dc822c0b341df7c5e9350dba8cacfc84e8ab60e2ce0e8"));
        assert!(is_unchanged(&manifest, &live));
        live["metadata"]["annotations"][annotations::SPEC_HASH] = json!(7);
        assert!(!is_unchanged(&manifest, &live));
    }

    #[test]
    fn only_compared_fields_change_the_hash_of_a_manifest() {
        let manifest = json!({"kind": "X", "metadata": {"name": "a"}, "spec": {"n": 1}});
        let relabelled = json!({
            "kind": "X", "spec": {"n": 1}, "status": {"seen": true},
            "metadata": {"name": "b", "labels": {"app.kubernetes.io/name": "x"}, "finalizers": ["f"]},
        });
        assert_eq!(of_manifest(&manifest), of_manifest(&relabelled));
        let changed = json!({"kind": "X", "metadata": {"name": "a"}, "spec": {"n": 2}});
        assert_ne!(of_manifest(&manifest), of_manifest(&changed));
    }
}
