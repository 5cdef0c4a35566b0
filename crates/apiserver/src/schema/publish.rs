//! Converts the schema tree back to OpenAPI, for `/openapi/v3` and `kubectl explain`. Examples and external documentation
//! are not kept.

use serde_json::{Map, Value, json};

use super::{Additional, Constraints, JsonType, ListType, Node, Rule, Schema};

/// The OpenAPI form of a schema. It must be free of cycles: those need references, which only the publisher can name.
pub(crate) fn to_openapi(schema: &Schema) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| {
        out.insert(name.to_owned(), value);
    };
    if schema.json_type != JsonType::Any {
        put("type", json!(schema.json_type.name()));
    }
    for (name, text) in [("title", &schema.title), ("description", &schema.description)] {
        if let Some(text) = text {
            put(name, json!(text));
        }
    }
    let flags = [
        ("nullable", schema.nullable),
        ("x-kubernetes-int-or-string", schema.int_or_string),
        ("x-kubernetes-preserve-unknown-fields", schema.preserve_unknown),
        ("x-kubernetes-embedded-resource", schema.embedded_resource),
    ];
    flags.into_iter().filter(|(_, set)| *set).for_each(|(name, _)| put(name, json!(true)));
    if !schema.properties.is_empty() {
        let all: Map<_, _> = schema.properties.iter().map(|(name, node)| (name.clone(), to_openapi(node))).collect();
        put("properties", Value::Object(all));
    }
    if !schema.required.is_empty() {
        put("required", json!(schema.required));
    }
    match &schema.additional {
        Additional::None => {}
        Additional::Schema(node) if node.says_nothing() => put("additionalProperties", json!(true)),
        Additional::Schema(node) => put("additionalProperties", to_openapi(node)),
    }
    if let Some(items) = &schema.items {
        put("items", to_openapi(items));
    }
    if let Some(default) = &schema.default {
        put("default", default.clone());
    }
    merge_keys(schema, &mut put);
    constraints(&schema.constraints, &mut put);
    let junctors = [("allOf", &schema.logic.all_of), ("anyOf", &schema.logic.any_of), ("oneOf", &schema.logic.one_of)];
    for (name, nodes) in junctors.into_iter().filter(|(_, nodes)| !nodes.is_empty()) {
        put(name, Value::Array(nodes.iter().map(|node| to_openapi(node)).collect()));
    }
    if let Some(not) = &schema.logic.not {
        put("not", to_openapi(not));
    }
    if !schema.rules.is_empty() {
        put("x-kubernetes-validations", Value::Array(schema.rules.iter().map(rule).collect()));
    }
    Value::Object(out)
}

impl Node {
    /// Neither typed nor shaped nor free: the schema of `additionalProperties: true`.
    pub(super) fn says_nothing(&self) -> bool {
        self.json_type == JsonType::Any
            && !self.int_or_string
            && !self.preserve_unknown
            && self.properties.is_empty()
            && self.constraints == Constraints::default()
    }
}

fn merge_keys(schema: &Schema, put: &mut impl FnMut(&str, Value)) {
    match &schema.list_type {
        ListType::Atomic => {}
        ListType::Set => put("x-kubernetes-list-type", json!("set")),
        ListType::Map(keys) => {
            put("x-kubernetes-list-type", json!("map"));
            put("x-kubernetes-list-map-keys", json!(keys));
        }
    }
    if schema.atomic_map {
        put("x-kubernetes-map-type", json!("atomic"));
    }
    let strategies: Vec<&str> =
        [(schema.patch.replace, "replace"), (schema.patch.merge, "merge"), (schema.patch.retain_keys, "retainKeys")]
            .into_iter()
            .filter_map(|(set, name)| set.then_some(name))
            .collect();
    if !strategies.is_empty() {
        put("x-kubernetes-patch-strategy", json!(strategies.join(",")));
    }
    if let Some(key) = &schema.patch.merge_key {
        put("x-kubernetes-patch-merge-key", json!(key));
    }
}

fn constraints(from: &Constraints, put: &mut impl FnMut(&str, Value)) {
    if !from.allowed.is_empty() {
        put("enum", json!(from.allowed));
    }
    for (name, text) in [("pattern", &from.pattern), ("format", &from.format)] {
        if let Some(text) = text {
            put(name, json!(text));
        }
    }
    for (name, bound) in [("minimum", from.minimum), ("maximum", from.maximum), ("multipleOf", from.multiple_of)] {
        if let Some(bound) = bound {
            put(name, whole_or_not(bound));
        }
    }
    let flags = [
        ("exclusiveMinimum", from.exclusive_minimum),
        ("exclusiveMaximum", from.exclusive_maximum),
        ("uniqueItems", from.unique_items),
    ];
    flags.into_iter().filter(|(_, set)| *set).for_each(|(name, _)| put(name, json!(true)));
    let counts = [
        ("minLength", from.min_length),
        ("maxLength", from.max_length),
        ("minItems", from.min_items),
        ("maxItems", from.max_items),
        ("minProperties", from.min_properties),
        ("maxProperties", from.max_properties),
    ];
    for (name, count) in counts {
        if let Some(count) = count {
            put(name, json!(count));
        }
    }
}

/// `3`, not `3.0`: that is how the bound was written.
#[allow(clippy::cast_possible_truncation)] // only bounds that are whole and small enough are cast
fn whole_or_not(bound: f64) -> Value {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_991.0;
    if bound.fract() == 0.0 && bound.abs() <= LARGEST_EXACT { json!(bound as i64) } else { json!(bound) }
}

fn rule(rule: &Rule) -> Value {
    let texts = [
        ("rule", &rule.expression),
        ("message", &rule.message),
        ("messageExpression", &rule.message_expression),
        ("reason", &rule.reason),
        ("fieldPath", &rule.field_path),
    ];
    let mut out: Map<String, Value> = texts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| (name.to_owned(), json!(text)))
        .collect();
    if rule.optional_old_self {
        out.insert("optionalOldSelf".to_owned(), json!(true));
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsed_schema_is_published_unchanged() {
        let source = json!({"type": "object", "description": "top", "required": ["spec"], "properties": {
            "spec": {"type": "object", "description": "d", "x-kubernetes-map-type": "atomic", "properties": {
                "a": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 2.5, "exclusiveMaximum": true, "default": 1},
                "b": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                      "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "enum": ["x"], "pattern": "^x$"}}}},
                "c": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "d": {"type": "object", "additionalProperties": true}, "e": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
                "f": {"type": "string", "not": {"maxLength": 3}, "title": "t"},
            }, "x-kubernetes-validations": [{"rule": "self.a > 0", "message": "m", "reason": "FieldValueInvalid", "fieldPath": ".a"}]},
        }});
        let schema = Schema::from_openapi(&source).unwrap();
        assert_eq!(to_openapi(&schema), source);
    }
}
