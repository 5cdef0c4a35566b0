//! Builds whole OpenAPI documents from rendered schemas and paths. Adds `apiVersion`, `kind`, `metadata` and the list
//! form to each kind's schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::operations::paths;
use super::render::{COMPONENTS, Components};
use crate::discovery::info::KUBERNETES_VERSION;
use crate::discovery::{ApiResource, Catalog};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const OWNER_REFERENCE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";

/// The document of one group version.
pub(crate) fn v3(group: &str, version: &str, resources: &[Arc<ApiResource>]) -> Value {
    let prefix = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let (schemas, paths) = parts(&prefix, resources);
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": KUBERNETES_VERSION},
        "paths": paths, "components": {"schemas": schemas}})
}

/// All kinds in the format of OpenAPI 2.
pub(crate) fn v2(catalog: &Catalog) -> Value {
    let mut definitions = BTreeMap::new();
    let mut all_paths = Map::new();
    for group in &catalog.groups {
        for (version, resources) in &group.versions {
            let name = &group.name;
            let prefix = if name.is_empty() { format!("/api/{version}") } else { format!("/apis/{name}/{version}") };
            let (schemas, paths) = parts(&prefix, resources);
            definitions.extend(schemas);
            all_paths.extend(paths.into_iter().map(|(path, item)| (path, older_path(item))));
        }
    }
    let mut definitions = json!(definitions);
    older_schema(&mut definitions, true);
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": KUBERNETES_VERSION},
        "paths": all_paths, "definitions": definitions})
}

fn parts(prefix: &str, resources: &[Arc<ApiResource>]) -> (BTreeMap<String, Value>, Map<String, Value>) {
    let mut components = Components::survey(resources.iter().map(|resource| &resource.schema));
    let mut all_paths = Map::new();
    for resource in resources {
        let name = definition_name(resource);
        let mut body = components.root(&resource.schema, &name);
        complete(&mut body, resource);
        let list_name = format!("{name}List");
        let object = reference(&name);
        let list = reference(&list_name);
        if resource.verbs.iter().any(|verb| verb == "list") {
            components.schemas.insert(list_name, list_schema(resource, &object));
        }
        components.schemas.insert(name, body);
        all_paths.extend(paths(resource, prefix, &object, &list, &json!({"type": "object"})));
    }
    for (name, schema) in meta_schemas() {
        components.schemas.entry(name.to_owned()).or_insert(schema);
    }
    (components.schemas, all_paths)
}

/// Adds the common fields and the extension with group, version and kind.
fn complete(body: &mut Value, resource: &ApiResource) {
    let Some(fields) = body.as_object_mut() else { return };
    fields.entry("type").or_insert_with(|| json!("object"));
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(
            "apiVersion".to_owned(),
            json!({"type": "string", "description": "Group and version of this object's schema."}),
        );
        properties.insert("kind".to_owned(), json!({"type": "string", "description": "Kind of this object."}));
        let metadata = properties.entry("metadata").or_insert_with(|| json!({}));
        if metadata.get("properties").is_none() && metadata.get("allOf").is_none() {
            *metadata =
                json!({"allOf": [reference(OBJECT_META)], "default": {}, "description": "Standard object metadata."});
        }
    }
    let ApiResource { group, version, kind, .. } = resource;
    fields.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        json!([{"group": group, "version": version, "kind": kind}]),
    );
}

fn list_schema(resource: &ApiResource, object: &Value) -> Value {
    let ApiResource { group, version, kind, list_kind, .. } = resource;
    json!({
        "type": "object", "description": format!("A list of {kind} objects."), "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of this list's schema."},
            "kind": {"type": "string", "description": "Kind of this list."},
            "metadata": {"allOf": [reference(LIST_META)], "default": {}, "description": "Standard list metadata."},
            "items": {"type": "array", "items": object, "description": "The objects."},
        },
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": list_kind}],
    })
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{COMPONENTS}{name}")})
}

/// The group backwards, version and kind, as `com.example.v1.Widget`.
fn definition_name(resource: &ApiResource) -> String {
    let ApiResource { group, version, kind, definition, .. } = resource;
    if let Some(name) = definition {
        return name.clone();
    }
    if group.is_empty() {
        return format!("io.k8s.api.core.{version}.{kind}");
    }
    let backwards: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", backwards.join("."))
}

