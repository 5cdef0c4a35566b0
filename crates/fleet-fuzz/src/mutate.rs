//! New inputs from those of a corpus, by seed: the same seed and corpus give the same inputs on every machine.
//!
//! JSON is changed as a tree, so that most inputs still reach the code behind the parser; everything is changed as bytes.

use fleet_sim::Random;
use serde_json::{Map, Value};

use crate::corpus::INPUT_BYTES_MAX;
use crate::targets::{Form, Target};

/// Changes to one input at most.
const CHANGES_MAX: u64 = 8;
/// How often a part is repeated at most: enough for quadratic work to show.
const REPEATS_MAX: u64 = 400;
/// How many levels are put around a value at most: more than a JSON reader goes down.
const LEVELS_MAX: u64 = 140;

/// Edge cases: limits of numbers, names and times; characters with a meaning in shells, terminals, paths, JSON,
/// YAML and regular expressions.
const TEXTS: &[&str] = &[
    "",
    " ",
    "\0",
    "\n",
    "\r\n",
    "\t",
    "\u{1b}[2J",
    "\u{9b}31m",
    "\u{202e}",
    "\u{feff}",
    "\u{301}",
    "İ",
    "ß",
    "\u{10ffff}",
    "'",
    "\"",
    "\\",
    "`",
    "$(touch x)",
    "; touch x #",
    "${HOME}",
    "EOF",
    "\nEOF\n",
    "-",
    "--all",
    ".",
    "..",
    "/",
    "~",
    "~1",
    "*",
    "%2f",
    "%",
    "{}",
    "[]",
    "null",
    "~0",
    "(a+)+$",
    "a{1000}",
    "(?i)",
    "&a [*a]",
    "<<: *a",
    "yes",
    "0",
    "-0",
    "-1",
    "1",
    "127",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "1e308",
    "1e-400",
    "0.1",
    "NaN",
    "Infinity",
    "1Ei",
    "1n",
    "100m",
    "100%",
    "9999-12-31T23:59:59Z",
    "0000-01-01T00:00:00Z",
    "2026-11-17T24:00:00+99:99",
    "2562047h47m16.854775807s",
    "kube-system",
    "fleet-system",
    "metadata",
    "managedFields",
    "$patch",
    "$setElementOrder/a",
    "k:{\"name\":\"a\"}",
    "__proto__",
];

/// Makes inputs for one target.
pub(crate) struct Mutator<'a> {
    random: Random,
    form: Form,
    words: &'static [&'static str],
    corpus: &'a [Vec<u8>],
    trees: Vec<Value>,
}

impl<'a> Mutator<'a> {
    pub(crate) fn new(seed: u64, target: &Target, corpus: &'a [Vec<u8>]) -> Self {
        // Targets differ in what they draw also where their corpora are alike.
        let name = target.name.bytes().fold(seed, |hash, byte| hash.rotate_left(7) ^ u64::from(byte));
        let trees = corpus.iter().filter_map(|input| serde_json::from_slice(input).ok()).collect();
        Self { random: Random::new(name), form: target.form, words: target.words, corpus, trees }
    }

    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        let changes = 1 + self.random.below(CHANGES_MAX);
        let mut input = match self.form {
            Form::Json if !self.trees.is_empty() && self.random.chance(800) => self.changed_tree(changes),
            _ => {
                let mut input = self.random.pick(self.corpus).cloned().unwrap_or_default();
                for _ in 0..changes {
                    self.change_bytes(&mut input);
                }
                input
            }
        };
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn changed_tree(&mut self, changes: u64) -> Vec<u8> {
        let mut tree = self.random.pick(&self.trees).cloned().unwrap_or_default();
        for _ in 0..changes {
            let count = nodes(&tree);
            let mut place = self.random.index(count);
            if let Some(node) = node_at(&mut tree, &mut place) {
                self.change_node(node);
            }
        }
        let mut text = tree.to_string().into_bytes();
        if self.random.chance(50) {
            self.change_bytes(&mut text);
        }
        text
    }

    fn change_node(&mut self, node: &mut Value) {
        match self.random.below(12) {
            0..=2 => *node = self.value(),
            3 => *node = self.other_node(),
            4 => *node = self.wrapped(node.take()),
            5 => *node = Value::String(node.to_string()),
            _ => match node {
                Value::Object(fields) => self.change_fields(fields),
                Value::Array(items) => self.change_items(items),
                Value::String(text) => {
                    let mut bytes = std::mem::take(text).into_bytes();
                    self.change_bytes(&mut bytes);
                    *text = String::from_utf8_lossy(&bytes).into_owned();
                }
                other => *other = self.value(),
            },
        }
    }

    fn change_fields(&mut self, fields: &mut Map<String, Value>) {
        let at = self.random.index(fields.len());
        let key = fields.keys().nth(at).cloned().unwrap_or_default();
        match self.random.below(4) {
            0 => drop(fields.remove(&key)),
            1 => drop(fields.insert(self.text(), fields.get(&key).cloned().unwrap_or_default())),
            2 => drop(fields.insert(self.text(), self.value())),
            _ => drop(fields.insert(key, self.other_node())),
        }
    }

