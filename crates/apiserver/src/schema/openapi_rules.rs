//! Checks of a CRD schema beyond being structural: keywords, list and map types, rule texts. Works on the raw JSON of the
//! schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::path::{child, index, key};
use crate::cel::field_path;
use crate::field::FieldError;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// All violations in the schema at `path`, which is the root of a kind.
pub(super) fn check(path: &str, root: &Map<String, Value>) -> Vec<FieldError> {
    let mut findings = Vec::new();
    if flag(root, "nullable") {
        findings.push(FieldError::forbidden(child(path, "nullable"), "nullable cannot be true at the root"));
    }
    walk(root, path, &Surroundings { root: true, ..Surroundings::default() }, &mut findings);
    findings
}

/// Settings that a schema inherits from its parents.
#[derive(Clone, Default)]
struct Surroundings {
    root: bool,
    inside_metadata: bool,
    /// Why defaults are forbidden here.
    no_defaults: Option<String>,
}

fn text<'a>(schema: &'a Map<String, Value>, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn walk(schema: &Map<String, Value>, path: &str, around: &Surroundings, findings: &mut Vec<FieldError>) {
    keywords(schema, path, around, findings);
    extensions(schema, path, findings);
    list_type(schema, path, findings);
    keys_of_maps(schema, path, findings);
    rules(schema, path, findings);

    let below = Surroundings { root: false, ..around.clone() };
    if let Some(additional) = schema.get("additionalProperties").and_then(Value::as_object) {
        let mut inside = below.clone();
        if around.inside_metadata {
            inside.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        walk(additional, &child(path, "additionalProperties"), &inside, findings);
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Some(property) = property.as_object() else { continue };
        let mut inside = below.clone();
        if (around.root || flag(schema, "x-kubernetes-embedded-resource")) && META_FIELDS.contains(&name.as_str()) {
            inside.inside_metadata = true;
            if around.root {
                inside.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        walk(property, &key(&child(path, "properties"), name), &inside, findings);
    }
    for junctor in ["allOf", "oneOf", "anyOf"] {
        for (position, nested) in schema.get(junctor).and_then(Value::as_array).into_iter().flatten().enumerate() {
            if let Some(nested) = nested.as_object() {
                walk(nested, &index(&child(path, junctor), position), &below, findings);
            }
        }
    }
    for single in ["not", "items"] {
        if let Some(nested) = schema.get(single).and_then(Value::as_object) {
            walk(nested, &child(path, single), &below, findings);
        }
    }
}

fn keywords(schema: &Map<String, Value>, path: &str, around: &Surroundings, findings: &mut Vec<FieldError>) {
    let json_type = text(schema, "type");
    if !json_type.is_empty() && !TYPES.contains(&json_type) {
        findings.push(FieldError::not_supported(child(path, "type"), &Value::from(json_type), &TYPES));
    }
    if json_type == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        findings.push(FieldError::forbidden(child(path, "type"), detail));
    }
    if let Some(reason) = around.no_defaults.as_ref().filter(|_| schema.contains_key("default")) {
        findings.push(FieldError::forbidden(child(path, "default"), format!("must not be set {reason}")));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.get(name).is_some_and(|value| !value.is_null() && value != "") {
            findings.push(FieldError::forbidden(child(path, name), format!("{name} is not supported")));
        }
    }
    if schema.get("items").is_some_and(Value::is_array) {
        findings.push(FieldError::forbidden(child(path, "items"), "items must be a schema object and not an array"));
    }
    if around.inside_metadata && flag(schema, "x-kubernetes-embedded-resource") {
        let place = child(path, "x-kubernetes-embedded-resource");
        findings.push(FieldError::forbidden(place, "must not be used inside of resource meta"));
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        findings.push(FieldError::forbidden(child(path, "uniqueItems"), detail));
    }
    let free_keys = schema.get("additionalProperties").is_some_and(|a| !a.is_null() && *a != Value::Bool(true));
    if free_keys && schema.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty()) {
        let detail = "additionalProperties and properties are mutual exclusive";
        findings.push(FieldError::forbidden(child(path, "additionalProperties"), detail));
    }
}

/// `type` must be `wanted`, or else the finding says since which extension asks for it.
fn demand_type(schema: &Map<String, Value>, path: &str, wanted: &str, why: &str, findings: &mut Vec<FieldError>) {
    let json_type = text(schema, "type");
    let detail = format!("must be {wanted} if {why} is specified");
    if json_type.is_empty() {
        findings.push(FieldError::required(child(path, "type"), detail));
    } else if json_type != wanted {
        findings.push(FieldError::invalid(child(path, "type"), &Value::from(json_type), detail));
    }
}

fn extensions(schema: &Map<String, Value>, path: &str, findings: &mut Vec<FieldError>) {
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let place = child(path, "x-kubernetes-preserve-unknown-fields");
        findings.push(FieldError::invalid(place, &Value::Bool(false), "must be true or undefined"));
    }
    if let Some(map_type) = schema.get("x-kubernetes-map-type") {
        demand_type(schema, path, "object", "x-kubernetes-map-type", findings);
        let known = ["atomic", "granular"];
        if !map_type.as_str().is_some_and(|name| known.contains(&name)) {
            findings.push(FieldError::not_supported(child(path, "x-kubernetes-map-type"), map_type, &known));
        }
    }
}

