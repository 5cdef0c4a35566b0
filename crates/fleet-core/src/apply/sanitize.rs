//! Removes from a manifest what servers, controllers or the agent itself write.
//!
//! Validation of the rest is left to the member's API server.

use fleet_api::well_known::annotations;
use serde_json::{Map, Value};

/// Annotations of earlier applies elsewhere: ours, kubectl's and the deployment controller's.
const FOREIGN_ANNOTATIONS: &[&str] = &[
    annotations::SPEC_HASH,
    annotations::LAST_APPLIED,
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
];

/// Metadata that a server sets, and owners: the agent sets the owner of an applied object.
const SERVER_METADATA: &[&str] = &[
    "ownerReferences",
    "managedFields",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The manifest to apply, without hash, owner and last-applied annotation.
pub fn sanitized(manifest: &Value) -> Value {
    let Value::Object(fields) = manifest else { return manifest.clone() };
    let kept = fields.iter().filter(|(name, _)| *name != "status");
    Value::Object(
        kept.map(|(name, value)| (name.clone(), if name == "metadata" { metadata(value) } else { value.clone() }))
            .collect(),
    )
}

fn metadata(value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let mut kept: Map<String, Value> = fields
        .iter()
        .filter(|(name, _)| !SERVER_METADATA.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(Value::Object(texts)) = kept.get_mut("annotations") {
        texts.retain(|key, _| !FOREIGN_ANNOTATIONS.contains(&key.as_str()));
        if texts.is_empty() {
            kept.remove("annotations");
        }
    }
    Value::Object(kept)
}

/// Sets an annotation of an object. Leaves a value that is not an object as it is: the API server's error is better
/// than ours.
pub(super) fn annotate(object: &mut Value, key: &str, text: String) {
    if !object.is_object() {
        return;
    }
    for pointer in [("", "metadata"), ("/metadata", "annotations")] {
        let Some(Value::Object(parent)) = object.pointer_mut(pointer.0) else { return };
        if !parent.get(pointer.1).is_some_and(Value::is_object) {
            parent.insert(pointer.1.to_owned(), Value::Object(Map::new()));
        }
    }
    object["metadata"]["annotations"][key] = Value::String(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::last_applied::LastApplied;
    use crate::apply::{adversarial, last_applied, manifest_hash};
    use expect_test::{Expect, expect};
    use k8s_values::go;
    use proptest::prelude::*;
    use serde_json::json;

    fn check(manifest: Value, expected: Expect) {
        expected.assert_eq(&sanitized(&manifest).to_string());
    }

    #[test]
    fn metadata_of_the_server_and_the_status_are_removed() {
        check(
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "status": {"phase": "Active"}, "data": {"status": "kept"},
                "metadata": {
                    "name": "cm", "namespace": "app", "generateName": "c", "labels": {"app.kubernetes.io/name": "x"},
                    "finalizers": ["example.com/hold"], "ownerReferences": [{"uid": "o"}], "managedFields": [{}],
                    "creationTimestamp": null, "deletionTimestamp": "t", "deletionGracePeriodSeconds": 30, "generation": 4,
                    "resourceVersion": "9", "selfLink": "/x", "uid": "u",
                },
            }),
            expect![[
                r#"{"apiVersion":"v1","data":{"status":"kept"},"kind":"ConfigMap","metadata":{"finalizers":["example.com/hold"],"generateName":"c","labels":{"app.kubernetes.io/name":"x"},"name":"cm","namespace":"app"}}"#
            ]],
        );
    }

    #[test]
    fn annotations_of_earlier_applies_and_emptied_maps_are_removed() {
        let earlier = json!({
            "kubernetes-fleet.io/spec-hash": "h", "kubernetes-fleet.io/last-applied-configuration": "{}",
            "kubectl.kubernetes.io/last-applied-configuration": "{}", "deployment.kubernetes.io/revision": "3",
        });
        check(json!({"metadata": {"annotations": earlier.clone()}}), expect![[r#"{"metadata":{}}"#]]);
        let mut with_own = earlier;
        with_own["example.com/own"] = json!("1");
        check(
            json!({"metadata": {"annotations": with_own}}),
            expect![[r#"{"metadata":{"annotations":{"example.com/own":"1"}}}"#]],
        );
    }

    #[test]
    fn cluster_addresses_and_selectors_are_kept() {
        check(
            json!({"kind": "Service", "spec": {"clusterIP": "10.0.0.7", "selector": {"a": "b"}}}),
            expect![[r#"{"kind":"Service","spec":{"clusterIP":"10.0.0.7","selector":{"a":"b"}}}"#]],
        );
    }

    #[test]
    fn a_manifest_that_is_no_object_is_not_sanitized() {
        for odd in [json!(null), json!([1]), json!({"metadata": "text"}), json!({"metadata": {"annotations": [1]}})] {
            assert_eq!(sanitized(&odd), odd);
        }
    }

    #[test]
    fn an_annotation_is_added_with_its_parents() {
        for mut object in [json!({}), json!({"metadata": null}), json!({"metadata": {"annotations": "odd"}})] {
            annotate(&mut object, "k", "v".to_owned());
            assert_eq!(object, json!({"metadata": {"annotations": {"k": "v"}}}));
        }
        let mut text = json!("no object");
        annotate(&mut text, "k", "v".to_owned());
        assert_eq!(text, json!("no object"));
    }

    proptest! {
        #[test]
        fn any_manifest_can_be_sanitized(manifest in adversarial::object()) {
            let clean = sanitized(&manifest);
            prop_assert_eq!(&sanitized(&clean), &clean);
            prop_assert_eq!(clean.get("status"), None);
            let mut desired = clean;
            manifest_hash::stamp(&mut desired, manifest_hash::of_manifest(&manifest));
            prop_assert!(manifest_hash::is_unchanged(&manifest, &desired));
            let before = desired.clone();
            prop_assert_eq!(last_applied::store(&mut desired), LastApplied::Stored);
            // Texts have no 1.0, only 1.
            prop_assert_eq!(go::json_bytes(&last_applied::of_live(&desired)), go::json_bytes(&before));
        }
    }
}
