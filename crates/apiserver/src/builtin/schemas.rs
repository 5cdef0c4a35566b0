//! Schema trees and OpenAPI definitions of the built-in kinds, built from the table on first use. Descriptions come from
//! `k8s-openapi`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Map, Value, json};

use super::descriptions;
use super::table::{self, Definition, Raw};
use crate::schema::{Additional, Constraints, JsonType, ListType, Logic, Node, PatchStrategy, Schema};

/// The tree of a kind. A kind that is not built in gives a tree that accepts anything.
pub fn schema(group: &str, version: &str, kind: &str) -> Node {
    super::kind(group, version, kind).map_or_else(Node::default, |row| schema_of(row.definition))
}

/// The tree of a definition such as `io.k8s.api.autoscaling.v1.Scale`.
pub fn schema_of(name: &str) -> Node {
    static NODES: OnceLock<Mutex<Nodes>> = OnceLock::new();
    let nodes = NODES.get_or_init(Mutex::default);
    table::definition(name)
        .map_or_else(Node::default, |definition| nodes.lock().unwrap_or_else(PoisonError::into_inner).of(definition))
}

/// Names of all definitions, sorted.
pub fn definition_names() -> impl Iterator<Item = &'static str> {
    table::definitions().keys().copied()
}

/// An OpenAPI v3 schema with descriptions; references point to `#/components/schemas/`.
pub fn openapi_definition(name: &str) -> Option<Value> {
    let definition = table::definition(name)?;
    let mut out = openapi(definition.raw());
    let Some(object) = out.as_object_mut() else { return Some(out) };
    if let Some(text) = descriptions::description_of(name, "") {
        object.insert("description".to_owned(), json!(text));
    }
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        for (field, property) in properties {
            describe(name, field, property);
        }
    }
    Some(out)
}

/// Names of the definitions that a definition refers to, directly or not, itself included.
pub fn definition_closure(name: &str) -> Vec<&'static str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = vec![name.to_owned()];
    while let Some(next) = open.pop() {
        let Some(definition) = table::definition(&next) else { continue };
        if found.insert(definition.name) {
            references(definition.raw(), &mut open);
        }
    }
    found.into_iter().collect()
}

fn references(value: &Value, out: &mut Vec<String>) {
    let raw = Raw::of(value);
    out.extend(raw.reference.map(str::to_owned));
    for key in ["i", "a"] {
        if let Some(inner) = raw.get(key) {
            references(inner, out);
        }
    }
    for property in raw.get("p").and_then(Value::as_object).into_iter().flatten() {
        references(property.1, out);
    }
}

#[derive(Default)]
struct Nodes {
    made: BTreeMap<&'static str, Node>,
}

impl Nodes {
    fn of(&mut self, definition: &'static Definition) -> Node {
        if let Some(node) = self.made.get(definition.name) {
            return node.clone();
        }
        let node = Node::default();
        self.made.insert(definition.name, node.clone());
        node.fill(self.definition_schema(definition));
        node
    }

    fn definition_schema(&mut self, definition: &'static Definition) -> Schema {
        let mut out = self.build(definition.raw());
        match definition.go_type() {
            "Quantity" => {
                let any_of = [JsonType::String, JsonType::Number].map(typed).to_vec();
                out.logic = Logic { any_of, ..Logic::default() };
            }
            "IntOrString" => {
                out.int_or_string = true;
                out.constraints = Constraints::default();
            }
            "RawExtension" | "FieldsV1" | "Patch" | "JSON" | "JSONSchemaPropsOrStringArray" => {
                out.preserve_unknown = true;
            }
            "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" => {
                let schema = definition.name.replace(definition.go_type(), "JSONSchemaProps");
                if let Some(target) = table::definition(&schema) {
                    out = Schema { json_type: JsonType::Any, ..self.build(target.raw()) };
                }
            }
            _ => {}
        }
        out
    }

