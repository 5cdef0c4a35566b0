//! The live object with an applied configuration laid over it.
//!
//! Decides the merged value and the order of merged lists. Never removes anything: what a configuration no longer
//! holds is taken away afterwards, by ownership.

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

fn merge_maps(ty: Type<'_>, live: Option<&Map<String, Value>>, applied: Option<&Map<String, Value>>) -> Map<String, Value> {
    zip_maps(live, applied)
        .filter_map(|(name, base, over)| Some((name.clone(), merge_at(ty.field(name).tolerant(), base, over)?)))
        .collect()
}

/// Merges lists whose items have identities. Items that both sides have come in the applied order; items that only
/// the live list has keep their place relative to the live items around them.
fn merge_lists<'a>(ty: Type<'a>, list: &'a ListType, live: &'a [Value], applied: &'a [Value]) -> Vec<Value> {
    let base: Vec<(Option<Element<'a>>, &'a Value)> =
        live.iter().map(|item| (ty.item_element(list, item).ok(), item)).collect();
    let mut over: VecDeque<(Element<'a>, &'a Value)> =
        applied.iter().filter_map(|item| Some((ty.item_element(list, item).ok()?, item))).collect();
    let applied_elements: BTreeSet<Element<'a>> = over.iter().map(|(element, _)| element.clone()).collect();
    let live_items = unique_items(&base);
    let mut shared: VecDeque<Element<'a>> =
        over.iter().filter(|(element, _)| live_items.contains_key(element)).map(|(element, _)| element.clone()).collect();

    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let mut taken: BTreeSet<Element<'a>> = BTreeSet::new();
    let mut take_applied = |out: &mut Vec<Value>, taken: &mut BTreeSet<Element<'a>>, shared: &mut VecDeque<Element<'a>>| {
        let Some((element, item)) = over.pop_front() else { return None };
        let partner = live_items.get(&element).copied().flatten();
        out.extend(merge_at(ty.item(), partner, Some(item)));
        if shared.front() == Some(&element) {
            shared.pop_front();
        }
        taken.insert(element.clone());
        Some(element)
    };
    for (element, item) in &base {
        let Some(element) = element.as_ref().filter(|element| applied_elements.contains(element)) else {
            out.push((*item).clone());
            continue;
        };
        // Not the shared item whose turn it is: it stands where the applied order puts it.
        if shared.front().is_some_and(|next| next != element) {
            continue;
        }
        // A second live item of this key: the applied item has replaced both, and the next applied one moves up.
        if taken.contains(element) {
            take_applied(&mut out, &mut taken, &mut shared);
            continue;
        }
        while let Some(last) = take_applied(&mut out, &mut taken, &mut shared) {
            if last == *element {
                break;
            }
        }
    }
    while take_applied(&mut out, &mut taken, &mut shared).is_some() {}
    out
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
