//! Which fields a value has, and which fields differ between two values, under a schema.
//!
//! Tolerates values that do not fit the schema, because stored objects may be older than it; `validate` refuses them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, equal};
use super::fieldset::{Branch, FieldSet};
use super::types::{Shape, Type};
use crate::schema::ListType;

/// The fields that an object holds.
pub(super) fn fields_of<'a>(ty: Type<'a>, value: &'a Value) -> FieldSet<'a> {
    branch_of(ty, value).children
}

fn branch_of<'a>(ty: Type<'a>, value: &'a Value) -> Branch<'a> {
    match (ty.shape(value), value) {
        (Shape::Scalar(_) | Shape::Map { atomic: true } | Shape::List(ListType::Atomic), _) => {
            Branch { member: true, children: FieldSet::default() }
        }
        (Shape::Map { .. }, Value::Object(entries)) => Branch { member: false, children: fields_of_map(ty, entries) },
        (Shape::List(list), Value::Array(items)) => Branch { member: false, children: fields_of_list(ty, list, items) },
        _ => Branch::default(),
    }
}

fn fields_of_map<'a>(ty: Type<'a>, entries: &'a Map<String, Value>) -> FieldSet<'a> {
    let mut out = FieldSet::default();
    for (name, value) in entries {
        let field = ty.field(name);
        let mut branch = branch_of(field.tolerant(), value);
        // Structs are there when one of their fields is; anything else is owned by being there.
        branch.member |= !field.named || value.is_null() || value.as_object().is_some_and(Map::is_empty);
        out.attach(Element::field(name), branch);
    }
    out
}

fn fields_of_list<'a>(ty: Type<'a>, list: &'a ListType, items: &'a [Value]) -> FieldSet<'a> {
    let mut named: Vec<(Element<'a>, &'a Value)> =
        items.iter().filter_map(|item| Some((ty.item_element(list, item).ok()?, item))).collect();
    named.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = FieldSet::default();
    for group in named.chunk_by(|a, b| a.0 == b.0) {
        let (element, item) = &group[0];
        // Items that share a key cannot be told apart, so only their presence is owned.
        let children = if group.len() == 1 { branch_of(ty.item(), item).children } else { FieldSet::default() };
        out.attach(element.clone(), Branch { member: true, children });
    }
    out
}

/// What changed from one value to another. No field is in two of the sets, except where its type changed.
#[derive(Debug, Default)]
pub(super) struct Comparison<'a> {
    pub(super) removed: FieldSet<'a>,
    pub(super) modified: FieldSet<'a>,
    pub(super) added: FieldSet<'a>,
}

impl<'a> Comparison<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// What the writer of the second value has set.
    pub(super) fn written(&self) -> FieldSet<'a> {
        self.modified.union(&self.added)
    }
}

pub(super) fn compare<'a>(ty: Type<'a>, old: &'a Value, new: &'a Value) -> Comparison<'a> {
    let delta = compare_at(ty, Some(old), Some(new));
    Comparison { removed: delta.removed.children, modified: delta.modified.children, added: delta.added.children }
}

#[derive(Debug, Default)]
struct Delta<'a> {
    removed: Branch<'a>,
    modified: Branch<'a>,
    added: Branch<'a>,
}

impl<'a> Delta<'a> {
    fn union(&self, other: &Self) -> Self {
        Self {
            removed: self.removed.union(&other.removed),
            modified: self.modified.union(&other.modified),
            added: self.added.union(&other.added),
        }
    }

    fn attach(&mut self, element: &Element<'a>, below: Delta<'a>) {
        for (mine, theirs) in
            [(&mut self.removed, below.removed), (&mut self.modified, below.modified), (&mut self.added, below.added)]
        {
            if !theirs.is_empty() {
                mine.children.attach(element.clone(), theirs);
            }
        }
    }
}

