//! Other forms of a response: `Table` and `PartialObjectMetadata`.

pub(crate) mod duration;
pub(crate) mod jsonpath;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::field::FieldError;
use jsonpath::JsonPath;
#[cfg(test)]
use jsonpath::PathError;

/// How a cell is found.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    JsonPath(JsonPath),
    /// From the object (in the requested version) and the time of the request.
    Compute(fn(&Value, Timestamp) -> Value),
    /// By the function that gives whole rows.
    Row,
}

/// Gives one cell for each column, from the object and the time of the request.
pub(crate) type RowCells = Arc<dyn Fn(&Value, Timestamp) -> Vec<Value> + Send + Sync>;

/// One column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub(crate) value_type: String,
    pub(crate) format: String,
    pub(crate) description: String,
    /// 0 is always shown, more only with `-o wide`.
    pub(crate) priority: i32,
    pub(crate) source: Source,
}

/// The columns of a kind.
#[derive(Clone)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    /// Computes a whole row at once; the columns then only give the headings.
    row: Option<RowCells>,
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Columns").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl Columns {
    /// Headings, and a function that gives one cell for each of them.
    pub(crate) fn with_rows(headings: Vec<Column>, row: RowCells) -> Self {
        Self { columns: headings, row: Some(row) }
    }

    /// The columns of a custom resource: `Name`, then its own, or `Age` if it has none.
    pub(crate) fn custom(own: Vec<Column>) -> Self {
        let mut columns = vec![name_column()];
        if own.is_empty() {
            columns.push(age_column());
        }
        columns.extend(own);
        Self { columns, row: None }
    }

    fn definitions(&self) -> Value {
        let definition = |column: &Column| {
            json!({"name": column.name, "type": column.value_type, "format": column.format,
                "description": column.description, "priority": column.priority})
        };
        self.columns.iter().map(definition).collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.row {
            Some(row) => row(object, now),
            None => self.columns.iter().map(|column| column.cell(object, now)).collect(),
        }
    }
}

impl Column {
    /// A column of `additionalPrinterColumns`.
    #[cfg(test)]
    pub(crate) fn from_definition(definition: &Value) -> Result<Self, PathError> {
        let text = |key: &str| definition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let description = match text("description") {
            empty if empty.is_empty() => format!("Custom resource definition column (in JSONPath format): {path}"),
            given => given,
        };
        Ok(Self {
            name: text("name"),
            value_type: text("type"),
            format: text("format"),
            description,
            priority: definition.get("priority").and_then(Value::as_i64).and_then(|n| n.try_into().ok()).unwrap_or(0),
            source: Source::JsonPath(JsonPath::parse(&path)?),
        })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let path = match &self.source {
            Source::Compute(compute) => return compute(object, now),
            Source::Row => return Value::Null,
            Source::JsonPath(path) => path,
        };
        let found = path.find(object);
        let Some(value) = found.first().copied() else { return Value::Null };
        match (self.value_type.as_str(), value) {
            ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("string", Value::Null) => json!("<no value>"),
            ("string", other) => json!(other.to_string()),
            ("integer", Value::Number(number)) => whole(number).map_or(Value::Null, Value::from),
            ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, float),
            ("date", value) => duration::date_cell(value, now),
            _ => Value::Null,
        }
    }
}

// Kubernetes cuts a fraction off, too.
#[allow(clippy::cast_possible_truncation)]
fn whole(number: &serde_json::Number) -> Option<i64> {
    number.as_i64().or_else(|| number.as_f64().map(|float| float as i64))
}

/// Whole floats print without a fraction, as they do there.
fn float(value: f64) -> Value {
    let number = serde_json::Number::from_f64(value);
    match number.as_ref().and_then(whole) {
        #[allow(clippy::cast_precision_loss, clippy::float_cmp)] // an exact round trip is the question
        Some(integer) if integer as f64 == value => json!(integer),
        _ => number.map_or(Value::Null, Value::Number),
    }
}

