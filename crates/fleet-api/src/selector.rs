//! Label selectors: matching, and errors with Kubernetes' texts. An absent selector matches nothing, an empty one
//! everything.

use std::collections::BTreeMap;

use k8s_values::validation;

use k8s_values::go::quoted;

use crate::admission::findings::Findings;
use crate::types::{LabelSelector, LabelSelectorRequirement};

/// A valid label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Option<Vec<Requirement>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// Why a label selector is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl Selector {
    pub fn nothing() -> Self {
        Self(None)
    }

    pub fn everything() -> Self {
        Self(Some(Vec::new()))
    }

    /// Fails on the first invalid part, as Kubernetes does; labels come before expressions.
    pub fn new(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else { return Ok(Self::nothing()) };
        let labels = selector.match_labels.iter().map(|(key, value)| Requirement::equals(key, value));
        let expressions = selector.match_expressions.iter().map(Requirement::new);
        labels.chain(expressions).collect::<Result<Vec<_>, _>>().map(|requirements| Self(Some(requirements)))
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.as_ref().is_some_and(|requirements| requirements.iter().all(|one| one.matches(labels)))
    }
}

impl Requirement {
    fn equals(key: &str, value: &str) -> Result<Self, SelectorError> {
        check(key, std::slice::from_ref(&value.to_owned()), None)?;
        Ok(Self { key: key.to_owned(), test: Test::In(vec![value.to_owned()]) })
    }

    fn new(requirement: &LabelSelectorRequirement) -> Result<Self, SelectorError> {
        let LabelSelectorRequirement { key, operator, values } = requirement;
        let some_needed = values.is_empty().then_some("for 'in', 'notin' operators, values set can't be empty");
        let none_allowed = (!values.is_empty()).then_some("values set must be empty for exists and does not exist");
        let (test, complaint) = match operator.as_str() {
            "In" => (Test::In(values.clone()), some_needed),
            "NotIn" => (Test::NotIn(values.clone()), some_needed),
            "Exists" => (Test::Exists, none_allowed),
            "DoesNotExist" => (Test::DoesNotExist, none_allowed),
            _ => return Err(SelectorError(format!("{} is not a valid label selector operator", quoted(operator)))),
        };
        check(key, values, complaint)?;
        Ok(Self { key: key.clone(), test })
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let found = labels.get(&self.key);
        match &self.test {
            Test::In(values) => found.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => found.is_none_or(|value| !values.contains(value)),
            Test::Exists => found.is_some(),
            Test::DoesNotExist => found.is_none(),
        }
    }
}

