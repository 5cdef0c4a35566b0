//! The order of items in a merged list: items of the patch in the order of the patch, others at their place, as far as
//! possible.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{BAD_ORDER, DIRECTIVE, Failure, go_map, no_merge_key};

/// Whether two items are the same one, by key or, without one, by value.
fn same(a: &Value, b: &Value, merge_key: Option<&str>) -> bool {
    match merge_key {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    }
}

/// The identity of an item: the value of the key or, without one, the whole item. None if the item has no key.
pub(super) fn identity(item: &Value, merge_key: Option<&str>) -> Option<String> {
    #[cfg(test)]
    crate::testing::count_steps(1);
    match merge_key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    }
}

/// Where items stand in a list. Of the same items the first one counts.
struct Places<'k> {
    merge_key: Option<&'k str>,
    places: BTreeMap<String, usize>,
}

impl<'k> Places<'k> {
    fn of(list: &[Value], merge_key: Option<&'k str>) -> Self {
        let mut places = BTreeMap::new();
        for (place, item) in list.iter().enumerate() {
            if let Some(identity) = identity(item, merge_key) {
                places.entry(identity).or_insert(place);
            }
        }
        Self { merge_key, places }
    }

    fn find(&self, item: &Value) -> Option<usize> {
        self.places.get(&identity(item, self.merge_key)?).copied()
    }
}

/// Splits a list into the items that `listed` names and the others.
pub(super) fn partition(
    items: Vec<Value>,
    listed: &[Value],
    merge_key: Option<&str>,
) -> Result<(Vec<Value>, Vec<Value>), Failure> {
    if let Some(key) = merge_key
        && let Some(odd) = items.iter().find(|item| item.get(key).is_none())
    {
        return Err(no_merge_key(odd, key));
    }
    let listed = Places::of(listed, merge_key);
    Ok(items.into_iter().partition(|item| listed.find(item).is_some()))
}

/// Brings both groups into one list: each in its own order, and an item of `others` before one of `listed` only if the
/// server had both and had them so.
pub(super) fn interleave(
    mut listed: Vec<Value>,
    wanted_order: &[Value],
    mut others: Vec<Value>,
    server_order: &[Value],
    merge_key: Option<&str>,
) -> Vec<Value> {
    let (wanted, server) = (Places::of(wanted_order, merge_key), Places::of(server_order, merge_key));
    listed.sort_by_cached_key(|item| wanted.find(item));
    others.sort_by_cached_key(|item| server.find(item).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(listed.len() + others.len());
    let mut listed = listed.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    loop {
        let take_other = match (others.peek(), listed.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(item)) => {
                let places = server.find(other).zip(server.find(item));
                places.is_some_and(|(other, item)| other < item)
            }
        };
        out.extend(if take_other { others.next() } else { listed.next() });
    }
}

/// The patch must list its items in the order it asks for.
pub(super) fn check_order(changes: &[Value], wanted_order: &[Value], merge_key: Option<&str>) -> Result<(), Failure> {
    if changes.is_empty() || wanted_order.is_empty() {
        return Ok(());
    }
    if merge_key.is_some() && wanted_order.iter().any(|item| !item.is_object()) {
        return Err(BAD_ORDER);
    }
    // Items that delete take no part; any other directive must come before the order is used up.
    let kept: Vec<&Value> =
        changes.iter().filter(|change| change.get(DIRECTIVE).and_then(Value::as_str) != Some("delete")).collect();
    let (mut change, mut wanted) = (0, 0);
    while change < kept.len() && wanted < wanted_order.len() {
        if kept[change].get(DIRECTIVE).is_some() {
            change += 1;
            continue;
        }
        change += usize::from(same(kept[change], &wanted_order[wanted], merge_key));
        wanted += 1;
    }
    if change < kept.len() {
        let (patch, order) = (go_map(&Value::from(changes)), go_map(&Value::from(wanted_order)));
        let text = format!("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n");
        return Err(Failure::Other(text));
    }
    Ok(())
}