    /// The node of a property, list item or map value.
    fn inner(&mut self, value: &Value) -> Node {
        let raw = Raw::of(value);
        let Some(target) = raw.reference.and_then(table::definition) else { return Node::new(self.build(value)) };
        let node = self.of(target);
        if raw.object.is_none() {
            return node;
        }
        // Patch strategy, map type and default stand beside the reference and belong to this use of it only.
        let mut own = (*node).clone();
        annotate(&mut own, &raw);
        Node::new(own)
    }

    fn build(&mut self, value: &Value) -> Schema {
        let raw = Raw::of(value);
        let mut out = Schema { json_type: json_type(raw.kind), ..Schema::default() };
        out.constraints.format = raw.format.map(str::to_owned);
        out.items = raw.get("i").map(|items| self.inner(items));
        if let Some(values) = raw.get("a") {
            out.additional = Additional::Schema(self.inner(values));
        }
        for (name, property) in raw.get("p").and_then(Value::as_object).into_iter().flatten() {
            out.properties.insert(name.clone(), self.inner(property));
        }
        out.required = strings(raw.get("r"));
        annotate(&mut out, &raw);
        out
    }
}

fn typed(json_type: JsonType) -> Node {
    Node::new(Schema { json_type, ..Schema::default() })
}

fn annotate(out: &mut Schema, raw: &Raw<'_>) {
    match raw.get("l").and_then(Value::as_str) {
        Some("map") => out.list_type = ListType::Map(strings(raw.get("k"))),
        Some("set") => out.list_type = ListType::Set,
        _ => {}
    }
    if raw.get("m").and_then(Value::as_str) == Some("atomic") {
        out.atomic_map = true;
    }
    if let Some(strategy) = raw.get("s").and_then(Value::as_str) {
        let words: Vec<&str> = strategy.split(',').collect();
        out.patch = PatchStrategy {
            replace: words.contains(&"replace"),
            merge: words.contains(&"merge"),
            retain_keys: words.contains(&"retainKeys"),
            merge_key: raw.get("y").and_then(Value::as_str).map(str::to_owned),
        };
    }
    if let Some(default) = raw.get("d") {
        out.default = Some(default.clone());
    }
    if let Some(allowed) = raw.get("e").and_then(Value::as_array) {
        out.constraints.allowed.clone_from(allowed);
    }
}

