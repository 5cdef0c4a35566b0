//! The static types of CEL, and the type a schema gives to its values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::schema::{Additional, JsonType, Schema};

#[derive(Debug, Clone)]
pub(super) enum Ty {
    /// Anything; checked when it is evaluated.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Type(Arc<Ty>),
    List(Arc<Ty>),
    Map(Arc<(Ty, Ty)>),
    /// An object with fields, told apart from others by where it was declared.
    Object(Arc<BTreeMap<String, Ty>>),
    Optional(Arc<Ty>),
    /// A type of the Kubernetes library, by its name.
    Opaque(&'static str),
    /// A type variable of a signature.
    Param(char),
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Dyn => f.write_str("dyn"),
            Ty::Null => f.write_str("null"),
            Ty::Bool => f.write_str("bool"),
            Ty::Int => f.write_str("int"),
            Ty::Uint => f.write_str("uint"),
            Ty::Double => f.write_str("double"),
            Ty::Text => f.write_str("string"),
            Ty::Bytes => f.write_str("bytes"),
            Ty::Duration => f.write_str("duration"),
            Ty::Timestamp => f.write_str("timestamp"),
            Ty::Type(inner) => write!(f, "type({inner})"),
            Ty::List(item) => write!(f, "list({item})"),
            Ty::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Ty::Object(_) => f.write_str("object"),
            Ty::Optional(inner) => write!(f, "optional_type({inner})"),
            Ty::Opaque(name) => f.write_str(name),
            Ty::Param(name) => write!(f, "{name}"),
        }
    }
}

/// What the type variables of a signature stand for in one call.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings(BTreeMap<char, Ty>);

impl Bindings {
    /// Whether a value of type `actual` may stand where `wanted` is asked for. Learns type variables on the way.
    pub(super) fn accept(&mut self, wanted: &Ty, actual: &Ty) -> bool {
        match (wanted, actual) {
            (Ty::Param(name), _) => match self.0.get(name).cloned() {
                None => {
                    self.0.insert(*name, actual.clone());
                    true
                }
                Some(Ty::Dyn | Ty::Null) if !matches!(actual, Ty::Null) => {
                    let fits = matches!(self.0.get(name), Some(Ty::Dyn)) || is_nullable(actual);
                    if fits && !matches!(self.0.get(name), Some(Ty::Dyn)) {
                        self.0.insert(*name, actual.clone());
                    }
                    fits
                }
                Some(bound) => self.accept(&bound, actual),
            },
            (Ty::Dyn, _) | (_, Ty::Dyn) => true,
            (Ty::Null, other) | (other, Ty::Null) => matches!(other, Ty::Null) || is_nullable(other),
            (Ty::List(a), Ty::List(b)) | (Ty::Optional(a), Ty::Optional(b)) | (Ty::Type(a), Ty::Type(b)) => {
                // Types are compared as values, so any two of them may meet.
                matches!(wanted, Ty::Type(_)) || self.accept(a, b)
            }
            (Ty::Map(a), Ty::Map(b)) => self.accept(&a.0, &b.0) && self.accept(&a.1, &b.1),
            (Ty::Object(a), Ty::Object(b)) => Arc::ptr_eq(a, b),
            (Ty::Opaque(a), Ty::Opaque(b)) => a == b,
            _ => std::mem::discriminant(wanted) == std::mem::discriminant(actual),
        }
    }

    /// The type with its variables replaced; one that nothing is known of is dynamic.
    pub(super) fn resolve(&self, ty: &Ty) -> Ty {
        match ty {
            Ty::Param(name) => self.0.get(name).cloned().unwrap_or(Ty::Dyn),
            Ty::List(item) => Ty::List(Arc::new(self.resolve(item))),
            Ty::Optional(inner) => Ty::Optional(Arc::new(self.resolve(inner))),
            Ty::Type(inner) => Ty::Type(Arc::new(self.resolve(inner))),
            Ty::Map(entry) => Ty::Map(Arc::new((self.resolve(&entry.0), self.resolve(&entry.1)))),
            other => other.clone(),
        }
    }
}

/// Types that may be compared with null. Strings, numbers, lists and maps may not.
fn is_nullable(ty: &Ty) -> bool {
    matches!(ty, Ty::Object(_) | Ty::Duration | Ty::Timestamp | Ty::Opaque(_) | Ty::Optional(_))
}

/// The common type of two, which is dynamic if they have nothing in common.
pub(super) fn join(a: &Ty, b: &Ty) -> Option<Ty> {
    let mut bindings = Bindings::default();
    let fits = bindings.accept(&Ty::Param('J'), a) && bindings.accept(&Ty::Param('J'), b);
    fits.then(|| bindings.resolve(&Ty::Param('J')))
}

/// The type of values of `schema`, or none if rules may not see them (no type, or no schema of their items).
/// `resource` holds for the root of a kind and for embedded resources: their kind, version and name can always be seen.
pub(super) fn declared(schema: &Schema, resource: bool) -> Option<Ty> {
    if schema.int_or_string {
        return Some(Ty::Dyn);
    }
    Some(match schema.json_type {
        JsonType::Any => return None,
        JsonType::Boolean => Ty::Bool,
        JsonType::Integer => Ty::Int,
        JsonType::Number => Ty::Double,
        JsonType::String => match schema.constraints.format.as_deref() {
            Some("byte") => Ty::Bytes,
            Some("duration") => Ty::Duration,
            Some("date" | "date-time") => Ty::Timestamp,
            _ => Ty::Text,
        },
        JsonType::Array => {
            let items = schema.items.as_ref()?;
            Ty::List(Arc::new(declared(items, items.embedded_resource)?))
        }
        JsonType::Object => {
            if let Additional::Schema(shared) = &schema.additional {
                return Some(Ty::Map(Arc::new((Ty::Text, declared(shared, shared.embedded_resource)?))));
            }
            let mut fields: BTreeMap<String, Ty> = schema
                .properties
                .iter()
                .filter_map(|(name, node)| Some((escaped(name)?, declared(node, node.embedded_resource)?)))
                .collect();
            if resource {
                let names = ["name", "generateName"].map(|name| (name.to_owned(), Ty::Text));
                fields.insert("metadata".to_owned(), Ty::Object(Arc::new(BTreeMap::from(names))));
                fields.insert("kind".to_owned(), Ty::Text);
                fields.insert("apiVersion".to_owned(), Ty::Text);
            }
            Ty::Object(Arc::new(fields))
        }
    })
}

const KEYWORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A property name as an identifier of CEL; none if it cannot be written as one.
pub(super) fn escaped(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if KEYWORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte)) {
        return None;
    }
    let underscores = name.replace("__", "__underscores__");
    Some(underscores.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}

#[test]
fn names_that_are_no_identifiers_are_escaped() {
    let shown: Vec<Option<String>> = ["a", "namespace", "x-y.z/a", "a__b", "1a", "a b", ""].map(escaped).into();
    let expected = [
        Some("a"),
        Some("__namespace__"),
        Some("x__dash__y__dot__z__slash__a"),
        Some("a__underscores__b"),
        None,
        None,
        None,
    ];
    assert_eq!(shown, expected.map(|name| name.map(str::to_owned)));
}
