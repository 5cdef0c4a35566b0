//! How kube-apiserver prints the versions and schemas of a CustomResourceDefinition inside a validation error.
//!
//! It prints its Go structs: every field by its Go name, in their order, including empty ones. Fields that all versions
//! share are stored elsewhere in these structs and print as null.

use k8s_values::go::json;
use serde_json::Value;

use crate::builtin::values::at;

/// How a field of a schema is printed.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Flag,
    /// Null if it is absent, else as it is.
    Maybe,
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrList,
    SchemaOrFlag,
    Rules,
}

const SCHEMA: &[(&str, &str, Form)] = &[
    ("ID", "id", Form::Text),
    ("Schema", "$schema", Form::Text),
    ("Ref", "$ref", Form::Maybe),
    ("Description", "description", Form::Text),
    ("Type", "type", Form::Text),
    ("Nullable", "nullable", Form::Flag),
    ("Format", "format", Form::Text),
    ("Title", "title", Form::Text),
    ("Default", "default", Form::Maybe),
    ("Maximum", "maximum", Form::Maybe),
    ("ExclusiveMaximum", "exclusiveMaximum", Form::Flag),
    ("Minimum", "minimum", Form::Maybe),
    ("ExclusiveMinimum", "exclusiveMinimum", Form::Flag),
    ("MaxLength", "maxLength", Form::Maybe),
    ("MinLength", "minLength", Form::Maybe),
    ("Pattern", "pattern", Form::Text),
    ("MaxItems", "maxItems", Form::Maybe),
    ("MinItems", "minItems", Form::Maybe),
    ("UniqueItems", "uniqueItems", Form::Flag),
    ("MultipleOf", "multipleOf", Form::Maybe),
    ("Enum", "enum", Form::Maybe),
    ("MaxProperties", "maxProperties", Form::Maybe),
    ("MinProperties", "minProperties", Form::Maybe),
    ("Required", "required", Form::Maybe),
    ("Items", "items", Form::SchemaOrList),
    ("AllOf", "allOf", Form::Schemas),
    ("OneOf", "oneOf", Form::Schemas),
    ("AnyOf", "anyOf", Form::Schemas),
    ("Not", "not", Form::Schema),
    ("Properties", "properties", Form::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Form::SchemaOrFlag),
    ("PatternProperties", "patternProperties", Form::SchemaMap),
    ("Dependencies", "dependencies", Form::Maybe),
    ("AdditionalItems", "additionalItems", Form::SchemaOrFlag),
    ("Definitions", "definitions", Form::SchemaMap),
    ("ExternalDocs", "externalDocs", Form::Maybe),
    ("Example", "example", Form::Maybe),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Form::Maybe),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Form::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Form::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Form::Maybe),
    ("XListType", "x-kubernetes-list-type", Form::Maybe),
    ("XMapType", "x-kubernetes-map-type", Form::Maybe),
    ("XValidations", "x-kubernetes-validations", Form::Rules),
];

/// The Go name of the first field, in their order, that is set and that `accepted` does not let pass.
pub(super) fn first_set(schema: &Value, accepted: impl Fn(&str) -> bool) -> Option<&'static str> {
    let set = |key: &str| {
        let value = &schema[key];
        !(value.is_null()
            || *value == Value::Bool(false) && key != "x-kubernetes-preserve-unknown-fields"
            || value == "")
    };
    SCHEMA.iter().find(|(name, key, _)| set(key) && !accepted(name)).map(|(name, _, _)| *name)
}

pub(super) fn schema(source: &Value) -> String {
    object(SCHEMA.iter().map(|(name, key, form)| (*name, field(&source[*key], *form))))
}

