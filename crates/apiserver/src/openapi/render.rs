//! Renders a schema tree as OpenAPI 3 schemas.
//!
//! Nodes that occur more than once in a document (a pod template under five kinds) or contain themselves become named
//! components.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::schema::{Additional, Constraints, JsonType, ListType, Node, Schema};

/// Where components are referred to in version 3 documents.
pub(crate) const COMPONENTS: &str = "#/components/schemas/";

/// The components of one document.
#[derive(Debug, Default)]
pub(crate) struct Components {
    /// Nodes that get a name of their own, by identity.
    shared: HashSet<usize>,
    names: HashMap<usize, String>,
    pub(crate) schemas: BTreeMap<String, Value>,
}

impl Components {
    /// Looks through all trees first, to find what they share.
    pub(crate) fn survey<'a>(roots: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut out = Self::default();
        let mut seen = HashSet::new();
        for root in roots {
            out.count(root, &mut seen);
        }
        out
    }

    fn count(&mut self, node: &Node, seen: &mut HashSet<usize>) {
        let id = identity(node);
        if !seen.insert(id) {
            if !node.properties.is_empty() {
                self.shared.insert(id);
            }
            return;
        }
        for child in children(node) {
            self.count(child, seen);
        }
    }

    /// The schema of a root, without reference even if others refer to it.
    pub(crate) fn root(&mut self, node: &Node, name: &str) -> Value {
        self.names.insert(identity(node), name.to_owned());
        self.body(node, name)
    }

    /// A reference to a shared node, or the schema itself. `path` names the place, for the name of a component.
    fn schema(&mut self, node: &Node, path: &str) -> Value {
        let id = identity(node);
        if !self.shared.contains(&id) {
            return self.body(node, path);
        }
        let known = self.names.get(&id).cloned();
        let name = known.unwrap_or_else(|| {
            // The name is known before the body is made, so a node that contains itself ends here.
            self.names.insert(id, path.to_owned());
            let body = self.body(node, path);
            self.schemas.insert(path.to_owned(), body);
            path.to_owned()
        });
        json!({"allOf": [{"$ref": format!("{COMPONENTS}{name}")}]})
    }

    fn body(&mut self, node: &Node, path: &str) -> Value {
        let schema: &Schema = node;
        let mut out = Map::new();
        if let Some(description) = &schema.description {
            out.insert("description".to_owned(), json!(description));
        }
        put_type(&mut out, schema);
        if !schema.properties.is_empty() {
            let properties: Map<String, Value> = schema
                .properties
                .iter()
                .map(|(name, child)| (name.clone(), self.schema(child, &format!("{path}.{name}"))))
                .collect();
            out.insert("properties".to_owned(), Value::Object(properties));
        }
        if !schema.required.is_empty() {
            out.insert("required".to_owned(), json!(schema.required));
        }
        match &schema.additional {
            Additional::None => {}
            Additional::Schema(child) => {
                out.insert("additionalProperties".to_owned(), self.schema(child, &format!("{path}.value")));
            }
        }
        if let Some(items) = &schema.items {
            out.insert("items".to_owned(), self.schema(items, &format!("{path}.item")));
        }
        if let Some(default) = &schema.default {
            out.insert("default".to_owned(), default.clone());
        }
        self.put_logic(&mut out, schema, path);
        put_constraints(&mut out, &schema.constraints);
        put_extensions(&mut out, schema);
        Value::Object(out)
    }

    fn put_logic(&mut self, out: &mut Map<String, Value>, schema: &Schema, path: &str) {
        let logic = &schema.logic;
        for (key, nodes) in [("allOf", &logic.all_of), ("anyOf", &logic.any_of), ("oneOf", &logic.one_of)] {
            if !nodes.is_empty() {
                let parts: Vec<Value> = nodes.iter().map(|node| self.body(node, path)).collect();
                out.insert(key.to_owned(), json!(parts));
            }
        }
        if let Some(not) = &logic.not {
            let part = self.body(not, path);
            out.insert("not".to_owned(), part);
        }
    }
}

