//! The schema of `metadata`, which is the same for every kind and not part of a kind's own schema.

use serde_json::Value;

use super::path::{child, index};
use crate::field::FieldError;

/// What a field of metadata holds.
#[derive(Clone, Copy)]
enum Holds {
    Text,
    Whole,
    Flag,
    Time,
    TextMap,
    TextList,
    Records(&'static [(&'static str, Holds)]),
    Anything,
}

const FIELDS: &[(&str, Holds)] = &[
    ("annotations", Holds::TextMap),
    ("creationTimestamp", Holds::Time),
    ("deletionGracePeriodSeconds", Holds::Whole),
    ("deletionTimestamp", Holds::Time),
    ("finalizers", Holds::TextList),
    ("generateName", Holds::Text),
    ("generation", Holds::Whole),
    ("labels", Holds::TextMap),
    ("managedFields", Holds::Records(MANAGED_FIELDS)),
    ("name", Holds::Text),
    ("namespace", Holds::Text),
    ("ownerReferences", Holds::Records(OWNER_REFERENCE)),
    ("resourceVersion", Holds::Text),
    ("selfLink", Holds::Text),
    ("uid", Holds::Text),
];

const OWNER_REFERENCE: &[(&str, Holds)] = &[
    ("apiVersion", Holds::Text),
    ("blockOwnerDeletion", Holds::Flag),
    ("controller", Holds::Flag),
    ("kind", Holds::Text),
    ("name", Holds::Text),
    ("uid", Holds::Text),
];

const MANAGED_FIELDS: &[(&str, Holds)] = &[
    ("apiVersion", Holds::Text),
    ("fieldsType", Holds::Text),
    ("fieldsV1", Holds::Anything),
    ("manager", Holds::Text),
    ("operation", Holds::Text),
    ("subresource", Holds::Text),
    ("time", Holds::Time),
];

fn lookup(fields: &[(&str, Holds)], name: &str) -> Option<Holds> {
    fields.iter().find(|(known, _)| *known == name).map(|(_, holds)| *holds)
}

/// Drops the fields that metadata does not have.
pub(crate) fn prune(metadata: &mut Value) {
    prune_record(FIELDS, metadata);
}

fn prune_record(known: &[(&str, Holds)], value: &mut Value) {
    let Some(fields) = value.as_object_mut() else { return };
    fields.retain(|name, _| lookup(known, name).is_some());
    for (name, value) in fields {
        if let (Some(Holds::Records(record)), Value::Array(items)) = (lookup(known, name), value) {
            for item in items {
                prune_record(record, item);
            }
        }
    }
}

/// The paths of the fields that metadata does not have; `path` is that of the metadata.
pub(crate) fn unknown_fields(path: &str, metadata: &Value) -> Vec<String> {
    let mut out = Vec::new();
    unknown_in_record(path, FIELDS, metadata, &mut out);
    out
}

fn unknown_in_record(path: &str, known: &[(&str, Holds)], value: &Value, out: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let place = child(path, name);
        match (lookup(known, name), value) {
            (None, _) => out.push(place),
            (Some(Holds::Records(record)), Value::Array(items)) => {
                for (position, item) in items.iter().enumerate() {
                    unknown_in_record(&index(&place, position), record, item, out);
                }
            }
            _ => {}
        }
    }
}

/// Why metadata cannot be read, or what is wrong with the name in it. Says nothing about unknown fields.
pub(crate) fn check(path: &str, metadata: &Value) -> Option<FieldError> {
    if let Some(detail) = unreadable(metadata) {
        return Some(FieldError::invalid(path, metadata, detail));
    }
    ["generateName", "name"].into_iter().find_map(|field| {
        let name = metadata.get(field)?.as_str()?;
        let detail = match name {
            "." | ".." if field == "name" => format!("may not be '{name}'"),
            _ if name.contains('/') => "may not contain '/'".to_owned(),
            _ if name.contains('%') => "may not contain '%'".to_owned(),
            _ => return None,
        };
        Some(FieldError::invalid(child(path, field), &metadata[field], detail))
    })
}