fn name_column() -> Column {
    Column {
        name: "Name".to_owned(),
        value_type: "string".to_owned(),
        format: "name".to_owned(),
        description: "Name of the object, unique within its namespace and kind.".to_owned(),
        priority: 0,
        source: Source::Compute(|object, _| object.pointer("/metadata/name").cloned().unwrap_or_else(|| json!(""))),
    }
}

fn age_column() -> Column {
    Column {
        name: "Age".to_owned(),
        value_type: "date".to_owned(),
        format: String::new(),
        description: "Time since the object was created.".to_owned(),
        priority: 0,
        source: Source::Compute(|object, now| {
            let created = object.pointer("/metadata/creationTimestamp").unwrap_or(&Value::Null);
            duration::date_cell(created, now)
        }),
    }
}

/// The part of the object in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// From the query parameter `includeObject`.
    pub(crate) fn parse(value: Option<&str>) -> Result<Self, ApiError> {
        match value.unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => {
                let why = "must be 'Metadata', 'Object', 'None', or empty";
                let finding = FieldError::invalid("includeObject", &json!(other), why);
                Err(ApiError::bad_request(format!("Unable to convert to Table as requested: {finding}")))
            }
        }
    }
}

/// A `Table` of one object or of a list. `meta_version` is `v1` or `v1beta1`.
pub(crate) fn table(
    columns: &Columns,
    value: &Value,
    include: IncludeObject,
    headings: bool,
    meta_version: &str,
    now: Timestamp,
) -> Value {
    let single = std::slice::from_ref(value);
    let items = value.get("items").and_then(Value::as_array).map_or(single, Vec::as_slice);
    let rows: Vec<Value> = items.iter().map(|item| row(columns, value, item, include, meta_version, now)).collect();
    let mut metadata = Map::new();
    for key in ["resourceVersion", "continue", "remainingItemCount"] {
        if let Some(found) =
            value.pointer("/metadata").and_then(|metadata| metadata.get(key)).filter(|found| **found != "")
        {
            metadata.insert(key.to_owned(), found.clone());
        }
    }
    let definitions = if headings { columns.definitions() } else { Value::Null };
    json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{meta_version}"), "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows})
}

fn row(
    columns: &Columns,
    whole: &Value,
    item: &Value,
    include: IncludeObject,
    meta_version: &str,
    now: Timestamp,
) -> Value {
    let object = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial_metadata(item, meta_version),
        IncludeObject::Object => with_type(item, whole),
    };
    json!({"cells": columns.cells(item, now), "object": object})
}

/// An item with the kind of its list.
fn with_type(item: &Value, list: &Value) -> Value {
    let mut item = item.clone();
    if let (Value::Object(fields), Some(kind)) = (&mut item, list["kind"].as_str()) {
        let kind = kind.strip_suffix("List").unwrap_or(kind);
        fields.entry("kind").or_insert_with(|| kind.into());
        fields.entry("apiVersion").or_insert_with(|| list["apiVersion"].clone());
    }
    item
}

/// An object without its content.
pub(crate) fn partial_metadata(object: &Value, meta_version: &str) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{meta_version}"), "metadata": metadata})
}