fn identity(node: &Node) -> usize {
    std::ptr::from_ref::<Schema>(node).addr()
}

fn children(node: &Node) -> Vec<&Node> {
    let mut out: Vec<&Node> = node.properties.values().collect();
    out.extend(&node.items);
    if let Additional::Schema(child) = &node.additional {
        out.push(child);
    }
    out
}

fn put_type(out: &mut Map<String, Value>, schema: &Schema) {
    let name = match schema.json_type {
        JsonType::Any => None,
        JsonType::Object => Some("object"),
        JsonType::Array => Some("array"),
        JsonType::String => Some("string"),
        JsonType::Integer => Some("integer"),
        JsonType::Number => Some("number"),
        JsonType::Boolean => Some("boolean"),
    };
    if let Some(name) = name {
        out.insert("type".to_owned(), json!(name));
    }
    if schema.nullable {
        out.insert("nullable".to_owned(), json!(true));
    }
}

fn put_constraints(out: &mut Map<String, Value>, constraints: &Constraints) {
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(key.to_owned(), value);
        }
    };
    let number = |value: Option<f64>| value.map(|value| json!(value));
    let count = |value: Option<u64>| value.map(|value| json!(value));
    let flag = |value: bool| value.then_some(Value::Bool(true));
    put("enum", (!constraints.allowed.is_empty()).then(|| json!(constraints.allowed)));
    put("pattern", constraints.pattern.as_ref().map(|text| json!(text)));
    put("format", constraints.format.as_ref().map(|text| json!(text)));
    put("minimum", number(constraints.minimum));
    put("maximum", number(constraints.maximum));
    put("exclusiveMinimum", flag(constraints.exclusive_minimum));
    put("exclusiveMaximum", flag(constraints.exclusive_maximum));
    put("multipleOf", number(constraints.multiple_of));
    put("minLength", count(constraints.min_length));
    put("maxLength", count(constraints.max_length));
    put("minItems", count(constraints.min_items));
    put("maxItems", count(constraints.max_items));
    put("uniqueItems", flag(constraints.unique_items));
    put("minProperties", count(constraints.min_properties));
    put("maxProperties", count(constraints.max_properties));
}

fn put_extensions(out: &mut Map<String, Value>, schema: &Schema) {
    let mut put = |key: &str, value: Value| {
        out.insert(format!("x-kubernetes-{key}"), value);
    };
    for (key, set) in [
        ("int-or-string", schema.int_or_string),
        ("preserve-unknown-fields", schema.preserve_unknown),
        ("embedded-resource", schema.embedded_resource),
    ] {
        if set {
            put(key, json!(true));
        }
    }
    if schema.atomic_map {
        put("map-type", json!("atomic"));
    }
    match &schema.list_type {
        ListType::Atomic if schema.json_type != JsonType::Array => {}
        ListType::Atomic => put("list-type", json!("atomic")),
        ListType::Set => put("list-type", json!("set")),
        ListType::Map(keys) => {
            put("list-type", json!("map"));
            put("list-map-keys", json!(keys));
        }
    }
    let strategies: Vec<&str> =
        [("replace", schema.patch.replace), ("retainKeys", schema.patch.retain_keys), ("merge", schema.patch.merge)]
            .into_iter()
            .filter_map(|(name, set)| set.then_some(name))
            .collect();
    if !strategies.is_empty() {
        put("patch-strategy", json!(strategies.join(",")));
    }
    if let Some(key) = &schema.patch.merge_key {
        put("patch-merge-key", json!(key));
    }
    if !schema.rules.is_empty() {
        let rules: Vec<Value> = schema.rules.iter().map(rule).collect();
        put("validations", json!(rules));
    }
}

