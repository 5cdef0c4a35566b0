//! Parses a CustomResourceDefinition's `openAPIV3Schema` into the schema tree, and checks that it is structural and has
//! valid extensions and defaults.
//!
//! CEL rules are kept as text; the `cel` module compiles them.

use serde_json::{Map, Value};

use super::{
    Additional, Constraints, JsonType, ListType, Logic, Node, PatchStrategy, Rule, Schema, default, openapi_rules,
    structural,
};
use crate::field::FieldError;

/// Where the schema of a CRD's first version is, for callers that do not say which version they mean.
pub(crate) const CRD_SCHEMA_PATH: &str = "spec.versions[0].schema.openAPIV3Schema";

impl Schema {
    /// Parses and checks the schema of a CRD's first version. See [`Schema::from_openapi_at`].
    pub(crate) fn from_openapi(source: &Value) -> Result<Self, Vec<FieldError>> {
        Self::from_openapi_at(CRD_SCHEMA_PATH, source)
    }

    /// Parses and checks a schema found at `path` of its CRD; the findings are sorted and name places below `path`.
    ///
    /// CEL rules are not compiled here: `cel::Rules::compile` does that and reports in the same way.
    pub(crate) fn from_openapi_at(path: &str, source: &Value) -> Result<Self, Vec<FieldError>> {
        let Some(root) = source.as_object() else {
            return Err(vec![FieldError::required(path, "schemas are required")]);
        };
        // A schema with keywords that have no place in a structural one is not judged as one; they are refused below.
        let foreign = structural::has_foreign_keywords(root);
        let mut findings = if foreign { Vec::new() } else { structural::check(path, source) };
        let schema = schema_from(root);
        if findings.is_empty() && !foreign {
            findings = default::check_defaults(path, &schema);
        }
        findings.extend(openapi_rules::check(path, root));
        findings.sort_by_cached_key(ToString::to_string);
        findings.dedup();
        if findings.is_empty() { Ok(schema) } else { Err(findings) }
    }
}

/// Builds the tree and judges nothing: what has the wrong JSON type is read as absent.
fn schema_from(source: &Map<String, Value>) -> Schema {
    let flag = |name: &str| source.get(name).and_then(Value::as_bool).unwrap_or_default();
    let text = |name: &str| source.get(name).and_then(Value::as_str);
    Schema {
        json_type: type_from(text("type")),
        nullable: flag("nullable"),
        int_or_string: flag("x-kubernetes-int-or-string"),
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag("x-kubernetes-embedded-resource"),
        title: text("title").map(str::to_owned),
        description: text("description").map(str::to_owned),
        properties: source
            .get("properties")
            .and_then(Value::as_object)
            .map(|all| all.iter().map(|(name, value)| (name.clone(), node_from(value))).collect())
            .unwrap_or_default(),
        required: texts(source.get("required")),
        additional: additional_from(source.get("additionalProperties")),
        items: source.get("items").filter(|items| items.is_object()).map(node_from),
        default: source.get("default").filter(|default| !default.is_null()).cloned(),
        list_type: match text("x-kubernetes-list-type") {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(texts(source.get("x-kubernetes-list-map-keys"))),
            _ => ListType::Atomic,
        },
        atomic_map: text("x-kubernetes-map-type") == Some("atomic"),
        patch: patch_from(source),
        constraints: constraints_from(source),
        logic: Logic {
            all_of: nodes(source.get("allOf")),
            any_of: nodes(source.get("anyOf")),
            one_of: nodes(source.get("oneOf")),
            not: source.get("not").filter(|not| not.is_object()).map(node_from),
        },
        rules: rules_from(source.get("x-kubernetes-validations")),
        ..Schema::default()
    }
}

fn node_from(source: &Value) -> Node {
    Node::new(source.as_object().map(schema_from).unwrap_or_default())
}

fn nodes(source: Option<&Value>) -> Vec<Node> {
    source.and_then(Value::as_array).map(|all| all.iter().map(node_from).collect()).unwrap_or_default()
}

fn texts(source: Option<&Value>) -> Vec<String> {
    source
        .and_then(Value::as_array)
        .map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default()
}

fn type_from(name: Option<&str>) -> JsonType {
    match name {
        Some("object") => JsonType::Object,
        Some("array") => JsonType::Array,
        Some("string") => JsonType::String,
        Some("integer") => JsonType::Integer,
        Some("number") => JsonType::Number,
        Some("boolean") => JsonType::Boolean,
        _ => JsonType::Any,
    }
}

