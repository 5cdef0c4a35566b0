//! Schemas of custom resources, with their patterns and rules.

use apiserver::cel;
use apiserver::schema::{self, PatternCache, Schema, to_openapi};
use serde_json::{Value, json};

use super::{field, parsed, size, text};

pub(super) const WORDS: &[&str] = &[
    "type",
    "object",
    "array",
    "string",
    "integer",
    "number",
    "boolean",
    "properties",
    "additionalProperties",
    "items",
    "required",
    "default",
    "enum",
    "pattern",
    "format",
    "date-time",
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxItems",
    "uniqueItems",
    "nullable",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
    "rule",
];
pub(super) const PATTERN_WORDS: &[&str] = &[
    "^",
    "$",
    "(",
    ")",
    "[",
    "]",
    "a+",
    "a*",
    "(a|b)*",
    "{2,}",
    "{1,1000}",
    "\\d",
    "\\pL",
    "[[:alpha:]]",
    "\\b",
    "(?i)",
    "(?P<n>a)",
    "|",
    ".",
];
pub(super) const CEL_WORDS: &[&str] = &[
    "self",
    "oldSelf",
    ".",
    ".all(x, ",
    ".exists(x, ",
    ".map(x, ",
    ".filter(x, ",
    "size(",
    "has(",
    "==",
    "&&",
    "||",
    "!",
    "?",
    ":",
    "in",
    "matches('",
    "')",
    "duration('",
    "timestamp('",
    "int(",
    "string(",
    "[",
    "]",
    "{",
    "}",
    "+",
    "-",
    "*",
    "/",
    "%",
    "''",
    "9223372036854775807",
    "self.list",
    "self.text",
    "self.number",
    "self.map",
    "quantity('",
    "url('",
    "isIP('",
    "format(",
    ".join(",
    ".split(",
    ".replace(",
    "b'a'",
    "1u",
    "1e308",
];

pub(super) fn schema(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let Ok(tree) = Schema::from_openapi(&field(&input, "schema")) else { return };
    let printed = to_openapi(&tree);
    if let Ok(again) = Schema::from_openapi(&printed) {
        assert_eq!(to_openapi(&again), printed, "publishing is no fixpoint");
    }
    let mut object = field(&input, "object");
    let _ = schema::validate(&tree, &object, None);
    schema::prune(&tree, &mut object);
    let pruned = object.clone();
    schema::prune(&tree, &mut object);
    assert_eq!(object, pruned, "pruning twice is not pruning once");
    assert!(schema::unknown_fields(&tree, &object).is_empty(), "fields are unknown after pruning");
    let before = size(&object);
    let is_filled = schema::apply_defaults(&tree, &mut object).is_ok();
    assert!(size(&object) <= before + 8 * schema::MAX_DEFAULT_BYTES, "defaults added {} bytes", size(&object) - before);
    if !is_filled {
        return;
    }
    let defaulted = object.clone();
    assert_eq!(schema::apply_defaults(&tree, &mut object), Ok(()));
    assert_eq!(object, defaulted, "defaulting twice is not defaulting once");
    let findings = schema::validate(&tree, &object, Some(&object));
    assert_eq!(schema::validate(&tree, &object, Some(&object)), findings);
}

pub(super) fn pattern(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let (pattern, value) = (text(&input, "pattern"), text(&input, "text"));
    let cache = PatternCache::default();
    let first = cache.matches(pattern, value);
    assert_eq!(cache.matches(pattern, value), first, "the second answer differs");
    assert_eq!(PatternCache::default().matches(pattern, value), first);
}

/// A custom resource with a rule at its root and one at a list of it.
pub(super) fn cel(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let rules = |name: &str| json!([{"rule": text(&input, name), "messageExpression": text(&input, "message")}]);
    let source = json!({"type": "object", "x-kubernetes-validations": rules("rule"), "properties": {
        "text": {"type": "string", "maxLength": 1000}, "number": {"type": "integer"}, "float": {"type": "number"},
        "flag": {"type": "boolean"}, "time": {"type": "string", "format": "date-time"},
        "either": {"x-kubernetes-int-or-string": true},
        "map": {"type": "object", "maxProperties": 20, "additionalProperties": {"type": "string", "maxLength": 50}},
        "list": {"type": "array", "maxItems": 20, "items": {"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 50}, "count": {"type": "integer"}}},
            "x-kubernetes-validations": rules("listRule")}}});
    let Ok((schema, rules)) = cel::compile_schema("spec", &source) else { return };
    let (new, old) = (field(&input, "object"), field(&input, "old"));
    let old = Some(&old).filter(|old: &&Value| old.is_object());
    let findings = cel::validate_object(&schema, &rules, &new, old);
    assert_eq!(cel::validate_object(&schema, &rules, &new, old), findings, "the second answer differs");
}
