//! A built-in object after Go has decoded and encoded it.
//!
//! Determines which zero values are omitted, which fields always appear, how quantities and times are written, and which
//! JSON a typed decoder refuses. kube-apiserver keeps typed objects, so every object that it returns went through this.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_values::Quantity;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::table::{Definition, Shape, Wire};

/// Reads an object as Go would: zero values and nulls go, quantities and times become canonical. The error is the text
/// of Go's JSON decoder.
pub(super) fn read(definition: &'static Definition, object: &mut Value) -> Result<(), String> {
    let mut reader = Reader { path: Vec::new() };
    reader.structure(definition, object, definition.go_type())
}

/// Adds what Go writes even when it is zero.
pub(super) fn write(definition: &'static Definition, object: &mut Map<String, Value>) {
    let fields = definition.fields();
    for (name, value) in object.iter_mut() {
        if let Some(field) = fields.get(name) {
            write_shape(&field.shape, value);
        }
    }
    for (name, field) in definition.added() {
        if object.contains_key(*name) {
            continue;
        }
        let value = match field.wire {
            Wire::Always => zero(&field.shape),
            Wire::Null => Value::Null,
            Wire::Pointer | Wire::OmitZero => continue,
        };
        object.insert((*name).to_owned(), value);
    }
}

fn write_shape(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Struct(inner) | Shape::SchemaUnion(inner), Value::Object(object)) => write(inner, object),
        (Shape::List(item), Value::Array(list)) => list.iter_mut().for_each(|value| write_shape(item, value)),
        (Shape::Map(item), Value::Object(map)) => map.values_mut().for_each(|value| write_shape(item, value)),
        (Shape::SchemaUnion(_), Value::Array(list)) => list.iter_mut().for_each(|value| write_shape(shape, value)),
        _ => {}
    }
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Text => json!(""),
        Shape::Integer { .. } | Shape::Number | Shape::IntOrText => json!(0),
        Shape::Bool => json!(false),
        Shape::Quantity => json!("0"),
        Shape::Struct(inner) => {
            let mut object = Map::new();
            write(inner, &mut object);
            Value::Object(object)
        }
        _ => Value::Null,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

struct Reader {
    path: Vec<&'static str>,
}

impl Reader {
    fn structure(&mut self, definition: &'static Definition, value: &mut Value, owner: &str) -> Result<(), String> {
        let Value::Object(object) = value else {
            let package = package_of(definition);
            return Err(self.refused(value, owner, &format!("{package}.{}", definition.go_type())));
        };
        let mut outcome = Ok(());
        object.retain(|name, inner| {
            let Some((name, field)) = definition.fields().get_key_value(name).filter(|_| outcome.is_ok()) else {
                return true;
            };
            if !inner.is_null() {
                self.path.push(name);
                outcome = self.value(&field.shape, inner, definition.go_type());
                self.path.pop();
            }
            match (field.wire, &field.shape) {
                (Wire::Pointer | Wire::Null, _) | (_, Shape::Struct(_) | Shape::Anything) => !inner.is_null(),
                _ => !is_zero(inner),
            }
        });
        outcome
    }

    fn value(&mut self, shape: &Shape, value: &mut Value, owner: &str) -> Result<(), String> {
        match shape {
            Shape::Text => self.expect(value.is_string(), value, owner, "string"),
            Shape::Bool => self.expect(value.is_boolean(), value, owner, "bool"),
            Shape::Number => self.expect(value.is_number(), value, owner, "float64"),
            Shape::Integer { bits } => self.integer(*bits, value, owner),
            Shape::IntOrText if value.is_string() => Ok(()),
            Shape::IntOrText => self.integer(32, value, owner),
            Shape::Bytes => self.bytes(value, owner),
            Shape::Quantity => canonical_quantity(value, false),
            Shape::Time => self.time(value, owner, false),
            Shape::MicroTime => self.time(value, owner, true),
            Shape::Anything => Ok(()),
            Shape::Struct(inner) => self.structure(inner, value, owner),
            Shape::SchemaUnion(inner) => match value {
                Value::Object(_) => self.structure(inner, value, owner),
                Value::Array(list) => list.iter_mut().try_for_each(|item| self.value(shape, item, owner)),
                _ => Ok(()),
            },
            Shape::List(item) => {
                let Value::Array(list) = value else {
                    return Err(self.refused(value, owner, &format!("[]{}", go_name(item))));
                };
                for entry in list {
                    if entry.is_null() {
                        *entry = zero_item(item);
                    }
                    self.value(item, entry, owner)?;
                }
                Ok(())
            }
            Shape::Map(item) => self.map(item, value, owner),
        }
    }

