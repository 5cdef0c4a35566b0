//! The stored form of field sets, their operations, and how paths print.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::typed::fields_of;
use super::super::types::Type;
use super::super::{Element, ElementFault, FieldSet};
use super::{kind, yaml};

fn check_fields(object: &str, expected: &Expect) {
    let schema = kind::web();
    let object = yaml(object);
    let set = fields_of(Type::root(&schema), &object);
    expected.assert_eq(&format!("{}\n{}", set.to_json(), set.to_paths().join("\n")));
}

#[test]
fn keys_are_written_in_the_order_of_elements() {
    check_fields(
        "spec: {containers: [{name: a, ports: [{containerPort: 443}, {containerPort: 80, protocol: UDP}]}], weights: [10, 9]}",
        &expect![[r#"
            {"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}},"k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}},"f:weights":{"v:9":{},"v:10":{}}}}
            .spec.containers[name="a"]
            .spec.containers[name="a"].name
            .spec.containers[name="a"].ports[containerPort=80,protocol="UDP"]
            .spec.containers[name="a"].ports[containerPort=443,protocol="TCP"]
            .spec.containers[name="a"].ports[containerPort=80,protocol="UDP"].containerPort
            .spec.containers[name="a"].ports[containerPort=80,protocol="UDP"].protocol
            .spec.containers[name="a"].ports[containerPort=443,protocol="TCP"].containerPort
            .spec.weights[=9]
            .spec.weights[=10]"#]],
    );
}

#[test]
fn a_field_that_is_owned_beside_its_children_has_a_dot() {
    check_fields(
        "spec: {points: {p: {x: 1}, q: {}}, free: {a: {b: [1]}}}",
        &expect![[r#"
        {"f:spec":{"f:free":{"f:a":{".":{},"f:b":{}}},"f:points":{"f:p":{".":{},"f:x":{}},"f:q":{}}}}
        .spec.free.a
        .spec.free.a.b
        .spec.points.p
        .spec.points.q
        .spec.points.p.x"#]],
    );
}

#[test]
fn strings_are_escaped_as_in_go() {
    check_fields(
        r#"spec: {zones: ["a<b>&\"c\"\n"], settings: {"x/y.z": "1", "q\"": "2"}}"#,
        &expect![[r#"
        {"f:spec":{"f:settings":{"f:q\"":{},"f:x/y.z":{}},"f:zones":{"v:\"a\\u003cb\\u003e\\u0026\\\"c\\\"\\n\"":{}}}}
        .spec.settings.q"
        .spec.settings.x/y.z
        .spec.zones[="a<b>&\"c\"\n"]"#]],
    );
}

#[test]
fn elements_of_every_kind_can_be_read() {
    for text in
        ["f:name", "f:", "f:a:b", r#"k:{"name":"x"}"#, r#"k:{"a":1,"b":"x"}"#, r#"v:"x""#, "v:1", "v:true", "i:3"]
    {
        assert_eq!(Element::parse(text).unwrap().to_text(), text);
    }
}

#[test]
fn whole_numbers_are_written_without_a_fraction() {
    assert_eq!(Element::parse("v:1.0").unwrap().to_text(), "v:1");
    assert_eq!(Element::parse("v:1.0").unwrap(), Element::parse("v:1").unwrap());
    assert_eq!(Element::parse("v:1.5").unwrap().to_text(), "v:1.5");
}

#[test]
fn elements_are_ordered_by_kind_then_value() {
    let texts = [
        "f:a",
        "f:b",
        r#"k:{"a":9}"#,
        r#"k:{"a":10}"#,
        r#"k:{"a":10,"b":1}"#,
        "v:2",
        "v:10",
        r#"v:"a""#,
        "v:false",
        "i:0",
        "i:10",
    ];
    let elements: Vec<Element<'_>> = texts.iter().map(|text| Element::parse(text).unwrap()).collect();
    assert!(elements.is_sorted_by(|a, b| a < b));
}

#[test]
fn invalid_path_elements_are_refused_and_unknown_ones_skipped() {
    let malformed = |text| matches!(Element::parse(text), Err(ElementFault::Malformed(_)));
    for text in ["", "f", "field", "v:", "v:{", "k:1", "k:[]", "i:x"] {
        assert!(malformed(text), "{text}");
    }
    assert_eq!(Element::parse("z:new"), Err(ElementFault::Unknown));
    let stored = json!({"f:a": {}, "z:new": {"f:b": {}}});
    assert_eq!(FieldSet::from_fields(&stored).unwrap().to_paths(), [".a"]);
    assert!(FieldSet::from_fields(&json!({"a": {}})).is_err());
    assert!(FieldSet::from_fields(&json!({"f:a": 1})).is_err());
    assert!(FieldSet::from_fields(&Value::Null).unwrap().is_empty());
}

#[test]
fn leaves_have_nothing_owned_below_them() {
    let stored = json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}});
    let set = FieldSet::from_fields(&stored).unwrap();
    assert_eq!(set.to_paths(), [".a", ".c", ".a.b"]);
    assert_eq!(set.leaves().to_paths(), [".c", ".a.b"]);
    assert_eq!(set.len(), 3);
}

#[test]
fn a_set_difference_includes_children_only_on_demand() {
    let stored = json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}});
    let set = FieldSet::from_fields(&stored).unwrap();
    let parent = FieldSet::of_fields(&[&["a"]]);
    assert_eq!(set.difference(&parent).to_paths(), [".c", ".a.b"]);
    assert_eq!(set.difference_with_children(&parent).to_paths(), [".c"]);
    assert_eq!(set.under("a").to_paths(), [".a", ".a.b"]);
    assert_eq!(set.clone().into_owned(), set);
}
