//! Validates a value against its schema, with kube-apiserver's messages.
//!
//! Checks types, value constraints, junctors, list uniqueness and embedded resources; CEL rules are in `cel`. With an old
//! value, errors of unchanged parts are ignored (ratcheting).

mod constraints;

use serde_json::Value;

use super::path::{child, index, shown};
use super::{JsonType, KeyedItems, ListType, Logic, Node, Schema, embedded, formats, uniqueness};
use crate::field::FieldError;

pub(crate) use constraints::go_number;

/// All findings about `value`, which is a whole object; `old` is what it replaces.
pub(crate) fn validate(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut findings = validate_at("", schema, value, old);
    embedded::check("", schema, value, false, &mut findings);
    // A list that was already ambiguous may stay so.
    if old.is_none_or(|old| uniqueness::check("", schema, old).is_empty()) {
        findings.extend(uniqueness::check("", schema, value));
    }
    findings
}

/// As `validate`, after a write that could change nothing but `status`. Embedded objects in it are not looked into.
pub(crate) fn validate_status(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut findings = Vec::new();
    if let (Some(part), Some(status)) = (schema.properties.get("status"), value.get("status")) {
        findings = validate_at("status", part, status, old.and_then(|old| old.get("status")));
    }
    if old.is_none_or(|old| uniqueness::check("", schema, old).is_empty()) {
        findings.extend(uniqueness::check("", schema, value));
    }
    findings
}

/// Checks only types and value constraints of a value at the path `prefix`.
pub(crate) fn validate_at(prefix: &str, schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let correlated = old.map(|old| Correlated { schema, old });
    Walker { prefix }.ratcheted("", schema, value, correlated).findings
}

/// The old counterpart of a value, with the schema by which its parts are matched.
#[derive(Clone, Copy)]
struct Correlated<'a> {
    schema: &'a Schema,
    old: &'a Value,
}

impl<'a> Correlated<'a> {
    fn field(self, name: &str) -> Option<Self> {
        let old = self.old.as_object()?.get(name)?;
        Some(Self { schema: self.schema.field(name)?, old })
    }

    /// The old items of a list map, with their schema.
    fn items(self) -> Option<CorrelatedItems<'a>> {
        let schema = self.schema.items.as_ref()?;
        let ListType::Map(keys) = &self.schema.list_type else { return None };
        Some(CorrelatedItems { schema, old: KeyedItems::new(keys, self.old.as_array()?) })
    }
}

/// The old counterparts of the items of a list map.
struct CorrelatedItems<'a> {
    schema: &'a Schema,
    old: KeyedItems<'a, 'a>,
}

impl<'a> CorrelatedItems<'a> {
    fn of(&self, new: &Value) -> Option<Correlated<'a>> {
        Some(Correlated { schema: self.schema, old: self.old.find(new)? })
    }
}

/// Equality as ratcheting sees it: list maps in any order, and nothing equal where the schema is silent.
pub(crate) fn equal_by_schema(schema: &Schema, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(name, value)| {
                    let counterpart = old.get(name).zip(schema.field(name));
                    counterpart.is_some_and(|(old, schema)| equal_by_schema(schema, value, old))
                })
        }
        (Value::Array(new), Value::Array(old)) if new.len() == old.len() => match (&schema.list_type, &schema.items) {
            (ListType::Map(keys), Some(items)) => {
                let old = KeyedItems::new(keys, old);
                new.iter().all(|value| old.find(value).is_some_and(|old| equal_by_schema(items, value, old)))
            }
            _ => new == old,
        },
        _ => new == old,
    }
}

/// Findings, and how much of the schema was looked at: of several failed alternatives the one that got furthest is shown.
#[derive(Default)]
struct AlternativeResult {
    findings: Vec<FieldError>,
    matches: usize,
}

impl AlternativeResult {
    fn merge(&mut self, other: AlternativeResult) {
        self.findings.extend(other.findings);
        self.matches += other.matches;
    }
}

struct Walker<'a> {
    prefix: &'a str,
}

