//! The schema tree for pruning, defaulting, validation, patching and server-side apply. CustomResourceDefinitions and the
//! built-in tables are converted to it.

mod default;
mod embedded;
mod formats;
mod keyed;
pub(crate) mod objectmeta;
mod openapi_rules;
mod parse;
pub(crate) mod path;
mod pattern;
#[cfg(test)]
mod properties;
mod prune;
mod publish;
mod structural;
mod uniqueness;
mod validate;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub(crate) use default::{DefaultsTooLarge, MAX_DEFAULT_BYTES, apply_defaults};
pub(crate) use keyed::KeyedItems;
pub(crate) use pattern::PatternCache;
pub(crate) use pattern::go_regex;
pub(crate) use prune::{prune, unknown_fields};
pub(crate) use publish::to_openapi;
pub(crate) use validate::{equal_by_schema, go_number, validate_at};
pub(crate) use validate::{validate, validate_status};

/// A link to a schema. Links may form cycles (`JSONSchemaProps` refers to itself), so a node can be made first and
/// filled in later; reading one that was never filled in gives a schema that accepts anything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node(Arc<OnceLock<Schema>>);

impl Node {
    pub(crate) fn new(schema: Schema) -> Self {
        let node = Self::default();
        node.fill(schema);
        node
    }

    /// Fills in a node made by `default()`. The first filling counts.
    pub(crate) fn fill(&self, schema: Schema) {
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
pub(crate) enum JsonType {
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
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// How strategic merge patch treats a field (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PatchStrategy {
    /// Even an object is replaced as a whole.
    pub(crate) replace: bool,
    pub(crate) merge: bool,
    pub(crate) retain_keys: bool,
    pub(crate) merge_key: Option<String>,
}

/// What `additionalProperties` says.
#[derive(Debug, Clone, Default)]
pub(crate) enum Additional {
    /// Not given, or `false`.
    #[default]
    None,
    Schema(Node),
}

/// One `x-kubernetes-validations` rule as written; the `cel` module compiles it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// `rule`.
    pub(crate) expression: String,
    pub(crate) message: String,
    pub(crate) message_expression: String,
    pub(crate) reason: String,
    pub(crate) field_path: String,
    pub(crate) optional_old_self: bool,
}

/// Value constraints of JSON schema.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Constraints {
    pub(crate) allowed: Vec<Value>,
    pub(crate) pattern: Option<String>,
    pub(crate) format: Option<String>,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
}

/// The logical junctors. Inside them only value constraints count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logic {
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Node>,
}

/// One node of the tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    pub(crate) json_type: JsonType,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) required: Vec<String>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Node>,
    pub(crate) default: Option<Value>,
    pub(crate) list_type: ListType,
    /// `x-kubernetes-map-type: atomic`: the whole map or struct has one owner.
    pub(crate) atomic_map: bool,
    pub(crate) patch: PatchStrategy,
    pub(crate) constraints: Constraints,
    pub(crate) logic: Logic,
    pub(crate) rules: Vec<Rule>,
    /// `constraints.pattern`, compiled at first use.
    pub(crate) pattern_cache: PatternCache,
}

impl Schema {
    /// The schema of an object's entry: its property, or what all further entries share.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(shared)) => Some(shared),
            _ => None,
        }
    }
}