/// Why the value cannot be read as metadata, worded as Go's decoder does.
fn unreadable(metadata: &Value) -> Option<String> {
    if metadata.is_null() {
        return None;
    }
    let Some(fields) = metadata.as_object() else {
        return Some(mismatch(metadata, "", "v1.ObjectMeta"));
    };
    fields.iter().find_map(|(name, value)| misfit(FIELDS, name, value, "ObjectMeta"))
}

fn misfit(known: &[(&str, Holds)], name: &str, value: &Value, owner: &str) -> Option<String> {
    let holds = lookup(known, name)?;
    let field = format!("{owner}.{name}");
    let fails =
        |value: &Value, ok: bool, go_type: &str| (!ok && !value.is_null()).then(|| mismatch(value, &field, go_type));
    match holds {
        Holds::Anything => None,
        Holds::Text => fails(value, value.is_string(), "string"),
        Holds::Whole => fails(value, value.as_i64().is_some(), "int64"),
        Holds::Flag => fails(value, value.is_boolean(), "bool"),
        Holds::Time => match value {
            Value::String(text) if text.parse::<jiff::Timestamp>().is_err() => Some(format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
            )),
            _ => fails(value, value.is_string(), "string"),
        },
        Holds::TextMap => match value {
            Value::Object(entries) => entries.values().find_map(|entry| fails(entry, entry.is_string(), "string")),
            _ => fails(value, false, "map[string]string"),
        },
        Holds::TextList => match value {
            Value::Array(items) => items.iter().find_map(|item| fails(item, item.is_string(), "string")),
            _ => fails(value, false, "[]string"),
        },
        Holds::Records(record) => match value {
            Value::Array(items) => items.iter().find_map(|item| match item {
                Value::Object(fields) => fields.iter().find_map(|(name, value)| misfit(record, name, value, &field)),
                _ => fails(item, false, "object"),
            }),
            _ => fails(value, false, "list"),
        },
    }
}

fn mismatch(value: &Value, field: &str, go_type: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if field.is_empty() {
        return format!("json: cannot unmarshal {found} into Go value of type {go_type}");
    }
    format!("json: cannot unmarshal {found} into Go struct field {field} of type {go_type}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_named_and_dropped() {
        let mut metadata = json!({"name": "a", "owner": 1, "ownerReferences": [{"kind": "A", "x": 1}], "managedFields": [{"fieldsV1": {"f:a": {}}}]});
        assert_eq!(unknown_fields("metadata", &metadata), ["metadata.owner", "metadata.ownerReferences[0].x"]);
        prune(&mut metadata);
        assert_eq!(
            metadata,
            json!({"name": "a", "ownerReferences": [{"kind": "A"}], "managedFields": [{"fieldsV1": {"f:a": {}}}]})
        );
        assert_eq!(unknown_fields("metadata", &metadata), [""; 0]);
    }

    #[test]
    fn unreadable_metadata_is_explained() {
        let text = |metadata: Value| check("metadata", &metadata).map(|finding| finding.detail);
        assert_eq!(text(json!({"name": "a", "labels": null, "creationTimestamp": null})), None);
        assert_eq!(text(json!([])).unwrap(), "json: cannot unmarshal array into Go value of type v1.ObjectMeta");
        assert_eq!(
            text(json!({"generation": "1"})).unwrap(),
            "json: cannot unmarshal string into Go struct field ObjectMeta.generation of type int64"
        );
        assert!(text(json!({"creationTimestamp": "now"})).unwrap().starts_with("parsing time \"now\""));
        assert_eq!(text(json!({"name": ".."})).unwrap(), "may not be '..'");
        assert_eq!(text(json!({"generateName": "a%"})).unwrap(), "may not contain '%'");
    }
}
