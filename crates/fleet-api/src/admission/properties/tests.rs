//! Property names, requirements, and sets of requirements.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn check(requirements: &[(&str, &str, &[&str])], expected: Expect) {
    let expressions: Vec<_> = requirements
        .iter()
        .map(|(name, operator, values)| json!({"name": name, "operator": operator, "values": values}))
        .collect();
    let findings = check_selector(&serde_json::from_value(json!({"matchExpressions": expressions})).unwrap());
    expected.assert_eq(&if findings.is_empty() { "fine".to_owned() } else { findings.to_string() });
}

fn check_set(requirements: &[(&str, &str)], expected: Expect) {
    let values: Vec<[&str; 1]> = requirements.iter().map(|(_, value)| [*value]).collect();
    let on_one: Vec<(&str, &str, &[&str])> =
        requirements.iter().zip(&values).map(|((operator, _), value)| ("p", *operator, &value[..])).collect();
    check(&on_one, expected);
}

fn check_named(name: &str, expected: Expect) {
    expected.assert_eq(&check_name(name).err().unwrap_or("fine".to_owned()));
}

#[test]
fn names_of_resource_properties() {
    check_named("resources.kubernetes-fleet.io/total-cpu", expect!["fine"]);
    check_named("resources.kubernetes-fleet.io/available-hugepages-2Mi", expect!["fine"]);
    check_named(
        "resources.kubernetes-fleet.io/cpu",
        expect![
            "invalid resource property name resources.kubernetes-fleet.io/cpu, expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"
        ],
    );
    check_named(
        "resources.kubernetes-fleet.io/free-cpu",
        expect![
            "invalid capacity type in resource property name resources.kubernetes-fleet.io/free-cpu, supported values are [allocatable available total]"
        ],
    );
    check_named(
        "resources.kubernetes-fleet.io/total-",
        expect![
            "property name resources.kubernetes-fleet.io/total- is not valid: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    );
    check_named(
        "resources.kubernetes-fleet.io/total-example.com/gpu",
        expect![
            "property name resources.kubernetes-fleet.io/total-example.com/gpu is not valid: a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ],
    );
}

#[test]
fn names_of_other_properties() {
    check_named("kubernetes-fleet.io/node-count", expect!["fine"]);
    check_named("kubernetes.azure.com/vm-sizes/Standard_D4s/count", expect!["fine"]);
    check_named("UPPER_case/ok", expect!["fine"]);
    check_named(
        "",
        expect![
            "property name  is not valid: name part must be non-empty; name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    );
    check_named(
        "a b",
        expect![
            "property name a b is not valid: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    );
    check_named(
        "a b/c",
        expect![[
            r"property name first segment a b is not valid: it is neither a valid DNS subdomain (a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')) nor a valid qualified name (name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'))"
        ]],
    );
    check_named(
        "a//c",
        expect![
            "property name segment  is not valid: name part must be non-empty; name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    );
    check_named(
        "a/b/-",
        expect![
            "property name segment - is not valid: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    );
}

#[test]
fn single_requirements() {
    check(&[("a/b/c", "Gt", &["1"]), ("x", "Ne", &["1.5Gi"])], expect!["fine"]);
    check(&[("x", "In", &["1"])], expect!["invalid requirement on property x: unsupported operator In"]);
    check(
        &[("x", "Gt", &[])],
        expect!["invalid requirement on property x: operator Gt requires exactly one value, got 0"],
    );
    check(
        &[("x", "Gt", &["1", "2"])],
        expect!["invalid requirement on property x: operator Gt requires exactly one value, got 2"],
    );
    check(
        &[("x", "Eq", &["ten"])],
        expect![[
            r#"invalid requirement on property x: value "ten" is not a valid resource.Quantity: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"#
        ]],
    );
    check(
        &[("x", "Eq", &["1\"x"])],
        expect![[
            r#"invalid requirement on property x: value "1\"x" is not a valid resource.Quantity: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"#
        ]],
    );
    check(
        &[("a b", "??", &[])],
        expect![
            "[invalid property name a b: property name a b is not valid: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), invalid requirement on property a b: unsupported operator ??]"
        ],
    );
}

#[test]
fn unsatisfiable_requirements() {
    check_set(
        &[("Eq", "1"), ("Eq", "2")],
        expect!["inconsistent requirements on property p: conflicting Eq values 1 and 2"],
    );
    check_set(
        &[("Eq", "1"), ("Ne", "1000m")],
        expect!["inconsistent requirements on property p: conflicting Eq and Ne on same value 1"],
    );
    check_set(
        &[("Gt", "10"), ("Lt", "5")],
        expect!["inconsistent requirements on property p: lower bound (10) and upper bound (5) exclude all values"],
    );
    check_set(
        &[("Gt", "5"), ("Le", "5")],
        expect!["inconsistent requirements on property p: lower bound (5) and upper bound (5) exclude all values"],
    );
    check_set(
        &[("Ge", "5"), ("Lt", "5")],
        expect!["inconsistent requirements on property p: lower bound (5) and upper bound (5) exclude all values"],
    );
    check_set(
        &[("Ge", "3"), ("Gt", "3"), ("Le", "3")],
        expect!["inconsistent requirements on property p: lower bound (3) and upper bound (3) exclude all values"],
    );
    check_set(
        &[("Eq", "1"), ("Ge", "2")],
        expect!["inconsistent requirements on property p: eq value 1 violates lower bound 2"],
    );
    check_set(
        &[("Eq", "2"), ("Gt", "2")],
        expect!["inconsistent requirements on property p: eq value 2 violates lower bound 2"],
    );
    check_set(
        &[("Eq", "3"), ("Le", "2")],
        expect!["inconsistent requirements on property p: eq value 3 violates upper bound 2"],
    );
    check_set(
        &[("Eq", "2"), ("Lt", "2")],
        expect!["inconsistent requirements on property p: eq value 2 violates upper bound 2"],
    );
}

#[test]
fn satisfiable_requirements() {
    check_set(&[("Eq", "1"), ("Eq", "1000m"), ("Ne", "2"), ("Ge", "1"), ("Le", "1")], expect!["fine"]);
    check_set(&[("Ge", "5"), ("Le", "5")], expect!["fine"]);
    check_set(&[("Ne", "5"), ("Ge", "5"), ("Le", "6")], expect!["fine"]);
}

#[test]
fn the_first_contradiction_is_reported_and_values_are_printed_canonically() {
    check_set(
        &[("Gt", "0.5"), ("Lt", "0.2"), ("Eq", "1"), ("Ne", "1")],
        expect!["inconsistent requirements on property p: conflicting Eq and Ne on same value 1"],
    );
    check_set(
        &[("Gt", "1024Mi"), ("Lt", "1000m")],
        expect!["inconsistent requirements on property p: lower bound (1Gi) and upper bound (1) exclude all values"],
    );
}

#[test]
fn malformed_requirements_are_left_out_of_the_set_and_properties_come_by_name() {
    check(
        &[
            ("z", "Gt", &["10"]),
            ("z", "Lt", &["5"]),
            ("a", "Eq", &["1"]),
            ("a", "Eq", &["2"]),
            ("a", "Eq", &["x"]),
            ("b", "Lt", &["1", "0"]),
        ],
        expect![[
            r#"[invalid requirement on property a: value "x" is not a valid resource.Quantity: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', invalid requirement on property b: operator Lt requires exactly one value, got 2, inconsistent requirements on property a: conflicting Eq values 1 and 2, inconsistent requirements on property z: lower bound (10) and upper bound (5) exclude all values]"#
        ]],
    );
}

#[test]
fn a_sorter_is_named_by_a_property() {
    let sorter = |name: &str| serde_json::from_value(json!({"name": name, "sortOrder": "Ascending"})).unwrap();
    assert!(check_sorter(&sorter("kubernetes-fleet.io/node-count")).is_empty());
    expect!["invalid resource property name resources.kubernetes-fleet.io/cpu, expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"].assert_eq(&check_sorter(&sorter("resources.kubernetes-fleet.io/cpu")).to_string());
}

proptest! {
    /// Half steps between the values stand for everything in between, and for all beyond them.
    #[test]
    fn only_unsatisfiable_requirements_are_refused(
        requirements in prop::collection::vec((prop::sample::select(vec!["Gt", "Ge", "Lt", "Le", "Eq", "Ne"]), 0_i64..4), 1..5)
    ) {
        let meets = |doubled: i64| requirements.iter().all(|(operator, value)| {
            let bound = value * 2;
            match *operator {
                "Gt" => doubled > bound,
                "Ge" => doubled >= bound,
                "Lt" => doubled < bound,
                "Le" => doubled <= bound,
                "Eq" => doubled == bound,
                _ => doubled != bound,
            }
        });
        let possible = (-1..9).any(meets);
        let texts: Vec<String> = requirements.iter().map(|(_, value)| value.to_string()).collect();
        let read: Vec<Requirement> = requirements.iter().zip(&texts).map(|((operator, _), text)| {
            let one = json!({"name": "p", "operator": operator, "values": [text]});
            Requirement::read(&serde_json::from_value(one).unwrap()).unwrap()
        }).collect();
        let accepted = check_satisfiable(&read).is_ok();
        // One point between two bounds that Ne takes out is not looked for.
        let pinned = requirements.iter().any(|(operator, _)| *operator == "Ne") && !requirements.iter().any(|(operator, _)| *operator == "Eq");
        prop_assert!(accepted == possible || pinned && accepted);
    }
}
