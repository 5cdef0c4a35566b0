//! The rules for structural schemas: every field typed, no structure inside junctors, metadata unrestricted. Works on the
//! raw JSON of the schema.

use serde_json::{Map, Value};

use super::path::{child, index, key};
use super::pattern::go_regex;
use crate::field::FieldError;

/// All violations of the structural rules in the schema at `path`.
pub(super) fn check(path: &str, root: &Value) -> Vec<FieldError> {
    let mut findings = Vec::new();
    invariants(root, Level::Root, path, &mut findings);
    if let Some(schema) = root.as_object() {
        completeness(schema, Some(schema), path, path, &mut findings);
    }
    findings
}

/// Whether the schema or one inside it uses a keyword that no structural schema can have.
pub(super) fn has_foreign_keywords(schema: &Map<String, Value>) -> bool {
    const FOREIGN: [&str; 7] =
        ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let set = |name: &&str| schema.get(*name).is_some_and(|value| !is_empty(value));
    let below = entries(schema, "properties").map(|(_, nested)| nested);
    let below = below.chain(["items", "additionalProperties", "not"].into_iter().filter_map(|name| schema.get(name)));
    let mut below = below.chain(["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| list(schema, name)));
    FOREIGN.iter().any(set)
        || schema.get("items").is_some_and(Value::is_array)
        || schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false))
        || below.any(|nested| nested.as_object().is_some_and(has_foreign_keywords))
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

fn text<'a>(schema: &'a Map<String, Value>, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn entries<'a>(schema: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(name).and_then(Value::as_object).into_iter().flatten()
}

fn list<'a>(schema: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn has_properties(schema: &Map<String, Value>) -> bool {
    entries(schema, "properties").next().is_some()
}

fn invariants(source: &Value, level: Level, path: &str, findings: &mut Vec<FieldError>) {
    let empty = Map::new();
    let schema = source.as_object().unwrap_or(&empty);
    let items = schema.get("items").filter(|items| items.is_object());
    if text(schema, "type") == "array" && items.is_none() {
        findings.push(FieldError::required(child(path, "items"), "must be specified"));
    }
    if let Some(items) = items {
        invariants(items, Level::Item, &child(path, "items"), findings);
    }
    for (name, property) in entries(schema, "properties") {
        invariants(property, Level::Field, &key(&child(path, "properties"), name), findings);
    }
    if let Some(additional) = schema.get("additionalProperties").filter(|a| !a.is_null()) {
        if level == Level::Root {
            findings.push(FieldError::forbidden(child(path, "additionalProperties"), "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &child(path, "additionalProperties"), findings);
        }
    }
    extension_conflicts(schema, path, findings);
    value_validation(
        schema,
        is_int_or_string(schema.get("anyOf")),
        first_all_of_is_int_or_string(schema),
        path,
        findings,
    );
    types(schema, level, path, findings);
    metadata(schema, level, path, findings);
}

fn extension_conflicts(schema: &Map<String, Value>, path: &str, findings: &mut Vec<FieldError>) {
    if flag(schema, "x-kubernetes-int-or-string") {
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if flag(schema, name) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                findings.push(FieldError::invalid(child(path, name), &Value::Bool(true), detail));
            }
        }
    }
}

fn types(schema: &Map<String, Value>, level: Level, path: &str, findings: &mut Vec<FieldError>) {
    let json_type = text(schema, "type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let preserving = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let place = child(path, "type");
    if embedded && json_type != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        findings.push(if json_type.is_empty() {
            FieldError::required(place.clone(), detail)
        } else {
            FieldError::invalid(place.clone(), &Value::from(json_type), detail)
        });
    } else if json_type.is_empty() && !flag(schema, "x-kubernetes-int-or-string") && !preserving {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        findings.push(FieldError::required(place.clone(), detail));
    }
    if embedded && schema.contains_key("additionalProperties") {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        findings.push(FieldError::forbidden(child(path, "additionalProperties"), detail));
    }
    if level == Level::Root && !json_type.is_empty() && json_type != "object" {
        findings.push(FieldError::invalid(place, &Value::from(json_type), "must be object at the root"));
    }
    if embedded && !preserving && !has_properties(schema) {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        findings.push(FieldError::required(child(path, "properties"), detail));
    }
}

/// Kubernetes owns `metadata`: a schema may only narrow its name and generateName.
fn metadata(schema: &Map<String, Value>, level: Level, path: &str, findings: &mut Vec<FieldError>) {
    let resource = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    let property = |name: &str| schema.get("properties").and_then(|all| all.get(name)).and_then(Value::as_object);
    let place = |name: &str| key(&child(path, "properties"), name);
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        if let Some(found) = property(name).map(|p| text(p, "type")).filter(|found| resource && *found != wanted) {
            let detail = format!("must be {wanted}");
            findings.push(FieldError::invalid(child(&place(name), "type"), &Value::from(found), detail));
        }
    }
    if level != Level::Root {
        return;
    }
    let Some(meta) = property("metadata") else { return };
    let only_names = entries(meta, "properties").all(|(name, _)| name == "name" || name == "generateName");
    let nothing_else = meta.iter().all(|(name, value)| match name.as_str() {
        "type" | "properties" | "default" => true,
        _ => value.is_null() || *value == Value::Bool(false) || value == "",
    });
    if !only_names || !nothing_else {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        findings.push(FieldError::forbidden(place("metadata"), detail));
    }
}

