//! Rules: their variables, their errors and their limits.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::cel::{compile_schema, validate_object};

fn report(findings: &[FieldError]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Compiles a schema whose `spec` is given.
#[allow(clippy::needless_pass_by_value)] // json! literals at every call
fn compiled(spec: Value) -> (Schema, Rules) {
    let source = json!({"type": "object", "properties": {"spec": spec}});
    compile_schema("s", &source).unwrap_or_else(|findings| panic!("{}", report(&findings)))
}

/// As `compiled`, however much the rules may cost by estimate: what stops them when they run is tested with it.
fn compiled_at_any_cost(spec: &Value) -> (Schema, Rules) {
    let schema = Schema::from_openapi_at("s", &json!({"type": "object", "properties": {"spec": spec}})).unwrap();
    let rules = Rules::compile_within("s", &schema, (u64::MAX, u64::MAX)).unwrap();
    (schema, rules)
}

#[allow(clippy::needless_pass_by_value)] // json! literals at every call
fn check_run(schema: Value, new: Value, expected: Expect) {
    let (schema, rules) = compiled_at_any_cost(&schema);
    expected.assert_eq(&report(&validate_object(&schema, &rules, &json!({"spec": new}), None)));
}

#[allow(clippy::needless_pass_by_value)] // json! literals at every call
fn check_update(schema: Value, new: Value, old: Option<Value>, expected: Expect) {
    let (schema, rules) = compiled(schema);
    let old = old.map(|old| json!({"spec": old}));
    expected.assert_eq(&report(&validate_object(&schema, &rules, &json!({"spec": new}), old.as_ref())));
}

fn check(schema: Value, new: Value, expected: Expect) {
    check_update(schema, new, None, expected);
}

#[allow(clippy::needless_pass_by_value)] // json! literals at every call
fn check_refused(schema: Value, expected: Expect) {
    let source = json!({"type": "object", "properties": {"spec": schema}});
    let text = compile_schema("s", &source).map_or_else(|findings| report(&findings), |_| "ok".to_owned());
    expected.assert_eq(&text);
}

fn object(properties: &Value, rules: &Value) -> Value {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules})
}