fn list_type(schema: &Map<String, Value>, path: &str, findings: &mut Vec<FieldError>) {
    let place = child(path, "x-kubernetes-list-type");
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let has_keys = keys.is_some_and(|keys| !keys.is_empty());
    let Some(given) = schema.get("x-kubernetes-list-type") else {
        if has_keys {
            findings.push(FieldError::required(place, "must be map if x-kubernetes-list-map-keys is non-empty"));
        }
        return;
    };
    let before = findings.len();
    demand_type(schema, path, "array", "x-kubernetes-list-type", findings);
    let name = given.as_str().unwrap_or_default();
    if before == findings.len() && name == "set" {
        items_of_a_set(schema, path, findings);
    }
    let known = ["atomic", "set", "map"];
    if !known.contains(&name) {
        findings.push(FieldError::not_supported(place.clone(), given, &known));
    }
    if has_keys && name != "map" {
        findings.push(FieldError::invalid(place, given, "must be map if x-kubernetes-list-map-keys is non-empty"));
    }
    if name == "map" {
        items_of_a_map(schema, path, keys.map(Vec::as_slice).unwrap_or_default(), findings);
    }
}

/// A set compares whole items, so an item that could be merged field by field makes no sense in it.
fn items_of_a_set(schema: &Map<String, Value>, path: &str, findings: &mut Vec<FieldError>) {
    let Some(items) = schema.get("items").and_then(Value::as_object) else { return };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get("x-kubernetes-list-type").unwrap_or(&Value::Null);
    let place = |name: &str| child(&child(path, "items"), name);
    match text(items, "type") {
        "array" if !list_type.is_null() && list_type != "atomic" => {
            findings.push(FieldError::invalid(place("x-kubernetes-list-type"), list_type, detail));
        }
        // The list type is what the real server prints here, too.
        "object" if text(items, "x-kubernetes-map-type") != "atomic" => {
            findings.push(FieldError::invalid(place("x-kubernetes-map-type"), list_type, detail));
        }
        _ => {}
    }
}

