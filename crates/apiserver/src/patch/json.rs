//! JSON patch (RFC 6902), with the habits of the library that kube-apiserver uses: indexes may count from the end,
//! `replace` also sets a key that was absent, `copy` of something absent copies null.

use std::borrow::Cow;

use serde_json::Value;

use super::unprocessable;
use crate::error::{ApiError, Reason};

/// Operations in one patch.
const OPERATION_LIMIT: usize = 10_000;
/// Bytes that all copies of a patch may add: without it, copying the document into itself doubles it every time.
const COPY_LIMIT: usize = 3 << 20;
/// Values that all operations of a patch may touch or move. Ten thousand insertions at the front of a list of a hundred
/// thousand items would otherwise move a billion values; this many take less than a second.
const STEP_LIMIT: usize = 20_000_000;
/// Nesting of the result: as deep as the JSON reader goes. The store takes a little less.
const DEPTH_LIMIT: usize = 127;

/// Applies `operations`, a JSON array, to a document. All or nothing.
#[allow(clippy::result_large_err)] // a refused patch is rare, and every caller passes the error on as it is
pub fn json_patch(document: &Value, operations: &Value) -> Result<Value, ApiError> {
    let unreadable = |found: &Value, go_type: &str| {
        ApiError::bad_request(format!("json: cannot unmarshal {} into Go value of type {go_type}", json_kind(found)))
    };
    let Some(list) = operations.as_array() else { return Err(unreadable(operations, "jsonpatch.Patch")) };
    if let Some(odd) = list.iter().find(|operation| !operation.is_object()) {
        return Err(unreadable(odd, "jsonpatch.Operation"));
    }
    if list.len() > OPERATION_LIMIT {
        let count = list.len();
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATION_LIMIT}, got {count}"
        );
        return Err(ApiError::new(Reason::RequestEntityTooLarge, message));
    }
    apply(document, list).map_err(|refused| match refused {
        Refused::Failed(_) => unprocessable(),
        Refused::TooLong => {
            let message = format!("Request entity too large: the JSON patch takes more than {STEP_LIMIT} steps");
            ApiError::new(Reason::RequestEntityTooLarge, message)
        }
    })
}

/// Why a patch was not applied.
#[derive(Debug, PartialEq)]
enum Refused {
    /// An operation failed; the text says which and why.
    Failed(String),
    TooLong,
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Refused::Failed(why)
    }
}

/// The remaining limits of a patch.
struct Budget {
    steps: usize,
    copied: usize,
}

impl Budget {
    fn spend(&mut self, steps: usize) -> Result<(), Refused> {
        self.steps = self.steps.checked_sub(steps).ok_or(Refused::TooLong)?;
        Ok(())
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Applies the operations one after the other.
fn apply(document: &Value, operations: &[Value]) -> Result<Value, Refused> {
    let mut document = document.clone();
    let mut budget = Budget { steps: STEP_LIMIT, copied: 0 };
    for operation in operations {
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let value = operation.get("value").unwrap_or(&Value::Null);
        let kind = text("op").unwrap_or("unknown");
        let path = text("path").ok_or_else(|| format!("{kind} operation failed to decode path: missing value"))?;
        let from = || text("from").ok_or_else(|| format!("{kind} operation failed to decode from: missing value"));
        match kind {
            "add" => {
                let missing = "add operation does not apply: doc is missing path";
                add(&mut document, path, value.clone(), missing, &mut budget)?;
            }
            "remove" => remove(&mut document, path, &mut budget)?,
            "replace" => replace(&mut document, path, value)?,
            "move" => relocate(&mut document, from()?, path, &mut budget)?,
            "copy" => copy(&mut document, from()?, path, &mut budget)?,
            "test" => test(&document, path, value)?,
            other => return Err(format!("Unexpected kind: {other}").into()),
        }
    }
    Ok(document)
}

fn decoded(token: &str) -> Cow<'_, str> {
    if token.contains('~') { token.replace("~1", "/").replace("~0", "~").into() } else { token.into() }
}

/// The tokens before the last, and the last. A path without a slash names nothing.
fn split(path: &str) -> Option<(Vec<Cow<'_, str>>, Cow<'_, str>)> {
    let mut tokens = path.split('/').skip(1).map(decoded).collect::<Vec<_>>();
    let last = tokens.pop()?;
    Some((tokens, last))
}

/// The position a token names in a list of `length`; a negative one counts from the end.
fn position(token: &str, length: usize) -> Result<usize, String> {
    let index: i64 = token.parse().map_err(|_| format!("strconv.Atoi: parsing {token:?}: invalid syntax"))?;
    let from_end = usize::try_from(index.unsigned_abs()).ok().and_then(|back| length.checked_sub(back));
    let found = if index < 0 { from_end } else { usize::try_from(index).ok().filter(|at| *at < length) };
    found.ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

fn step<'v>(value: &'v Value, token: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(token),
        Value::Array(items) => items.get(position(token, items.len()).ok()?),
        _ => None,
    }
}

