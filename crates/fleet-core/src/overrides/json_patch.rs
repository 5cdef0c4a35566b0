//! The JSON patch operations of overrides (RFC 6902): add, replace and remove. Negative indexes count from the end.
//! Error texts equal those of the Go agents. Missing parents are not created.

use std::borrow::Cow;

use fleet_api::types::PatchOperator;
use serde_json::Value;

/// Maximum nesting of a patched resource: the limit of the JSON parser, so that the result can be parsed again.
const DEPTH_LIMIT: usize = 127;

/// Why an operation does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("{} operation does not apply: doc is missing path: {path:?}: missing value", .operator.as_str())]
    NoParent { operator: PatchOperator, path: String },
    #[error("replace operation does not apply: doc is missing key: {path:?}: missing value")]
    NothingToReplace { path: String },
    #[error("error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value")]
    NothingToRemove { path: String, key: String },
    #[error("error in {} for path: '{path}': Unable to access invalid index: {index}: invalid index referenced", .operator.as_str())]
    NoSuchIndex { operator: PatchOperator, path: String, index: String },
    #[error("error in {} for path: '{path}': more than {DEPTH_LIMIT} levels deep", .operator.as_str())]
    TooDeep { operator: PatchOperator, path: String },
}

/// Applies one operation. On an error the document is unchanged.
pub(super) fn patch(document: &mut Value, operator: PatchOperator, path: &str, value: Value) -> Result<(), PatchError> {
    let path_text = || path.to_owned();
    if operator != PatchOperator::Remove && path.matches('/').count() + depth(&value) > DEPTH_LIMIT {
        return Err(PatchError::TooDeep { operator, path: path_text() });
    }
    let no_parent = || PatchError::NoParent { operator, path: path_text() };
    let (parent, key) = parent_of(document, path).ok_or_else(no_parent)?;
    match (parent, operator) {
        (Value::Object(fields), PatchOperator::Add) => {
            fields.insert(key.into_owned(), value);
        }
        (Value::Object(fields), PatchOperator::Replace) => {
            let nothing = || PatchError::NothingToReplace { path: path_text() };
            *fields.get_mut(key.as_ref()).ok_or_else(nothing)? = value;
        }
        (Value::Object(fields), PatchOperator::Remove) => {
            let nothing = || PatchError::NothingToRemove { path: path_text(), key: key.clone().into_owned() };
            fields.remove(key.as_ref()).ok_or_else(nothing)?;
        }
        (Value::Array(items), PatchOperator::Add) if key == "-" => items.push(value),
        (Value::Array(items), _) => {
            // A new item may also be appended.
            let places = items.len() + usize::from(operator == PatchOperator::Add);
            let no_index = || PatchError::NoSuchIndex { operator, path: path_text(), index: key.clone().into_owned() };
            let at = position(&key, places).ok_or_else(no_index)?;
            match operator {
                PatchOperator::Add => items.insert(at, value),
                PatchOperator::Replace => items[at] = value,
                PatchOperator::Remove => drop(items.remove(at)),
            }
        }
        _ => return Err(no_parent()),
    }
    Ok(())
}

/// The parent of the value at `path`, and the last key.
fn parent_of<'v, 'p>(document: &'v mut Value, path: &'p str) -> Option<(&'v mut Value, Cow<'p, str>)> {
    let (way, last) = path.rsplit_once('/')?;
    let mut parent = document;
    for token in way.split('/').skip(1) {
        let token = decoded(token);
        parent = match parent {
            Value::Object(fields) => fields.get_mut(token.as_ref())?,
            Value::Array(items) => {
                let at = position(&token, items.len())?;
                items.get_mut(at)?
            }
            _ => return None,
        };
    }
    Some((parent, decoded(last)))
}

fn decoded(token: &str) -> Cow<'_, str> {
    if token.contains('~') { token.replace("~1", "/").replace("~0", "~").into() } else { token.into() }
}

