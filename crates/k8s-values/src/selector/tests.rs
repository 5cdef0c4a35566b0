//! Which labels a selector matches, and the errors of invalid ones.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

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
fn labels_are_checked_before_expressions() {
    check_error(
        json!({"matchLabels": {"/k": "v"}, "matchExpressions": [{"key": "k", "operator": "in"}]}),
        expect![[r#"key: Invalid value: "/k": prefix part must be non-empty"#]],
    );
}

fn matches(selector: &str) -> bool {
    let labels = [("app", "web"), ("tier", "a"), ("n", "5"), ("empty", "")];
    Selector::parse(selector).unwrap().matches_by(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
}

#[test]
fn requirements_match_by_operator() {
    for yes in [
        "",
        "app=web",
        "app==web",
        "app!=db",
        "tier in (a,b)",
        "tier notin (b)",
        "app",
        "!gone",
        "gone!=x",
        "gone notin (a)",
        "n>4",
        "n<6",
        "empty=",
        "empty in (,x)",
        " app = web , tier in ( a ) ",
    ] {
        assert!(matches(yes), "{yes}");
    }
    for no in ["app=db", "app!=web", "tier in (b)", "tier notin (a,b)", "gone", "!app", "gone=x", "n>5", "app>1"] {
        assert!(!matches(no), "{no}");
    }
}

#[test]
fn errors_name_the_value_that_was_found() {
    let error = |text: &str| Selector::parse(text).unwrap_err().to_string();
    assert_eq!(error("a=b,"), "found '', expected: identifier after ','");
    assert_eq!(error("a in b"), "unable to parse requirement: found 'b' expected: '('");
    assert_eq!(error("a b"), "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
    assert_eq!(error("=a"), "found '=', expected: !, identifier, or 'end of string'");
    assert!(error("a=b!c").starts_with("found '!', expected: ',' or 'end of string'"));
    assert!(error("a=-").starts_with(
        "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be an empty string"
    ));
    assert!(
        error("a//b=c").starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"a//b\": a qualified name must consist of"
        )
    );
}

#[test]
fn all_errors_of_a_requirement_are_reported_at_once() {
    let error = |text: &str| Selector::parse(text).unwrap_err().to_string();
    let wrong = error("a in (-,b,_)");
    assert!(wrong.starts_with("unable to parse requirement: [values[0][a]: Invalid value: \"-\": "), "{wrong}");
    assert!(wrong.contains(", values[1][a]: Invalid value: \"_\": "), "{wrong}");
    assert_eq!(
        error("a>b"),
        "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"
    );
}

#[test]
fn a_selector_is_printed_as_a_query_sorted_by_key() {
    let given = json!({
        "matchLabels": {"b": "c", "z": ""},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]},
            {"key": "n", "operator": "NotIn", "values": ["1"]},
            {"key": "e", "operator": "Exists"},
            {"key": "d", "operator": "DoesNotExist"},
        ],
    });
    assert_eq!(selector(given).unwrap().to_string(), "a in (x,y),b=c,!d,e,n notin (1),z=");
    assert_eq!(Selector::parse("b > 1,a!=x,c<2").unwrap().to_string(), "a!=x,b>1,c<2");
    assert_eq!((Selector::nothing().to_string(), Selector::everything().to_string()), (String::new(), String::new()));
}

#[test]
fn an_object_without_a_type_may_lack_a_selector() {
    assert_eq!(Selector::of_value(&Value::Null), Ok(Selector::nothing()));
    assert_eq!(Selector::of_value(&json!({"matchLabels": null})), Ok(Selector::everything()));
    assert!(Selector::of_value(&json!({"matchLabels": {"a": 1}})).is_err());
    assert!(Selector::default().is_everything() && !Selector::nothing().is_everything());
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
        let selector = Selector::new(Some(&selector)).unwrap();
        prop_assert_eq!(selector.matches(&labels), expected);
        // Queries have no repeated values.
        let printed = selector.to_string();
        prop_assert_eq!(Selector::parse(&printed).unwrap().matches(&labels), expected, "{}", printed);
    }
}