fn step_mut<'v>(value: &'v mut Value, token: &str) -> Option<&'v mut Value> {
    match value {
        Value::Object(fields) => fields.get_mut(token),
        Value::Array(items) => {
            let at = position(token, items.len()).ok()?;
            items.get_mut(at)
        }
        _ => None,
    }
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// The object or list that holds what `path` names, and the name in it.
fn holder<'v, 'p>(document: &'v Value, path: &'p str) -> Option<(&'v Value, Cow<'p, str>)> {
    let (tokens, last) = split(path)?;
    let found = tokens.iter().try_fold(document, |value, token| step(value, token))?;
    is_container(found).then_some((found, last))
}

fn holder_mut<'v, 'p>(document: &'v mut Value, path: &'p str) -> Option<(&'v mut Value, Cow<'p, str>)> {
    let (tokens, last) = split(path)?;
    let found = tokens.iter().try_fold(document, |value, token| step_mut(value, token))?;
    is_container(found).then_some((found, last))
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

fn add(document: &mut Value, path: &str, value: Value, missing: &str, budget: &mut Budget) -> Result<(), Refused> {
    let (depth, count) = extent(&value);
    budget.spend(count)?;
    if path.matches('/').count() + depth > DEPTH_LIMIT {
        return Err(format!("error in add for path: '{path}': exceeded max depth").into());
    }
    let (holder, name) = holder_mut(document, path).ok_or_else(|| format!("{missing}: {path:?}: missing value"))?;
    match holder {
        Value::Object(fields) => {
            fields.insert(name.into_owned(), value);
        }
        Value::Array(items) if name == "-" => items.push(value),
        Value::Array(items) => {
            let at =
                position(&name, items.len() + 1).map_err(|why| format!("error in add for path: '{path}': {why}"))?;
            budget.spend(items.len() - at)?;
            items.insert(at, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str, budget: &mut Budget) -> Result<(), Refused> {
    let missing = || format!("remove operation does not apply: doc is missing path: {path:?}: missing value");
    let (holder, name) = holder_mut(document, path).ok_or_else(missing)?;
    take(holder, &name, |why| format!("error in remove for path: '{path}': {why}"), budget).map(drop)
}

fn take(
    holder: &mut Value,
    name: &str,
    failed: impl Fn(String) -> String,
    budget: &mut Budget,
) -> Result<Value, Refused> {
    Ok(match holder {
        Value::Object(fields) => {
            let missing = || failed(format!("Unable to remove nonexistent key: {name}: missing value"));
            fields.remove(name).ok_or_else(missing)?
        }
        Value::Array(items) => {
            let at = position(name, items.len()).map_err(failed)?;
            budget.spend(items.len() - at)?;
            items.remove(at)
        }
        _ => return Err(failed("missing value".to_owned()).into()),
    })
}

fn replace(document: &mut Value, path: &str, value: &Value) -> Result<(), Refused> {
    if path.is_empty() {
        // A scalar cannot be a document; the real server then does nothing and says nothing.
        if is_container(value) {
            *document = value.clone();
        }
        return Ok(());
    }
    if path.matches('/').count() + extent(value).0 > DEPTH_LIMIT {
        return Err(format!("error in replace for path: '{path}': exceeded max depth").into());
    }
    let missing =
        |what: &str| format!("replace operation does not apply: doc is missing {what}: {path}: missing value");
    let (holder, name) = holder_mut(document, path).ok_or_else(|| missing("path"))?;
    match holder {
        Value::Object(fields) => {
            fields.insert(name.into_owned(), value.clone());
        }
        Value::Array(items) => {
            let at = position(&name, items.len()).map_err(|_| missing("key"))?;
            items[at] = value.clone();
        }
        _ => {}
    }
    Ok(())
}

fn relocate(document: &mut Value, from: &str, path: &str, budget: &mut Budget) -> Result<(), Refused> {
    let missing = || format!("move operation does not apply: doc is missing from path: {from}: missing value");
    let (holder, name) = holder_mut(document, from).ok_or_else(missing)?;
    let value = take(holder, &name, |why| format!("error in move for path: '{name}': {why}"), budget)?;
    add(document, path, value, "move operation does not apply: doc is missing destination path", budget)
}

fn copy(document: &mut Value, from: &str, path: &str, budget: &mut Budget) -> Result<(), Refused> {
    let missing = || format!("copy operation does not apply: doc is missing from path: {from}: missing value");
    let (holder, name) = holder(document, from).ok_or_else(missing)?;
    if let Value::Array(items) = holder {
        position(&name, items.len()).map_err(|why| format!("error in copy for from: '{from}': {why}"))?;
    }
    let value = step(holder, &name).cloned().unwrap_or(Value::Null);
    budget.copied += value.to_string().len();
    if budget.copied > COPY_LIMIT {
        let copied = budget.copied;
        return Err(format!(
            "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {COPY_LIMIT}"
        )
        .into());
    }
    add(document, path, value, "copy operation does not apply: doc is missing destination path", budget)
}

fn test(document: &Value, path: &str, wanted: &Value) -> Result<(), Refused> {
    let found = if path.is_empty() {
        Some(document)
    } else {
        let missing = || format!("test operation does not apply: is missing path: {path}: missing value");
        let (holder, name) = holder(document, path).ok_or_else(missing)?;
        if let Value::Array(items) = holder {
            position(&name, items.len()).map_err(|why| format!("error in test for path: '{path}': {why}"))?;
        }
        step(holder, &name)
    };
    // An absent value counts as null.
    if found.unwrap_or(&Value::Null) == wanted {
        return Ok(());
    }
    Err(format!("testing value {path} failed: test failed").into())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value)] // json! literals at every call
    fn check(document: Value, operations: Value, expected: Expect) {
        let outcome = apply(&document, operations.as_array().unwrap());
        let text = match outcome {
            Ok(value) => value.to_string(),
            Err(Refused::Failed(why)) => why,
            Err(Refused::TooLong) => "too long".to_owned(),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn operations_do_what_the_standard_says() {
        let list = json!({"l": [1, 2], "m": {"a/b": 1, "~": 2}});
        check(
            list.clone(),
            json!([{"op": "add", "path": "/l/1", "value": 9}]),
            expect![[r#"{"l":[1,9,2],"m":{"a/b":1,"~":2}}"#]],
        );
        check(
            list.clone(),
            json!([{"op": "add", "path": "/l/-", "value": 9}, {"op": "remove", "path": "/m"}]),
            expect![[r#"{"l":[1,2,9]}"#]],
        );
        check(
            list.clone(),
            json!([{"op": "replace", "path": "/m/a~1b", "value": null}, {"op": "remove", "path": "/m/~0"}]),
            expect![[r#"{"l":[1,2],"m":{"a/b":null}}"#]],
        );
        check(
            list.clone(),
            json!([{"op": "move", "from": "/l/0", "path": "/m/x"}]),
            expect![[r#"{"l":[2],"m":{"a/b":1,"x":1,"~":2}}"#]],
        );
        check(
            list.clone(),
            json!([{"op": "copy", "from": "/m", "path": "/l/0"}]),
            expect![[r#"{"l":[{"a/b":1,"~":2},1,2],"m":{"a/b":1,"~":2}}"#]],
        );
        check(
            list,
            json!([{"op": "test", "path": "/l", "value": [1, 2]}, {"op": "replace", "path": "", "value": {}}]),
            expect!["{}"],
        );
    }

    #[test]
    fn habits_of_the_real_server_are_kept() {
        check(json!({"l": [1, 2]}), json!([{"op": "remove", "path": "/l/-1"}]), expect![[r#"{"l":[1]}"#]]);
        check(json!({}), json!([{"op": "replace", "path": "/new", "value": 1}]), expect![[r#"{"new":1}"#]]);
        check(json!({}), json!([{"op": "copy", "from": "/none", "path": "/x"}]), expect![[r#"{"x":null}"#]]);
        check(json!({}), json!([{"op": "test", "path": "/none", "value": null}]), expect!["{}"]);
        check(json!({"a": 1}), json!([{"op": "replace", "path": "", "value": 1}]), expect![[r#"{"a":1}"#]]);
    }

    #[test]
    fn audit_10_a_patch_that_moves_too_many_values_is_refused() {
        let list = |length: usize| json!({"l": vec![0; length], "m": {}});
        let many = |operation: &Value, count: usize| Value::from(vec![operation.clone(); count]);
        let insert = json!({"op": "add", "path": "/l/0", "value": 1});
        let away = json!([{"op": "move", "from": "/l", "path": "/m/l"}, {"op": "move", "from": "/m/l", "path": "/l"}]);
        let back_and_forth: Value = away.as_array().unwrap().iter().cycle().take(10_000).cloned().collect();
        for operations in
            [many(&insert, 10_000), many(&json!({"op": "remove", "path": "/l/0"}), 10_000), back_and_forth]
        {
            let refused = json_patch(&list(100_000), &operations).unwrap_err();
            assert_eq!(refused.code(), 413, "{}", refused.message);
            assert!(refused.message.contains("20000000 steps"), "{}", refused.message);
        }
        // Real patches are far from the limit.
        assert!(json_patch(&list(1000), &many(&insert, 1000)).is_ok());
    }

    #[test]
    fn failures_say_why() {
        let document = json!({"a": 1, "l": []});
        for (operation, expected) in [
            (json!({"op": "test", "path": "/a", "value": 2}), expect!["testing value /a failed: test failed"]),
            (
                json!({"op": "add", "path": "/x/y", "value": 2}),
                expect![[r#"add operation does not apply: doc is missing path: "/x/y": missing value"#]],
            ),
            (
                json!({"op": "add", "path": "", "value": 2}),
                expect![[r#"add operation does not apply: doc is missing path: "": missing value"#]],
            ),
            (
                json!({"op": "remove", "path": "/x"}),
                expect!["error in remove for path: '/x': Unable to remove nonexistent key: x: missing value"],
            ),
            (
                json!({"op": "remove", "path": "/l/0"}),
                expect![
                    "error in remove for path: '/l/0': Unable to access invalid index: 0: invalid index referenced"
                ],
            ),
            (
                json!({"op": "replace", "path": "/l/x", "value": 1}),
                expect!["replace operation does not apply: doc is missing key: /l/x: missing value"],
            ),
            (
                json!({"op": "add", "path": "/l/2", "value": 1}),
                expect!["error in add for path: '/l/2': Unable to access invalid index: 2: invalid index referenced"],
            ),
            (
                json!({"op": "move", "from": "/x", "path": "/y"}),
                expect!["error in move for path: 'x': Unable to remove nonexistent key: x: missing value"],
            ),
            (json!({"op": "swap", "path": "/x"}), expect!["Unexpected kind: swap"]),
            (json!({"op": "add"}), expect!["add operation failed to decode path: missing value"]),
        ] {
            check(document.clone(), json!([operation]), expected);
        }
    }

    #[test]
    fn the_answer_to_a_failed_test_is_invalid_without_details() {
        let error = json_patch(&json!({}), &json!([{"op": "test", "path": "/a", "value": 1}])).unwrap_err();
        expect![[r#"{"apiVersion":"v1","code":422,"details":{},"kind":"Status","message":"the server rejected our request due to an error in our request","metadata":{},"reason":"Invalid","status":"Failure"}"#]]
            .assert_eq(&error.to_status().to_string());
        assert_eq!(
            json_patch(&json!({}), &json!({})).unwrap_err().message,
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        );
        assert_eq!(json_patch(&json!({}), &json!([1])).unwrap_err().code(), 400);
    }

    #[test]
    fn a_patch_cannot_blow_up_the_document() {
        let many = Value::Array(vec![json!({"op": "test", "path": "", "value": {}}); OPERATION_LIMIT + 1]);
        let error = json_patch(&json!({}), &many).unwrap_err();
        assert_eq!(error.code(), 413);
        assert!(error.message.ends_with("The allowed maximum operations in a JSON patch is 10000, got 10001"));
        let doubling = vec![json!({"op": "copy", "from": "/a", "path": "/a/0"}); 100];
        assert!(apply(&json!({"a": ["x".repeat(1000)]}), &doubling).is_err());
        let nesting = vec![json!({"op": "copy", "from": "/a", "path": "/a/a"}); 200];
        assert!(apply(&json!({"a": {}}), &nesting).is_err());
    }
}
