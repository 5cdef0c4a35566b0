//! JSON patches (RFC 6902), applied with the conventions of Kubernetes' library and with its error texts. Indexes may count
//! from the end, and missing parents are not created.
//!
//! Work is bounded: a patch that touches too many values, copies too much or nests too deep fails.

mod diff;

pub use diff::{diff, pointer_token};

use std::borrow::Cow;

use serde_json::Value;

use crate::go;

/// Most operations of one patch that an API server accepts.
pub const OPERATIONS_MAX: usize = 10_000;
/// Values that all operations of a patch may touch or move. Ten thousand insertions at the front of a list of a hundred
/// thousand items would otherwise move a billion values; this many take less than a second.
pub const STEPS_MAX: usize = 20_000_000;
/// Bytes that all copies of a patch may add: without it, copying the document into itself doubles it every time.
const COPIED_BYTES_MAX: usize = 3 << 20;
/// Nesting of the result: as deep as the JSON parser goes, so that the result can be parsed again.
const DEPTH_MAX: usize = 127;

/// What is done where kube-apiserver is more lenient than the RFC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// `replace`, `copy` and `test` need a value at their path, and the root cannot be replaced.
    Strict,
    /// `replace` also sets a key that is absent, and an absent key counts as null for `copy` and `test`.
    KubeApiserver,
}

/// One operation of a patch.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation<'a> {
    Add { path: &'a str, value: Cow<'a, Value> },
    Remove { path: &'a str },
    Replace { path: &'a str, value: Cow<'a, Value> },
    Move { from: &'a str, path: &'a str },
    Copy { from: &'a str, path: &'a str },
    Test { path: &'a str, value: &'a Value },
}

/// Why an operation does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("{operation} operation failed to decode {member}: missing value")]
    MissingMember { operation: String, member: &'static str },
    #[error("Unexpected kind: {operation}")]
    UnknownOperation { operation: String },
    #[error("{operation} operation does not apply: doc is missing path: {}: missing value", go::quoted(.path))]
    MissingParent { operation: &'static str, path: String },
    #[error("{operation} operation does not apply: doc is missing key: {}: missing value", go::quoted(.path))]
    MissingKey { operation: &'static str, path: String },
    #[error("error in {operation} for path: '{path}': Unable to remove nonexistent key: {key}: missing value")]
    NothingToRemove { operation: &'static str, path: String, key: String },
    #[error(
        "error in {operation} for path: '{path}': Unable to access invalid index: {index}: invalid index referenced"
    )]
    InvalidIndex { operation: &'static str, path: String, index: String },
    #[error("error in {operation} for path: '{path}': more than {DEPTH_MAX} levels deep")]
    TooDeep { operation: &'static str, path: String },
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {bytes}, exceeding the limit {COPIED_BYTES_MAX}"
    )]
    CopiesTooMuch { bytes: usize },
    #[error("testing value {path} failed: test failed")]
    TestFailed { path: String },
    #[error("the JSON patch takes more than {STEPS_MAX} steps")]
    TooManySteps,
}

impl<'a> Operation<'a> {
    /// An operation as a patch contains it. An absent value counts as null.
    pub fn of_value(operation: &'a Value) -> Result<Self, PatchError> {
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let kind = text("op").unwrap_or("unknown");
        let member = |name: &'static str| {
            text(name).ok_or_else(|| PatchError::MissingMember { operation: kind.to_owned(), member: name })
        };
        let value = operation.get("value").unwrap_or(&Value::Null);
        let path = member("path")?;
        Ok(match kind {
            "add" => Operation::Add { path, value: Cow::Borrowed(value) },
            "remove" => Operation::Remove { path },
            "replace" => Operation::Replace { path, value: Cow::Borrowed(value) },
            "move" => Operation::Move { from: member("from")?, path },
            "copy" => Operation::Copy { from: member("from")?, path },
            "test" => Operation::Test { path, value },
            other => return Err(PatchError::UnknownOperation { operation: other.to_owned() }),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Operation::Add { .. } => "add",
            Operation::Remove { .. } => "remove",
            Operation::Replace { .. } => "replace",
            Operation::Move { .. } => "move",
            Operation::Copy { .. } => "copy",
            Operation::Test { .. } => "test",
        }
    }
}

/// The document after all operations. All or nothing.
pub fn apply(document: &Value, operations: &[Value], rules: Rules) -> Result<Value, PatchError> {
    let mut document = document.clone();
    let mut patcher = Patcher::new(&mut document, rules);
    operations.iter().try_for_each(|operation| patcher.apply(Operation::of_value(operation)?))?;
    Ok(document)
}

/// Applies operations to a document, one after the other, within the limits of one patch.
#[derive(Debug)]
pub struct Patcher<'d> {
    document: &'d mut Value,
    rules: Rules,
    steps: usize,
    copied: usize,
}