fn items_of_a_map(schema: &Map<String, Value>, path: &str, keys: &[Value], findings: &mut Vec<FieldError>) {
    let keys_place = child(path, "x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        findings.push(FieldError::required(keys_place.clone(), detail));
    }
    let Some(items) = schema.get("items").and_then(Value::as_object) else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        findings.push(FieldError::required(child(path, "items"), detail));
        return;
    };
    let items_path = child(path, "items");
    let item_type = Value::from(text(items, "type"));
    if item_type != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        findings.push(FieldError::invalid(child(&items_path, "type"), &item_type, detail));
        return;
    }
    let mut seen = BTreeSet::new();
    for name in keys.iter().filter_map(Value::as_str) {
        match items.get("properties").and_then(|all| all.get(name)).and_then(Value::as_object) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let place = child(&key(&child(&items_path, "properties"), name), "type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                findings.push(FieldError::invalid(place, &item_type, detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                findings.push(FieldError::invalid(keys_place.clone(), &Value::from(keys), detail));
            }
        }
        if !seen.insert(name) {
            let detail = "must not contain duplicate entries";
            findings.push(FieldError::invalid(keys_place.clone(), &Value::from(keys), detail));
        }
    }
}

/// Items of sets and maps are told apart by their keys, so those can be neither null nor absent.
fn keys_of_maps(schema: &Map<String, Value>, path: &str, findings: &mut Vec<FieldError>) {
    let list_type = text(schema, "x-kubernetes-list-type");
    let Some(items) = schema.get("items").and_then(Value::as_object) else { return };
    if list_type != "set" && list_type != "map" {
        return;
    }
    let items_path = child(path, "items");
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        findings.push(FieldError::forbidden(child(&items_path, "nullable"), detail));
    }
    if list_type == "set" {
        return;
    }
    let required: Vec<&str> =
        items.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
    for name in keys.filter_map(Value::as_str) {
        let Some(property) = items.get("properties").and_then(|all| all.get(name)).and_then(Value::as_object) else {
            continue;
        };
        let place = key(&child(&items_path, "properties"), name);
        if !required.contains(&name) && !property.contains_key("default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            findings.push(FieldError::required(child(&place, "default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            findings.push(FieldError::forbidden(child(&place, "nullable"), detail));
        }
    }
}

fn rules(schema: &Map<String, Value>, path: &str, findings: &mut Vec<FieldError>) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for (position, rule) in rules.into_iter().flatten().enumerate() {
        let place = index(&child(path, "x-kubernetes-validations"), position);
        let field = |name: &str| rule[name].as_str().unwrap_or_default();
        let blank = |name: &str| !field(name).is_empty() && field(name).trim().is_empty();
        let broken = |text: &str| text.contains(['\n', '\r']);
        if field("rule").trim().is_empty() {
            findings.push(FieldError::required(child(&place, "rule"), "rule is not specified"));
        } else if blank("message") {
            let detail = "must be non-empty if specified";
            findings.push(FieldError::invalid(child(&place, "message"), &rule["message"], detail));
        } else if broken(field("message").trim()) {
            let detail = "must not contain line breaks";
            findings.push(FieldError::invalid(child(&place, "message"), &rule["message"], detail));
        } else if broken(field("rule").trim()) && field("message").is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            findings.push(FieldError::required(child(&place, "message"), detail));
        }
        if blank("messageExpression") {
            let detail = "messageExpression must be non-empty if specified";
            findings.push(FieldError::required(child(&place, "messageExpression"), detail));
        }
        if !rule["reason"].is_null() && !REASONS.contains(&field("reason")) {
            findings.push(FieldError::not_supported(child(&place, "reason"), &rule["reason"], &REASONS));
        }
        let field_path_place = child(&place, "fieldPath");
        if blank("fieldPath") {
            let detail = "must be non-empty if specified";
            findings.push(FieldError::invalid(field_path_place.clone(), &rule["fieldPath"], detail));
        }
        if broken(field("fieldPath")) {
            let detail = "must not contain line breaks";
            findings.push(FieldError::invalid(field_path_place.clone(), &rule["fieldPath"], detail));
        }
        if !field("fieldPath").is_empty() && field_path::normalized(field("fieldPath"), schema).is_none() {
            findings.push(FieldError::invalid(field_path_place, &rule["fieldPath"], "must be a valid path"));
        }
    }
}
