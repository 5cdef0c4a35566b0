//! The paths at which two documents differ, in the order of an RFC 6902 patch from source to target.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A path at which the documents differ. A side without a value is absent.
#[derive(Debug, PartialEq)]
pub(super) struct Difference<'a> {
    pub(super) path: String,
    pub(super) source: Option<&'a Value>,
    pub(super) target: Option<&'a Value>,
}

/// Maximum size of all paths of one object, in bytes. Without this limit many differences under one very long key
/// would need as many copies of it.
const MAX_PATH_BYTES: usize = 1 << 20;

/// The differences found so far, up to a limit.
#[derive(Debug)]
pub(super) struct Differences<'a> {
    found: Vec<Difference<'a>>,
    limit: usize,
    path_bytes: usize,
    path: String,
}

impl<'a> Differences<'a> {
    /// The first `limit` differences from source to target.
    pub(super) fn between(source: &'a Value, target: &'a Value, limit: usize) -> Vec<Difference<'a>> {
        let mut walk = Self { found: Vec::new(), limit, path_bytes: 0, path: String::new() };
        walk.values(source, target);
        walk.found
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.limit || self.path_bytes > MAX_PATH_BYTES
    }

    fn note(&mut self, source: Option<&'a Value>, target: Option<&'a Value>) {
        if !self.is_full() {
            self.path_bytes += self.path.len();
            self.found.push(Difference { path: self.path.clone(), source, target });
        }
    }

    /// Descends one step: a key or an index, escaped as in a JSON pointer.
    fn at(&mut self, step: &str, act: impl FnOnce(&mut Self)) {
        let before = self.path.len();
        self.path.push('/');
        for character in step.chars() {
            match character {
                '~' => self.path.push_str("~0"),
                '/' => self.path.push_str("~1"),
                other => self.path.push(other),
            }
        }
        act(self);
        self.path.truncate(before);
    }

    fn values(&mut self, source: &'a Value, target: &'a Value) {
        match (source, target) {
            (Value::Object(source), Value::Object(target)) => self.objects(source, target),
            (Value::Array(source), Value::Array(target)) => self.lists(source, target),
            // Numbers are compared as doubles, so that 1 equals 1.0.
            (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => {}
            (one, other) if one == other => {}
            _ => self.note(Some(source), Some(target)),
        }
    }

    fn objects(&mut self, source: &'a Map<String, Value>, target: &'a Map<String, Value>) {
        let keys: BTreeSet<&String> = source.keys().chain(target.keys()).collect();
        for key in keys {
            if self.is_full() {
                return;
            }
            self.at(key, |walk| match (source.get(key), target.get(key)) {
                (Some(source), Some(target)) => walk.values(source, target),
                (source, target) => walk.note(source, target),
            });
        }
    }

    /// Compares by index, without searching for moved elements. Surplus source elements are removed at the index
    /// where the target ends, but the shown value is that of the source at its own index.
    fn lists(&mut self, source: &'a [Value], target: &'a [Value]) {
        let common = source.len().min(target.len());
        for _ in common..source.len() {
            if self.is_full() {
                return;
            }
            self.at(&common.to_string(), |walk| walk.note(source.get(common), None));
        }
        for (index, (source, target)) in source.iter().zip(target).enumerate() {
            if self.is_full() {
                return;
            }
            self.at(&index.to_string(), |walk| walk.values(source, target));
        }
        for added in &target[common..] {
            if self.is_full() {
                return;
            }
            self.at("-", |walk| walk.note(None, Some(added)));
        }
    }
}