/// `complaint` says what is wrong with the number of values.
fn check(key: &str, values: &[String], complaint: Option<&str>) -> Result<(), SelectorError> {
    let mut findings = Findings::none();
    let wrong = validation::qualified_name(key);
    if !wrong.is_empty() {
        findings.add(format!("key: Invalid value: {}: {}", quoted(key), wrong.join("; ")));
    }
    if let Some(complaint) = complaint {
        findings.add(format!("values: Invalid value: {}: {complaint}", json_list(values)));
    }
    for (index, value) in values.iter().enumerate() {
        let wrong = validation::label_value(value);
        if !wrong.is_empty() {
            findings.add(format!("values[{index}][{key}]: Invalid value: {}: {}", quoted(value), wrong.join("; ")));
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(SelectorError(findings.to_string())) }
}

/// A list as Go encodes it: an absent list is null, and characters that could end a script element are escaped.
fn json_list(texts: &[String]) -> String {
    if texts.is_empty() {
        return "null".to_owned();
    }
    let escaped = |c: char| match c {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(c)),
        _ => c.to_string(),
    };
    serde_json::Value::from(texts).to_string().chars().map(escaped).collect()
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn selector(given: Value) -> Result<Selector, SelectorError> {
        Selector::new(Some(&serde_json::from_value(given).unwrap()))
    }

    fn check_error(given: Value, expected: Expect) {
        expected.assert_eq(&selector(given).unwrap_err().to_string());
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn absent_matches_nothing_and_empty_matches_everything() {
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(Selector::new(None), Ok(Selector::nothing()));
        assert!(!Selector::nothing().matches(&labels));
        assert_eq!(selector(json!({})), Ok(Selector::everything()));
        assert!(Selector::everything().matches(&BTreeMap::new()));
    }

    #[test]
    fn operators_and_numbers_of_values() {
        check_error(expression("k", "in", &["x"]), expect![[r#""in" is not a valid label selector operator"#]]);
        check_error(
            expression("k", "In", &[]),
            expect!["values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"],
        );
        check_error(
            expression("k", "NotIn", &[]),
            expect!["values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"],
        );
        check_error(
            expression("k", "Exists", &["x", "y"]),
            expect![[r#"values: Invalid value: ["x","y"]: values set must be empty for exists and does not exist"#]],
        );
        check_error(
            expression("k", "DoesNotExist", &["x"]),
            expect![[r#"values: Invalid value: ["x"]: values set must be empty for exists and does not exist"#]],
        );
    }

    #[test]
    fn keys_and_values() {
        check_error(
            json!({"matchLabels": {"a b": "c"}}),
            expect![[
                r#"key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#
            ]],
        );
        check_error(
            json!({"matchLabels": {"a": "b c"}}),
            expect![[
                r#"values[0][a]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#
            ]],
        );
        check_error(
            expression("/k", "Exists", &["x<&é\u{2028}"]),
            expect![[
                r#"[key: Invalid value: "/k": prefix part must be non-empty, values: Invalid value: ["x\u003c\u0026é\u2028"]: values set must be empty for exists and does not exist, values[0][/k]: Invalid value: "x<&é\u2028": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]"#
            ]],
        );
    }

    #[test]
    fn labels_are_looked_at_before_expressions() {
        check_error(
            json!({"matchLabels": {"/k": "v"}, "matchExpressions": [{"key": "k", "operator": "in"}]}),
            expect![[r#"key: Invalid value: "/k": prefix part must be non-empty"#]],
        );
    }

    /// Each operator spelled out over all pairs, without looking up.
    fn naively(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
        let value_of = |wanted: &str| labels.iter().filter(|(key, _)| *key == wanted).map(|(_, value)| value).next();
        selector.match_labels.iter().all(|pair| labels.iter().any(|label| label == pair))
            && selector.match_expressions.iter().all(|one| match (one.operator.as_str(), value_of(&one.key)) {
                ("In", Some(value)) => one.values.iter().any(|v| v == value),
                ("NotIn", Some(value)) => one.values.iter().all(|v| v != value),
                ("Exists", found) => found.is_some(),
                ("NotIn" | "DoesNotExist", None) => true,
                _ => false,
            })
    }

    fn small_labels() -> impl Strategy<Value = BTreeMap<String, String>> {
        prop::collection::btree_map("[a-c]", "[x-z]", 0..3)
    }

    fn small_requirement() -> impl Strategy<Value = LabelSelectorRequirement> {
        let set = ("[a-c]", prop::sample::select(vec!["In", "NotIn"]), prop::collection::vec("[x-z]", 1..3));
        let presence = ("[a-c]", prop::sample::select(vec!["Exists", "DoesNotExist"]), Just(Vec::new()));
        prop_oneof![set, presence].prop_map(|(key, operator, values)| LabelSelectorRequirement {
            key,
            operator: operator.to_owned(),
            values,
        })
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_naive_reading(
            match_labels in small_labels(),
            match_expressions in prop::collection::vec(small_requirement(), 0..3),
            labels in small_labels(),
        ) {
            let selector = LabelSelector { match_labels, match_expressions };
            let expected = naively(&selector, &labels);
            prop_assert_eq!(Selector::new(Some(&selector)).unwrap().matches(&labels), expected);
        }
    }
}