impl<'d> Patcher<'d> {
    pub fn new(document: &'d mut Value, rules: Rules) -> Self {
        Self { document, rules, steps: 0, copied: 0 }
    }

    /// Applies one operation. After an error the document is unchanged, unless the operation is a `move`.
    pub fn apply(&mut self, operation: Operation<'_>) -> Result<(), PatchError> {
        let name = operation.name();
        match operation {
            Operation::Add { path, value } => self.add(name, path, value.into_owned()),
            Operation::Remove { path } => self.take(name, path).map(drop),
            Operation::Replace { path, value } => self.replace(name, path, value),
            Operation::Move { from, path } => {
                let value = self.take(name, from)?;
                self.add(name, path, value)
            }
            Operation::Copy { from, path } => {
                let value = self.find(name, from)?.cloned().unwrap_or(Value::Null);
                self.copied += value.to_string().len();
                if self.copied > COPIED_BYTES_MAX {
                    return Err(PatchError::CopiesTooMuch { bytes: self.copied });
                }
                self.add(name, path, value)
            }
            Operation::Test { path, value } => {
                let found = if path.is_empty() { Some(&*self.document) } else { self.find(name, path)? };
                if found.unwrap_or(&Value::Null) == value {
                    return Ok(());
                }
                Err(PatchError::TestFailed { path: path.to_owned() })
            }
        }
    }

