//! A complete Kubernetes object inside another one, kept as it is.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object with `apiVersion`, `kind` and `metadata`; nothing of it is pruned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EmbeddedObject(pub Value);

impl EmbeddedObject {
    fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }
}

impl Deref for EmbeddedObject {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl DerefMut for EmbeddedObject {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.0
    }
}

impl JsonSchema for EmbeddedObject {
    fn schema_name() -> Cow<'static, str> {
        "EmbeddedObject".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

/// A free-form object: the server keeps every field and checks none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FreeObject(pub Value);

impl JsonSchema for FreeObject {
    fn schema_name() -> Cow<'static, str> {
        "FreeObject".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    }
}

/// Bytes, written as base64.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Base64(pub Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use base64::Engine as _;
        serializer.serialize_str(&base64::engine::general_purpose::STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use base64::Engine as _;
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        base64::engine::general_purpose::STANDARD.decode(text.as_bytes()).map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Base64 {
    fn schema_name() -> Cow<'static, str> {
        "Base64".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "byte"})
    }
}
