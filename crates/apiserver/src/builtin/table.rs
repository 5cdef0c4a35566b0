//! Reads `schemas.json`: one definition per line, parsed on first use.
//!
//! The file has the facts of the Kubernetes OpenAPI documents and Go struct tags. `cargo xtask codegen-builtin` writes
//! it. `Raw` explains the short keys.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

static TEXT: &str = include_str!("schemas.json");

/// How Go encodes a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// Optional pointer: written as it is, left out when absent.
    Pointer,
    /// `omitempty`: left out when it holds its zero value.
    OmitZero,
    /// Always written, with its zero value when absent.
    Always,
    /// Pointer that is always written: `null` when absent.
    Null,
}

/// The shape of a value.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Text,
    Bytes,
    Integer {
        bits: u8,
    },
    Number,
    Bool,
    Quantity,
    Time,
    MicroTime,
    IntOrText,
    /// Arbitrary JSON.
    Anything,
    List(Box<Shape>),
    Map(Box<Shape>),
    Struct(&'static Definition),
    /// JSON schema, or a list of them, or a scalar: the union types inside CustomResourceDefinitions.
    SchemaUnion(&'static Definition),
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) shape: Shape,
    pub(super) wire: Wire,
    pub(super) default: Option<Value>,
}

#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    text: &'static str,
    raw: OnceLock<Value>,
    fields: OnceLock<BTreeMap<String, Field>>,
    added: OnceLock<Vec<(&'static str, &'static Field)>>,
}

impl Definition {
    /// The line as JSON: `t` type, `f` format, `$` reference, `p` properties, `r` required, `i` items, `a` values of a
    /// map, `l` list type, `k` list map keys, `m` map type, `s` patch strategy, `y` merge key, `d` default, `e` enum,
    /// `g` group-version-kinds, `u` unions, `w` wire class (`z` always, `o` omit zero, `n` null). A string stands for
    /// `type/format|wire` or `$reference|wire`.
    pub(super) fn raw(&self) -> &Value {
        self.raw.get_or_init(|| serde_json::from_str(self.text).unwrap_or(Value::Null))
    }