/// The versions of a specification. `shared` says of a field whether all versions agree in it.
pub(super) fn versions(versions: &[Value], shared: impl Fn(&str) -> bool) -> String {
    let version = |version: &Value| {
        let own = |key: &str| if shared(key) { &Value::Null } else { at(version, key) };
        let validation = match own("schema") {
            Value::Null => "null".to_owned(),
            found => object([("OpenAPIV3Schema", field(&found["openAPIV3Schema"], Form::Schema))]),
        };
        object([
            ("Name", field(&version["name"], Form::Text)),
            ("Served", field(&version["served"], Form::Flag)),
            ("Storage", field(&version["storage"], Form::Flag)),
            ("Deprecated", field(&version["deprecated"], Form::Flag)),
            ("DeprecationWarning", field(&version["deprecationWarning"], Form::Maybe)),
            ("Schema", validation),
            ("Subresources", subresources(own("subresources"))),
            ("AdditionalPrinterColumns", items(own("additionalPrinterColumns"), column)),
            (
                "SelectableFields",
                items(own("selectableFields"), |f| object([("JSONPath", field(&f["jsonPath"], Form::Text))])),
            ),
        ])
    };
    format!("[{}]", versions.iter().map(version).collect::<Vec<_>>().join(","))
}

fn subresources(source: &Value) -> String {
    if source.is_null() {
        return "null".to_owned();
    }
    let scale = match &source["scale"] {
        Value::Null => "null".to_owned(),
        scale => object([
            ("SpecReplicasPath", field(&scale["specReplicasPath"], Form::Text)),
            ("StatusReplicasPath", field(&scale["statusReplicasPath"], Form::Text)),
            ("LabelSelectorPath", field(&scale["labelSelectorPath"], Form::Maybe)),
        ]),
    };
    object([("Status", field(&source["status"], Form::Maybe)), ("Scale", scale)])
}

fn column(source: &Value) -> String {
    let priority = source["priority"].as_i64().unwrap_or(0);
    object([
        ("Name", field(&source["name"], Form::Text)),
        ("Type", field(&source["type"], Form::Text)),
        ("Format", field(&source["format"], Form::Text)),
        ("Description", field(&source["description"], Form::Text)),
        ("Priority", priority.to_string()),
        ("JSONPath", field(&source["jsonPath"], Form::Text)),
    ])
}

fn field(value: &Value, form: Form) -> String {
    match (form, value) {
        (Form::Text, value) => json(&Value::from(value.as_str().unwrap_or_default())),
        (Form::Flag, value) => value.as_bool().unwrap_or_default().to_string(),
        (_, Value::Null) => "null".to_owned(),
        (Form::Maybe, value) => json(value),
        (Form::Schema, value) => schema(value),
        (Form::Schemas, value) => items(value, schema),
        (Form::SchemaMap, value) => {
            object(value.as_object().into_iter().flatten().map(|(name, nested)| (name.as_str(), schema(nested))))
        }
        (Form::SchemaOrList, list @ Value::Array(_)) => {
            object([("Schema", "null".to_owned()), ("JSONSchemas", items(list, schema))])
        }
        (Form::SchemaOrList, one) => object([("Schema", schema(one)), ("JSONSchemas", "null".to_owned())]),
        (Form::SchemaOrFlag, Value::Bool(allows)) => {
            object([("Allows", allows.to_string()), ("Schema", "null".to_owned())])
        }
        (Form::SchemaOrFlag, one) => object([("Allows", "true".to_owned()), ("Schema", schema(one))]),
        (Form::Rules, value) => items(value, |rule| {
            object([
                ("Rule", field(&rule["rule"], Form::Text)),
                ("Message", field(&rule["message"], Form::Text)),
                ("MessageExpression", field(&rule["messageExpression"], Form::Text)),
                ("Reason", field(&rule["reason"], Form::Maybe)),
                ("FieldPath", field(&rule["fieldPath"], Form::Text)),
                ("OptionalOldSelf", field(&rule["optionalOldSelf"], Form::Maybe)),
            ])
        }),
    }
}

fn items(list: &Value, print: impl Fn(&Value) -> String) -> String {
    match list.as_array() {
        Some(list) => format!("[{}]", list.iter().map(print).collect::<Vec<_>>().join(",")),
        None => "null".to_owned(),
    }
}

fn object<'n>(fields: impl IntoIterator<Item = (&'n str, String)>) -> String {
    let fields = fields.into_iter().map(|(name, text)| format!("{}:{text}", json(&Value::from(name))));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}
