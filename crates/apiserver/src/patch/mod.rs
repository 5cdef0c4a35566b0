//! Patches of requests, with kube-apiserver's responses to those that cannot be applied. Server-side apply is in `apply`.

mod strategic;

pub(crate) use strategic::{go_map, strategic_merge_patch};

use k8s_values::json_patch::{self, OPERATIONS_MAX, PatchError, Rules};
use serde_json::Value;

use crate::error::{ApiError, Details, Reason};

/// Applies `operations`, a JSON array, to a document. All or nothing.
#[allow(clippy::result_large_err)] // a refused patch is rare, and every caller passes the error on as it is
pub(crate) fn json_patch(document: &Value, operations: &Value) -> Result<Value, ApiError> {
    let unreadable = |found: &Value, go_type: &str| {
        ApiError::bad_request(format!("json: cannot unmarshal {} into Go value of type {go_type}", json_kind(found)))
    };
    let Some(list) = operations.as_array() else { return Err(unreadable(operations, "jsonpatch.Patch")) };
    if let Some(odd) = list.iter().find(|operation| !operation.is_object()) {
        return Err(unreadable(odd, "jsonpatch.Operation"));
    }
    let too_large =
        |why: String| ApiError::new(Reason::RequestEntityTooLarge, format!("Request entity too large: {why}"));
    if list.len() > OPERATIONS_MAX {
        let count = list.len();
        let why = format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}");
        return Err(too_large(why));
    }
    json_patch::apply(document, list, Rules::KubeApiserver).map_err(|error| match error {
        PatchError::TooManySteps => too_large(error.to_string()),
        _ => unprocessable(),
    })
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

/// How the real server answers a patch that can be read but not applied. It keeps the reason to itself.
fn unprocessable() -> ApiError {
    let mut error = ApiError::new(Reason::Invalid, "the server rejected our request due to an error in our request");
    error.details = Some(Details::default());
    error
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn audit_10_a_patch_that_moves_too_many_values_is_refused() {
        let insert = json!({"op": "add", "path": "/l/0", "value": 1});
        let refused =
            json_patch(&json!({"l": vec![0; 100_000]}), &Value::from(vec![insert; OPERATIONS_MAX])).unwrap_err();
        assert_eq!(refused.code(), 413, "{}", refused.message);
        assert!(refused.message.contains("20000000 steps"), "{}", refused.message);
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
    fn a_patch_has_a_limited_number_of_operations() {
        let many = Value::Array(vec![json!({"op": "test", "path": "", "value": {}}); OPERATIONS_MAX + 1]);
        let error = json_patch(&json!({}), &many).unwrap_err();
        assert_eq!(error.code(), 413);
        assert!(error.message.ends_with("The allowed maximum operations in a JSON patch is 10000, got 10001"));
    }
}