fn rule(rule: &crate::schema::Rule) -> Value {
    let mut out = json!({"rule": rule.expression});
    for (key, text) in [
        ("message", &rule.message),
        ("messageExpression", &rule.message_expression),
        ("reason", &rule.reason),
        ("fieldPath", &rule.field_path),
    ] {
        if !text.is_empty() {
            out[key] = json!(text);
        }
    }
    if rule.optional_old_self {
        out["optionalOldSelf"] = json!(true);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{PatchStrategy, Rule};
    use expect_test::expect;

    fn text() -> Node {
        Node::new(Schema { json_type: JsonType::String, ..Schema::default() })
    }

    fn object(properties: &[(&str, Node)]) -> Node {
        let properties = properties.iter().map(|(name, node)| ((*name).to_owned(), node.clone())).collect();
        Node::new(Schema { json_type: JsonType::Object, properties, ..Schema::default() })
    }

    fn print(root: &Node) -> String {
        let mut components = Components::survey([root]);
        let body = components.root(root, "Root");
        let mut lines = vec![format!("Root {body}")];
        lines.extend(components.schemas.iter().map(|(name, schema)| format!("{name} {schema}")));
        lines.join("\n")
    }

    #[test]
    fn repeated_schemas_become_components() {
        let template = object(&[("image", text())]);
        let root = object(&[("a", template.clone()), ("b", template), ("c", text())]);
        expect![[r##"
            Root {"properties":{"a":{"allOf":[{"$ref":"#/components/schemas/Root.a"}]},"b":{"allOf":[{"$ref":"#/components/schemas/Root.a"}]},"c":{"type":"string"}},"type":"object"}
            Root.a {"properties":{"image":{"type":"string"}},"type":"object"}"##]]
        .assert_eq(&print(&root));
    }

    #[test]
    fn a_schema_may_contain_itself() {
        let node = Node::default();
        node.fill(Schema {
            json_type: JsonType::Object,
            properties: BTreeMap::from([("not".to_owned(), node.clone())]),
            ..Schema::default()
        });
        let root = object(&[("schema", node)]);
        expect![[r##"
            Root {"properties":{"schema":{"allOf":[{"$ref":"#/components/schemas/Root.schema"}]}},"type":"object"}
            Root.schema {"properties":{"not":{"allOf":[{"$ref":"#/components/schemas/Root.schema"}]}},"type":"object"}"##]]
        .assert_eq(&print(&root));
    }

    #[test]
    fn every_keyword_of_a_schema_is_printed() {
        let list = Node::new(Schema {
            json_type: JsonType::Array,
            description: Some("the list".to_owned()),
            nullable: true,
            items: Some(text()),
            list_type: ListType::Map(vec!["name".to_owned()]),
            patch: PatchStrategy {
                merge: true,
                retain_keys: true,
                merge_key: Some("name".to_owned()),
                ..PatchStrategy::default()
            },
            constraints: Constraints { max_items: Some(3), ..Constraints::default() },
            rules: vec![Rule {
                expression: "self.size() > 0".to_owned(),
                message: "empty".to_owned(),
                ..Rule::default()
            }],
            ..Schema::default()
        });
        let map = Node::new(Schema {
            json_type: JsonType::Object,
            additional: Additional::Schema(text()),
            atomic_map: true,
            default: Some(json!({})),
            ..Schema::default()
        });
        let port = Node::new(Schema { int_or_string: true, ..Schema::default() });
        expect![[r#"Root {"properties":{"list":{"description":"the list","items":{"type":"string"},"maxItems":3,"nullable":true,"type":"array","x-kubernetes-list-map-keys":["name"],"x-kubernetes-list-type":"map","x-kubernetes-patch-merge-key":"name","x-kubernetes-patch-strategy":"retainKeys,merge","x-kubernetes-validations":[{"message":"empty","rule":"self.size() > 0"}]},"map":{"additionalProperties":{"type":"string"},"default":{},"type":"object","x-kubernetes-map-type":"atomic"},"port":{"x-kubernetes-int-or-string":true}},"type":"object"}"#]]
            .assert_eq(&print(&object(&[("list", list), ("map", map), ("port", port)])));
    }
}