#[test]
fn a_failed_rule_shows_the_type_and_the_message() {
    let schema = object(
        &json!({"min": {"type": "integer"}, "max": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10"}]}}),
        &json!([{"rule": "self.min <= self.max", "message": "min must not exceed max"}]),
    );
    check(
        schema,
        json!({"min": 30, "max": 20}),
        expect![[r#"
            spec: Invalid value: "object": min must not exceed max
            spec.max: Invalid value: "integer": failed rule: self < 10"#]],
    );
}

#[test]
fn reasons_field_paths_and_computed_messages_shape_the_finding() {
    let rule = |extra: Value| {
        let mut rule = json!({"rule": "self.a == 'x'", "message": "must be x"});
        rule.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        object(
            &json!({"a": {"type": "string"}, "m": {"type": "object", "additionalProperties": {"type": "string"}}}),
            &json!([rule]),
        )
    };
    let given = json!({"a": "y"});
    check(rule(json!({"fieldPath": ".a"})), given.clone(), expect![[r#"spec.a: Invalid value: "object": must be x"#]]);
    check(
        rule(json!({"fieldPath": ".m['k']"})),
        given.clone(),
        expect![[r#"spec.m[k]: Invalid value: "object": must be x"#]],
    );
    check(rule(json!({"reason": "FieldValueForbidden"})), given.clone(), expect!["spec: Forbidden: must be x"]);
    check(rule(json!({"reason": "FieldValueRequired"})), given.clone(), expect!["spec: Required value: must be x"]);
    check(
        rule(json!({"reason": "FieldValueDuplicate"})),
        given.clone(),
        expect![[r#"spec: Duplicate value: "object""#]],
    );
    check(
        rule(json!({"messageExpression": "'not ' + self.a"})),
        given.clone(),
        expect![[r#"spec: Invalid value: "object": not y"#]],
    );
    check(
        rule(json!({"messageExpression": "self.m['no']"})),
        given,
        expect![[r#"spec: Invalid value: "object": must be x"#]],
    );
}

#[test]
fn a_rule_that_cannot_be_evaluated_fails() {
    let strategy = object(
        &json!({"type": {"type": "string"}, "destination": {"type": "string"}}),
        &json!([{"rule": "(self == null) || (self.type == 'Mirror' ? size(self.destination) != 0 : true)", "message": "a destination must be specified"}]),
    );
    check(
        strategy.clone(),
        json!({"type": "Mirror"}),
        expect![[
            r#"spec: Invalid value: "object": no such key: destination evaluating rule: a destination must be specified"#
        ]],
    );
    check(strategy.clone(), json!({"type": "Mirror", "destination": "x"}), expect![""]);
    check(strategy, json!({"type": "Disabled"}), expect![""]);
    check(
        json!({"x-kubernetes-int-or-string": true, "x-kubernetes-validations": [{"rule": "self > 3"}]}),
        json!("four"),
        expect![[
            r#"spec: Invalid value: "": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self > 3"#
        ]],
    );
    check(
        object(&json!({"a": {"type": "integer"}}), &json!([{"rule": "10 / self.a > 1"}])),
        json!({"a": 0}),
        expect![[r#"spec: Invalid value: "object": division by zero evaluating rule: 10 / self.a > 1"#]],
    );
}

#[test]
fn int_or_string_is_distinguished_by_its_type() {
    let percent = json!({"x-kubernetes-int-or-string": true, "x-kubernetes-validations": [
        {"rule": "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0", "message": "bad"}]});
    for (value, ok) in [(json!("50%"), true), (json!("500%"), false), (json!(0), true), (json!(-1), false)] {
        let (schema, rules) = compiled(percent.clone());
        assert_eq!(validate_object(&schema, &rules, &json!({"spec": value}), None).is_empty(), ok, "{value}");
    }
    let at_least_one = json!({"x-kubernetes-int-or-string": true, "x-kubernetes-validations": [
        {"rule": "self == null || type(self) != int || self >= 1", "message": "maxConcurrency must be at least 1"}]});
    check(at_least_one.clone(), json!(0), expect![[r#"spec: Invalid value: "": maxConcurrency must be at least 1"#]]);
    check(at_least_one.clone(), json!(1), expect![""]);
    check(at_least_one, json!("0%"), expect![""]);
}

#[test]
fn transition_rules_run_only_where_there_is_an_old_value() {
    let schema = object(
        &json!({"type": {"type": "string", "x-kubernetes-validations": [{"rule": "!(self != 'External' && oldSelf == 'External')", "message": "stays External"}]},
                "policy": {"type": "string"},
                "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                    "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "may only grow"}]}}}),
        &json!([{"rule": "!(has(oldSelf.policy) && !has(self.policy))", "message": "policy cannot be removed once set"}]),
    );
    let old = json!({"type": "External", "policy": "p", "list": [{"k": "a", "v": 5}, {"k": "b", "v": 5}]});
    check_update(schema.clone(), json!({"type": "Rolling"}), None, expect![""]);
    check_update(
        schema.clone(),
        json!({"type": "Rolling", "list": [{"k": "new", "v": 1}, {"k": "b", "v": 4}]}),
        Some(old.clone()),
        expect![[r#"
            spec: Invalid value: "object": policy cannot be removed once set
            spec.list[1]: Invalid value: "object": may only grow
            spec.type: Invalid value: "string": stays External"#]],
    );
    check_update(schema, old.clone(), Some(old), expect![""]);
}

#[test]
fn an_optional_old_self_must_be_checked_before_use() {
    let schema = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "!oldSelf.hasValue() || self == oldSelf.value()", "message": "immutable", "optionalOldSelf": true},
        {"rule": "oldSelf.optMap(o, o.size()).orValue(0) <= self.size()", "message": "may not shrink", "optionalOldSelf": true}]});
    check_update(schema.clone(), json!("b"), None, expect![""]);
    check_update(
        schema,
        json!("b"),
        Some(json!("aa")),
        expect![[r#"
        spec: Invalid value: "string": immutable
        spec: Invalid value: "string": may not shrink"#]],
    );
}

#[test]
fn equality_ignores_the_order_of_sets_and_list_maps() {
    let immutable = |list: Value| json!({"type": "object", "properties": {"l": list}, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]});
    let map = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}});
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let atomic = json!({"type": "array", "items": {"type": "string"}});
    check_update(
        immutable(map.clone()),
        json!({"l": [{"k": "a"}, {"k": "b"}]}),
        Some(json!({"l": [{"k": "b"}, {"k": "a"}]})),
        expect![""],
    );
    check_update(immutable(set), json!({"l": ["a", "b"]}), Some(json!({"l": ["b", "a"]})), expect![""]);
    check_update(
        immutable(atomic),
        json!({"l": ["a", "b"]}),
        Some(json!({"l": ["b", "a"]})),
        expect![[r#"spec: Invalid value: "object": immutable"#]],
    );
    check_update(
        immutable(map),
        json!({"l": [{"k": "a"}]}),
        Some(json!({"l": [{"k": "b"}]})),
        expect![[r#"spec: Invalid value: "object": immutable"#]],
    );
}

#[test]
fn an_unchanged_value_that_violates_a_rule_is_accepted() {
    let schema = object(
        &json!({"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'"}]}, "b": {"type": "string"}}),
        &json!([{"rule": "self.a != 'bad'", "message": "spec is bad"}]),
    );
    check_update(
        schema.clone(),
        json!({"a": "bad", "b": "new"}),
        Some(json!({"a": "bad", "b": "old"})),
        expect![[r#"spec: Invalid value: "object": spec is bad"#]],
    );
    check_update(schema, json!({"a": "bad"}), Some(json!({"a": "bad"})), expect![""]);
}

#[test]
fn the_root_sees_its_name_and_embedded_resources_see_theirs() {
    let source = json!({"type": "object", "properties": {"metadata": {"type": "object"},
        "spec": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                 "x-kubernetes-validations": [{"rule": "self.kind != 'Secret'"}]}},
        "x-kubernetes-validations": [{"rule": "size(self.metadata.name) < 5", "message": "metadata.name max length is 4"},
                                     {"rule": "!has(self.metadata.generateName) && self.kind == 'K'"}]});
    let (schema, rules) = compile_schema("s", &source).unwrap();
    let value = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "toolong"}, "spec": {"apiVersion": "v1", "kind": "Secret", "x": 1}});
    expect![[r#"
        <nil>: Invalid value: "object": metadata.name max length is 4
        spec: Invalid value: "object": failed rule: self.kind != 'Secret'"#]]
    .assert_eq(&report(&validate_object(&schema, &rules, &value, None)));
}

#[test]
fn maps_and_items_have_their_own_rules() {
    let schema = json!({"type": "object", "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string", "x-kubernetes-validations": [{"rule": "self.startsWith('a')"}]},
                   "x-kubernetes-validations": [{"rule": "self.all(k, k.size() < 3)"}, {"rule": "'k' in self && self['k'] == self.k"}]},
        "items": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]}},
    }});
    check(
        schema,
        json!({"labels": {"k": "abc", "long": "b"}, "items": [2, 3]}),
        expect![[r#"
            spec.items[1]: Invalid value: "integer": failed rule: self % 2 == 0
            spec.labels: Invalid value: "object": failed rule: self.all(k, k.size() < 3)
            spec.labels[long]: Invalid value: "string": failed rule: self.startsWith('a')"#]],
    );
}

#[test]
fn formats_give_values_their_types() {
    let schema = object(
        &json!({"when": {"type": "string", "format": "date-time"}, "wait": {"type": "string", "format": "duration"},
                "raw": {"type": "string", "format": "byte"}, "ratio": {"type": "number"}, "x-y": {"type": "string"}, "namespace": {"type": "string"}}),
        &json!([{"rule": "self.when.getFullYear() == 2024 && self.when > timestamp('2023-12-31T00:00:00Z')"},
                {"rule": "self.wait >= duration('90s') && self.wait.getMinutes() == 2"},
                {"rule": "self.raw == b'hi' && size(self.raw) == 2"},
                {"rule": "self.ratio > 0.5 && self.ratio == 1.0"},
                {"rule": "self.x__dash__y == 'a' && has(self.__namespace__) && self.__namespace__ == 'n'"}]),
    );
    check(
        schema,
        json!({"when": "2024-02-01T00:00:00Z", "wait": "2m", "raw": "aGk=", "ratio": 1, "x-y": "a", "namespace": "n"}),
        expect![""],
    );
}

#[test]
fn rules_are_evaluated_only_for_well_formed_objects() {
    check(
        object(&json!({"a": {"type": "string"}}), &json!([{"rule": "self.a == 'x'"}])),
        json!({"a": 5}),
        expect![[r#"
            spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer"
            <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"#]],
    );
}

#[test]
fn invalid_rules_are_refused_with_their_position() {
    let refused = |rule: &str, expected: Expect| {
        check_refused(
            object(
                &json!({"a": {"type": "string"}, "n": {"type": "integer"}}),
                &json!([{"rule": rule, "message": "m"}]),
            ),
            expected,
        );
    };
    refused(
        "self.b == 'x'",
        expect![[r#"
        s.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.b == 'x'","Message":"m","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: undefined field 'b'
         | self.b == 'x'
         | ....^"#]],
    );
    refused(
        "self.n < 'x' && other",
        expect![[r#"
        s.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.n \u003c 'x' \u0026\u0026 other","Message":"m","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:8: found no matching overload for '_<_' applied to '(int, string)'
         | self.n < 'x' && other
         | .......^
        ERROR: <input>:1:17: undeclared reference to 'other' (in container '')
         | self.n < 'x' && other
         | ................^"#]],
    );
    refused(
        "self.a.startsWith(1)",
        expect![[r#"
        s.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.a.startsWith(1)","Message":"m","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:18: found no matching overload for 'startsWith' applied to 'string.(int)'
         | self.a.startsWith(1)
         | .................^"#]],
    );
    refused(
        "self.a",
        expect![[
            r#"s.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.a","Message":"m","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool"#
        ]],
    );
    refused(
        "self.a ==",
        expect![[r#"
            s.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.a ==","Message":"m","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
             | self.a ==
             | .........^"#]],
    );
    check_refused(
        object(
            &json!({"a": {"type": "string"}}),
            &json!([{"rule": "true", "message": "m", "messageExpression": "1"}, {"rule": "self.a == 'a'", "optionalOldSelf": true}]),
        ),
        expect![[r#"
            s.properties[spec].x-kubernetes-validations[0].messageExpression: Invalid value: {"Rule":"true","Message":"m","MessageExpression":"1","Reason":null,"FieldPath":"","OptionalOldSelf":null}: messageExpression must evaluate to a string
            s.properties[spec].x-kubernetes-validations[1].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"#]],
    );
    check_refused(
        json!({"type": "array", "maxItems": 3, "items":
            {"type": "string", "maxLength": 3, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}),
        expect![[
            r#"s.properties[spec].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[spec]"#
        ]],
    );
    check_refused(
        json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [{"rule": "true"}]}),
        expect![
            "s.properties[spec].x-kubernetes-validations: Internal error: failed to convert to declType for CEL validation rules"
        ],
    );
}

#[test]
fn a_default_that_breaks_a_rule_is_refused() {
    check_refused(
        json!({"type": "object", "properties": {"n": {"type": "integer", "default": 0, "x-kubernetes-validations": [{"rule": "self > 0"}]}}}),
        expect![[r#"s.properties[spec].properties[n].default: Invalid value: "integer": failed rule: self > 0"#]],
    );
}

#[test]
fn an_expensive_rule_exceeds_the_budget_and_ends_the_evaluation() {
    let many: Vec<i64> = (0..400).collect();
    let cubic = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))";
    let schema = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": cubic}, {"rule": "false"}]});
    check_run(
        schema,
        json!(many),
        expect![[
            r#"spec: Invalid value: "array": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"#
        ]],
    );
    let linear = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": vec![json!({"rule": "self.all(a, self.all(b, a == b))"}); 40]});
    let same = vec!["x"; 200];
    check_run(
        linear,
        json!(same),
        expect![[
            r#"spec: Invalid value: "array": validation failed due to running out of cost budget, no further validation rules will be run"#
        ]],
    );
}

#[test]
fn functions_with_large_results_exceed_the_budget_too() {
    for rule in [
        "self.map(x, self).map(x, self).all(x, x.all(y, y.size() > 0))",
        "self.map(x, self.map(y, x + y).join('')).join('').size() > 0",
        "self.join('').replace('', self.join('').replace('', self.join(''))).size() > 0",
        "self.all(x, 'a'.matches('(a{1,100}){1,' + string(self.indexOf(x)) + '}') || true)",
        "self.join('').matches('^(.*)*(.*)*(.*)*x$') || self.all(x, self.exists(y, self.exists(z, z + y == x)))",
        "self.map(x, '%s%s%s%s'.format([self, self, self, self])).exists(x, x == '')",
        "sets.equivalent(self, self.map(x, x + x)) || self.all(x, sets.intersects(self, self.map(y, x + y)))",
    ] {
        let (schema, rules) = compiled_at_any_cost(
            &json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [{"rule": rule}]}),
        );
        let many: Vec<String> = (0..2000).map(|number| format!("text-{number}")).collect();
        let findings = validate_object(&schema, &rules, &json!({"spec": many}), None);
        assert!(report(&findings).contains("cost"), "{rule}: {}", report(&findings));
    }
}

#[test]
fn rules_with_a_high_estimated_cost_are_refused() {
    let texts = json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}});
    let nested = json!([{"rule": "self.l.all(a, a.all(b, self.l.all(c, c.all(d, d != b))))"}]);
    check_refused(
        object(&json!({"l": texts}), &nested),
        expect![[r"
            s.properties[spec].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)
            s.properties[spec].x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema
            s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"]],
    );
    let bounded = json!({"type": "array", "maxItems": 5, "items":
        {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 20}}});
    check_refused(object(&json!({"l": bounded}), &nested), expect!["ok"]);
}

#[test]
fn the_number_of_values_counts_into_the_cost_of_a_rule() {
    let rules = json!([{"rule": "self.matches('^[a-z]+$')"}]);
    let items = json!({"type": "string", "maxLength": 1000, "x-kubernetes-validations": rules});
    let list = |maximum: u64| object(&json!({"l": {"type": "array", "maxItems": maximum, "items": items}}), &json!([]));
    check_refused(list(1000), expect!["ok"]);
    // (4000 + 1) / 10 for the text, 8 / 4 for the expression, 1 for the variable: 803 for each value.
    check_refused(
        list(20_000),
        expect![[r"
            s.properties[spec].properties[l].items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of 1.6x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"]],
    );
}

#[test]
fn audit_10_rules_that_fail_on_unchanged_items_compare_a_list_once() {
    let source = |list_type: &str| {
        let keys = if list_type == "map" { json!(["name"]) } else { Value::Null };
        let mut list = json!({"type": "array", "x-kubernetes-list-type": list_type, "items": {
            "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "on": {"type": "boolean"}},
            "x-kubernetes-validations": [{"rule": "has(self.on)"}],
        }});
        if !keys.is_null() {
            list["x-kubernetes-list-map-keys"] = keys;
        }
        json!({"type": "object", "properties": {"list": list}})
    };
    for list_type in ["map", "atomic"] {
        let (schema, rules) = compiled_at_any_cost(&source(list_type));
        crate::testing::assert_not_quadratic(list_type, 250, |count| {
            let items: Vec<Value> = (0..count).map(|name| json!({"name": name.to_string()})).collect();
            let object = json!({"spec": {"list": items}});
            assert!(validate_object(&schema, &rules, &object.clone(), Some(&object)).is_empty());
        });
    }
}
