//! The schema tree for pruning, defaulting, validation, patching and server-side apply. CustomResourceDefinitions and the
//! built-in tables are converted to it.

mod default;
mod embedded;
mod formats;
mod keyed;
pub mod objectmeta;
mod openapi_rules;
mod parse;
pub(crate) mod path;
mod pattern;
mod prune;
mod publish;
mod structural;
mod uniqueness;
mod validate;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub use default::{DefaultsTooLarge, MAX_DEFAULT_BYTES, apply_defaults};
pub(crate) use keyed::KeyedItems;
pub use parse::CRD_SCHEMA_PATH;
pub use pattern::PatternCache;
pub(crate) use pattern::go_regex;
pub use prune::{prune, unknown_fields};
pub use publish::to_openapi;
pub(crate) use validate::{equal_by_schema, go_number, validate_at};
pub use validate::{validate, validate_status};

/// A link to a schema. Links may form cycles (`JSONSchemaProps` refers to itself), so a node can be made first and
/// filled in later; reading one that was never filled in gives a schema that accepts anything.
#[derive(Debug, Clone, Default)]
pub struct Node(Arc<OnceLock<Schema>>);

impl Node {
    pub fn new(schema: Schema) -> Self {
        let node = Self::default();
        node.fill(schema);
        node
    }

    /// Fills in a node made by `default()`. The first filling counts.
    pub fn fill(&self, schema: Schema) {
        let _ = self.0.set(schema);
    }
}

impl Deref for Node {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        static ANYTHING: OnceLock<Schema> = OnceLock::new();
        self.0.get().unwrap_or_else(|| ANYTHING.get_or_init(|| Schema { preserve_unknown: true, ..Schema::default() }))
    }
}

/// The JSON type that a schema demands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JsonType {
    /// No `type` given: any value is valid (also used with `x-kubernetes-int-or-string`).
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// How a list is merged by server-side apply and checked for uniqueness (`x-kubernetes-list-type`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// How strategic merge patch treats a field (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Even an object is replaced as a whole.
    pub replace: bool,
    pub merge: bool,
    pub retain_keys: bool,
    pub merge_key: Option<String>,
}

/// What `additionalProperties` says.
#[derive(Debug, Clone, Default)]
pub enum Additional {
    /// Not given, or `false`.
    #[default]
    None,
    /// `true`: any value.
    Anything,
    Schema(Node),
}

/// One `x-kubernetes-validations` rule as written; the `cel` module compiles it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: String,
    pub field_path: String,
    pub optional_old_self: bool,
}

/// Value constraints of JSON schema.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Constraints {
    pub allowed: Vec<Value>,
    pub pattern: Option<String>,
    pub format: Option<String>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
}

/// The logical junctors. Inside them only value constraints count.
#[derive(Debug, Clone, Default)]
pub struct Logic {
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Node>,
}

/// One node of the tree.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    pub json_type: JsonType,
    pub nullable: bool,
    pub int_or_string: bool,
    pub preserve_unknown: bool,
    pub embedded_resource: bool,
    pub title: Option<String>,
    pub description: Option<String>,
    pub properties: BTreeMap<String, Node>,
    pub required: Vec<String>,
    pub additional: Additional,
    pub items: Option<Node>,
    pub default: Option<Value>,
    pub list_type: ListType,
    /// `x-kubernetes-map-type: atomic`: the whole map or struct has one owner.
    pub atomic_map: bool,
    pub patch: PatchStrategy,
    pub constraints: Constraints,
    pub logic: Logic,
    pub rules: Vec<Rule>,
    /// `constraints.pattern`, compiled at first use.
    pub pattern_cache: PatternCache,
}

impl Schema {
    /// The schema of an object's entry: its property, or what all further entries share.
    pub fn field(&self, name: &str) -> Option<&Node> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(shared)) => Some(shared),
            _ => None,
        }
    }
}
