//! Removes a set of fields from a value, and fits a set of fields to a schema.

use serde_json::{Map, Value};

use super::element::Element;
use super::fieldset::{Branch, FieldSet, Node};
use super::types::{Shape, Type};
use crate::schema::ListType;

/// What remains of a map or list that loses its last entry but has an owner itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emptied {
    /// It stays, empty.
    Stays,
    /// It becomes null, which counts as a field where an empty list does not.
    Null,
}

/// Removes the fields of the set.
pub(super) fn remove_fields(ty: Type<'_>, value: &mut Value, gone: &FieldSet<'_>, emptied: Emptied) {
    match (ty.shape(value), value) {
        (Shape::Map { atomic: false }, Value::Object(entries)) => {
            entries
                .retain(|name, child| keep(ty.field(name).tolerant(), child, gone.get(&Element::field(name)), emptied));
        }
        (Shape::List(list @ (ListType::Set | ListType::Map(_))), Value::Array(items)) => {
            items.retain_mut(|item| {
                // The element borrows the item, so the branch is looked up before the item changes.
                let branch = ty.item_element(list, item).ok().and_then(|element| gone.get(&element));
                keep(ty.item(), item, branch, emptied)
            });
        }
        _ => {}
    }
}

fn keep(ty: Type<'_>, value: &mut Value, gone: Option<&Branch<'_>>, emptied: Emptied) -> bool {
    let Some(branch) = gone else { return true };
    if branch.member {
        return false;
    }
    remove_fields(ty, value, &branch.children, emptied);
    let is_empty = value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    if is_empty && emptied == Emptied::Null {
        *value = Value::Null;
    }
    true
}

/// The set with every struct field added that has something of the set below it: taking all of a struct's fields
/// takes the struct.
pub(super) fn with_parents<'a>(ty: Type<'a>, set: &FieldSet<'a>) -> FieldSet<'a> {
    let mut out = FieldSet::default();
    for Node { element, branch } in set.nodes() {
        let (below, named) = step(ty, element);
        let member = branch.member || (named && !branch.children.is_empty());
        out.attach(element.clone(), Branch { member, children: with_parents(below, &branch.children) });
    }
    out
}

fn step<'a>(ty: Type<'a>, element: &Element<'_>) -> (Type<'a>, bool) {
    match element {
        Element::Field(name) => {
            let field = ty.field(name);
            (field.tolerant(), field.named)
        }
        Element::Key(_) | Element::Value(_) | Element::Index(_) => (ty.item(), false),
    }
}

/// The set after the schema made something atomic that was owned in parts; `None` when nothing is to be changed.
pub(super) fn fitted<'a>(ty: Type<'a>, set: &FieldSet<'a>) -> Option<FieldSet<'a>> {
    if !owns_parts_of_atomic(ty, set) {
        return None;
    }
    let mut out = FieldSet::default();
    for Node { element, branch } in set.nodes() {
        let (below, _) = step(ty, element);
        let fitted_branch = if below.is_atomic() && !branch.children.is_empty() {
            Branch { member: true, children: FieldSet::default() }
        } else {
            let children = fitted(below, &branch.children).unwrap_or_else(|| branch.children.clone());
            Branch { member: branch.member, children }
        };
        out.attach(element.clone(), fitted_branch);
    }
    Some(out)
}

fn owns_parts_of_atomic(ty: Type<'_>, set: &FieldSet<'_>) -> bool {
    set.nodes().iter().any(|Node { element, branch }| {
        let (below, _) = step(ty, element);
        !branch.children.is_empty() && (below.is_atomic() || owns_parts_of_atomic(below, &branch.children))
    })
}
