//! Scheduling policies: fields per type, affinities, tolerations.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn check_policy(policy: Value, expected: Expect) {
    let findings = check(&serde_json::from_value(policy).unwrap());
    expected.assert_eq(&if findings.is_empty() { "fine".to_owned() } else { findings.to_string() });
}

fn check_tolerated(tolerations: Value, expected: Expect) {
    check_policy(json!({"placementType": "PickAll", "tolerations": tolerations}), expected);
}

fn required(terms: Value) -> Value {
    json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}})
}

fn preferred(preference: Value) -> Value {
    let terms = json!([{"weight": 1, "preference": preference}]);
    json!({"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})
}

#[test]
fn pick_fixed() {
    check_policy(json!({"placementType": "PickFixed", "clusterNames": ["m1", "m2.x"]}), expect!["fine"]);
    check_policy(json!({"placementType": "PickFixed"}), expect!["fine"]);
    check_policy(
        json!({
            "placementType": "PickFixed", "clusterNames": ["m"], "numberOfClusters": 1, "affinity": {},
            "topologySpreadConstraints": [{"topologyKey": "zone"}], "tolerations": [],
        }),
        expect![
            "[number of clusters must be nil for policy type PickFixed, only valid for PickN placement policy type, affinity must be nil for policy type PickFixed, only valid for PickAll/PickN placement policy types, topology spread constraints needs to be empty for policy type PickFixed, only valid for PickN policy type, tolerations needs to be empty for policy type PickFixed, only valid for PickAll/PickN]"
        ],
    );
}

#[test]
fn pick_fixed_names() {
    check_policy(
        json!({"placementType": "PickFixed", "clusterNames": ["M_1"]}),
        expect![[
            r"PickFixed cluster name M_1 is not a valid member name: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]],
    );
    check_policy(
        json!({"placementType": "PickFixed", "clusterNames": ["x".repeat(64)]}),
        expect![
            "PickFixed cluster name xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx cannot have length exceeding 63"
        ],
    );
    check_policy(
        json!({"placementType": "PickFixed", "clusterNames": ["a", "b", "a", "A"]}),
        expect!["cluster names must be unique for policy type PickFixed"],
    );
}

#[test]
fn pick_all() {
    check_policy(
        json!({"placementType": "PickAll", "clusterNames": [], "topologySpreadConstraints": []}),
        expect!["fine"],
    );
    check_policy(json!({}), expect!["fine"]);
    check_policy(
        json!({
            "placementType": "PickAll", "clusterNames": ["m"], "numberOfClusters": 1,
            "affinity": preferred(json!({"propertySelector": {"matchExpressions": []}})),
            "topologySpreadConstraints": [{"topologyKey": "zone"}],
        }),
        expect![
            "[cluster names needs to be empty for policy type PickAll, only valid for PickFixed policy type, number of clusters must be nil for policy type PickAll, only valid for PickN placement policy type, PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll, topology spread constraints needs to be empty for policy type PickAll, only valid for PickN policy type]"
        ],
    );
}

#[test]
fn pick_n() {
    check_policy(
        json!({
            "placementType": "PickN", "numberOfClusters": 0, "affinity": {},
            "topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        }),
        expect!["fine"],
    );
    check_policy(
        json!({"placementType": "PickN", "clusterNames": ["m"]}),
        expect![
            "[cluster names needs to be empty for policy type PickN, only valid for PickFixed policy type, number of cluster cannot be nil for policy type PickN]"
        ],
    );
    check_policy(
        json!({"placementType": "PickN", "numberOfClusters": -3}),
        expect!["number of clusters cannot be -3 for policy type PickN"],
    );
}

#[test]
fn required_terms() {
    let terms = json!([
        {"labelSelector": {"matchExpressions": [{"key": "k", "operator": "Exists", "values": ["x"]}]}},
        {"propertySorter": {"name": "x", "sortOrder": "Ascending"}},
        {"propertySelector": {"matchExpressions": [{"name": "x", "operator": "Gt", "values": []}]}},
    ]);
    check_policy(
        json!({"placementType": "PickAll", "affinity": required(terms.clone())}),
        expect![[
            r#"[the labelSelector in cluster selector &LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:Exists,Values:[x],},},} is invalid: values: Invalid value: ["x"]: values set must be empty for exists and does not exist, PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity, invalid requirement on property x: operator Gt requires exactly one value, got 0]"#
        ]],
    );
    check_policy(
        json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": required(json!([terms[0]]))}),
        expect![[
            r#"the labelSelector in cluster selector &LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:Exists,Values:[x],},},} is invalid: values: Invalid value: ["x"]: values set must be empty for exists and does not exist"#
        ]],
    );
    check_policy(json!({"placementType": "PickAll", "affinity": required(json!([]))}), expect!["fine"]);
}

#[test]
fn preferred_terms() {
    let pick_n =
        |preference: Value| json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": preferred(preference)});
    check_policy(
        pick_n(json!({"labelSelector": {"matchLabels": {"a": "b c"}}})),
        expect![[
            r#"the labelSelector in preferred cluster selector &LabelSelector{MatchLabels:map[string]string{a: b c,},MatchExpressions:[]LabelSelectorRequirement{},} is invalid: values[0][a]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#
        ]],
    );
    check_policy(
        pick_n(json!({"propertySelector": {"matchExpressions": []}})),
        expect!["PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity"],
    );
    check_policy(
        pick_n(json!({"propertySorter": {"name": "a b", "sortOrder": "Descending"}})),
        expect![
            "property name a b is not valid: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    );
    check_policy(
        pick_n(
            json!({"labelSelector": {}, "propertySorter": {"name": "resources.kubernetes-fleet.io/available-cpu", "sortOrder": "Descending"}}),
        ),
        expect!["fine"],
    );
}

#[test]
fn tolerations() {
    check_tolerated(
        json!([{"key": "example.com/a", "operator": "Equal", "value": "x"}, {"operator": "Exists"}, {"key": "a", "operator": "Exists", "effect": "NoSchedule"}]),
        expect!["fine"],
    );
    check_tolerated(
        json!([{"key": "a b", "operator": "Exists"}]),
        expect![
            "invalid toleration key {Key:a b Operator:Exists Value: Effect:}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    );
    check_tolerated(
        json!([{"key": "a", "operator": "Exists", "value": "x"}]),
        expect![
            "invalid toleration {Key:a Operator:Exists Value:x Effect:}: toleration value needs to be empty, when operator is Exists"
        ],
    );
    check_tolerated(
        json!([{"operator": "Equal", "value": "x"}]),
        expect![
            "invalid toleration {Key: Operator:Equal Value:x Effect:}: toleration key cannot be empty, when operator is Equal"
        ],
    );
    check_tolerated(
        json!([{"key": "a", "operator": "Equal", "value": "x y"}]),
        expect![
            "invalid toleration value {Key:a Operator:Equal Value:x y Effect:}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ],
    );
}

#[test]
fn tolerations_are_unique_in_all_their_fields() {
    let a = json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"});
    check_tolerated(
        json!([a, a, a]),
        expect![
            "toleration {Key:a Operator:Exists Value: Effect:NoSchedule} already exists, tolerations must be unique"
        ],
    );
    check_tolerated(json!([a, {"key": "a", "operator": "Exists"}]), expect!["fine"]);
}

#[test]
fn an_absent_operator_is_equal() {
    check_tolerated(
        json!([{"value": "-"}]),
        expect![
            "[invalid toleration {Key: Operator: Value:- Effect:}: toleration key cannot be empty, when operator is Equal, invalid toleration value {Key: Operator: Value:- Effect:}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]"
        ],
    );
}