/// `true` gives an empty schema, not `Anything`: kube-apiserver keeps the entries of such a map but prunes what is inside
/// entries that are objects.
fn additional_from(source: Option<&Value>) -> Additional {
    match source {
        Some(Value::Bool(true)) => Additional::Schema(Node::new(Schema::default())),
        Some(schema @ Value::Object(_)) => Additional::Schema(node_from(schema)),
        _ => Additional::None,
    }
}

fn patch_from(source: &Map<String, Value>) -> PatchStrategy {
    let strategies = source.get("x-kubernetes-patch-strategy").and_then(Value::as_str).unwrap_or_default();
    PatchStrategy {
        replace: strategies.split(',').any(|s| s == "replace"),
        merge: strategies.split(',').any(|s| s == "merge"),
        retain_keys: strategies.split(',').any(|s| s == "retainKeys"),
        merge_key: source.get("x-kubernetes-patch-merge-key").and_then(Value::as_str).map(str::to_owned),
    }
}

fn constraints_from(source: &Map<String, Value>) -> Constraints {
    let flag = |name: &str| source.get(name).and_then(Value::as_bool).unwrap_or_default();
    let number = |name: &str| source.get(name).and_then(Value::as_f64);
    let count = |name: &str| source.get(name).and_then(Value::as_u64);
    let text = |name: &str| source.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    Constraints {
        allowed: source.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        pattern: text("pattern"),
        format: text("format"),
        minimum: number("minimum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        maximum: number("maximum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag("uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
    }
}

fn rules_from(source: Option<&Value>) -> Vec<Rule> {
    let Some(rules) = source.and_then(Value::as_array) else { return Vec::new() };
    rules
        .iter()
        .map(|rule| {
            let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
            Rule {
                expression: text("rule"),
                message: text("message"),
                message_expression: text("messageExpression"),
                reason: text("reason"),
                field_path: text("fieldPath"),
                optional_old_self: rule["optionalOldSelf"].as_bool().unwrap_or_default(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value)] // a json! literal at every call
    fn check(schema: Value, expected: Expect) {
        let text = match Schema::from_openapi_at("s", &schema) {
            Ok(_) => "ok".to_owned(),
            Err(findings) => findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        };
        expected.assert_eq(&text);
    }

    #[allow(clippy::needless_pass_by_value)] // a json! literal at every call
    fn with_spec(spec: Value) -> Value {
        json!({"type": "object", "properties": {"spec": spec}})
    }

    #[test]
    fn every_field_needs_a_type() {
        check(
            with_spec(json!({})),
            expect!["s.properties[spec].type: Required value: must not be empty for specified object fields"],
        );
        check(json!({"properties": {}}), expect!["s.type: Required value: must not be empty at the root"]);
        check(
            with_spec(json!({"type": "array"})),
            expect!["s.properties[spec].items: Required value: must be specified"],
        );
        check(
            with_spec(json!({"type": "array", "items": {}})),
            expect!["s.properties[spec].items.type: Required value: must not be empty for specified array items"],
        );
        check(with_spec(json!({"x-kubernetes-int-or-string": true})), expect!["ok"]);
        check(with_spec(json!({"x-kubernetes-preserve-unknown-fields": true})), expect!["ok"]);
    }

    #[test]
    fn the_root_is_an_object_without_free_keys() {
        check(json!({"type": "string"}), expect![[r#"s.type: Invalid value: "string": must be object at the root"#]]);
        check(
            json!({"type": "object", "additionalProperties": true}),
            expect!["s.additionalProperties: Forbidden: must not be used at the root"],
        );
        check(
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            expect![
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
            ],
        );
        check(
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}}}),
            expect!["ok"],
        );
        check(
            json!({"type": "object", "properties": {"kind": {"type": "integer"}}}),
            expect![[r#"s.properties[kind].type: Invalid value: "integer": must be string"#]],
        );
    }

    #[test]
    fn inside_junctors_only_value_constraints_are_allowed() {
        check(
            with_spec(json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [
                {"type": "object", "description": "x", "properties": {"a": {"nullable": true}, "b": {"minLength": 1}}},
            ], "not": {"default": {}, "additionalProperties": {}}})),
            expect![[r"
                s.properties[spec].anyOf[0].description: Forbidden: must be empty to be structural
                s.properties[spec].anyOf[0].properties[a].nullable: Forbidden: must be false to be structural
                s.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural
                s.properties[spec].not.additionalProperties: Forbidden: must be undefined to be structural
                s.properties[spec].not.default: Forbidden: must be undefined to be structural"]],
        );
        // Fields that a junctor names must exist; the real server checks only the junctors of the root.
        check(
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"properties": {"b": {"minLength": 1}}}]}),
            expect!["s.properties[b]: Required value: because it is defined in s.oneOf[1].properties[b]"],
        );
        check(
            with_spec(
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%?$"}),
            ),
            expect!["ok"],
        );
        check(
            with_spec(
                json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"maxLength": 3}]}),
            ),
            expect!["ok"],
        );
    }

    #[test]
    fn extensions_are_checked_against_the_type_and_each_other() {
        check(
            with_spec(json!({"type": "object", "x-kubernetes-list-type": "map"})),
            expect![[r#"
                s.properties[spec].items: Required value: must have a schema if x-kubernetes-list-type is map
                s.properties[spec].type: Invalid value: "object": must be array if x-kubernetes-list-type is specified
                s.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"#]],
        );
        check(
            with_spec(
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type", "gone"],
                "items": {"type": "object", "properties": {"type": {"type": "string"}}}}),
            ),
            expect![[r#"
                s.properties[spec].items.properties[type].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property
                s.properties[spec].x-kubernetes-list-map-keys: Invalid value: ["type","gone"]: entries must all be names of item properties"#]],
        );
        check(
            with_spec(
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "nullable": true}}),
            ),
            expect![[r"
                s.properties[spec].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set
                s.properties[spec].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set"]],
        );
        check(
            with_spec(
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag", "x-kubernetes-map-type": "atomic"}),
            ),
            expect![[r#"
                s.properties[spec].type: Invalid value: "array": must be object if x-kubernetes-map-type is specified
                s.properties[spec].x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map""#]],
        );
        check(
            with_spec(
                json!({"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": false}),
            ),
            expect![
                "s.properties[spec].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"
            ],
        );
    }

    #[test]
    fn unsupported_keywords_types_and_patterns_are_refused() {
        check(
            with_spec(json!({"type": "object", "properties": {
                "a": {"type": "text"}, "b": {"type": "string", "pattern": "[a"}, "c": {"type": "array", "uniqueItems": true, "items": {"type": "string"}},
                "d": {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}},
                "e": {"type": "object", "$ref": "#/x", "id": "e", "patternProperties": {"a": {"type": "string"}}},
            }})),
            expect![[r#"
                s.properties[spec].properties[a].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string"
                s.properties[spec].properties[c].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic
                s.properties[spec].properties[d].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive
                s.properties[spec].properties[e].$ref: Forbidden: $ref is not supported
                s.properties[spec].properties[e].id: Forbidden: id is not supported
                s.properties[spec].properties[e].patternProperties: Forbidden: patternProperties is not supported"#]],
        );
    }

    #[test]
    fn defaults_must_fit_their_own_schema() {
        check(
            with_spec(json!({"type": "object", "properties": {
                "a": {"type": "integer", "default": "x"},
                "b": {"type": "object", "default": {"c": 1, "d": 2}, "properties": {"c": {"type": "string"}}},
                "e": {"type": "string", "enum": ["A"], "default": "B"},
            }})),
            expect![[r#"
                s.properties[spec].properties[a].default: Invalid value: "string":  in body must be of type integer: "string"
                s.properties[spec].properties[b].default.c: Invalid value: "integer": c in body must be of type string: "integer"
                s.properties[spec].properties[b].default: Invalid value: {"c":1,"d":2}: must not have unknown fields
                s.properties[spec].properties[e].default: Unsupported value: "B": supported values: "A""#]],
        );
        check(
            json!({"type": "object", "properties": {"metadata": {"type": "object", "default": {}}}}),
            expect!["s.properties[metadata].default: Forbidden: must not be set in top-level metadata"],
        );
    }

    #[test]
    fn rules_need_an_expression_and_a_valid_message() {
        check(
            with_spec(json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [
                {"rule": " "}, {"rule": "true", "message": "a\nb"}, {"rule": "true\n", "message": " "}, {"rule": "true\n&& true"},
                {"rule": "true", "reason": "Bad", "fieldPath": ".b"},
            ]})),
            expect![[r#"
                s.properties[spec].x-kubernetes-validations[0].rule: Required value: rule is not specified
                s.properties[spec].x-kubernetes-validations[1].message: Invalid value: "a\nb": must not contain line breaks
                s.properties[spec].x-kubernetes-validations[2].message: Invalid value: " ": must be non-empty if specified
                s.properties[spec].x-kubernetes-validations[3].message: Required value: message must be specified if rule contains line breaks
                s.properties[spec].x-kubernetes-validations[4].fieldPath: Invalid value: ".b": must be a valid path
                s.properties[spec].x-kubernetes-validations[4].reason: Unsupported value: "Bad": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#]],
        );
    }

    #[test]
    fn a_missing_schema_is_reported_at_the_first_version() {
        let findings = Schema::from_openapi(&Value::Null).unwrap_err();
        assert_eq!(
            findings[0].to_string(),
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"
        );
    }
}
