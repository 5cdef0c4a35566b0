//! Merges an applied configuration into the live object. Removal of fields is a separate step (`remove`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::element::Element;
use super::typed::{items_of, non_empty_map, zip_maps};
use super::types::{Shape, Type};
use crate::schema::ListType;

/// The live value with the applied one laid over it.
pub(super) fn merge(ty: Type<'_>, live: &Value, applied: &Value) -> Value {
    merge_at(ty, Some(live), Some(applied)).unwrap_or_default()
}

fn merge_at(ty: Type<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    match ty.shape(applied.or(live)?) {
        Shape::Map { atomic: false } => {
            let (base, over) = (non_empty_map(live), non_empty_map(applied));
            if base.is_some() || over.is_some() {
                return Some(Value::Object(merge_maps(ty, base, over)));
            }
        }
        Shape::List(list @ (ListType::Set | ListType::Map(_))) => {
            let (base, over) = (items_of(live), items_of(applied));
            if !base.is_empty() || !over.is_empty() {
                return Some(Value::Array(merge_lists(ty, list, base, over)));
            }
        }
        _ => {}
    }
    applied.or(live).cloned()
}

fn merge_maps(
    ty: Type<'_>,
    live: Option<&Map<String, Value>>,
    applied: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    zip_maps(live, applied)
        .filter_map(|(name, base, over)| Some((name.clone(), merge_at(ty.field(name).tolerant(), base, over)?)))
        .collect()
}

/// Merges lists whose items have identities. Items that both sides have come in the applied order; items that only
/// the live list has keep their place relative to the live items around them.
fn merge_lists<'a>(ty: Type<'a>, list: &'a ListType, live: &'a [Value], applied: &'a [Value]) -> Vec<Value> {
    let base: Vec<(Option<Element<'a>>, &'a Value)> =
        live.iter().map(|item| (ty.item_element(list, item).ok(), item)).collect();
    let mut merger = ListMerger::new(ty, list, &base, applied);
    let from_config: BTreeSet<Element<'a>> = merger.applied.iter().map(|(element, _)| element.clone()).collect();
    for (element, item) in &base {
        let Some(element) = element.as_ref().filter(|element| from_config.contains(element)) else {
            merger.out.push((*item).clone());
            continue;
        };
        // Not the shared item whose turn it is: it stands where the applied order puts it.
        if merger.shared.front().is_some_and(|next| next != element) {
            continue;
        }
        // A second live item of this key: the applied item has replaced both, and the next applied one moves up.
        if merger.taken.contains(element) {
            merger.take_applied();
            continue;
        }
        while merger.take_applied().is_some_and(|taken| taken != *element) {}
    }
    while merger.take_applied().is_some() {}
    merger.out
}

/// The state of merging two lists.
struct ListMerger<'a> {
    ty: Type<'a>,
    live: BTreeMap<Element<'a>, Option<&'a Value>>,
    /// Applied items that are not yet in the result.
    applied: VecDeque<(Element<'a>, &'a Value)>,
    /// Elements of both sides that are not yet in the result, in the applied order.
    shared: VecDeque<Element<'a>>,
    taken: BTreeSet<Element<'a>>,
    out: Vec<Value>,
}

impl<'a> ListMerger<'a> {
    fn new(ty: Type<'a>, list: &'a ListType, base: &[(Option<Element<'a>>, &'a Value)], applied: &'a [Value]) -> Self {
        let live = unique_items(base);
        let applied: VecDeque<(Element<'a>, &'a Value)> =
            applied.iter().filter_map(|item| Some((ty.item_element(list, item).ok()?, item))).collect();
        let elements = applied.iter().map(|(element, _)| element);
        let shared = elements.filter(|element| live.contains_key(element)).cloned().collect();
        Self { ty, live, applied, shared, taken: BTreeSet::new(), out: Vec::with_capacity(base.len()) }
    }

    /// Puts the next applied item into the result, merged with the live one of the same key.
    fn take_applied(&mut self) -> Option<Element<'a>> {
        let (element, item) = self.applied.pop_front()?;
        let partner = self.live.get(&element).copied().flatten();
        self.out.extend(merge_at(self.ty.item(), partner, Some(item)));
        if self.shared.front() == Some(&element) {
            self.shared.pop_front();
        }
        self.taken.insert(element.clone());
        Some(element)
    }
}

/// Live items by element; an element that occurs twice names no item that could be merged into.
fn unique_items<'a>(items: &[(Option<Element<'a>>, &'a Value)]) -> BTreeMap<Element<'a>, Option<&'a Value>> {
    let mut out: BTreeMap<Element<'a>, Option<&'a Value>> = BTreeMap::new();
    for (element, item) in items {
        if let Some(element) = element {
            out.entry(element.clone()).and_modify(|known| *known = None).or_insert(Some(item));
        }
    }
    out
}
