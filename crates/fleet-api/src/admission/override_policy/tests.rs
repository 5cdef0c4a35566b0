//! Rules of overrides.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn check_rules(rules: Value, expected: Expect) {
    let findings = check(&serde_json::from_value(json!({"overrideRules": rules})).unwrap());
    expected.assert_eq(&if findings.is_empty() { "fine".to_owned() } else { findings.to_string() });
}

fn check_patched(patches: Value, expected: Expect) {
    check_rules(json!([{"overrideType": "JSONPatch", "jsonPatchOverrides": patches}]), expected);
}

#[test]
fn clusters_are_selected_by_label_only() {
    let rule = |terms: Value| json!([{"clusterSelector": {"clusterSelectorTerms": terms}, "overrideType": "Delete"}]);
    check_rules(rule(json!([{"labelSelector": {}}])), expect!["fine"]);
    check_rules(rule(json!([])), expect!["fine"]);
    check_rules(
        rule(json!([{}])),
        expect![
            "invalid clusterSelector {LabelSelector:nil PropertySelector:<nil> PropertySorter:<nil>}: labelSelector is required"
        ],
    );
    check_rules(
        rule(json!([{"labelSelector": {}, "propertySelector": {"matchExpressions": []}}])),
        expect![
            "invalid clusterSelector {LabelSelector:&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},} PropertySelector:&{MatchExpressions:[]} PropertySorter:<nil>}: only labelSelector is supported"
        ],
    );
    check_rules(
        rule(json!([{"propertySorter": {"name": "x", "sortOrder": "Ascending"}}])),
        expect![
            "invalid clusterSelector {LabelSelector:nil PropertySelector:<nil> PropertySorter:&{Name:x SortOrder:Ascending}}: only labelSelector is supported"
        ],
    );
    check_rules(
        rule(json!([{"labelSelector": {"matchLabels": {"a": "b c"}}}])),
        expect![[
            r#"the labelSelector in cluster selector &LabelSelector{MatchLabels:map[string]string{a: b c,},MatchExpressions:[]LabelSelectorRequirement{},} is invalid: values[0][a]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#
        ]],
    );
}

#[test]
fn a_delete_rule_with_patches_has_one_finding() {
    let patches = json!([{"op": "remove", "path": "/spec/x"}]);
    check_rules(
        json!([
            {"clusterSelector": {"clusterSelectorTerms": [{}]}, "overrideType": "Delete"},
            {"overrideType": "Delete", "jsonPatchOverrides": patches},
        ]),
        expect!["invalid JSONPatchOverrides: JSONPatchOverrides cannot be set when the override type is Delete"],
    );
}

#[test]
fn a_patch_rule_needs_patches() {
    check_rules(
        json!([{"overrideType": "JSONPatch"}, {}]),
        expect!["invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty"],
    );
}

#[test]
fn paths() {
    let at = |path: &str| json!([{"op": "add", "path": path, "value": "v"}]);
    check_patched(
        json!([
            {"op": "add", "path": "/spec/replicas", "value": 3}, {"op": "remove", "path": "/metadata/labels/a"},
            {"op": "replace", "path": "/metadata/annotations", "value": {}}, {"op": "add", "path": "/kinds", "value": null},
        ]),
        expect!["fine"],
    );
    check_patched(at(""), expect![[r#"invalid JSONPatchOverride {add  {"v"}}: path cannot be empty"#]]);
    check_patched(at("spec"), expect![[r#"invalid JSONPatchOverride {add spec {"v"}}: path must start with /"#]]);
    check_patched(
        at("/kind"),
        expect![[r#"invalid JSONPatchOverride {add /kind {"v"}}: cannot override typeMeta fields"#]],
    );
    check_patched(
        at("/apiVersion/x"),
        expect![[r#"invalid JSONPatchOverride {add /apiVersion/x {"v"}}: cannot override typeMeta fields"#]],
    );
    check_patched(
        at("/metadata"),
        expect![[r#"invalid JSONPatchOverride {add /metadata {"v"}}: cannot override field metadata"#]],
    );
    check_patched(
        at("/metadata/name"),
        expect![[
            r#"invalid JSONPatchOverride {add /metadata/name {"v"}}: cannot override metadata fields except annotations and labels"#
        ]],
    );
    check_patched(
        at("/metadata/"),
        expect![[
            r#"invalid JSONPatchOverride {add /metadata/ {"v"}}: cannot override metadata fields except annotations and labels"#
        ]],
    );
    check_patched(
        at("/status/x"),
        expect![[r#"invalid JSONPatchOverride {add /status/x {"v"}}: cannot override status fields"#]],
    );
    check_patched(at("/"), expect![[r#"invalid JSONPatchOverride {add / {"v"}}: path cannot contain empty string"#]]);
    check_patched(
        at("/spec//x"),
        expect![[r#"invalid JSONPatchOverride {add /spec//x {"v"}}: path cannot contain empty string"#]],
    );
    check_patched(
        at("/spec/ /x"),
        expect![[r#"invalid JSONPatchOverride {add /spec/ /x {"v"}}: path cannot contain empty string"#]],
    );
    check_patched(
        at("/metadata/labels/"),
        expect![[r#"invalid JSONPatchOverride {add /metadata/labels/ {"v"}}: path cannot contain empty string"#]],
    );
}

#[test]
fn a_remove_operation_has_no_value_and_all_findings_are_listed() {
    check_patched(
        json!([{"op": "remove", "path": "/status", "value": {"a": 1}}, {"op": "remove", "path": "/spec/x", "value": null}]),
        expect![[
            r#"[invalid JSONPatchOverride {remove /status {{"a":1}}}: cannot override status fields, invalid JSONPatchOverride {remove /status {{"a":1}}}: remove operation cannot have value]"#
        ]],
    );
}