    pub(super) fn fields(&'static self) -> &'static BTreeMap<String, Field> {
        self.fields.get_or_init(|| {
            let properties = self.raw().get("p").and_then(Value::as_object);
            properties.into_iter().flatten().map(|(name, value)| (name.clone(), field(value))).collect()
        })
    }

    /// The fields that an object gets even if it does not bring them: by a default, or because Go always writes them.
    /// They are few, and looking for each of the others in every object would cost more than all else.
    pub(super) fn added(&'static self) -> &'static [(&'static str, &'static Field)] {
        self.added.get_or_init(|| {
            let is_added = |field: &Field| matches!(field.wire, Wire::Always | Wire::Null) || field.default.is_some();
            let fields = self.fields().iter().filter(|(_, field)| is_added(field));
            fields.map(|(name, field)| (name.as_str(), field)).collect()
        })
    }

    /// The last part of the name: the Go type.
    pub(super) fn go_type(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

/// One node of the file with its string form taken apart.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Raw<'a> {
    pub(super) reference: Option<&'a str>,
    pub(super) kind: Option<&'a str>,
    pub(super) format: Option<&'a str>,
    pub(super) wire: Option<&'a str>,
    /// The whole node where it is written as an object.
    pub(super) object: Option<&'a Value>,
}

impl<'a> Raw<'a> {
    pub(super) fn of(value: &'a Value) -> Self {
        let Value::String(text) = value else {
            let get = |key: &str| value.get(key).and_then(Value::as_str);
            return Raw { reference: get("$"), kind: get("t"), format: get("f"), wire: get("w"), object: Some(value) };
        };
        let (head, wire) = text.split_once('|').map_or((text.as_str(), None), |(head, wire)| (head, Some(wire)));
        if let Some(name) = head.strip_prefix('$') {
            return Raw { reference: Some(name), wire, ..Raw::default() };
        }
        let (kind, format) = head.split_once('/').map_or((head, None), |(kind, format)| (kind, Some(format)));
        Raw { kind: Some(kind), format, wire, ..Raw::default() }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.and_then(|object| object.get(key))
    }
}

/// Looks a definition up by its full name.
pub(super) fn definition(name: &str) -> Option<&'static Definition> {
    definitions().get(name)
}

pub(super) fn definitions() -> &'static BTreeMap<&'static str, Definition> {
    static INDEX: OnceLock<BTreeMap<&'static str, Definition>> = OnceLock::new();
    INDEX.get_or_init(|| TEXT.lines().filter_map(parse_line).collect())
}

fn parse_line(line: &'static str) -> Option<(&'static str, Definition)> {
    let (name, text) = line.strip_prefix('"')?.split_once("\":")?;
    let text = text.strip_suffix(',').unwrap_or(text);
    Some((name, Definition { name, text, raw: OnceLock::new(), fields: OnceLock::new(), added: OnceLock::new() }))
}

fn field(value: &Value) -> Field {
    let raw = Raw::of(value);
    let wire = match raw.wire {
        Some("z") => Wire::Always,
        Some("o") => Wire::OmitZero,
        Some("n") => Wire::Null,
        _ => Wire::Pointer,
    };
    Field { shape: shape(value), wire, default: raw.get("d").cloned() }
}

fn shape(value: &Value) -> Shape {
    let raw = Raw::of(value);
    if let Some(name) = raw.reference {
        return referenced(name);
    }
    match (raw.kind, raw.format) {
        (Some("s"), Some("byte")) => Shape::Bytes,
        (Some("s"), _) => Shape::Text,
        (Some("i"), Some("int32")) => Shape::Integer { bits: 32 },
        (Some("i"), _) => Shape::Integer { bits: 64 },
        (Some("n"), _) => Shape::Number,
        (Some("b"), _) => Shape::Bool,
        (Some("a"), _) => Shape::List(Box::new(raw.get("i").map_or(Shape::Anything, shape))),
        (Some("o"), _) => raw.get("a").map_or(Shape::Anything, |values| Shape::Map(Box::new(shape(values)))),
        _ => Shape::Anything,
    }
}

fn referenced(name: &str) -> Shape {
    let Some(target) = definition(name) else { return Shape::Anything };
    match target.go_type() {
        "Quantity" => Shape::Quantity,
        "Time" => Shape::Time,
        "MicroTime" => Shape::MicroTime,
        "IntOrString" => Shape::IntOrText,
        "RawExtension" | "FieldsV1" | "JSON" | "JSONSchemaPropsOrStringArray" => Shape::Anything,
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" => {
            let schema = target.name.replace(target.go_type(), "JSONSchemaProps");
            definition(&schema).map_or(Shape::Anything, Shape::SchemaUnion)
        }
        _ => Shape::Struct(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_parsed_and_every_reference_resolves() {
        assert!(definitions().len() > 500);
        for definition in definitions().values() {
            assert!(!definition.raw().is_null(), "{}", definition.name);
            let _ = definition.fields();
        }
        let text = TEXT.to_owned();
        for part in text.split("\"$io.").skip(1) {
            let name = part.split(['"', '|']).next().unwrap();
            assert!(definition(&format!("io.{name}")).is_some(), "{name}");
        }
    }

    #[test]
    fn wire_classes_follow_the_go_tags() {
        let spec = definition("io.k8s.api.apps.v1.DeploymentSpec").unwrap().fields();
        assert_eq!(spec["replicas"].wire, Wire::Pointer);
        assert_eq!(spec["minReadySeconds"].wire, Wire::OmitZero);
        assert_eq!(spec["template"].wire, Wire::Always);
        assert_eq!(spec["selector"].wire, Wire::Null);
    }
}
