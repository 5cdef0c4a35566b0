//! Defaults of built-in kinds.
//!
//! Defaults belong to the type of a field, so that a container gets the same defaults in a Pod and inside a CronJob.
//! Constant ones are in `constants`, the others are small functions per type. Values that depend on the cluster are set
//! in `prepare`.

mod constants;
mod core;
mod other;
mod workloads;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};

pub(super) use self::workloads::{DEFAULT_CPU_PERCENT, TEMPLATE_GENERATION, cpu_utilization};

use self::constants::Constant;
use super::table::{self, Definition, Shape, Wire};
use super::values::{Object, put};
use super::{BuiltinKind, wire};

/// A rule for objects of one type.
type Rule = fn(&mut Object);

#[derive(Default)]
struct Defaults {
    rule: Option<Rule>,
    constants: &'static [(&'static str, Constant)],
}

/// Brings an object into the form in which kube-apiserver would hold it: read as Go reads, defaulted, written as Go
/// writes. The error is the text of Go's JSON decoder for a value of the wrong type. Doing it twice changes nothing.
pub(crate) fn default(kind: &BuiltinKind, object: &mut Value) -> Result<(), String> {
    default_definition(kind.definition, object)
}

/// The encoding of an empty object of this kind in Go.
pub(crate) fn blank(kind: &BuiltinKind) -> Option<&'static Value> {
    static BLANKS: OnceLock<BTreeMap<&'static str, Value>> = OnceLock::new();
    let blanks = BLANKS.get_or_init(|| {
        let of = |row: &BuiltinKind| Some((row.definition, blank_definition(row.definition)?));
        super::kinds().iter().filter_map(of).collect()
    });
    blanks.get(kind.definition)
}

/// As `blank`, for a type that is no kind of its own.
pub(crate) fn blank_definition(name: &str) -> Option<Value> {
    let mut empty = Object::new();
    wire::write(table::definition(name)?, &mut empty);
    Some(Value::Object(empty))
}

/// As `default`, for a type that is no kind of its own, such as `io.k8s.api.authentication.v1.TokenRequest`.
pub(crate) fn default_definition(name: &str, object: &mut Value) -> Result<(), String> {
    let Some(definition) = table::definition(name) else { return Ok(()) };
    wire::read(definition, object)?;
    if let Value::Object(object) = object {
        walk(definition, object);
        wire::write(definition, object);
    }
    Ok(())
}

fn rules() -> &'static BTreeMap<&'static str, Defaults> {
    static RULES: OnceLock<BTreeMap<&'static str, Defaults>> = OnceLock::new();
    RULES.get_or_init(|| {
        let mut out: BTreeMap<&'static str, Defaults> = BTreeMap::new();
        for (name, constants) in constants::CONSTANTS {
            out.entry(name).or_default().constants = constants;
        }
        for (name, rule) in core::RULES.iter().chain(workloads::RULES).chain(other::RULES) {
            out.entry(name).or_default().rule = Some(*rule);
        }
        out
    })
}

/// Applies the rules of a type from the outside in, as Go's generated defaulters do.
fn walk(definition: &'static Definition, object: &mut Object) {
    if let Some(defaults) = rules().get(definition.name) {
        if let Some(rule) = defaults.rule {
            rule(object);
        }
        for (name, constant) in defaults.constants {
            put(object, name, constant.value());
        }
    }
    for (name, field) in definition.added() {
        if let Some(value) = &field.default {
            put(object, name, value.clone());
        }
        if let (Wire::Always, Shape::Struct(_)) = (field.wire, &field.shape)
            && !object.contains_key(*name)
        {
            object.insert((*name).to_owned(), Value::Object(Map::new()));
        }
    }
    let fields = definition.fields();
    for (name, value) in object.iter_mut() {
        if let Some(field) = fields.get(name) {
            walk_shape(&field.shape, value);
        }
    }
}

fn walk_shape(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Struct(inner), Value::Object(object)) => walk(inner, object),
        (Shape::List(item), Value::Array(list)) => list.iter_mut().for_each(|value| walk_shape(item, value)),
        (Shape::Map(item), Value::Object(map)) => map.values_mut().for_each(|value| walk_shape(item, value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
