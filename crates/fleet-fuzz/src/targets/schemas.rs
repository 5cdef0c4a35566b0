//! Schemas of custom resources, with their patterns and rules.

use apiserver::internals::{MAX_DEFAULT_BYTES, Structural, pattern_matches, rule_findings};
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
    let Some(schema) = Structural::parse(&field(&input, "schema")) else { return };
    let printed = schema.published();
    if let Some(again) = Structural::parse(&printed) {
        assert_eq!(again.published(), printed, "publishing is no fixpoint");
    }
    let mut object = field(&input, "object");
    let _ = schema.findings(&object, None);
    schema.prune(&mut object);
    let pruned = object.clone();
    schema.prune(&mut object);
    assert_eq!(object, pruned, "pruning twice is not pruning once");
    assert!(schema.unknown_fields(&object).is_empty(), "fields are unknown after pruning");
    let before = size(&object);
    let is_filled = schema.apply_defaults(&mut object);
    assert!(size(&object) <= before + 8 * MAX_DEFAULT_BYTES, "defaults added {} bytes", size(&object) - before);
    if !is_filled {
        return;
    }
    let defaulted = object.clone();
    assert!(schema.apply_defaults(&mut object));
    assert_eq!(object, defaulted, "defaulting twice is not defaulting once");
    let findings = schema.findings(&object, Some(&object));
    assert_eq!(schema.findings(&object, Some(&object)), findings);
}

pub(super) fn pattern(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let (pattern, value) = (text(&input, "pattern"), text(&input, "text"));
    let [first, second, other] = pattern_matches(pattern, value);
    assert_eq!(second, first, "the second answer differs");
    assert_eq!(other, first);
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
    let (new, old) = (field(&input, "object"), field(&input, "old"));
    let old = Some(&old).filter(|old: &&Value| old.is_object());
    let Some([first, second]) = rule_findings(&source, &new, old) else { return };
    assert_eq!(second, first, "the second answer differs");
}