/// A list whose items have no content.
pub(crate) fn partial_metadata_list(list: &Value, meta_version: &str) -> Value {
    let items = list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let items: Vec<Value> = items.iter().map(|item| partial_metadata(item, meta_version)).collect();
    let mut metadata = list.get("metadata").cloned().unwrap_or_else(|| json!({}));
    // Lists of custom objects have an empty token at their end; this form leaves it out.
    if let Some(fields) = metadata.as_object_mut() {
        fields.retain(|key, value| key != "continue" || value != "");
    }
    json!({"kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{meta_version}"),
        "metadata": metadata, "items": items})
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn now() -> Timestamp {
        "2026-01-01T00:05:00Z".parse().unwrap()
    }

    fn widget() -> Value {
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "w", "namespace": "n", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"size": 3, "ratio": 2.0, "tags": ["a"], "on": true}})
    }

    fn column(name: &str, value_type: &str, path: &str) -> Column {
        Column::from_definition(&json!({"name": name, "type": value_type, "jsonPath": path, "priority": 1})).unwrap()
    }

    #[test]
    fn a_custom_resource_without_columns_shows_name_and_age() {
        let out = table(&Columns::custom(vec![]), &widget(), IncludeObject::None, true, "v1", now());
        expect![[r#"{"apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"description":"Name of the object, unique within its namespace and kind.","format":"name","name":"Name","priority":0,"type":"string"},{"description":"Time since the object was created.","format":"","name":"Age","priority":0,"type":"date"}],"kind":"Table","metadata":{"resourceVersion":"7"},"rows":[{"cells":["w","5m"],"object":null}]}"#]]
            .assert_eq(&out.to_string());
    }

    #[test]
    fn cells_follow_the_type_of_their_column() {
        let cases = [
            ("integer", ".spec.size", "3"),
            ("integer", ".spec.ratio", "2"),
            ("integer", ".spec.on", "null"),
            ("number", ".spec.size", "3"),
            ("number", ".spec.ratio", "2"),
            ("boolean", ".spec.on", "true"),
            ("boolean", ".spec.size", "null"),
            ("string", ".spec.size", "\"3\""),
            ("string", ".spec.tags", r#""[\"a\"]""#),
            ("string", ".spec.missing", "null"),
            ("date", ".metadata.creationTimestamp", "\"5m\""),
        ];
        for (value_type, path, expected) in cases {
            assert_eq!(
                column("C", value_type, path).cell(&widget(), now()).to_string(),
                expected,
                "{value_type} {path}"
            );
        }
    }

    #[test]
    fn lists_keep_paging_and_rows_include_the_requested_object() {
        let list = json!({"metadata": {"resourceVersion": "9", "continue": "c"}, "items": [widget(), widget()]});
        let columns = Columns::custom(vec![column("Size", "integer", ".spec.size")]);
        let out = table(&columns, &list, IncludeObject::Metadata, false, "v1", now());
        assert_eq!(out["metadata"], json!({"resourceVersion": "9", "continue": "c"}));
        assert_eq!(out["columnDefinitions"], Value::Null);
        assert_eq!(out["rows"][1]["cells"], json!(["w", 3]));
        assert_eq!(out["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        let whole = table(&columns, &list, IncludeObject::Object, true, "v1", now());
        assert_eq!(whole["rows"][0]["object"], widget());
    }

    #[test]
    fn whole_rows_can_be_computed_at_once() {
        let headings = vec![column("A", "string", ".a"), column("B", "string", ".b")];
        let columns = Columns::with_rows(
            headings,
            Arc::new(|object: &Value, _| vec![object["metadata"]["name"].clone(), json!("b")]),
        );
        let out = table(&columns, &widget(), IncludeObject::None, false, "v1", now());
        assert_eq!(out["rows"][0]["cells"], json!(["w", "b"]));
    }

    #[test]
    fn metadata_only_forms_drop_the_content() {
        let out = partial_metadata(&widget(), "v1");
        assert_eq!((out["metadata"]["name"].as_str(), out.get("spec")), (Some("w"), None));
        let list = partial_metadata_list(&json!({"metadata": {"resourceVersion": "1"}, "items": [widget()]}), "v1");
        assert_eq!((list["kind"].as_str(), list["items"][0].get("spec")), (Some("PartialObjectMetadataList"), None));
    }

    #[test]
    fn unknown_include_object_values_are_refused() {
        assert_eq!(IncludeObject::parse(Some("Object")), Ok(IncludeObject::Object));
        assert_eq!(IncludeObject::parse(None), Ok(IncludeObject::Metadata));
        expect![[r#"Unable to convert to Table as requested: includeObject: Invalid value: "All": must be 'Metadata', 'Object', 'None', or empty"#]]
            .assert_eq(&IncludeObject::parse(Some("All")).unwrap_err().message);
    }
}
