//! The schema for server-side apply: each path is a map, a list or a scalar, atomic or granular. Metadata has the same
//! type for every kind.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::Value;

use super::element::Element;
use crate::schema::{Additional, JsonType, ListType, Node, Schema};

/// The type of a value at some path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type<'a> {
    Declared {
        schema: &'a Schema,
        /// This schema or one above it preserves unknown fields.
        open: bool,
        /// The value is an API object: it has apiVersion, kind and metadata.
        object: bool,
    },
    /// No schema: maps are owned by field, lists are owned whole.
    Deduced,
    /// No schema, owned whole.
    Opaque,
}

/// What a value is to be treated as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape<'a> {
    Map { atomic: bool },
    List(&'a ListType),
    Scalar(Scalar),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

/// A field of a map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    /// `None` when the schema does not know the field.
    pub(super) declared: Option<Type<'a>>,
    /// A property of a struct; its presence alone is not owned.
    pub(super) named: bool,
}

impl<'a> Field<'a> {
    /// The type to go on with where unknown fields are tolerated.
    pub(super) fn tolerant(self) -> Type<'a> {
        self.declared.unwrap_or(Type::Deduced)
    }
}

impl<'a> Type<'a> {
    pub(super) fn root(schema: &'a Schema) -> Self {
        Type::Declared { schema, open: schema.preserve_unknown, object: true }
    }

    fn below(schema: &'a Schema, open: bool) -> Self {
        Type::Declared { schema, open: open || schema.preserve_unknown, object: schema.embedded_resource }
    }

    pub(super) fn shape(self, value: &Value) -> Shape<'a> {
        static ATOMIC_LIST: ListType = ListType::Atomic;
        match self {
            Type::Declared { schema, .. } => declared_shape(schema, value),
            Type::Deduced | Type::Opaque => match value {
                Value::Array(_) => Shape::List(&ATOMIC_LIST),
                Value::Object(_) | Value::Null => Shape::Map { atomic: matches!(self, Type::Opaque) },
                _ => Shape::Scalar(Scalar::Untyped),
            },
        }
    }

    pub(super) fn field(self, name: &str) -> Field<'a> {
        let unnamed = |declared| Field { declared, named: false };
        let Type::Declared { schema, open, object } = self else { return unnamed(Some(self)) };
        if object && let Some(common) = object_schema().properties.get(name) {
            return Field { declared: Some(Self::below(common, false)), named: true };
        }
        if let Some(property) = schema.properties.get(name) {
            return Field { declared: Some(Self::below(property, open)), named: true };
        }
        match &schema.additional {
            Additional::Schema(node) => unnamed(Some(Self::below(node, open))),
            // A map of which nothing is said may hold anything.
            Additional::None if open || (schema.properties.is_empty() && !object) => unnamed(Some(Type::Deduced)),
            Additional::None => unnamed(None),
        }
    }

    /// The type of the items of a list.
    pub(super) fn item(self) -> Type<'a> {
        match self {
            Type::Declared { schema, open, .. } => {
                schema.items.as_ref().map_or(Type::Opaque, |items| Self::below(items, open))
            }
            Type::Deduced | Type::Opaque => Type::Opaque,
        }
    }

    /// Whether the value at this path has one owner, judged without a value.
    pub(super) fn is_atomic(self) -> bool {
        match self {
            Type::Declared { schema, .. } => match schema.json_type {
                JsonType::Array => schema.list_type == ListType::Atomic,
                JsonType::Object | JsonType::Any => schema.atomic_map,
                _ => false,
            },
            Type::Deduced | Type::Opaque => false,
        }
    }

    /// The element that names an item of a list of this type, or why it has none.
    pub(super) fn item_element(self, list: &'a ListType, item: &'a Value) -> Result<Element<'a>, String> {
        match (list, item) {
            (ListType::Atomic, _) => Err("invalid indexing of non-associative list".to_owned()),
            (ListType::Set, Value::Object(_)) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            (ListType::Set, Value::Array(_)) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            (ListType::Set, Value::Null) => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            (ListType::Set, scalar) => Ok(Element::Value(Cow::Borrowed(scalar))),
            (ListType::Map(_), Value::Null) => Err("associative list with keys may not have a null element".to_owned()),
            (ListType::Map(names), Value::Object(fields)) => {
                let mut keys = Vec::with_capacity(names.len());
                for name in names {
                    if let Some(value) = fields.get(name).or_else(|| self.key_default(name)) {
                        keys.push((Cow::Borrowed(name.as_str()), Cow::Borrowed(value)));
                    }
                }
                if keys.is_empty() && !names.is_empty() {
                    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
                    return Err(format!(
                        "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
                         default values for any key fields)",
                        quoted.join(" ")
                    ));
                }
                keys.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(Element::Key(keys))
            }
            (ListType::Map(_), _) => Err("associative list with keys may not have non-map elements".to_owned()),
        }
    }

    /// The default of a key field of the items, such as `protocol: TCP`.
    fn key_default(self, name: &str) -> Option<&'a Value> {
        match self.item() {
            Type::Declared { schema, .. } => schema.properties.get(name)?.default.as_ref(),
            Type::Deduced | Type::Opaque => None,
        }
    }
}