    fn map(&mut self, item: &Shape, value: &mut Value, owner: &str) -> Result<(), String> {
        let Value::Object(map) = value else {
            return Err(self.refused(value, owner, &format!("map[string]{}", go_name(item))));
        };
        for entry in map.values_mut() {
            if matches!(item, Shape::Quantity) {
                canonical_quantity(entry, true)?;
                continue;
            }
            if entry.is_null() {
                *entry = zero_item(item);
            }
            self.value(item, entry, owner)?;
        }
        Ok(())
    }

    fn expect(&self, fits: bool, value: &Value, owner: &str, wanted: &str) -> Result<(), String> {
        if fits { Ok(()) } else { Err(self.refused(value, owner, wanted)) }
    }

    fn integer(&self, bits: u8, value: &Value, owner: &str) -> Result<(), String> {
        let fits = value.as_i64().is_some_and(|number| bits == 64 || i32::try_from(number).is_ok());
        self.expect(fits, value, owner, if bits == 64 { "int64" } else { "int32" })
    }

    fn bytes(&self, value: &mut Value, owner: &str) -> Result<(), String> {
        let Value::String(text) = &*value else { return Err(self.refused(value, owner, "[]uint8")) };
        let plain: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        match STANDARD.decode(&plain) {
            Ok(bytes) => {
                *value = json!(STANDARD.encode(bytes));
                Ok(())
            }
            Err(error) => Err(format!("illegal base64 data at input byte {}", offending_byte(&plain, &error))),
        }
    }

    fn time(&self, value: &mut Value, owner: &str, micro: bool) -> Result<(), String> {
        let Value::String(text) = &*value else { return Err(self.refused(value, owner, "string")) };
        if text.is_empty() {
            *value = Value::Null;
            return Ok(());
        }
        let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
        let problem = |part: &str, as_what: &str| {
            Err(format!("parsing time {text:?} as {layout:?}: cannot parse {part:?} as {as_what:?}"))
        };
        let Ok(parsed) = text.parse::<Timestamp>() else { return problem(text, "2006") };
        let fraction = text.get("2006-01-02T15:04:05".len()..).unwrap_or_default();
        if micro && !has_six_digits(fraction) {
            return problem(fraction, ".000000");
        }
        *value = json!(if micro { micro_time(parsed) } else { time_text(parsed) });
        Ok(())
    }

    fn refused(&self, value: &Value, owner: &str, wanted: &str) -> String {
        let found = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if wanted.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let path = self.path.join(".");
        if path.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        }
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")
    }
}

/// RFC 3339 in UTC with whole seconds, the form of `metav1.Time`.
pub(crate) fn time_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// RFC 3339 in UTC with microseconds, the form of `metav1.MicroTime`.
pub(crate) fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn canonical_quantity(value: &mut Value, in_resource_list: bool) -> Result<(), String> {
    let parsed = match &*value {
        Value::Null => Quantity::zero(),
        other => Quantity::deserialize(other).map_err(|error| error.to_string())?,
    };
    let parsed = if in_resource_list { parsed.rounded_up_to_milli() } else { parsed };
    *value = json!(parsed.stored_text());
    Ok(())
}

/// Go reads a layout with six digits only from six digits.
fn has_six_digits(fraction: &str) -> bool {
    let digits = fraction.strip_prefix('.').unwrap_or_default();
    digits.chars().take_while(char::is_ascii_digit).count() == 6
}