    fn add(&mut self, operation: &'static str, path: &str, value: Value) -> Result<(), PatchError> {
        let (depth, count) = extent(&value);
        spend(&mut self.steps, count)?;
        check_depth(operation, path, depth)?;
        let (parent, key) = parent_mut(self.document, operation, path)?;
        match parent {
            Value::Object(fields) => drop(fields.insert(key.into_owned(), value)),
            Value::Array(items) if key == "-" => items.push(value),
            Value::Array(items) => {
                let at = position(operation, path, &key, items.len() + 1)?;
                spend(&mut self.steps, items.len() - at)?;
                items.insert(at, value);
            }
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, operation: &'static str, path: &str) -> Result<Value, PatchError> {
        let (parent, key) = parent_mut(self.document, operation, path)?;
        let missing = || PatchError::NothingToRemove { operation, path: path.to_owned(), key: key.to_string() };
        match parent {
            Value::Object(fields) => fields.remove(key.as_ref()).ok_or_else(missing),
            Value::Array(items) => {
                let at = position(operation, path, &key, items.len())?;
                spend(&mut self.steps, items.len() - at)?;
                Ok(items.remove(at))
            }
            _ => Err(missing()),
        }
    }

    fn replace(&mut self, operation: &'static str, path: &str, value: Cow<'_, Value>) -> Result<(), PatchError> {
        if path.is_empty() && self.rules == Rules::KubeApiserver {
            // A scalar cannot be a document; the real server then does nothing and says nothing.
            if is_container(&value) {
                *self.document = value.into_owned();
            }
            return Ok(());
        }
        check_depth(operation, path, extent(&value).0)?;
        let (parent, key) = parent_mut(self.document, operation, path)?;
        match parent {
            Value::Object(fields) if self.rules == Rules::KubeApiserver => {
                fields.insert(key.into_owned(), value.into_owned());
            }
            Value::Object(fields) => {
                let missing = || PatchError::MissingKey { operation, path: path.to_owned() };
                *fields.get_mut(key.as_ref()).ok_or_else(missing)? = value.into_owned();
            }
            Value::Array(items) => {
                let at = position(operation, path, &key, items.len())?;
                items[at] = value.into_owned();
            }
            _ => {}
        }
        Ok(())
    }

    /// The value at a path; `None` if it is an absent key and the rules are lenient.
    fn find(&self, operation: &'static str, path: &str) -> Result<Option<&Value>, PatchError> {
        let missing = || PatchError::MissingParent { operation, path: path.to_owned() };
        let (tokens, key) = split(path).ok_or_else(missing)?;
        let parent = tokens.iter().try_fold(&*self.document, |value, token| step(value, token)).ok_or_else(missing)?;
        match parent {
            Value::Object(fields) => {
                let found = fields.get(key.as_ref());
                if found.is_none() && self.rules == Rules::Strict {
                    return Err(PatchError::MissingKey { operation, path: path.to_owned() });
                }
                Ok(found)
            }
            Value::Array(items) => Ok(items.get(position(operation, path, &key, items.len())?)),
            _ => Err(missing()),
        }
    }
}

fn spend(steps: &mut usize, more: usize) -> Result<(), PatchError> {
    *steps += more;
    if *steps > STEPS_MAX { Err(PatchError::TooManySteps) } else { Ok(()) }
}

/// The object or list that holds what `path` names, and the name in it.
fn parent_mut<'v, 'p>(
    document: &'v mut Value,
    operation: &'static str,
    path: &'p str,
) -> Result<(&'v mut Value, Cow<'p, str>), PatchError> {
    let missing = || PatchError::MissingParent { operation, path: path.to_owned() };
    let (tokens, key) = split(path).ok_or_else(missing)?;
    let parent = tokens.iter().try_fold(document, |value, token| step_mut(value, token)).ok_or_else(missing)?;
    if is_container(parent) { Ok((parent, key)) } else { Err(missing()) }
}

/// The tokens before the last, and the last. A path without a slash names nothing.
fn split(path: &str) -> Option<(Vec<Cow<'_, str>>, Cow<'_, str>)> {
    let mut tokens = path.split('/').skip(1).map(decoded).collect::<Vec<_>>();
    let last = tokens.pop()?;
    Some((tokens, last))
}

fn decoded(token: &str) -> Cow<'_, str> {
    if token.contains('~') { token.replace("~1", "/").replace("~0", "~").into() } else { token.into() }
}

fn step<'v>(value: &'v Value, token: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(token),
        Value::Array(items) => items.get(index(token, items.len())?),
        _ => None,
    }
}

fn step_mut<'v>(value: &'v mut Value, token: &str) -> Option<&'v mut Value> {
    match value {
        Value::Object(fields) => fields.get_mut(token),
        Value::Array(items) => {
            let at = index(token, items.len())?;
            items.get_mut(at)
        }
        _ => None,
    }
}

/// The index that a token names in a list of `length`; a negative one counts from the end.
fn index(token: &str, length: usize) -> Option<usize> {
    let index: i64 = token.parse().ok()?;
    if index < 0 {
        return length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
    }
    usize::try_from(index).ok().filter(|at| *at < length)
}

fn position(operation: &'static str, path: &str, token: &str, length: usize) -> Result<usize, PatchError> {
    let invalid = || PatchError::InvalidIndex { operation, path: path.to_owned(), index: token.to_owned() };
    index(token, length).ok_or_else(invalid)
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn check_depth(operation: &'static str, path: &str, depth: usize) -> Result<(), PatchError> {
    if path.matches('/').count() + depth > DEPTH_MAX {
        return Err(PatchError::TooDeep { operation, path: path.to_owned() });
    }
    Ok(())
}

/// How deep a value is nested, and how many values it holds with itself.
fn extent(value: &Value) -> (usize, usize) {
    let of_all = |values: &mut dyn Iterator<Item = &Value>| {
        let (depth, count) = values.map(extent).fold((0, 0), |(depth, count), (d, c)| (depth.max(d), count + c));
        (1 + depth, 1 + count)
    };
    match value {
        Value::Object(fields) => of_all(&mut fields.values()),
        Value::Array(items) => of_all(&mut items.iter()),
        _ => (0, 1),
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