/// The array index of a token; a negative one counts from the end.
fn position(token: &str, places: usize) -> Option<usize> {
    let index: i64 = token.parse().ok()?;
    if index < 0 {
        return places.checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
    }
    usize::try_from(index).ok().filter(|at| *at < places)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(operator: PatchOperator, path: &str, expected: Expect) {
        let before = json!({"a": {"b/c": 1, "d~e": 2}, "list": [1, 2, 3], "text": "t"});
        let mut document = before.clone();
        match patch(&mut document, operator, path, json!("new")) {
            Ok(()) => expected.assert_eq(&document.to_string()),
            Err(error) => {
                assert_eq!(document, before);
                expected.assert_eq(&error.to_string());
            }
        }
    }

    #[test]
    fn add_sets_keys_and_inserts_items() {
        use PatchOperator::Add;
        check(Add, "/a/f", expect![[r#"{"a":{"b/c":1,"d~e":2,"f":"new"},"list":[1,2,3],"text":"t"}"#]]);
        check(Add, "/a/b~1c", expect![[r#"{"a":{"b/c":"new","d~e":2},"list":[1,2,3],"text":"t"}"#]]);
        check(Add, "/a/d~0e", expect![[r#"{"a":{"b/c":1,"d~e":"new"},"list":[1,2,3],"text":"t"}"#]]);
        check(Add, "/list/0", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":["new",1,2,3],"text":"t"}"#]]);
        check(Add, "/list/3", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,2,3,"new"],"text":"t"}"#]]);
        check(Add, "/list/-", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,2,3,"new"],"text":"t"}"#]]);
        check(Add, "/list/-1", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,2,3,"new"],"text":"t"}"#]]);
        check(Add, "/list/-4", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":["new",1,2,3],"text":"t"}"#]]);
    }

    #[test]
    fn add_creates_nothing_on_the_way() {
        use PatchOperator::Add;
        check(Add, "/x/y", expect![[r#"add operation does not apply: doc is missing path: "/x/y": missing value"#]]);
        check(
            Add,
            "/text/y",
            expect![[r#"add operation does not apply: doc is missing path: "/text/y": missing value"#]],
        );
        check(Add, "", expect![[r#"add operation does not apply: doc is missing path: "": missing value"#]]);
        check(
            Add,
            "/list/4",
            expect!["error in add for path: '/list/4': Unable to access invalid index: 4: invalid index referenced"],
        );
        check(
            Add,
            "/list/-5",
            expect!["error in add for path: '/list/-5': Unable to access invalid index: -5: invalid index referenced"],
        );
        check(
            Add,
            "/list/x",
            expect!["error in add for path: '/list/x': Unable to access invalid index: x: invalid index referenced"],
        );
    }

    #[test]
    fn replace_needs_something_to_replace() {
        use PatchOperator::Replace;
        check(Replace, "/text", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,2,3],"text":"new"}"#]]);
        check(Replace, "/list/-1", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,2,"new"],"text":"t"}"#]]);
        check(
            Replace,
            "/a/x",
            expect![[r#"replace operation does not apply: doc is missing key: "/a/x": missing value"#]],
        );
        check(
            Replace,
            "/x/y",
            expect![[r#"replace operation does not apply: doc is missing path: "/x/y": missing value"#]],
        );
        check(
            Replace,
            "/list/3",
            expect![
                "error in replace for path: '/list/3': Unable to access invalid index: 3: invalid index referenced"
            ],
        );
        check(
            Replace,
            "/list/-",
            expect![
                "error in replace for path: '/list/-': Unable to access invalid index: -: invalid index referenced"
            ],
        );
    }

    #[test]
    fn remove_needs_something_to_remove() {
        use PatchOperator::Remove;
        check(Remove, "/a", expect![[r#"{"list":[1,2,3],"text":"t"}"#]]);
        check(Remove, "/list/-2", expect![[r#"{"a":{"b/c":1,"d~e":2},"list":[1,3],"text":"t"}"#]]);
        check(
            Remove,
            "/a/x",
            expect!["error in remove for path: '/a/x': Unable to remove nonexistent key: x: missing value"],
        );
        check(
            Remove,
            "/x/y",
            expect![[r#"remove operation does not apply: doc is missing path: "/x/y": missing value"#]],
        );
    }

    #[test]
    fn a_resource_does_not_get_deeper_than_readers_go() {
        let deep = (0..DEPTH_LIMIT).fold(json!(1), |inner, _| json!([inner]));
        let mut document = json!({"a": {}});
        let error = patch(&mut document, PatchOperator::Add, "/a/b", deep).unwrap_err();
        expect!["error in add for path: '/a/b': more than 127 levels deep"].assert_eq(&error.to_string());
        assert_eq!(document, json!({"a": {}}));
    }
}