fn compare_at<'a>(ty: Type<'a>, old: Option<&'a Value>, new: Option<&'a Value>) -> Delta<'a> {
    let mut out = Delta::default();
    let shapes = (old.map(|value| ty.shape(value)), new.map(|value| ty.shape(value)));
    let whole = match shapes {
        (None, None) => return out,
        (Some(before), Some(after)) if before != after => {
            let mut as_before = Delta::default();
            walk(ty, before, old, new, &mut as_before);
            let whole = walk(ty, after, old, new, &mut out);
            out = as_before.union(&out);
            whole
        }
        (_, Some(shape)) | (Some(shape), None) => walk(ty, shape, old, new, &mut out),
    };
    if !whole {
        out.added.member |= old.is_none();
        out.removed.member |= new.is_none();
    }
    out
}

/// Compares as the given shape; true when the value was compared as a whole.
fn walk<'a>(
    ty: Type<'a>,
    shape: Shape<'a>,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    out: &mut Delta<'a>,
) -> bool {
    match shape {
        Shape::Map { atomic: false } => {
            let (before, after) = (non_empty_map(old), non_empty_map(new));
            if before.is_some() || after.is_some() {
                walk_map(ty, before, after, out);
                return false;
            }
        }
        Shape::List(list @ (ListType::Set | ListType::Map(_))) => {
            let (before, after) = (items_of(old), items_of(new));
            if !before.is_empty() || !after.is_empty() {
                walk_list(ty, list, before, after, out);
                return false;
            }
        }
        _ => {}
    }
    match (old, new) {
        (None, _) => out.added.member = true,
        (_, None) => out.removed.member = true,
        (Some(old), Some(new)) => out.modified.member |= !equal(old, new),
    }
    true
}

fn walk_map<'a>(
    ty: Type<'a>,
    old: Option<&'a Map<String, Value>>,
    new: Option<&'a Map<String, Value>>,
    out: &mut Delta<'a>,
) {
    for (name, before, after) in zip_maps(old, new) {
        let below = compare_at(ty.field(name).tolerant(), before, after);
        out.attach(&Element::Field(Cow::Borrowed(name)), below);
    }
}

fn walk_list<'a>(ty: Type<'a>, list: &'a ListType, old: &'a [Value], new: &'a [Value], out: &mut Delta<'a>) {
    let mut items: BTreeMap<Element<'a>, (Vec<&'a Value>, Vec<&'a Value>)> = BTreeMap::new();
    for item in old {
        if let Ok(element) = ty.item_element(list, item) {
            items.entry(element).or_default().0.push(item);
        }
    }
    for item in new {
        if let Ok(element) = ty.item_element(list, item) {
            items.entry(element).or_default().1.push(item);
        }
    }
    for (element, (before, after)) in items {
        let below = match (before.len(), after.len()) {
            (0 | 1, 0 | 1) => compare_at(ty.item(), before.first().copied(), after.first().copied()),
            // Items with one and the same key count as one value.
            (2.., 2..) => {
                let same = before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| equal(a, b));
                Delta { modified: presence(!same), ..Delta::default() }
            }
            (2.., _) => {
                let mut below = compare_at(ty.item(), None, after.first().copied());
                below.removed.member = true;
                below
            }
            (_, 2..) => {
                let mut below = compare_at(ty.item(), before.first().copied(), None);
                below.added.member = true;
                below
            }
        };
        out.attach(&element, below);
    }
}

fn presence<'a>(member: bool) -> Branch<'a> {
    Branch { member, children: FieldSet::default() }
}

pub(super) fn non_empty_map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object).filter(|map| !map.is_empty())
}

pub(super) fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The names of two maps in order, each with its value on either side.
pub(super) fn zip_maps<'a>(
    left: Option<&'a Map<String, Value>>,
    right: Option<&'a Map<String, Value>>,
) -> impl Iterator<Item = (&'a String, Option<&'a Value>, Option<&'a Value>)> {
    let mut left = left.into_iter().flatten().peekable();
    let mut right = right.into_iter().flatten().peekable();
    std::iter::from_fn(move || {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return None,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((l, _)), Some((r, _))) => l.cmp(r),
        };
        let l = if order.is_gt() { None } else { left.next() };
        let r = if order.is_lt() { None } else { right.next() };
        let (name, _) = l.or(r)?;
        Some((name, l.map(|(_, value)| value), r.map(|(_, value)| value)))
    })
}
