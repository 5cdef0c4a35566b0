//! Patches: applying a computed difference gives the target, patches are idempotent, and no patch grows an object without bound.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use apiserver::internals::{self, Structural, managed_fields_findings};
use fleet_core::apply::merge::{PatchType, three_way};
use k8s_values::json_patch::{self, Rules};
use k8s_values::merge_patch;
use serde_json::{Map, Value, json};

use super::{field, parsed, size, text};

pub(super) const JSON_PATCH_WORDS: &[&str] = &[
    "add", "remove", "replace", "move", "copy", "test", "/", "/-", "/a", "/a/0", "/a/-1", "~01", "op", "path", "from",
    "value",
];
pub(super) const WORDS: &[&str] = &[
    "$patch",
    "replace",
    "delete",
    "merge",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "name",
    "containers",
    "ports",
    "containerPort",
    "protocol",
    "finalizers",
    "ownerReferences",
    "uid",
    "metadata",
    "spec",
    "env",
];
pub(super) const APPLY_WORDS: &[&str] = &[
    "one",
    "two",
    "kubectl",
    "before-first-apply",
    "keyed",
    "set",
    "atomic",
    "loose",
    "name",
    "port",
    "f:name",
    "v:1",
    "i:0",
    "k:{\"name\":\"a\"}",
    ".",
    "managedFields",
    "FieldsV1",
    "fieldsV1",
    "Apply",
    "Update",
    "subresource",
    "force",
];

/// Fields at the root of an object: Kubernetes' kinds have less than ten.
const FIELDS_MAX: usize = 1000;
/// Bytes that a JSON patch may add by `copy` alone; beyond that the result grows no more than its input.
const COPIED_BYTES_MAX: usize = 4 << 20;

pub(super) fn json_patch(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let (document, patch) = (field(&input, "document"), field(&input, "patch"));
    if let Ok(result) = internals::json_patch(&document, &patch) {
        let bound = size(&document) + size(&patch) + COPIED_BYTES_MAX;
        assert!(size(&result) <= bound, "a patch of {} bytes made {} bytes", size(&patch), size(&result));
        let read: Result<Value, _> = serde_json::from_str(&result.to_string());
        // A document that is not patched may be as deep as the reader goes, and one level more than that.
        assert!(read.is_ok() || patch == json!([]), "the result cannot be read again: {read:?}");
    }
    // The root of a Kubernetes object is always an object; the difference of others is never asked for.
    let fields = |value: &Value| value.as_object().map_or(usize::MAX, Map::len);
    if fields(&document).max(fields(&patch)) <= FIELDS_MAX {
        let operations = json_patch::diff(&document, &patch, "");
        for rules in [Rules::Strict, Rules::KubeApiserver] {
            let result = json_patch::apply(&document, &operations, rules);
            assert_eq!(result.as_ref(), Ok(&patch), "by {operations:?}");
        }
    }
}

pub(super) fn merge_patch(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let (document, patch) = (field(&input, "document"), field(&input, "patch"));
    let result = merge_patch::applied(&document, &patch);
    assert_eq!(merge_patch::applied(&result, &patch), result, "twice is not once");
    assert!(size(&result) <= size(&document) + size(&patch));
    let change = merge_patch::diff(&document, &patch);
    let changed = change.as_ref().map_or_else(|| document.clone(), |change| merge_patch::applied(&document, change));
    assert_eq!(without_nulls(&changed), without_nulls(&patch), "by {change:?}");
}

/// A value without the nulls in its objects, wherever these are, which a merge patch cannot set.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

pub(super) fn strategic_patch(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let (document, patch) = (field(&input, "document"), field(&input, "patch"));
    if !document.is_object() {
        return;
    }
    for (group, kind) in [("", "Pod"), ("apps", "Deployment"), ("", "Service")] {
        let schema = Structural::of_built_in(group, "v1", kind);
        let unchanged = schema.strategic_merge_patch(&document, &json!({}));
        assert_eq!(unchanged.as_ref(), Ok(&document), "an empty patch of a {kind} changes it");
        if let Ok(result) = schema.strategic_merge_patch(&document, &patch) {
            assert!(size(&result) <= size(&document) + size(&patch), "the {kind} grew to {} bytes", size(&result));
        }
    }
}

/// The most that a patch needs for a byte of the live object: `{"$patch":"delete","uid":""},` deletes `{},`.
const DELETION_BYTES: usize = 10;