impl Walker<'_> {
    /// The whole path of the part called `name`, which is relative to the prefix.
    fn place(&self, name: &str) -> String {
        let name = name.trim_start_matches('.');
        shown(&if name.is_empty() { self.prefix.to_owned() } else { child(self.prefix, name) })
    }

    fn ratcheted(&self, name: &str, schema: &Schema, value: &Value, old: Option<Correlated<'_>>) -> AlternativeResult {
        let mut outcome = self.check(name, schema, value, old);
        if !outcome.findings.is_empty() && old.is_some_and(|old| equal_by_schema(old.schema, value, old.old)) {
            outcome.findings.clear();
        }
        outcome
    }

    fn check(&self, name: &str, schema: &Schema, value: &Value, old: Option<Correlated<'_>>) -> AlternativeResult {
        let mut outcome = AlternativeResult::default();
        let fault = self.type_fault(name, schema, value);
        let has_type = schema.json_type != JsonType::Any || schema.int_or_string;
        outcome.matches += usize::from(fault.is_none()) + usize::from(has_type);
        outcome.findings.extend(fault);
        if value.is_null() {
            outcome.findings.extend(constraints::allowed(self, name, schema, value));
            return outcome;
        }
        outcome.merge(self.junctors(name, &schema.logic, value, old));
        match value {
            Value::String(text) => {
                outcome.findings.extend(constraints::text(self, name, schema, text));
                outcome.findings.extend(formats::fault(schema).and_then(|format| {
                    (!format.accepts(text)).then(|| self.wrong_type(name, format.name, &Value::from(text.as_str())))
                }));
            }
            Value::Number(number) => outcome.findings.extend(constraints::number(self, name, schema, number)),
            Value::Array(items) => outcome.merge(self.items(name, schema, items, old)),
            _ => {}
        }
        outcome.findings.extend(constraints::allowed(self, name, schema, value));
        outcome.matches += 3;
        if let Value::Object(fields) = value {
            outcome.merge(self.fields(name, schema, fields, old));
        }
        outcome
    }

    /// `Invalid value: "string": spec.replicas in body must be of type integer: "string"`.
    fn wrong_type(&self, name: &str, wanted: &str, found: &Value) -> FieldError {
        let shown_value = crate::field::printed(found);
        let detail = format!("{name} in body must be of type {wanted}: {shown_value}");
        FieldError::type_invalid(self.place(name), found, detail)
    }

    fn type_fault(&self, name: &str, schema: &Schema, value: &Value) -> Option<FieldError> {
        let found = type_name(value);
        let (wanted, fits) = if schema.int_or_string {
            ("integer,string", matches!(found, "string" | "integer") || is_whole(value))
        } else {
            let fits = match schema.json_type {
                JsonType::Any => true,
                JsonType::Integer => found == "integer" || is_whole(value),
                JsonType::Number => matches!(found, "integer" | "number"),
                other => other.name() == found,
            };
            (schema.json_type.name(), fits)
        };
        let untyped = schema.json_type == JsonType::Any && !schema.int_or_string;
        if fits || (value.is_null() && (schema.nullable || untyped)) {
            return None;
        }
        // With a format the real server names the formats, not the types, of anything but strings, lists and null.
        if let (Some(format), false) = (formats::fault(schema), matches!(value, Value::Array(_) | Value::Null)) {
            let found_format = match found {
                "integer" => "int64",
                "number" => "float64",
                _ => "",
            };
            return Some(self.wrong_type(name, format.name, &Value::from(found_format)));
        }
        Some(self.wrong_type(name, wanted, &Value::from(found)))
    }

    fn items(&self, name: &str, schema: &Schema, items: &[Value], old: Option<Correlated<'_>>) -> AlternativeResult {
        let mut outcome = AlternativeResult { matches: 1, ..AlternativeResult::default() };
        if let Some(item_schema) = &schema.items {
            let counterparts = old.and_then(Correlated::items);
            for (position, item) in items.iter().enumerate() {
                let counterpart = counterparts.as_ref().and_then(|old| old.of(item));
                outcome.merge(self.ratcheted(&index(name, position), item_schema, item, counterpart));
            }
        }
        outcome.findings.extend(constraints::list(self, name, schema, items));
        outcome
    }

    fn fields(
        &self,
        name: &str,
        schema: &Schema,
        fields: &serde_json::Map<String, Value>,
        old: Option<Correlated<'_>>,
    ) -> AlternativeResult {
        let mut outcome =
            AlternativeResult { findings: constraints::properties(self, name, schema, fields.len()), matches: 0 };
        for (key, value) in fields {
            let Some(schema) = schema.field(key) else { continue };
            // The stored object does not show version and kind of the request, so their errors are always reported.
            let type_meta = name.is_empty() && (key == "apiVersion" || key == "kind");
            let counterpart = old.filter(|_| !type_meta).and_then(|old| old.field(key));
            outcome.merge(self.ratcheted(&child(name, key), schema, value, counterpart));
        }
        for key in schema.required.iter().filter(|key| !fields.contains_key(*key)) {
            outcome.findings.push(FieldError::required(self.place(&child(name, key)), ""));
        }
        outcome
    }

    fn junctors(&self, name: &str, logic: &Logic, value: &Value, old: Option<Correlated<'_>>) -> AlternativeResult {
        let mut outcome = AlternativeResult { matches: 1, ..AlternativeResult::default() };
        let fail = |detail: String| FieldError::invalid(shown(self.prefix), &Value::from(""), detail);
        if !logic.any_of.is_empty() {
            let (passed, best) = self.alternatives(name, &logic.any_of, value, old);
            if passed == 0 {
                outcome.findings.push(fail(format!("{name:?} must validate at least one schema (anyOf)")));
            }
            outcome.merge(best);
        }
        if !logic.one_of.is_empty() {
            let (passed, best) = self.alternatives(name, &logic.one_of, value, old);
            if passed != 1 {
                let found = if passed == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {passed} valid alternatives")
                };
                outcome.findings.push(fail(format!("{name:?} must validate one and only one schema (oneOf). {found}")));
            }
            outcome.merge(best);
        }
        if !logic.all_of.is_empty() {
            let results: Vec<AlternativeResult> =
                logic.all_of.iter().map(|node| self.check(name, node, value, old)).collect();
            let passed = results.iter().filter(|result| result.findings.is_empty()).count();
            let all = results.len();
            for result in results {
                outcome.merge(result);
            }
            if passed != all {
                let none = if passed == 0 { ". None validated" } else { "" };
                outcome.findings.push(fail(format!("{name:?} must validate all the schemas (allOf){none}")));
            }
        }
        if logic.not.as_ref().is_some_and(|node| self.check(name, node, value, old).findings.is_empty()) {
            outcome.findings.push(fail(format!("{name:?} must not validate the schema (not)")));
        }
        outcome
    }

    /// How many alternatives hold, and the outcome to report: the first that holds, or the one that got furthest.
    fn alternatives(
        &self,
        name: &str,
        nodes: &[Node],
        value: &Value,
        old: Option<Correlated<'_>>,
    ) -> (usize, AlternativeResult) {
        let mut passed = 0;
        let mut best: Option<AlternativeResult> = None;
        for node in nodes {
            let outcome = self.check(name, node, value, old);
            if outcome.findings.is_empty() {
                passed += 1;
                best = if passed == 1 { Some(outcome) } else { best };
            } else if passed == 0 && best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
                best = Some(outcome);
            }
        }
        (passed, best.unwrap_or_default())
    }
}

impl JsonType {
    /// The type as a schema spells it; empty for `Any`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            JsonType::Any => "",
            JsonType::Object => "object",
            JsonType::Array => "array",
            JsonType::String => "string",
            JsonType::Integer => "integer",
            JsonType::Number => "number",
            JsonType::Boolean => "boolean",
        }
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_i64().is_some() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A number with a decimal point that is a whole number all the same, as `3.0`.
fn is_whole(value: &Value) -> bool {
    /// Beyond this a double no longer tells neighbouring integers apart.
    const LARGEST_EXACT: f64 = 9_007_199_254_740_991.0;
    value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() <= LARGEST_EXACT)
}

#[cfg(test)]
mod tests;
