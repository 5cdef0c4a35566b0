//! Merges lists element by element: by a merge key, or as sets of scalars.
//!
//! A list with repeated or missing keys is sent whole, including elements of other writers. Never takes longer than a
//! sort of the lists, whatever an adversarial hub or member puts in them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::same;
use super::strategic::{DELETE_FROM, DIRECTIVE, ELEMENT_ORDER, Fields, is_directive, objects, without_directives};
use super::table::{Rule, Strategy};

/// Up to this number, elements with equal keys are matched one by one; longer lists are replaced.
const MOST_MATCHED: usize = 256;

/// Whether a server would merge elements of this list with each other, even into an empty list.
pub(super) fn shares_keys(list: &[Value], rule: &Rule) -> bool {
    matches!(rule.strategy, Strategy::MergeBy { key, .. } if Keys::of(list, key).is_none())
}

/// Adds the changes of the list `name` to the patch. The live list is not empty, or elements share keys.
pub(super) fn merge(name: &str, last: &[Value], desired: &[Value], live: &[Value], rule: &Rule, patch: &mut Fields) {
    let Strategy::MergeBy { key, retain_keys } = rule.strategy else {
        return scalars(name, last, desired, live, patch);
    };
    match (Keys::of(desired, key), Keys::of(live, key)) {
        (Some(wanted_keys), Some(live_keys)) => {
            let list = Keyed { key, rule, retain_keys, wanted_keys, live_keys };
            list.merge(name, last, desired, live, patch);
        }
        _ => whole(name, last, desired, live, key, patch),
    }
}

/// The value of the merge key as text.
fn key_of(element: &Value, key: &str) -> Option<String> {
    match element.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The index of each key of a list.
struct Keys(BTreeMap<String, usize>);

impl Keys {
    /// `None` if an element has no key, or two have the same.
    fn of(list: &[Value], key: &str) -> Option<Self> {
        let mut places = BTreeMap::new();
        for (place, element) in list.iter().enumerate() {
            if places.insert(key_of(element, key)?, place).is_some() {
                return None;
            }
        }
        Some(Self(places))
    }

    fn place(&self, element: &Value, key: &str) -> Option<usize> {
        self.0.get(&key_of(element, key)?).copied()
    }
}

/// A list in which every element has a unique key.
struct Keyed<'a> {
    key: &'a str,
    rule: &'a Rule,
    retain_keys: bool,
    wanted_keys: Keys,
    live_keys: Keys,
}

impl Keyed<'_> {
    fn merge(&self, name: &str, last: &[Value], desired: &[Value], live: &[Value], patch: &mut Fields) {
        let before: BTreeMap<String, &Value> =
            last.iter().rev().filter_map(|element| Some((key_of(element, self.key)?, element))).collect();
        let mut changes: Vec<Value> = Vec::new();
        for wanted in desired {
            let there = self.live_keys.place(wanted, self.key).map(|place| &live[place]);
            let (Some(Value::Object(there)), Value::Object(fields)) = (there, wanted) else {
                changes.push(without_directives(wanted));
                continue;
            };
            let nothing = Map::new();
            let before = key_of(wanted, self.key).and_then(|key| before.get(&key).copied());
            let before = before.and_then(Value::as_object).unwrap_or(&nothing);
            let mut change = objects(before, fields, there, self.rule.shape, self.retain_keys);
            if !change.is_empty() {
                change.insert(self.key.to_owned(), wanted[self.key].clone());
                changes.push(Value::Object(change));
            }
        }
        changes.extend(self.deletions(last));
        let places = desired.iter().filter_map(|wanted| self.live_keys.place(wanted, self.key));
        if changes.is_empty() && places.is_sorted() {
            return;
        }
        if !changes.is_empty() {
            patch.insert(name.to_owned(), Value::Array(changes));
        }
        if !desired.is_empty() {
            let order = desired.iter().map(|wanted| Value::Object(self.only_key(wanted))).collect();
            patch.insert(format!("{ELEMENT_ORDER}{name}"), Value::Array(order));
        }
    }

    fn only_key(&self, element: &Value) -> Fields {
        Map::from_iter([(self.key.to_owned(), element.get(self.key).cloned().unwrap_or_default())])
    }

    /// Elements of the last-applied list that are no longer desired, each once.
    fn deletions(&self, last: &[Value]) -> Vec<Value> {
        let mut seen = BTreeSet::new();
        let gone = last.iter().filter(|element| {
            key_of(element, self.key).is_some_and(|key| !self.wanted_keys.0.contains_key(&key) && seen.insert(key))
        });
        gone.map(|element| {
            let mut deletion = self.only_key(element);
            deletion.insert(DIRECTIVE.to_owned(), Value::from("delete"));
            Value::Object(deletion)
        })
        .collect()
    }
}

