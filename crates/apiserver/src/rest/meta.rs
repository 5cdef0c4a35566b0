//! The metadata of objects: fields that the server sets, fields that a client may change, and their validation.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::field::{Fault, FieldError};
use crate::registry::ResourceInfo;
use crate::server::identity::Identities;

/// A generated name leaves room for its suffix within the shortest limit that names have.
const MAX_GENERATE_BASE: usize = 58;

/// The metadata as a map; an object without one is given one.
pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let slot = &mut object["metadata"];
    if !slot.is_object() {
        *slot = json!({});
    }
    match slot {
        Value::Object(map) => map,
        // Made an object three lines above.
        _ => unreachable!(),
    }
}

/// A text of the metadata; empty if it is missing.
pub(crate) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or("")
}

/// The time as Kubernetes writes it: whole seconds.
pub(crate) fn printed_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Sets what every new object gets and removes what a client may not choose.
pub(crate) fn start(
    object: &mut Value,
    info: &ResourceInfo,
    namespace: Option<&str>,
    now: Timestamp,
    ids: &Identities,
) {
    let metadata = metadata(object);
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        metadata.remove(key);
    }
    metadata.insert("uid".to_owned(), ids.uid().into());
    metadata.insert("creationTimestamp".to_owned(), printed_time(now).into());
    match namespace {
        Some(namespace) if info.namespaced => metadata.insert("namespace".to_owned(), namespace.into()),
        _ => metadata.remove("namespace"),
    };
    if info.behaviour.has_generation {
        metadata.insert("generation".to_owned(), 1.into());
    }
    tidy(metadata);
}

/// Gives a nameless object with a `generateName` its name.
pub(crate) fn generate_name(object: &mut Value, ids: &Identities) {
    let metadata = metadata(object);
    let base = metadata.get("generateName").and_then(Value::as_str).unwrap_or("");
    if base.is_empty() || metadata.get("name").and_then(Value::as_str).is_some_and(|n| !n.is_empty()) {
        return;
    }
    let cut = base.char_indices().map(|(i, _)| i).take_while(|i| *i <= MAX_GENERATE_BASE).last().unwrap_or(0);
    let base = if base.len() <= MAX_GENERATE_BASE { base } else { &base[..cut] };
    let name = format!("{base}{}", ids.suffix());
    metadata.insert("name".to_owned(), name.into());
}

/// Removes empty collections and nulls, which are never stored.
pub(crate) fn tidy(metadata: &mut Map<String, Value>) {
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
}

/// Carries over what an update may leave out and what it cannot change.
pub(crate) fn carry_over(new: &mut Value, old: &Value) {
    let before = &old["metadata"];
    let metadata = metadata(new);
    tidy(metadata);
    if let Some(time) = before.get("creationTimestamp") {
        metadata.insert("creationTimestamp".to_owned(), time.clone());
    }
    for key in ["uid", "name", "namespace"] {
        if !metadata.contains_key(key)
            && let Some(value) = before.get(key)
        {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(time) = before.get("deletionTimestamp") {
        metadata.insert("deletionTimestamp".to_owned(), time.clone());
        if let Some(seconds) = before.get("deletionGracePeriodSeconds") {
            metadata.entry("deletionGracePeriodSeconds").or_insert(seconds.clone());
        }
    }
    for key in ["generation", "resourceVersion"] {
        match before.get(key) {
            Some(value) => metadata.insert(key.to_owned(), value.clone()),
            None => metadata.remove(key),
        };
    }
    metadata.remove("selfLink");
}

/// Counts the change if anything but metadata (and, where it is a part of its own, status) differs.
pub(crate) fn count_generation(new: &mut Value, old: &Value, info: &ResourceInfo, status_is_apart: bool) {
    if !info.behaviour.has_generation {
        return;
    }
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
    let changed = differs_outside_metadata(new, old, status_is_apart)
        || (info.behaviour.generation_counts_annotations
            && new["metadata"].get("annotations") != old["metadata"].get("annotations"));
    let generation = if changed { generation + 1 } else { generation };
    metadata(new).insert("generation".to_owned(), generation.into());
}

fn differs_outside_metadata(new: &Value, old: &Value, status_is_apart: bool) -> bool {
    let counted =
        |key: &str| !(matches!(key, "metadata" | "apiVersion" | "kind") || status_is_apart && key == "status");
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new != old };
    let changed = new.iter().any(|(key, value)| counted(key) && old.get(key) != Some(value));
    changed || old.keys().any(|key| counted(key) && !new.contains_key(key))
}

/// The finding about a PUT that does not say which version it replaces.
pub(crate) fn version_required() -> FieldError {
    FieldError {
        fault: Fault::Invalid,
        path: "metadata.resourceVersion".to_owned(),
        value: Some("0".to_owned()),
        detail: "must be specified for an update".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Version;
    use crate::schema::Node;

    fn info() -> ResourceInfo {
        let mut info = ResourceInfo::built_in("", Version::new("v1", Node::default()), "Thing", "things");
        info.behaviour.has_generation = true;
        info
    }

    #[test]
    fn a_new_object_gets_what_the_server_sets() {
        let ids = Identities::new(Some(1));
        let now = "2026-01-02T03:04:05.6Z".parse().unwrap();
        let mut object =
            json!({"metadata": {"generateName": "a-", "generation": 7, "resourceVersion": "1", "labels": {}}});
        start(&mut object, &info(), Some("ns"), now, &ids);
        generate_name(&mut object, &ids);
        let metadata = &object["metadata"];
        assert_eq!(metadata["creationTimestamp"], "2026-01-02T03:04:05Z");
        assert_eq!((&metadata["generation"], &metadata["namespace"]), (&json!(1), &json!("ns")));
        assert!(metadata["name"].as_str().unwrap().starts_with("a-") && text(&object, "name").len() == 7);
        assert!(metadata.get("resourceVersion").is_none() && metadata.get("labels").is_none());
    }

    #[test]
    fn a_long_generate_name_is_cut() {
        let mut object = json!({"metadata": {"generateName": "x".repeat(80)}});
        generate_name(&mut object, &Identities::new(Some(1)));
        assert_eq!(text(&object, "name").len(), 63);
    }

    #[test]
    fn generation_counts_spec_but_not_metadata_or_status() {
        let old = json!({"metadata": {"generation": 3}, "spec": {"a": 1}, "status": {"b": 1}});
        let generation = |new: Value, apart| {
            let mut new = new;
            count_generation(&mut new, &old, &info(), apart);
            new["metadata"]["generation"].as_i64().unwrap()
        };
        assert_eq!(
            generation(json!({"metadata": {"labels": {"x": "y"}}, "spec": {"a": 1}, "status": {"b": 2}}), true),
            3
        );
        assert_eq!(generation(json!({"spec": {"a": 1}, "status": {"b": 2}}), false), 4);
        assert_eq!(generation(json!({"spec": {"a": 2}, "status": {"b": 1}}), true), 4);
        assert_eq!(generation(json!({"status": {"b": 1}}), true), 4);
    }
}