fn is_int_or_string(any_of: Option<&Value>) -> bool {
    let plain = |value: &Value, wanted: &str| {
        value.as_object().is_some_and(|schema| schema.len() == 1 && text(schema, "type") == wanted)
    };
    matches!(any_of.and_then(Value::as_array).map(Vec::as_slice), Some([a, b]) if plain(a, "integer") && plain(b, "string"))
}

fn first_all_of_is_int_or_string(schema: &Map<String, Value>) -> bool {
    list(schema, "allOf").next().is_some_and(|first| is_int_or_string(first.get("anyOf")))
}

/// Checks the junctors of one schema. The two ways to write int-or-string are let through.
fn value_validation(
    schema: &Map<String, Value>,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &str,
    findings: &mut Vec<FieldError>,
) {
    for junctor in ["anyOf", "allOf", "oneOf"] {
        if junctor == "anyOf" && skip_any_of {
            continue;
        }
        for (position, nested) in list(schema, junctor).enumerate() {
            let skip = junctor == "allOf" && skip_first_all_of && position == 0;
            nested_validation(nested, skip, &index(&child(path, junctor), position), findings);
        }
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        nested_validation(not, false, &child(path, "not"), findings);
    }
    let pattern = text(schema, "pattern");
    if let Some(error) = (!pattern.is_empty()).then(|| go_regex(pattern).err()).flatten() {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        findings.push(FieldError::invalid(child(path, "pattern"), &Value::from(pattern), detail));
    }
}

/// Keywords that are forbidden inside a junctor, with the wording of Kubernetes.
const FORBIDDEN_WHEN_NESTED: [(&str, &str); 13] = [
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
];

fn nested_validation(source: &Value, skip_any_of: bool, path: &str, findings: &mut Vec<FieldError>) {
    let Some(schema) = source.as_object() else { return };
    value_validation(schema, skip_any_of, false, path, findings);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        nested_validation(items, false, &child(path, "items"), findings);
    }
    for (name, property) in entries(schema, "properties") {
        nested_validation(property, false, &key(&child(path, "properties"), name), findings);
    }
    for (name, wanted) in FORBIDDEN_WHEN_NESTED {
        let given = match schema.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => wanted == "undefined" || !text.is_empty(),
            Some(Value::Array(all)) => wanted == "undefined" || !all.is_empty(),
            Some(_) => true,
        };
        if given {
            findings.push(FieldError::forbidden(child(path, name), format!("must be {wanted} to be structural")));
        }
    }
    if entries(schema, "properties").any(|(name, _)| name == "metadata") {
        let place = key(&child(path, "properties"), "metadata");
        findings.push(FieldError::forbidden(place, "must not be specified in a nested context"));
    }
}

/// Fields that a junctor names must also exist in the structure itself.
fn completeness(
    nested: &Map<String, Value>,
    structure: Option<&Map<String, Value>>,
    structure_path: &str,
    nested_path: &str,
    findings: &mut Vec<FieldError>,
) {
    let mut junctors: Vec<(String, &Value)> = Vec::new();
    if let Some(not) = nested.get("not") {
        junctors.push((child(nested_path, "not"), not));
    }
    for junctor in ["allOf", "anyOf", "oneOf"] {
        let places = list(nested, junctor).enumerate();
        junctors.extend(places.map(|(position, value)| (index(&child(nested_path, junctor), position), value)));
    }
    for (place, value) in junctors {
        nested_completeness(value, structure, structure_path, &place, findings);
    }
}

fn nested_completeness(
    source: &Value,
    structure: Option<&Map<String, Value>>,
    structure_path: &str,
    nested_path: &str,
    findings: &mut Vec<FieldError>,
) {
    let Some(nested) = source.as_object() else { return };
    let Some(structure) = structure else {
        let detail = format!("because it is defined in {nested_path}");
        findings.push(FieldError::required(structure_path, detail));
        return;
    };
    completeness(nested, Some(structure), structure_path, nested_path, findings);
    if let Some(items) = nested.get("items") {
        let counterpart = structure.get("items").and_then(Value::as_object);
        let places = (child(structure_path, "items"), child(nested_path, "items"));
        nested_completeness(items, counterpart, &places.0, &places.1, findings);
    }
    for (name, property) in entries(nested, "properties") {
        let counterpart = structure.get("properties").and_then(|all| all.get(name)).and_then(Value::as_object);
        let places = (key(&child(structure_path, "properties"), name), key(&child(nested_path, "properties"), name));
        nested_completeness(property, counterpart, &places.0, &places.1, findings);
    }
}