fn declared_shape<'a>(schema: &'a Schema, value: &Value) -> Shape<'a> {
    if schema.int_or_string && schema.json_type != JsonType::Any {
        return Shape::Scalar(Scalar::Untyped);
    }
    match schema.json_type {
        JsonType::Object => Shape::Map { atomic: schema.atomic_map },
        JsonType::Array => Shape::List(&schema.list_type),
        JsonType::String => match schema.constraints.format.as_deref() {
            None | Some("" | "byte") => Shape::Scalar(Scalar::String),
            Some(_) => Shape::Scalar(Scalar::Untyped),
        },
        JsonType::Integer | JsonType::Number => Shape::Scalar(Scalar::Numeric),
        JsonType::Boolean => Shape::Scalar(Scalar::Boolean),
        JsonType::Any => match value {
            Value::Array(_) => Shape::List(&schema.list_type),
            Value::Object(_) | Value::Null => Shape::Map { atomic: schema.atomic_map },
            _ => Shape::Scalar(Scalar::Untyped),
        },
    }
}

/// What every API object has beside its own fields.
fn object_schema() -> &'static Schema {
    static OBJECT: OnceLock<Schema> = OnceLock::new();
    OBJECT.get_or_init(|| object_of([("apiVersion", text()), ("kind", text()), ("metadata", Node::new(object_meta()))]))
}

fn object_meta() -> Schema {
    let time = || Node::new(of_format(JsonType::String, "date-time"));
    let number = || Node::new(of_type(JsonType::Integer));
    let text_map = || Node::new(Schema { additional: Additional::Schema(text()), ..of_type(JsonType::Object) });
    let list = |items: Node, list_type: ListType| {
        Node::new(Schema { items: Some(items), list_type, ..of_type(JsonType::Array) })
    };
    let flag = || Node::new(of_type(JsonType::Boolean));
    let owner = Schema {
        atomic_map: true,
        ..object_of([
            ("apiVersion", text()),
            ("blockOwnerDeletion", flag()),
            ("controller", flag()),
            ("kind", text()),
            ("name", text()),
            ("uid", text()),
        ])
    };
    let managed = object_of([
        ("apiVersion", text()),
        ("fieldsType", text()),
        ("fieldsV1", Node::new(of_type(JsonType::Object))),
        ("manager", text()),
        ("operation", text()),
        ("subresource", text()),
        ("time", time()),
    ]);
    object_of([
        ("annotations", text_map()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", number()),
        ("deletionTimestamp", time()),
        ("finalizers", list(text(), ListType::Set)),
        ("generateName", text()),
        ("generation", number()),
        ("labels", text_map()),
        ("managedFields", list(Node::new(managed), ListType::Atomic)),
        ("name", text()),
        ("namespace", text()),
        ("ownerReferences", list(Node::new(owner), ListType::Map(vec!["uid".to_owned()]))),
        ("resourceVersion", text()),
        ("selfLink", text()),
        ("uid", text()),
    ])
}

fn of_type(json_type: JsonType) -> Schema {
    Schema { json_type, ..Schema::default() }
}

fn of_format(json_type: JsonType, format: &str) -> Schema {
    let mut schema = of_type(json_type);
    schema.constraints.format = Some(format.to_owned());
    schema
}

fn text() -> Node {
    Node::new(of_type(JsonType::String))
}

fn object_of<const N: usize>(properties: [(&str, Node); N]) -> Schema {
    let properties = properties.into_iter().map(|(name, node)| (name.to_owned(), node)).collect();
    Schema { properties, ..of_type(JsonType::Object) }
}