/// Metadata that every document refers to.
fn meta_schemas() -> [(&'static str, Value); 3] {
    let text = |description: &str| json!({"type": "string", "description": description});
    let time = |description: &str| json!({"type": "string", "format": "date-time", "description": description});
    let number = |description: &str| json!({"type": "integer", "format": "int64", "description": description});
    let texts = |description: &str| json!({"type": "object", "additionalProperties": {"type": "string"}, "description": description});
    let object_meta = json!({"type": "object", "description": "Metadata that all stored objects have.", "properties": {
        "name": text("Name, unique within the namespace. Cannot be changed."),
        "generateName": text("Prefix from which the server makes a name if none is given."),
        "namespace": text("Namespace of the object; empty for cluster-scoped ones. Cannot be changed."),
        "labels": texts("Keys and values to select objects by."),
        "annotations": texts("Keys and values for tools; not selectable."),
        "uid": text("Identity of this object in time and space, set by the server."),
        "resourceVersion": text("Opaque version of the stored object, for optimistic locking and watches."),
        "generation": number("Counts changes of the desired state, set by the server."),
        "creationTimestamp": time("When the object was created, set by the server."),
        "deletionTimestamp": time("When the object is to be gone, set by the server on deletion."),
        "deletionGracePeriodSeconds": number("Seconds between the request to delete and the removal."),
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
            "description": "Who must finish before the object is removed."},
        "ownerReferences": {"type": "array", "items": {"allOf": [reference(OWNER_REFERENCE)]},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid",
            "description": "Objects whose removal removes this one."},
        "managedFields": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic",
            "description": "Which manager set which fields."},
        "selfLink": text("No longer set."),
    }});
    let owner = json!({"type": "object", "description": "An object that owns another.", "x-kubernetes-map-type": "atomic",
        "required": ["apiVersion", "kind", "name", "uid"], "properties": {
        "apiVersion": text("Group and version of the owner."), "kind": text("Kind of the owner."),
        "name": text("Name of the owner."), "uid": text("Identity of the owner."),
        "controller": {"type": "boolean", "description": "Whether the owner manages this object."},
        "blockOwnerDeletion": {"type": "boolean", "description": "Whether a foreground deletion of the owner waits for this object."},
    }});
    let list_meta = json!({"type": "object", "description": "Metadata of a list.", "properties": {
        "resourceVersion": text("Version of the list, to watch from."),
        "continue": text("Token of the next page; empty on the last."),
        "remainingItemCount": number("Objects after this page, if known."),
        "selfLink": text("No longer set."),
    }});
    [(OBJECT_META, object_meta), (LIST_META, list_meta), (OWNER_REFERENCE, owner)]
}

/// Version 2 has parameters with inline types, bodies among the parameters, and schemas directly in answers.
fn older_path(mut item: Value) -> Value {
    for (_, operation) in item.as_object_mut().into_iter().flatten() {
        if let Some(list) = operation.as_array_mut() {
            list.iter_mut().for_each(older_parameter);
            continue;
        }
        let Some(fields) = operation.as_object_mut() else { continue };
        let body = fields.remove("requestBody");
        let consumes: Vec<String> = body
            .as_ref()
            .and_then(|body| body["content"].as_object())
            .map(|types| types.keys().cloned().collect())
            .unwrap_or_default();
        if let Some(parameters) = fields.get_mut("parameters").and_then(Value::as_array_mut) {
            parameters.iter_mut().for_each(older_parameter);
            if let Some(schema) =
                consumes.first().and_then(|first| body.as_ref().map(|body| &body["content"][first]["schema"]))
            {
                parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": schema}));
            }
        }
        if !consumes.is_empty() {
            fields.insert("consumes".to_owned(), json!(consumes));
        }
        if let Some(answer) = fields.get_mut("responses").and_then(|responses| responses.get_mut("200")) {
            let schema = answer["content"]["application/json"]["schema"].take();
            *answer = json!({"description": "OK", "schema": schema});
        }
    }
    older_schema(&mut item, false);
    item
}