/// A list that cannot be merged by key: if it changes, it is sent whole, including elements of other writers.
fn whole(name: &str, last: &[Value], desired: &[Value], live: &[Value], key: &str, patch: &mut Fields) {
    let mut result = if desired.len().max(live.len()).max(last.len()) <= MOST_MATCHED {
        matched(last, desired, live, key)
    } else {
        desired.iter().map(without_directives).collect()
    };
    // Servers group elements with the same key, so their order is not compared.
    if sorted(&result) == sorted(live) {
        return;
    }
    result.push(Value::Object(Map::from_iter([(DIRECTIVE.to_owned(), Value::from("replace"))])));
    patch.insert(name.to_owned(), Value::Array(result));
}

fn sorted(list: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = list.iter().map(Value::to_string).collect();
    texts.sort_unstable();
    texts
}

/// Lays each desired element over the live one that fits best, so that server-set fields stay; then come the elements
/// of other writers.
fn matched(last: &[Value], desired: &[Value], live: &[Value], key: &str) -> Vec<Value> {
    let mut free: Vec<&Value> = live.iter().collect();
    let mut before: Vec<&Value> = last.iter().collect();
    let mut result: Vec<Value> = Vec::new();
    for wanted in desired {
        let wanted_key = key_of(wanted, key);
        let fits = |there: &&Value| key_of(there, key) == wanted_key;
        let last = before.iter().position(fits).map(|place| before.remove(place));
        let exact = free.iter().position(|there| fits(there) && overlaid(last, wanted, there) == **there);
        match exact.or_else(|| free.iter().position(fits)) {
            Some(place) => result.push(overlaid(last, wanted, free.remove(place))),
            None => result.push(without_directives(wanted)),
        }
    }
    let known: BTreeSet<Option<String>> = last.iter().chain(desired).map(|element| key_of(element, key)).collect();
    result.extend(free.into_iter().filter(|there| !known.contains(&key_of(there, key))).cloned());
    result
}

/// The live element without what was applied last and with what is desired; inner lists are replaced.
fn overlaid(last: Option<&Value>, wanted: &Value, live: &Value) -> Value {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            let last = last.and_then(Value::as_object);
            let is_gone =
                |field: &String| last.is_some_and(|last| last.contains_key(field)) && !wanted.contains_key(field);
            let mut result = live.clone();
            result.retain(|field, _| !is_gone(field));
            for (field, value) in wanted.iter().filter(|(field, _)| !is_directive(field)) {
                let last = last.and_then(|last| last.get(field));
                let value =
                    live.get(field).map_or_else(|| without_directives(value), |live| overlaid(last, value, live));
                result.insert(field.clone(), value);
            }
            Value::Object(result)
        }
        (wanted, live) if same(wanted, live) => live.clone(),
        (wanted, _) => without_directives(wanted),
    }
}

/// A set of scalars, such as finalizers.
fn scalars(name: &str, last: &[Value], desired: &[Value], live: &[Value], patch: &mut Fields) {
    let places = |list: &[Value]| -> BTreeMap<String, usize> {
        list.iter().enumerate().map(|(place, item)| (item.to_string(), place)).collect()
    };
    let (wanted, there) = (places(desired), places(live));
    let missing_from = |list: &[Value], others: &BTreeMap<String, usize>| -> Vec<Value> {
        let mut seen = BTreeSet::new();
        let missing =
            list.iter().filter(|item| !others.contains_key(&item.to_string()) && seen.insert(item.to_string()));
        missing.cloned().collect()
    };
    let (added, gone) = (missing_from(desired, &there), missing_from(last, &wanted));
    let in_order = desired.iter().filter_map(|item| there.get(&item.to_string())).is_sorted();
    if added.is_empty() && gone.is_empty() && in_order {
        return;
    }
    let parts = [(String::new(), added), (DELETE_FROM.to_owned(), gone), (ELEMENT_ORDER.to_owned(), desired.to_vec())];
    for (prefix, list) in parts {
        if !list.is_empty() {
            patch.insert(format!("{prefix}{name}"), Value::Array(list));
        }
    }
}
