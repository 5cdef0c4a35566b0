//! The hash by which the agent knows again the manifest that an object was applied from.
//!
//! Decides from what is compared of a manifest (`hashes::keep_compared`) and nothing else, so that a label of Kubernetes'
//! own does not make a manifest a new one. Never hashes a live object.

use fleet_api::hashes::spec_hash;
use fleet_api::well_known::annotations;
use serde_json::Value;

/// The hash of a manifest as it was received.
pub fn of_manifest(manifest: &Value) -> String {
    spec_hash(manifest)
}

/// The hash that a live object carries; none if it was never applied, or not by us.
pub fn of_live(live: &Value) -> Option<&str> {
    live.get("metadata")?.get("annotations")?.get(annotations::SPEC_HASH)?.as_str()
}

/// Whether the live object was applied from exactly this manifest.
pub fn is_unchanged(manifest: &Value, live: &Value) -> bool {
    of_live(live).is_some_and(|stored| stored == of_manifest(manifest))
}

/// Puts the hash on what is about to be applied.
pub fn stamp(desired: &mut Value, hash: String) {
    super::sanitize::annotate(desired, annotations::SPEC_HASH, hash);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_is_known_again_by_its_annotation() {
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
    fn only_what_is_compared_makes_a_manifest_a_new_one() {
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
