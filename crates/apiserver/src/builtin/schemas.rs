//! Schema trees of the built-in kinds, built from the table on first use.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;

use super::table::{self, Definition, Raw};
use crate::schema::{Additional, Constraints, JsonType, ListType, Logic, Node, PatchStrategy, Schema};

/// The tree of a kind. A kind that is not built in gives a tree that accepts anything.
pub(crate) fn schema(group: &str, version: &str, kind: &str) -> Node {
    super::kind(group, version, kind).map_or_else(Node::default, |row| schema_of(row.definition))
}

/// The tree of a definition such as `io.k8s.api.autoscaling.v1.Scale`.
pub(crate) fn schema_of(name: &str) -> Node {
    static NODES: OnceLock<Mutex<Nodes>> = OnceLock::new();
    let nodes = NODES.get_or_init(Mutex::default);
    table::definition(name)
        .map_or_else(Node::default, |definition| nodes.lock().unwrap_or_else(PoisonError::into_inner).of(definition))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
}