fn zero_item(shape: &Shape) -> Value {
    match shape {
        Shape::Struct(_) => json!({}),
        other => zero(other),
    }
}

fn offending_byte(text: &str, error: &base64::DecodeError) -> usize {
    match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => text.len(),
    }
}

fn go_name(shape: &Shape) -> String {
    match shape {
        Shape::Text => "string".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Integer { bits } => format!("int{bits}"),
        Shape::Number => "float64".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::Struct(inner) => format!("{}.{}", package_of(inner), inner.go_type()),
        Shape::List(item) => format!("[]{}", go_name(item)),
        Shape::Map(item) => format!("map[string]{}", go_name(item)),
        _ => "interface {}".to_owned(),
    }
}

fn package_of(definition: &Definition) -> &'static str {
    definition.name.rsplit('.').nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::builtin::table;

    fn round_trip(definition: &str, mut value: Value) -> Value {
        let definition = table::definition(definition).unwrap();
        read(definition, &mut value).unwrap();
        write(definition, value.as_object_mut().unwrap());
        value
    }

    #[track_caller]
    fn refused(definition: &str, mut value: Value, expected: &Expect) {
        let error = read(table::definition(definition).unwrap(), &mut value).unwrap_err();
        expected.assert_eq(&error);
    }

    #[test]
    fn zero_values_are_written_as_by_the_go_types() {
        let out = round_trip(
            "io.k8s.api.apps.v1.Deployment",
            json!({"metadata": {"labels": {}, "name": ""}, "spec": {"replicas": 0, "minReadySeconds": 0, "paused": false}}),
        );
        expect![[r#"{"metadata":{},"spec":{"replicas":0,"selector":null,"strategy":{},"template":{"metadata":{},"spec":{"containers":null}}},"status":{}}"#]]
            .assert_eq(&out.to_string());
    }

    #[test]
    fn quantities_times_and_bytes_become_canonical() {
        let out = round_trip(
            "io.k8s.api.core.v1.ResourceRequirements",
            json!({"limits": {"cpu": 0.5, "memory": "1024Mi"}, "requests": {"cpu": "0.0001"}}),
        );
        expect![[r#"{"limits":{"cpu":"500m","memory":"1Gi"},"requests":{"cpu":"1m"}}"#]].assert_eq(&out.to_string());
        let out = round_trip(
            "io.k8s.api.coordination.v1.LeaseSpec",
            json!({"renewTime": "2024-05-01T12:00:00.500000+02:00", "holderIdentity": ""}),
        );
        expect![[r#"{"holderIdentity":"","renewTime":"2024-05-01T10:00:00.500000Z"}"#]].assert_eq(&out.to_string());
    }

    #[test]
    fn an_event_writes_its_null_times() {
        let out = round_trip("io.k8s.api.core.v1.Event", json!({}));
        expect![[r#"{"eventTime":null,"firstTimestamp":null,"involvedObject":{},"lastTimestamp":null,"metadata":{},"reportingComponent":"","reportingInstance":"","source":{}}"#]]
            .assert_eq(&out.to_string());
    }

    #[test]
    fn wrong_types_have_the_error_text_of_go() {
        let deployment = "io.k8s.api.apps.v1.Deployment";
        refused(
            deployment,
            json!({"spec": {"replicas": "two"}}),
            &expect!["json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"],
        );
        refused(
            deployment,
            json!({"metadata": {"labels": {"a": 1}}}),
            &expect!["json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"],
        );
        refused(
            deployment,
            json!({"spec": {"template": {"spec": {"containers": {}}}}}),
            &expect![
                "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container"
            ],
        );
        refused(
            "io.k8s.api.core.v1.Secret",
            json!({"data": {"a": "%%%"}}),
            &expect!["illegal base64 data at input byte 0"],
        );
        refused(
            "io.k8s.api.core.v1.ResourceQuota",
            json!({"spec": {"hard": {"cpu": "lots"}}}),
            &expect!["quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"],
        );
    }
}
