//! The `fieldPath` of a rule: `.spec.name`, `.labels['a/b']`, checked against the schema it starts from.

use serde_json::{Map, Value};

use crate::schema::path::{child, key};
use crate::schema::{Additional, Schema};

/// What can be walked by a path: a schema, parsed or raw.
pub(crate) trait Shape {
    fn field(&self, name: &str) -> Option<&Self>;
    /// What all entries of a map share.
    fn entry(&self) -> Option<&Self>;
    fn has_fields(&self) -> bool;
}

impl Shape for Schema {
    fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).map(|node| &**node)
    }

    fn entry(&self) -> Option<&Self> {
        match &self.additional {
            Additional::Schema(node) => Some(node),
            Additional::None => None,
        }
    }

    fn has_fields(&self) -> bool {
        !self.properties.is_empty()
    }
}

impl Shape for Map<String, Value> {
    fn field(&self, name: &str) -> Option<&Self> {
        self.get("properties")?.get(name)?.as_object()
    }

    fn entry(&self) -> Option<&Self> {
        self.get("additionalProperties")?.as_object()
    }

    fn has_fields(&self) -> bool {
        self.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty())
    }
}

/// The path as findings show it, or none if it names nothing in `shape`.
pub(crate) fn normalized<S: Shape>(path: &str, shape: &S) -> Option<String> {
    let mut shape = shape;
    let mut out = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            name = after[..end].to_owned();
            rest = &after[end..];
        } else {
            let (quoted, after) = bracketed(rest)?;
            name = quoted;
            rest = after;
        }
        if name.is_empty() {
            return None;
        }
        if shape.has_fields() {
            shape = shape.field(&name)?;
            out = child(&out, &name);
        } else {
            shape = shape.entry()?;
            out = key(&out, &name);
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Reads `['…']` and gives what is inside and what follows.
fn bracketed(rest: &str) -> Option<(String, &str)> {
    let inside = rest.strip_prefix("['")?;
    let mut name = String::new();
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((name, inside[at + 1..].strip_prefix(']')?)),
            '\\' => name.push(match chars.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                quoted @ ('\'' | '\\') => quoted,
                _ => return None,
            }),
            other => name.push(other),
        }
    }
    None
}

#[test]
fn paths_follow_fields_and_map_entries() {
    let schema = Schema::from_openapi(&serde_json::json!({"type": "object", "properties": {
        "a": {"type": "object", "additionalProperties": {"type": "object", "properties": {"b.c": {"type": "string"}}}},
    }}))
    .unwrap();
    assert_eq!(normalized(".a['x\\'y']['b.c']", &schema).as_deref(), Some("a[x'y].b.c"));
    for wrong in ["", "a", ".b", ".a.", ".a['x'", ".a['x'].c", ".a[x]", ".a['\\q']"] {
        assert_eq!(normalized(wrong, &schema), None, "{wrong}");
    }
}
