//! Validation errors by schema, with kube-apiserver's messages.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn parse(source: &Value) -> Schema {
    Schema::from_openapi(source).unwrap_or_else(|findings| panic!("{findings:?}"))
}

fn spec_schema(spec: &Value) -> Schema {
    parse(&json!({"type": "object", "properties": {"spec": spec}}))
}

fn report(findings: &[FieldError]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[allow(clippy::needless_pass_by_value)] // json! literals at every call
fn check(spec_schema_source: Value, spec: Value, expected: Expect) {
    let schema = spec_schema(&spec_schema_source);
    expected.assert_eq(&report(&validate(&schema, &json!({"spec": spec}), None)));
}

#[test]
fn types_are_named_as_in_the_schema() {
    let schema = json!({"type": "object", "properties": {
        "replicas": {"type": "integer"}, "name": {"type": "string"}, "list": {"type": "array", "items": {"type": "boolean"}},
        "port": {"x-kubernetes-int-or-string": true}, "ratio": {"type": "number"}, "when": {"type": "string", "format": "date-time"},
    }});
    check(
        schema.clone(),
        json!({"replicas": "3", "name": 5, "list": [true, {}], "port": false, "ratio": "x", "when": 7}),
        expect![[r#"
            spec.list[1]: Invalid value: "object": spec.list[1] in body must be of type boolean: "object"
            spec.name: Invalid value: "integer": spec.name in body must be of type string: "integer"
            spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"
            spec.ratio: Invalid value: "string": spec.ratio in body must be of type number: "string"
            spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"
            spec.when: Invalid value: "int64": spec.when in body must be of type date-time: "int64""#]],
    );
    check(
        schema.clone(),
        json!({"replicas": 3.0, "port": "80", "ratio": 1, "when": "2024-05-01T10:00:00Z"}),
        expect![""],
    );
    check(
        schema,
        json!({"replicas": 3.5, "name": null, "when": "soon"}),
        expect![[r#"
            spec.name: Invalid value: "null": spec.name in body must be of type string: "null"
            spec.replicas: Invalid value: "number": spec.replicas in body must be of type integer: "number"
            spec.when: Invalid value: "soon": spec.when in body must be of type date-time: "soon""#]],
    );
}

#[test]
fn value_constraints_have_the_messages_of_the_real_server() {
    let schema = json!({"type": "object", "required": ["must"], "minProperties": 9, "properties": {
        "must": {"type": "string"},
        "short": {"type": "string", "maxLength": 3}, "long": {"type": "string", "minLength": 1},
        "name": {"type": "string", "pattern": "^[a-z]+$"}, "kind": {"type": "string", "enum": ["A", "B"]},
        "low": {"type": "integer", "minimum": 1}, "high": {"type": "integer", "maximum": 10, "exclusiveMaximum": true},
        "ratio": {"type": "number", "maximum": 0.5}, "step": {"type": "integer", "multipleOf": 5},
        "few": {"type": "array", "maxItems": 1, "items": {"type": "string"}}, "many": {"type": "array", "minItems": 2, "items": {"type": "string"}},
        "labels": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
    }});
    check(
        schema,
        json!({"short": "four", "long": "", "name": "A1", "kind": "C", "low": 0, "high": 10, "ratio": 0.75, "step": 7,
               "few": ["a", "b"], "many": [], "labels": {"a": "x", "b": 1}}),
        expect![[r#"
            spec.few: Too many: 2: must have at most 1 item
            spec.high: Invalid value: 10: spec.high in body should be less than 10
            spec.kind: Unsupported value: "C": supported values: "A", "B"
            spec.labels: Too many: 2: must have at most 1 item
            spec.labels.b: Invalid value: "integer": spec.labels.b in body must be of type string: "integer"
            spec.long: Invalid value: "": spec.long in body should be at least 1 chars long
            spec.low: Invalid value: 0: spec.low in body should be greater than or equal to 1
            spec.many: Invalid value: 0: spec.many in body should have at least 2 items
            spec.name: Invalid value: "A1": spec.name in body should match '^[a-z]+$'
            spec.ratio: Invalid value: 0.75: spec.ratio in body should be less than or equal to 0.5
            spec.short: Too long: may not be more than 3 bytes
            spec.step: Invalid value: 7: spec.step in body should be a multiple of 5
            spec.must: Required value"#]],
    );
    check(
        json!({"type": "object", "minProperties": 1}),
        json!({}),
        expect!["spec: Invalid value: 0: spec in body should have at least 1 properties"],
    );
}

#[test]
fn junctors_report_the_closest_alternative() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    check(
        schema.clone(),
        json!({}),
        expect![[r#"
            <nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid
            spec.a: Required value"#]],
    );
    check(
        schema,
        json!({"a": "", "b": ""}),
        expect![[
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]],
    );
    check(
        json!({"type": "string", "anyOf": [{"minLength": 5}, {"pattern": "^a"}], "not": {"enum": ["abc"]}, "allOf": [{"maxLength": 3}]}),
        json!("wxyz"),
        expect![[r#"
            <nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)
            spec: Invalid value: "wxyz": spec in body should be at least 5 chars long
            spec: Too long: may not be more than 3 bytes
            <nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated"#]],
    );
    check(
        json!({"type": "string", "not": {"enum": ["abc"]}}),
        json!("abc"),
        expect![[r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#]],
    );
}

#[test]
fn sets_and_map_lists_have_no_duplicates() {
    let schema = json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}}},
    }});
    check(
        schema,
        json!({"set": ["a", "b", "a", "a"], "conditions": [{"type": "A"}, {"type": "A"}],
               "ports": [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP"}]}),
        expect![[r#"
            spec.conditions[1]: Duplicate value: {"type":"A"}
            spec.ports[2]: Duplicate value: {"port":1,"protocol":"TCP"}
            spec.set[2]: Duplicate value: "a""#]],
    );
}

#[test]
fn embedded_resources_name_their_kind() {
    let schema =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    check(
        schema.clone(),
        json!({"kind": "Bad_Kind", "metadata": {"name": "a/b"}}),
        expect![[r#"
            spec.apiVersion: Required value
            spec.kind: Invalid value: "Bad_Kind": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.metadata.name: Invalid value: "a/b": may not contain '/'"#]],
    );
    check(
        schema.clone(),
        json!({"apiVersion": "a/b/c", "kind": "", "metadata": {"labels": {"a": 1}}}),
        expect![[r#"
            spec.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c
            spec.kind: Invalid value: "": must not be empty
            spec.metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"#]],
    );
    check(schema, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {}}), expect![""]);
}

#[test]
fn an_unchanged_invalid_value_is_accepted() {
    let schema = spec_schema(&json!({"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 1}, "other": {"type": "integer"},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object",
            "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}}},
        "plain": {"type": "array", "items": {"type": "string", "maxLength": 1}},
    }}));
    let old = json!({"spec": {"name": "long", "list": [{"k": "a", "v": "long"}, {"k": "b", "v": "long"}], "plain": ["long"]}});
    assert_eq!(validate(&schema, &old, None).len(), 4);
    assert_eq!(validate(&schema, &old, Some(&old)), []);
    let new = json!({"spec": {"name": "long", "other": 1, "list": [{"k": "b", "v": "long"}, {"k": "a", "v": "longer"}], "plain": ["long", "x"]}});
    expect![[r"
        spec.list[1].v: Too long: may not be more than 1 byte
        spec.plain[0]: Too long: may not be more than 1 byte"]]
    .assert_eq(&report(&validate(&schema, &new, Some(&old))));
}

#[test]
fn a_nullable_field_may_be_null_unless_it_is_an_enum() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "nullable": true}, "b": {"type": "string", "nullable": true, "enum": ["x"]}}});
    check(
        schema,
        json!({"a": null, "b": null}),
        expect![[r#"spec.b: Unsupported value: null: supported values: "x""#]],
    );
}

#[test]
fn audit_10_comparing_a_list_map_with_what_it_replaces_takes_n_log_n_steps() {
    let ports = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"], "items": {
        "type": "object", "required": ["port"],
        "properties": {"port": {"type": "integer"}, "name": {"type": "string", "maxLength": 3}},
    }});
    let schema = spec_schema(&json!({"type": "object", "properties": {"ports": ports}}));
    let object = |count: usize, name: &str| {
        let ports: Vec<Value> = (0..count).map(|port| json!({"port": port, "name": name})).collect();
        json!({"spec": {"ports": ports}})
    };
    crate::testing::assert_not_quadratic("valid items", 250, |count| {
        assert!(validate(&schema, &object(count, "new"), Some(&object(count, "old"))).is_empty());
    });
    crate::testing::assert_not_quadratic("items that were invalid before", 250, |count| {
        assert!(validate(&schema, &object(count, "long"), Some(&object(count, "long"))).is_empty());
    });
}