/// The member agent's merge: what it sends is accepted by a server, and after that there is nothing more to send.
pub(super) fn three_way_merge(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let [last, desired, live] = ["last", "desired", "live"].map(|name| field(&input, name));
    if !desired.is_object() || !live.is_object() || !owners_have_distinct_uids(&live) {
        return;
    }
    let Ok(change) = three_way(&last, &desired, &live) else { return };
    let body = Value::Object(change.body.clone());
    let bound = size(&last) + 2 * size(&desired) + DELETION_BYTES * size(&live);
    assert!(size(&body) <= bound, "a patch of {} bytes", size(&body));
    let group = text(&desired, "apiVersion").split_once('/').map_or("", |(group, _)| group);
    let schema = Structural::of_built_in(group, "v1", text(&desired, "kind"));
    let after = match change.patch_type {
        PatchType::JsonMerge => Some(merge_patch::applied(&live, &body)),
        PatchType::Strategic => schema.strategic_merge_patch(&live, &body).ok(),
    };
    // Of objects that no API server stores, nothing more is expected than that the patch is small.
    let is_stored = |object: &Value| {
        !has_odd_fields(object) && owners_have_distinct_uids(object) && schema.findings(object, None).is_empty()
    };
    let Some(after) = after.filter(|_| is_stored(&desired) && is_stored(&live)) else { return };
    if let Ok(more) = three_way(&desired, &desired, &after) {
        let rest = Value::Object(more.body);
        assert_eq!(rest, json!({}), "after {body} there is still something to send");
    }
}

/// API servers reject owner references without a uid, by which they are merged, and store one reference per uid.
fn owners_have_distinct_uids(object: &Value) -> bool {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let mut known = BTreeSet::new();
    owners.all(|owner| owner["uid"].as_str().is_some_and(|uid| !uid.is_empty() && known.insert(uid)))
}

/// Whether a document has what no API server stores in an object of a built-in kind: nulls, directives of patches.
fn has_odd_fields(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_odd_fields),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.starts_with('$') || has_odd_fields(value)),
        _ => false,
    }
}

/// A custom resource with every kind of list and map that server-side apply knows.
fn custom_schema() -> Option<&'static Structural> {
    static SCHEMA: OnceLock<Option<Structural>> = OnceLock::new();
    let make = || {
        let element = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "port": {"type": "integer"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}});
        let source = json!({"type": "object", "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": element},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "atomic": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "integer"}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "loose": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}});
        Structural::parse(&source).filter(Structural::has_properties)
    };
    SCHEMA.get_or_init(make).as_ref()
}

pub(super) fn server_side_apply(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let custom = custom_schema();
    assert!(custom.is_some(), "the schema of the target cannot be read");
    let Some(custom) = custom else { return };
    let deployment = Structural::of_built_in("apps", "v1", "Deployment");
    let steps = field(&input, "steps");
    applied_in_turn(custom, "Thing", "example.com/v1", &input, &steps);
    applied_in_turn(&deployment, "Deployment", "apps/v1", &input, &steps);
}

/// Applies every step to what the step before it made. Whatever is accepted is accepted again, and changes nothing then.
fn applied_in_turn(schema: &Structural, kind: &str, api_version: &str, input: &Value, steps: &Value) {
    let is_stored = |live: &&Value| live.is_object() && managed_fields_findings(live).is_empty();
    let mut live = input.get("live").filter(is_stored).cloned();
    for step in steps.as_array().into_iter().flatten() {
        let mut object = field(step, "object");
        if let Value::Object(fields) = &mut object {
            fields.extend(Map::from_iter([
                ("kind".to_owned(), json!(kind)),
                ("apiVersion".to_owned(), json!(api_version)),
            ]));
        }
        let force = step.get("force") == Some(&Value::Bool(true));
        let manager = text(step, "manager");
        let applied = |live: Option<&Value>| schema.apply((api_version, kind), live, &object, manager, force);
        let Ok(result) = applied(live.as_ref()) else { continue };
        let bound = 8 * (size(&object) + live.as_ref().map_or(0, size)) + 1000;
        assert!(size(&result) <= bound, "{} bytes became {}", size(&object), size(&result));
        let findings = managed_fields_findings(&result);
        assert!(findings.is_empty(), "managedFields that apply wrote are refused: {findings:?}");
        let again = applied(Some(&result));
        assert!(again.is_ok(), "applied again: {again:?}");
        let again = again.unwrap_or_default();
        // The next apply gives fields without an owner to the placeholder for earlier writers.
        let has_no_owners = result.pointer("/metadata/managedFields").is_none();
        let same = if has_no_owners { unowned(&again) == unowned(&result) } else { again == result };
        assert!(same, "applied again it is {again} and was {result}");
        live = Some(result);
    }
}

/// An object without what is known of its owners.
fn unowned(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}