fn older_parameter(parameter: &mut Value) {
    let Some(fields) = parameter.as_object_mut() else { return };
    if let Some(Value::Object(schema)) = fields.remove("schema") {
        fields.extend(schema);
    }
}

/// References move, and what version 2 cannot say is left out. `names`: the keys are names, not keywords.
fn older_schema(value: &mut Value, names: bool) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|item| older_schema(item, false)),
        Value::Object(map) => {
            if !names {
                unwrap_lone_reference(map);
                for key in ["anyOf", "oneOf", "not", "nullable"] {
                    map.remove(key);
                }
                if let Some(Value::String(target)) = map.get_mut("$ref") {
                    *target = target.replace(COMPONENTS, "#/definitions/");
                }
            }
            map.iter_mut().for_each(|(key, child)| older_schema(child, !names && key == "properties"));
        }
        _ => {}
    }
}

/// A lone reference needs no `allOf` in version 2, and clients of that age do not expect one.
fn unwrap_lone_reference(map: &mut Map<String, Value>) {
    let lone = match map.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([Value::Object(only)]) if only.contains_key("$ref") => only.clone(),
        _ => return,
    };
    map.remove("allOf");
    map.extend(lone);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::catalog::tests::{resource, sample};

    #[test]
    fn a_document_describes_kind_list_and_metadata() {
        let document = v3("example.com", "v1", sample().resources("example.com", "v1").unwrap());
        let schemas = &document["components"]["schemas"];
        let widget = &schemas["com.example.v1.Widget"];
        assert_eq!(
            widget["x-kubernetes-group-version-kind"],
            json!([{"group": "example.com", "version": "v1", "kind": "Widget"}])
        );
        assert_eq!(widget["properties"]["metadata"]["allOf"][0]["$ref"], format!("{COMPONENTS}{OBJECT_META}"));
        assert_eq!(
            schemas["com.example.v1.WidgetList"]["properties"]["items"]["items"]["$ref"],
            format!("{COMPONENTS}com.example.v1.Widget")
        );
        assert!(schemas[OBJECT_META]["properties"]["labels"].is_object());
        assert!(document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets"]["post"].is_object());
    }

    /// Every `$ref` in a document leads somewhere.
    fn check_references(value: &Value, document: &Value) {
        match value {
            Value::Object(map) => {
                if let Some(target) = map.get("$ref").and_then(Value::as_str) {
                    let pointer = target.trim_start_matches('#');
                    assert!(document.pointer(pointer).is_some(), "{target}");
                }
                map.values().for_each(|child| check_references(child, document));
            }
            Value::Array(list) => list.iter().for_each(|child| check_references(child, document)),
            _ => {}
        }
    }

    #[test]
    fn all_references_resolve_in_both_formats() {
        let catalog = sample();
        for (group, version) in catalog.group_versions() {
            let document = v3(group, version, catalog.resources(group, version).unwrap());
            check_references(&document, &document);
        }
        let older = v2(&catalog);
        check_references(&older, &older);
        assert_eq!(older["swagger"], "2.0");
    }

    #[test]
    fn version_two_has_bodies_among_the_parameters() {
        let older = v2(&sample());
        let post = &older["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"];
        let parameters = post["parameters"].as_array().unwrap();
        assert!(
            parameters
                .iter()
                .any(|p| p["name"] == "body" && p["schema"]["$ref"] == "#/definitions/io.k8s.api.core.v1.Pod")
        );
        assert!(parameters.iter().any(|p| p["name"] == "fieldValidation" && p["type"] == "string"));
        assert!(post["responses"]["200"]["schema"]["$ref"].is_string());
    }

    #[test]
    fn definitions_are_named_after_the_group_backwards() {
        assert_eq!(definition_name(&resource("a.example.com", "v1", "X")), "com.example.a.v1.X");
        assert_eq!(definition_name(&resource("", "v1", "Pod")), "io.k8s.api.core.v1.Pod");
        let named = ApiResource { definition: Some("d".to_owned()), ..resource("apps", "v1", "X") };
        assert_eq!(definition_name(&named), "d");
    }
}