fn json_type(code: Option<&str>) -> JsonType {
    match code {
        Some("o") => JsonType::Object,
        Some("a") => JsonType::Array,
        Some("s") => JsonType::String,
        Some("i") => JsonType::Integer,
        Some("n") => JsonType::Number,
        Some("b") => JsonType::Boolean,
        _ => JsonType::Any,
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn type_name(code: &str) -> &'static str {
    match code {
        "a" => "array",
        "s" => "string",
        "i" => "integer",
        "n" => "number",
        "b" => "boolean",
        _ => "object",
    }
}

fn openapi(value: &Value) -> Value {
    let raw = Raw::of(value);
    let mut out = Map::new();
    if let Some(name) = raw.reference {
        out.insert("allOf".to_owned(), json!([{"$ref": format!("#/components/schemas/{name}")}]));
    }
    if let Some(code) = raw.kind {
        out.insert("type".to_owned(), json!(type_name(code)));
    }
    if let Some(format) = raw.format {
        out.insert("format".to_owned(), json!(format));
    }
    for (short, long) in [
        ("r", "required"),
        ("l", "x-kubernetes-list-type"),
        ("k", "x-kubernetes-list-map-keys"),
        ("m", "x-kubernetes-map-type"),
        ("s", "x-kubernetes-patch-strategy"),
        ("y", "x-kubernetes-patch-merge-key"),
        ("g", "x-kubernetes-group-version-kind"),
        ("u", "x-kubernetes-unions"),
        ("d", "default"),
        ("e", "enum"),
    ] {
        if let Some(value) = raw.get(short) {
            out.insert(long.to_owned(), value.clone());
        }
    }
    for (short, long) in [("i", "items"), ("a", "additionalProperties")] {
        if let Some(inner) = raw.get(short) {
            out.insert(long.to_owned(), openapi(inner));
        }
    }
    if let Some(properties) = raw.get("p").and_then(Value::as_object) {
        let all: Map<String, Value> = properties.iter().map(|(name, value)| (name.clone(), openapi(value))).collect();
        out.insert("properties".to_owned(), Value::Object(all));
    }
    // The two scalar unions of Kubernetes have no type in the table.
    if raw.format == Some("int-or-string") {
        out.insert("oneOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    Value::Object(out)
}

fn describe(definition: &str, field: &str, property: &mut Value) {
    if let (Some(text), Some(object)) = (descriptions::description_of(definition, field), property.as_object_mut()) {
        object.insert("description".to_owned(), json!(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_spec_has_merge_keys_and_list_types() {
        let pod = schema("", "v1", "Pod");
        let containers = &pod.properties["spec"].properties["containers"];
        assert_eq!(containers.list_type, ListType::Map(vec!["name".to_owned()]));
        assert_eq!(containers.patch.merge_key.as_deref(), Some("name"));
        let ports = &containers.items.as_ref().unwrap().properties["ports"];
        assert_eq!(ports.list_type, ListType::Map(vec!["containerPort".to_owned(), "protocol".to_owned()]));
        assert_eq!(ports.items.as_ref().unwrap().properties["protocol"].default, Some(json!("TCP")));
        let volumes = &pod.properties["spec"].properties["volumes"];
        assert!(volumes.patch.merge && volumes.patch.retain_keys);
    }

    #[test]
    fn a_patch_strategy_beside_a_reference_is_kept() {
        let deployment = schema("apps", "v1", "Deployment");
        let spec = &deployment.properties["spec"];
        assert!(spec.properties["strategy"].patch.retain_keys);
        assert!(spec.properties["strategy"].properties.contains_key("rollingUpdate"));
        assert!(spec.properties["selector"].atomic_map);
    }

    #[test]
    fn a_crd_schema_refers_to_itself() {
        let crd = schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let props = &crd.properties["spec"].properties["versions"].items.as_ref().unwrap().properties["schema"]
            .properties["openAPIV3Schema"];
        let Additional::Schema(inner) = &props.properties["properties"].additional else { panic!("no map") };
        assert!(inner.properties.contains_key("properties"));
        assert!(props.properties["items"].properties.contains_key("items"));
        assert!(props.properties["default"].preserve_unknown);
    }

    #[test]
    fn every_kind_has_a_schema_and_unknown_kinds_accept_anything() {
        for row in crate::builtin::kinds() {
            let node = schema(row.group, row.version, row.kind);
            assert!(node.properties.contains_key("metadata"), "{}", row.definition);
        }
        assert!(schema("x", "v1", "Y").preserve_unknown);
    }

    #[test]
    fn openapi_definitions_carry_prose_and_references() {
        let definition = openapi_definition("io.k8s.api.apps.v1.DeploymentSpec").unwrap();
        assert_eq!(definition["type"], json!("object"));
        assert_eq!(definition["required"], json!(["selector", "template"]));
        assert_eq!(
            definition["properties"]["template"]["allOf"][0]["$ref"],
            json!("#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec")
        );
        assert!(definition["properties"]["replicas"]["description"].as_str().unwrap().contains("pods"));
        assert!(openapi_definition("no.such").is_none());
    }

    #[test]
    fn a_closure_holds_what_a_document_must_define() {
        let closure = definition_closure("io.k8s.api.apps.v1.Deployment");
        assert!(closure.contains(&"io.k8s.api.core.v1.Container"));
        assert!(!closure.contains(&"io.k8s.api.core.v1.Namespace"));
    }
}
