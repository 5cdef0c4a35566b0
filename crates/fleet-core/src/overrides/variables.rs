//! Replaces variables for the cluster's name and labels in the JSON text of a patch value, keys included. Paths have no
//! variables.

use fleet_api::well_known::override_variables::{CLUSTER_LABEL_PREFIX, CLUSTER_NAME};
use serde_json::Value;

use super::clusters::Target;

/// Why a value cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    #[error("label key {key} not found on cluster {cluster}")]
    NoSuchLabel { key: String, cluster: String },
    #[error("input {input} is missing the closing bracket `}}`")]
    NotClosed { input: String },
    /// Names and label values need no JSON escaping, so only a broken variable causes this.
    #[error("input {input} is no value any more once its variables are replaced: {error}")]
    NoValue { input: String, error: String },
}

/// The value for this cluster.
pub(super) fn resolved(value: &Value, target: &Target<'_>) -> Result<Value, VariableError> {
    let text = value.to_string();
    if !text.contains(CLUSTER_NAME) && !text.contains(CLUSTER_LABEL_PREFIX) {
        return Ok(value.clone());
    }
    let text = with_labels(text.replace(CLUSTER_NAME, target.name), target)?;
    serde_json::from_str(&text).map_err(|error| VariableError::NoValue { input: text, error: error.to_string() })
}

fn with_labels(input: String, target: &Target<'_>) -> Result<String, VariableError> {
    let mut done = String::new();
    let mut rest = input.as_str();
    while let Some((before, variable)) = rest.split_once(CLUSTER_LABEL_PREFIX) {
        let Some((key, after)) = variable.split_once('}') else {
            return Err(VariableError::NotClosed { input });
        };
        let missing = || VariableError::NoSuchLabel { key: key.to_owned(), cluster: target.name.to_owned() };
        done.push_str(before);
        done.push_str(target.labels.get(key).ok_or_else(missing)?);
        rest = after;
    }
    done.push_str(rest);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(value: Value, expected: Expect) {
        let labels = BTreeMap::from([("region".to_owned(), "eu".to_owned()), ("empty".to_owned(), String::new())]);
        match resolved(&value, &Target { name: "c1", labels: &labels }) {
            Ok(value) => expected.assert_eq(&value.to_string()),
            Err(error) => expected.assert_eq(&format!("error: {error}")),
        }
    }

    #[test]
    fn variables_are_replaced_at_every_depth() {
        check(json!("${MEMBER-CLUSTER-NAME}"), expect![[r#""c1""#]]);
        check(
            json!({"${MEMBER-CLUSTER-NAME}-x": ["a ${MEMBER-CLUSTER-NAME} ${MEMBER-CLUSTER-NAME}", 1, null]}),
            expect![[r#"{"c1-x":["a c1 c1",1,null]}"#]],
        );
        check(
            json!(
                "${MEMBER-CLUSTER-LABEL-KEY-region}/${MEMBER-CLUSTER-LABEL-KEY-empty}/${MEMBER-CLUSTER-LABEL-KEY-region}"
            ),
            expect![[r#""eu//eu""#]],
        );
        check(json!("$MEMBER-CLUSTER-NAME ${OTHER}"), expect![[r#""$MEMBER-CLUSTER-NAME ${OTHER}""#]]);
        check(json!(1.5), expect!["1.5"]);
    }

    #[test]
    fn an_unknown_label_is_an_error() {
        check(json!("${MEMBER-CLUSTER-LABEL-KEY-zone}"), expect!["error: label key zone not found on cluster c1"]);
        check(json!("${MEMBER-CLUSTER-LABEL-KEY-}"), expect!["error: label key  not found on cluster c1"]);
    }

    #[test]
    fn a_variable_that_does_not_end_is_an_error() {
        check(
            json!(["${MEMBER-CLUSTER-NAME}", "${MEMBER-CLUSTER-LABEL-KEY-region"]),
            expect![[r#"error: input ["c1","${MEMBER-CLUSTER-LABEL-KEY-region"] is missing the closing bracket `}`"#]],
        );
        // The closing bracket of the object counts as that of the variable, because variables are replaced in the text.
        check(
            json!({"a": "${MEMBER-CLUSTER-LABEL-KEY-region"}),
            expect![[r#"error: label key region" not found on cluster c1"#]],
        );
    }
}