    fn change_items(&mut self, items: &mut Vec<Value>) {
        let (at, other) = (self.random.index(items.len()), self.random.index(items.len()));
        match self.random.below(5) {
            0 if !items.is_empty() => drop(items.remove(at)),
            1 if !items.is_empty() => items.swap(at, other),
            2 => items.push(self.other_node()),
            3 => {
                if let Some(item) = items.get(at).cloned() {
                    let count = 1 + self.random.below(REPEATS_MAX);
                    let room = INPUT_BYTES_MAX / (1 + item.to_string().len());
                    items.extend((0..count).take(room).map(|_| item.clone()));
                }
            }
            _ => items.push(self.value()),
        }
    }

    fn wrapped(&mut self, mut value: Value) -> Value {
        let (levels, as_list, key) = (1 + self.random.below(LEVELS_MAX), self.random.chance(500), self.text());
        for _ in 0..levels {
            value =
                if as_list { Value::Array(vec![value]) } else { Value::Object(Map::from_iter([(key.clone(), value)])) };
        }
        value
    }

    /// A part of some input of the corpus.
    fn other_node(&mut self) -> Value {
        let Some(mut tree) = self.random.pick(&self.trees).cloned() else { return Value::Null };
        let mut place = self.random.index(nodes(&tree));
        node_at(&mut tree, &mut place).map(Value::take).unwrap_or_default()
    }

    fn value(&mut self) -> Value {
        match self.random.below(10) {
            0 => Value::Null,
            1 => Value::Bool(self.random.chance(500)),
            2 => Value::Array(Vec::new()),
            3 => Value::Object(Map::new()),
            4 => self.text().parse::<f64>().ok().map_or(Value::from(i64::MIN), Value::from),
            5 => self.text().parse::<i64>().map_or(Value::from(u64::MAX), Value::from),
            _ => Value::String(self.text()),
        }
    }

    fn text(&mut self) -> String {
        let from = if !self.words.is_empty() && self.random.chance(600) { self.words } else { TEXTS };
        self.random.pick(from).copied().unwrap_or_default().to_owned()
    }

    fn change_bytes(&mut self, input: &mut Vec<u8>) {
        let at = self.random.index(input.len() + 1);
        let end = (at + 1 + self.random.index(1 + input.len() / 4)).min(input.len());
        let start = at.min(end);
        match self.random.below(8) {
            0 if at < input.len() => input[at] ^= 1 << self.random.below(8),
            1 if at < input.len() => input[at] = u8::try_from(self.random.below(256)).unwrap_or_default(),
            2 => drop(input.drain(start..end)),
            3 => {
                let part = input[start..end].to_vec();
                let count = 1 + self.random.below(REPEATS_MAX);
                let room = INPUT_BYTES_MAX / (1 + part.len());
                let repeated = part.repeat(usize::try_from(count).unwrap_or(1).min(room));
                input.splice(end..end, repeated);
            }
            4 => {
                let other = self.random.pick(self.corpus).cloned().unwrap_or_default();
                let from = self.random.index(other.len() + 1);
                let until = from + self.random.index(other.len() - from + 1);
                input.splice(start..end, other[from..until].iter().copied());
            }
            5 => input.truncate(at),
            _ => {
                let text = self.text();
                let replaced = if self.random.chance(500) { end } else { start };
                input.splice(start..replaced, text.bytes());
            }
        }
    }
}

/// How many values a tree has, itself included.
fn nodes(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(fields) => fields.values().map(nodes).sum(),
        _ => 0,
    }
}

/// The value at a place, counted from the root down; `place` counts down on the way.
fn node_at<'v>(tree: &'v mut Value, place: &mut usize) -> Option<&'v mut Value> {
    if *place == 0 {
        return Some(tree);
    }
    *place -= 1;
    match tree {
        Value::Array(items) => items.iter_mut().find_map(|item| node_at(item, place)),
        Value::Object(fields) => fields.values_mut().find_map(|value| node_at(value, place)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TARGET: Target = Target { name: "test", form: Form::Json, words: &["word"], check: |_| {} };

    fn drawn(seed: u64) -> Vec<Vec<u8>> {
        let corpus = [br#"{"a":[1,"two",{"three":null}]}"#.to_vec()];
        let mut mutator = Mutator::new(seed, &TARGET, &corpus);
        (0..200).map(|_| mutator.next_input()).collect()
    }

    #[test]
    fn one_seed_gives_one_sequence_of_different_inputs() {
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let different: BTreeSet<_> = drawn(1).into_iter().collect();
        assert!(different.len() > 150, "{} of 200", different.len());
    }

    #[test]
    fn most_changed_trees_are_still_json() {
        let valid = drawn(3).iter().filter(|input| serde_json::from_slice::<Value>(input).is_ok()).count();
        assert!(valid > 100, "{valid} of 200");
    }

    #[test]
    fn every_node_of_a_tree_is_found() {
        let mut tree: Value = serde_json::from_str(r#"{"a":[1,2],"b":{"c":3}}"#).unwrap_or_default();
        let count = nodes(&tree);
        let found: BTreeSet<String> = (0..count)
            .filter_map(|place| node_at(&mut tree, &mut place.clone()).map(|node| node.to_string()))
            .collect();
        assert_eq!(found.len(), count);
    }
}
