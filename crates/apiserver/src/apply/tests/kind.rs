//! The kind that the tests write: one field of every merge type. Written as an OpenAPI schema and turned into the tree
//! by the few rules that the tests need.

use serde_json::Value;

use super::yaml;
use crate::schema::{Additional, JsonType, ListType, Node, Schema};

pub(super) const WEB: &str = r#"
type: object
properties:
  spec:
    type: object
    properties:
      replicas: {type: integer}
      paused: {type: boolean}
      image: {type: string}
      rate: {type: number}
      maxSurge: {x-kubernetes-int-or-string: true}
      settings: {type: object, additionalProperties: {type: string}}
      selector: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
      args: {type: array, items: {type: string}}
      zones: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      weights: {type: array, x-kubernetes-list-type: set, items: {type: integer}}
      strategy:
        type: object
        properties:
          type: {type: string}
          limits: {type: object, properties: {low: {type: integer}, high: {type: integer}}}
      points:
        type: object
        additionalProperties: {type: object, properties: {x: {type: integer}, y: {type: integer}}}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true}
      anything: {x-kubernetes-preserve-unknown-fields: true}
      embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
      containers:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items:
          type: object
          properties:
            name: {type: string}
            image: {type: string}
            args: {type: array, items: {type: string}}
            env:
              type: array
              x-kubernetes-list-type: map
              x-kubernetes-list-map-keys: [name]
              items: {type: object, properties: {name: {type: string}, value: {type: string}}}
            ports:
              type: array
              x-kubernetes-list-type: map
              x-kubernetes-list-map-keys: [containerPort, protocol]
              items:
                type: object
                properties:
                  containerPort: {type: integer}
                  protocol: {type: string, default: TCP}
                  name: {type: string}
            resources: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}
  status:
    type: object
    properties:
      ready: {type: integer}
      conditions:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [type]
        items: {type: object, properties: {type: {type: string}, status: {type: string}}}
"#;

pub(super) fn web() -> Schema {
    tree(&yaml(WEB))
}

pub(super) fn tree(openapi: &Value) -> Schema {
    let text = |key: &str| openapi.get(key).and_then(Value::as_str);
    let flag = |key: &str| openapi.get(key) == Some(&Value::Bool(true));
    let mut schema = Schema {
        json_type: match text("type") {
            Some("object") => JsonType::Object,
            Some("array") => JsonType::Array,
            Some("string") => JsonType::String,
            Some("integer") => JsonType::Integer,
            Some("number") => JsonType::Number,
            Some("boolean") => JsonType::Boolean,
            _ => JsonType::Any,
        },
        int_or_string: flag("x-kubernetes-int-or-string"),
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag("x-kubernetes-embedded-resource"),
        atomic_map: text("x-kubernetes-map-type") == Some("atomic"),
        default: openapi.get("default").cloned(),
        items: openapi.get("items").map(|items| Node::new(tree(items))),
        ..Schema::default()
    };
    for (name, property) in openapi.get("properties").and_then(Value::as_object).into_iter().flatten() {
        schema.properties.insert(name.clone(), Node::new(tree(property)));
    }
    if let Some(additional) = openapi.get("additionalProperties") {
        schema.additional = Additional::Schema(Node::new(tree(additional)));
    }
    schema.list_type = match text("x-kubernetes-list-type") {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = openapi["x-kubernetes-list-map-keys"].as_array().unwrap();
            ListType::Map(keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect())
        }
        _ => ListType::Atomic,
    };
    schema
}
