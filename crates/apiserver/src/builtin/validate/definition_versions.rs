//! Checks of the versions of a CustomResourceDefinition: schemas with their rules, subresources, columns, selectable
//! fields.
//!
//! kube-apiserver stores settings that all versions share once for the whole definition, and its errors name that place
//! (`spec.validation` for schemas).

use std::collections::BTreeSet;

use k8s_values::validation;
use serde_json::{Value, json};

use super::definition_print as print;
use super::findings::{Findings, child};
use crate::builtin::values::{at, flag, list, text};
use crate::cel;
use crate::field::{Fault, FieldError};

/// Fields that objects may be selected by, at most.
const MAX_SELECTABLE_FIELDS: usize = 8;
/// Characters of a deprecation warning.
const MAX_WARNING_LENGTH: usize = 256;

/// Where `status` is a part of its own, only these keep their meaning when its schema is cut out.
const AT_ROOT_WITH_STATUS: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Whether all versions have the same value (or none) of a field.
fn is_shared(versions: &[Value], field: &str) -> bool {
    versions.first().is_some_and(|first| versions.iter().all(|version| at(version, field) == at(first, field)))
}

/// Validation errors of each version. `unchanged` are the names of versions whose schema was accepted before.
pub(super) fn each(spec: &Value, unchanged: &[&str], out: &mut Findings) {
    let versions = list(spec, "versions");
    for (index, version) in versions.iter().enumerate() {
        if at(version, "schema.openAPIV3Schema").is_null() {
            out.required(format!("spec.versions[{index}].schema.openAPIV3Schema"), "");
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = text(version, "name");
        let messages = validation::dns1035_label(name);
        if !messages.is_empty() {
            out.invalid(child(&path, "name"), &json!(name), messages.join(","));
        }
        deprecation_warning(version, &path, out);
        if !is_shared(versions, "schema") && !unchanged.contains(&name) {
            let has_status = at(version, "subresources.status").is_object();
            schema(at(version, "schema"), has_status, &child(&path, "schema"), out);
        }
        parts(version, &path, |field| !is_shared(versions, field), out);
    }
    let mut seen = BTreeSet::new();
    let unique = versions.iter().all(|version| seen.insert(text(version, "name")));
    let storage = versions.iter().filter(|version| flag(version, "storage")).count();
    if !unique {
        out.push(about_versions(versions, "must contain unique version names"));
    }
    if storage != 1 {
        out.push(about_versions(versions, "must have exactly one version marked as storage version"));
    }
}

/// Validation errors of settings that all versions share.
pub(super) fn shared(spec: &Value, unchanged: &[&str], out: &mut Findings) {
    let versions = list(spec, "versions");
    let Some(first) = versions.first() else { return };
    if is_shared(versions, "schema") && !unchanged.contains(&text(first, "name")) {
        let has_status = versions.iter().any(|version| at(version, "subresources.status").is_object());
        schema(at(first, "schema"), has_status, "spec.validation", out);
    }
    parts(first, "spec", |field| is_shared(versions, field), out);
}

fn about_versions(versions: &[Value], detail: &str) -> FieldError {
    let value = Some(print::versions(versions, |field| is_shared(versions, field)));
    FieldError { fault: Fault::Invalid, path: "spec.versions".to_owned(), value, detail: detail.to_owned() }
}

fn deprecation_warning(version: &Value, path: &str, out: &mut Findings) {
    let Some(warning) = at(version, "deprecationWarning").as_str() else { return };
    let place = child(path, "deprecationWarning");
    let mut refuse = |detail: &str| out.invalid(place.clone(), &json!(warning), detail);
    if !flag(version, "deprecated") {
        return refuse("can only be set for deprecated versions");
    }
    if warning.len() > MAX_WARNING_LENGTH {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

/// The schema of one version or of all, with its rules.
fn schema(validation: &Value, has_status: bool, path: &str, out: &mut Findings) {
    let source = at(validation, "openAPIV3Schema");
    if source.is_null() {
        return;
    }
    let path = child(path, "openAPIV3Schema");
    if has_status {
        root_beside_status(source, &path, out);
    }
    out.0.extend(cel::compile_schema(&path, source).err().into_iter().flatten());
}

fn root_beside_status(source: &Value, path: &str, out: &mut Findings) {
    let root_type = text(source, "type");
    let fits = |name: &str| {
        if name == "Type" { root_type == "object" } else { AT_ROOT_WITH_STATUS.contains(&name) }
    };
    match print::first_set(source, fits) {
        None => {}
        Some("Type") => {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                          enabled";
            out.invalid(child(path, "type"), &json!(root_type), detail);
        }
        Some(_) => {
            let names = AT_ROOT_WITH_STATUS.join(" ");
            let detail = format!(
                "only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
            );
            let value = Some(print::schema(source));
            out.push(FieldError { fault: Fault::Invalid, path: path.to_owned(), value, detail });
        }
    }
}

/// Subresources, columns and selectable fields, each as far as it `belongs` here.
fn parts(version: &Value, path: &str, belongs: impl Fn(&str) -> bool, out: &mut Findings) {
    if belongs("subresources") {
        scale(at(version, "subresources.scale"), &child(path, "subresources"), out);
    }
    if belongs("additionalPrinterColumns") {
        for (number, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
            printer_column(column, &format!("{path}.additionalPrinterColumns[{number}]"), out);
        }
    }
    if belongs("selectableFields") {
        selectable(version, &child(path, "selectableFields"), out);
    }
}

fn scale(scale: &Value, path: &str, out: &mut Findings) {
    if !scale.is_object() {
        return;
    }
    for (field, parent) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let place = child(path, &format!("scale.{field}"));
        let value = text(scale, field);
        if value.is_empty() {
            out.required(place, "");
        } else if !value.starts_with('.') {
            out.invalid(place, &json!(value), "must be a simple json path starting with .");
        } else if !value.starts_with(parent) {
            let detail = format!("should be a json path under {}", parent.trim_end_matches('.'));
            out.invalid(place, &json!(value), detail);
        }
    }
    let selector = text(scale, "labelSelectorPath");
    let place = child(path, "scale.labelSelectorPath");
    if selector.is_empty() {
    } else if !selector.starts_with('.') {
        out.invalid(place, &json!(selector), "must be a simple json path starting with .");
    } else if !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        out.invalid(place, &json!(selector), "should be a json path under either .spec or .status");
    }
}

fn printer_column(column: &Value, path: &str, out: &mut Findings) {
    const FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
    if text(column, "name").is_empty() {
        out.required(child(path, "name"), "");
    }
    match text(column, "type") {
        "" => out.required(child(path, "type"), "must be one of boolean,date,integer,number,string"),
        "boolean" | "date" | "integer" | "number" | "string" => {}
        other => out.invalid(child(path, "type"), &json!(other), "must be one of boolean,date,integer,number,string"),
    }
    let format = text(column, "format");
    if !format.is_empty() && !FORMATS.split(',').any(|known| known == format) {
        out.invalid(child(path, "format"), &json!(format), format!("must be one of {FORMATS}"));
    }
    let json_path = text(column, "jsonPath");
    if json_path.is_empty() {
        out.required(child(path, "JSONPath"), "");
    } else if !json_path.starts_with('.') {
        let why = "must be a simple json path starting with .";
        out.invalid(child(path, "JSONPath"), &json!(json_path), why);
    }
}

fn selectable(version: &Value, path: &str, out: &mut Findings) {
    let schema = at(version, "schema.openAPIV3Schema");
    let mut seen = BTreeSet::new();
    for (index, field) in list(version, "selectableFields").iter().enumerate() {
        let place = format!("{path}[{index}].jsonPath");
        let wanted = at(field, "jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            out.required(place, "");
            continue;
        }
        let Some(found) = named_by(schema, json_path) else {
            out.invalid(place, wanted, "is an invalid path: does not refer to a valid field");
            continue;
        };
        if json_path.starts_with(".metadata") {
            out.invalid(place.clone(), wanted, "must not point to fields in metadata");
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                       formats are allowed.";
            out.invalid(place.clone(), wanted, why);
        }
        if !seen.insert(json_path) {
            out.duplicate(place, wanted);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        out.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}

/// The schema of the field that a path like `.spec.color` leads to.
fn named_by<'s>(schema: &'s Value, path: &str) -> Option<&'s Value> {
    let steps = path.strip_prefix('.')?.split('.');
    steps.into_iter().try_fold(schema, |here, step| here.get("properties")?.get(step))
}
