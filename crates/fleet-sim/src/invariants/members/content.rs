//! Compares objects of any kind by their content: the fields that a fleet places, without those that servers and
//! controllers write.

use serde_json::{Map, Value};

/// Content in `metadata`.
const PLACED_METADATA: [&str; 3] = ["labels", "annotations", "ownerReferences"];
/// Annotation that the Deployment controller of a member writes.
const REVISION_ANNOTATION: &str = "deployment.kubernetes.io/revision";
/// Top-level fields that are not content: identity, and the status that controllers of the member write.
const NOT_CONTENT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// The fields that an agent may change.
pub(super) fn content(object: &Value) -> Value {
    let mut found = Map::new();
    for (field, value) in object.as_object().into_iter().flatten() {
        if !NOT_CONTENT.contains(&field.as_str()) {
            found.insert(field.clone(), value.clone());
        }
    }
    for field in PLACED_METADATA {
        let mut value = object["metadata"][field].clone();
        if let Some(annotations) = value.as_object_mut() {
            annotations.remove(REVISION_ANNOTATION);
        }
        if !is_empty(&value) {
            found.insert(format!("metadata.{field}"), value);
        }
    }
    if object["kind"] == "Namespace" {
        // It only has finalizers, which the server manages.
        found.remove("spec");
    }
    Value::Object(found)
}

/// The content without owner references to AppliedWorks, which agents set. Owners of other kinds are content.
pub(super) fn content_but_ownership(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
        owners.retain(|owner| !is_of_agent(owner));
    }
    content(&object)
}

/// Whether an owner reference is one that agents set.
pub(super) fn is_of_agent(owner: &Value) -> bool {
    owner["kind"] == "AppliedWork"
}

/// Whether a live object differs from a manifest. With `full`, additional labels and data of the live object count as
/// well; other additional fields may be defaults of the server.
pub(super) fn differs(manifest: &Value, live: &Value, full: bool) -> bool {
    let fields = manifest.as_object().into_iter().flatten();
    let mut fields = fields.filter(|(field, _)| !NOT_CONTENT.contains(&field.as_str()));
    let of_metadata = |field: &str| lacks(&live["metadata"][field], &manifest["metadata"][field]);
    fields.any(|(field, value)| lacks(&live[field], value))
        || ["labels", "annotations"].into_iter().any(of_metadata)
        || (full && has_more(&live["data"], &manifest["data"]))
        || (full
            && manifest["kind"] != "Namespace"
            && has_more(&live["metadata"]["labels"], &manifest["metadata"]["labels"]))
}

/// Whether a field of `wanted` has another value in `live`. Null and empty fields are ignored.
fn lacks(live: &Value, wanted: &Value) -> bool {
    match wanted {
        _ if is_empty(wanted) => false,
        Value::Object(fields) => fields.iter().any(|(field, value)| lacks(&live[field], value)),
        Value::Array(items) => {
            let live = live.as_array().map(Vec::as_slice).unwrap_or_default();
            live.len() != items.len() || items.iter().zip(live).any(|(wanted, live)| lacks(live, wanted))
        }
        scalar => live != scalar,
    }
}

fn has_more(live: &Value, wanted: &Value) -> bool {
    let mut keys = live.as_object().into_iter().flatten().map(|(key, _)| key);
    keys.any(|key| wanted.get(key).is_none())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_of_any_kind_excludes_fields_of_server_and_controllers() {
        let deployment = |replicas: u32, label: &str, revision: &str, ready: u32| {
            content(&json!({
                "kind": "Deployment",
                "metadata": {
                    "name": "web", "resourceVersion": revision, "managedFields": [revision],
                    "labels": {"app": label}, "annotations": {REVISION_ANNOTATION: revision},
                },
                "spec": {"replicas": replicas}, "status": {"readyReplicas": ready},
            }))
        };
        assert_eq!(deployment(1, "a", "1", 0), deployment(1, "a", "2", 1), "written by the server and by controllers");
        assert_ne!(deployment(1, "a", "1", 0), deployment(2, "a", "1", 0));
        assert_ne!(deployment(1, "a", "1", 0), deployment(1, "b", "1", 0));
    }

    #[test]
    fn a_manifest_differs_from_an_object_that_lacks_one_of_its_fields() {
        let manifest = json!({
            "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "x"}},
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:1"}]}}, "paused": null},
        });
        let live = |image: &str, label: &str, extra: Value| {
            let container = json!({"name": "main", "image": image, "imagePullPolicy": "Always"});
            json!({
                "metadata": {"name": "web", "uid": "1", "labels": {"app": label, "more": extra}},
                "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
            })
        };
        assert!(!differs(&manifest, &live("web:1", "x", json!("1")), false), "defaults and additional labels");
        assert!(differs(&manifest, &live("web:2", "x", json!("1")), false));
        assert!(differs(&manifest, &live("web:1", "y", json!("1")), false));
        assert!(
            differs(&manifest, &live("web:1", "x", json!("1")), true),
            "a full comparison counts additional labels"
        );
        let mut two = live("web:1", "x", json!("1"));
        two["spec"]["template"]["spec"]["containers"] = json!([{"name": "main", "image": "web:1"}, {"name": "side"}]);
        assert!(differs(&manifest, &two, false), "another container");
    }

    #[test]
    fn a_full_comparison_counts_additional_data() {
        let map = |data: Value| json!({"kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
        let (manifest, live) = (map(json!({"a": "1"})), map(json!({"a": "1", "b": "2"})));
        assert!(!differs(&manifest, &live, false) && differs(&manifest, &live, true));
    }
}
