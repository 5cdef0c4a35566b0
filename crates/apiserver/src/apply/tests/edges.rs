//! What surrounds a write: entries that break rules, times of no-ops, blank objects, schemas that change.

use expect_test::expect;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::limits::{LAST_APPLIED, MAX_ANNOTATIONS_BYTES};
use super::super::{
    Reset, Target, Writer, apply, keep_times_of_no_op, track_update, validate_managed_fields, validate_manager_name,
};
use super::{API_VERSION, kind, owners};
use crate::schema::{ListType, Node, Schema};

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, subresource: "", api_version: API_VERSION, now: Timestamp::UNIX_EPOCH }
}

fn web(spec: &Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "Web", "metadata": {"name": "web", "uid": "1"}, "spec": spec})
}

fn target<'a>(schema: &'a Schema, reset: &'a Reset) -> Target<'a> {
    Target { schema, kind: "Web", reset, blank: None }
}

fn owners_of(object: &Value) -> String {
    owners(object["metadata"].get("managedFields"))
}

#[test]
fn invalid_entries_are_named() {
    let object = json!({"metadata": {"managedFields": [
        {"manager": "ok", "operation": "Apply", "fieldsType": "FieldsV1"},
        {"manager": "tab\there", "operation": "Take", "fieldsType": "FieldsV2"},
        {"manager": "x".repeat(129), "operation": "Update", "subresource": "y".repeat(257)},
    ]}});
    let findings: Vec<String> =
        validate_managed_fields(&object, "metadata.managedFields").iter().map(ToString::to_string).collect();
    expect![[r#"
        metadata.managedFields[1].operation: Invalid value: "Take": must be `Apply` or `Update`
        metadata.managedFields[1].fieldsType: Invalid value: "FieldsV2": must be `FieldsV1`
        metadata.managedFields[1].manager: Invalid value: "tab\there": invalid character U+0009 (at position 3)
        metadata.managedFields[2].manager: Too long: may not be more than 128 bytes
        metadata.managedFields[2].subresource: Too long: may not be more than 256 bytes"#]]
    .assert_eq(&findings.join("\n"));
}

#[test]
fn a_manager_name_may_have_blanks_and_any_letter() {
    assert_eq!(validate_manager_name("Jürgen's tool 1.0", "fieldManager"), []);
    assert_eq!(validate_manager_name("", "fieldManager"), []);
}

#[test]
fn a_change_of_only_the_times_is_reverted() {
    let entry = |time: &str| json!({"manager": "m", "operation": "Apply", "time": time});
    let object = |time: &str, replicas: i64| json!({"metadata": {"name": "web", "managedFields": [entry(time)]}, "spec": {"replicas": replicas}});
    let live = object("1970-01-01T00:00:00Z", 1);
    let mut same = object("1970-01-01T00:05:00Z", 1);
    keep_times_of_no_op(&live, &mut same);
    assert_eq!(same, live);

    let mut changed = object("1970-01-01T00:05:00Z", 2);
    keep_times_of_no_op(&live, &mut changed);
    assert_eq!(changed, object("1970-01-01T00:05:00Z", 2));

    let mut relabelled = object("1970-01-01T00:05:00Z", 1);
    relabelled["metadata"]["labels"] = json!({"a": "b"});
    let before = relabelled.clone();
    keep_times_of_no_op(&live, &mut relabelled);
    assert_eq!(relabelled, before);

    let mut reowned = object("1970-01-01T00:05:00Z", 1);
    reowned["metadata"]["managedFields"][0]["manager"] = json!("other");
    let before = reowned.clone();
    keep_times_of_no_op(&live, &mut reowned);
    assert_eq!(reowned, before);
}

#[test]
fn fields_of_an_empty_object_are_not_owned_by_its_creator() {
    let (schema, reset) = (kind::web(), Reset::nothing());
    let blank = json!({"metadata": {"creationTimestamp": null}, "spec": {"strategy": {}}, "status": {}});
    let mut object = web(&json!({"strategy": {"type": "x"}, "replicas": 1}));
    track_update(&Target { blank: Some(&blank), ..target(&schema, &reset) }, None, &mut object, &writer("m"));
    expect![[r#"
        m Update v1 @0
          .spec.replicas
          .spec.strategy.type
    "#]]
    .assert_eq(&owners_of(&object));
}

#[test]
fn a_field_that_the_schema_made_atomic_is_owned_as_a_whole() {
    let (schema, reset) = (kind::web(), Reset::status());
    let applied = web(&json!({"zones": ["a", "b"], "points": {"p": {"x": 1}}}));
    let live = apply(&target(&schema, &reset), None, &applied, &writer("a"), false).unwrap();

    let mut changed = kind::web();
    let mut spec = Schema::clone(&changed.properties["spec"]);
    let mut zones = Schema::clone(&spec.properties["zones"]);
    zones.list_type = ListType::Atomic;
    let mut points = Schema::clone(&spec.properties["points"]);
    points.atomic_map = true;
    spec.properties.insert("zones".to_owned(), Node::new(zones));
    spec.properties.insert("points".to_owned(), Node::new(points));
    changed.properties.insert("spec".to_owned(), Node::new(spec));

    let error = apply(&target(&changed, &reset), Some(&live), &web(&json!({"zones": ["a"]})), &writer("b"), false);
    expect![[r#"Apply failed with 1 conflict: conflict with "a": .spec.zones"#]].assert_eq(&error.unwrap_err().message);
    let mut updated = live.clone();
    updated["spec"]["replicas"] = json!(1);
    track_update(&target(&changed, &reset), Some(&live), &mut updated, &writer("c"));
    expect![[r#"
        a Apply v1 @0
          .spec.points
          .spec.zones
        c Update v1 @0
          .spec.replicas
    "#]]
    .assert_eq(&owners_of(&updated));
}

#[test]
fn fields_named_by_the_endpoint_are_never_owned() {
    let (schema, reset) = (kind::web(), Reset::fields(&[&["spec", "strategy"], &["metadata", "labels"]]));
    let mut object = web(&json!({"strategy": {"type": "x"}, "replicas": 1}));
    object["metadata"]["labels"] = json!({"a": "b"});
    track_update(&target(&schema, &reset), None, &mut object, &writer("m"));
    expect![[r#"
        m Update v1 @0
          .spec
          .spec.replicas
    "#]]
    .assert_eq(&owners_of(&object));
}

#[test]
fn managed_fields_that_cannot_be_read_stop_an_apply_but_no_update() {
    let (schema, reset) = (kind::web(), Reset::status());
    let mut live = web(&json!({"replicas": 1}));
    live["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Rule", "apiVersion": "v1"}]);
    let error = apply(&target(&schema, &reset), Some(&live), &web(&json!({})), &writer("m"), false).unwrap_err();
    expect!["500 failed to decode managed fields: operation must be `Apply` or `Update`"]
        .assert_eq(&format!("{} {error}", error.code()));
    let mut updated = live.clone();
    updated["spec"]["replicas"] = json!(2);
    track_update(&target(&schema, &reset), Some(&live), &mut updated, &writer("m"));
    assert_eq!(updated["metadata"].get("managedFields"), None);
}

#[test]
fn an_invalid_manager_name_is_refused() {
    let (schema, reset) = (kind::web(), Reset::status());
    let long = "m".repeat(129);
    let error = apply(&target(&schema, &reset), None, &web(&json!({})), &writer(&long), true).unwrap_err();
    expect![[r#"422 PatchOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes"#]]
        .assert_eq(&format!("{} {error}", error.code()));
}

#[test]
fn the_last_applied_annotation_is_removed_when_it_is_too_large() {
    let (schema, reset) = (kind::web(), Reset::status());
    let mut live = web(&json!({}));
    live["metadata"]["annotations"] = json!({LAST_APPLIED: "{}"});
    let small = web(&json!({"image": "<a>"}));
    let result = apply(&target(&schema, &reset), Some(&live), &small, &writer("kubectl"), false).unwrap();
    expect![[r#"
        {"apiVersion":"example.com/v1","kind":"Web","metadata":{"name":"web","uid":"1"},"spec":{"image":"\u003ca\u003e"}}
    "#]].assert_eq(result["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap());

    let large = web(&json!({"image": "x".repeat(MAX_ANNOTATIONS_BYTES)}));
    let result = apply(&target(&schema, &reset), Some(&live), &large, &writer("kubectl"), false).unwrap();
    assert_eq!(result["metadata"]["annotations"], json!({}));
    let result = apply(&target(&schema, &reset), Some(&live), &small, &writer("other"), false).unwrap();
    assert_eq!(result["metadata"]["annotations"], json!({LAST_APPLIED: "{}"}));
}

#[test]
fn a_moved_entry_of_client_side_apply_lets_kubectl_remove_its_fields() {
    let (schema, reset) = (kind::web(), Reset::status());
    let target = target(&schema, &reset);
    let mut live = web(&json!({"replicas": 1, "image": "a"}));
    track_update(&target, None, &mut live, &writer("kubectl-client-side-apply"));
    // What kubectl patches before its first server-side apply: the client-side entry becomes its own.
    let mut moved = live.clone();
    let entry = &mut moved["metadata"]["managedFields"][0];
    entry["manager"] = json!("kubectl");
    entry["operation"] = json!("Apply");
    track_update(&target, Some(&live), &mut moved, &writer("kubectl"));
    let applied = web(&json!({"replicas": 1}));
    let result = apply(&target, Some(&moved), &applied, &writer("kubectl"), false).unwrap();
    assert_eq!(result["spec"], json!({"replicas": 1}));
    expect![[r#"
        kubectl Apply v1 @0
          .spec.replicas
    "#]]
    .assert_eq(&owners_of(&result));
}
