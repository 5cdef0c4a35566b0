//! Applying overrides to a resource.

use expect_test::{Expect, expect};
use fleet_api::types::{EmbeddedObject, NamespacedName};
use proptest::prelude::*;
use serde_json::json;

use super::fixture::{
    KnownKinds, Member, Overrides, annotate, bare, labelled, on_settings, on_shop, resource, rule_for_all,
};
use crate::overrides::{Cause, MissingSnapshot, Pinned};

fn settings() -> EmbeddedObject {
    resource(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop, annotations: {}}, data: {a: '1'}}",
    )
}

/// Applies all overrides in the order in which they were added, and prints the relevant part of the result.
fn applied(overrides: &Overrides, resource: &EmbeddedObject, member: &str) -> String {
    let facts = overrides.facts();
    let name = |name: &Option<String>| name.clone().unwrap();
    let cluster: Vec<String> = overrides.cluster.iter().map(|one| name(&one.metadata.name)).collect();
    let namespaced: Vec<_> = overrides
        .namespaced
        .iter()
        .map(|one| NamespacedName { name: name(&one.metadata.name), namespace: name(&one.metadata.namespace) })
        .collect();
    let pinned = Pinned::find(&cluster, &namespaced, &facts).unwrap();
    match pinned.apply(resource, &Member::parse(member).target(), &KnownKinds) {
        Ok(Some(result)) => {
            json!({"annotations": result["metadata"]["annotations"], "data": result["data"]}).to_string()
        }
        Ok(None) => "deleted".to_owned(),
        Err(failure) => failure.to_string(),
    }
}

fn check(overrides: &Overrides, member: &str, expected: Expect) {
    expected.assert_eq(&applied(overrides, &settings(), member));
}

fn delete_on(key: &str, value: &str) -> String {
    format!("{{clusterSelector: {}, overrideType: Delete}}", labelled(key, value))
}

fn annotate_on(key: &str, value: &str, annotation: &str, text: &str) -> String {
    format!(
        "{{clusterSelector: {}, jsonPatchOverrides: [{{op: add, path: /metadata/annotations/{annotation}, value: '{text}'}}]}}",
        labelled(key, value)
    )
}

#[test]
fn placement_62_a_namespace_override_applies_to_all_its_content() {
    let overrides = Overrides::default().cro("a-0", &on_shop(&annotate("a", "b")));
    check(&overrides, "c1", expect![[r#"{"annotations":{"a":"b"},"data":{"a":"1"}}"#]]);
    let namespace = resource("{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {}}}");
    expect![[r#"{"annotations":{"a":"b"},"data":null}"#]].assert_eq(&applied(&overrides, &namespace, "c1"));
    let elsewhere = resource("{apiVersion: v1, kind: Namespace, metadata: {name: bank, annotations: {}}}");
    expect![[r#"{"annotations":{},"data":null}"#]].assert_eq(&applied(&overrides, &elsewhere, "c1"));
}

#[test]
fn placement_65_a_resource_override_wins_over_a_cluster_resource_override() {
    let overrides = Overrides::default()
        .ro("shop/b-0", &on_settings(&annotate("a", "from the namespace")))
        .cro("a-0", &on_shop(&annotate("a", "from the cluster")));
    check(&overrides, "c1", expect![[r#"{"annotations":{"a":"from the namespace"},"data":{"a":"1"}}"#]]);
}

#[test]
fn placement_66_each_cluster_gets_the_values_of_its_rules_and_the_later_rule_wins() {
    let rules = [
        annotate("region", "any"),
        annotate_on("region", "eu", "region", "europe"),
        annotate_on("region", "us", "region", "america"),
        annotate_on("tier", "gold", "tier", "first"),
        annotate_on("tier", "gold", "tier", "second"),
    ];
    let overrides = Overrides::default().cro("a-0", &on_shop(&rules.join(", ")));
    check(&overrides, "c1", expect![[r#"{"annotations":{"region":"any"},"data":{"a":"1"}}"#]]);
    check(&overrides, "c2 region=eu", expect![[r#"{"annotations":{"region":"europe"},"data":{"a":"1"}}"#]]);
    check(
        &overrides,
        "c3 region=us tier=gold",
        expect![[r#"{"annotations":{"region":"america","tier":"second"},"data":{"a":"1"}}"#]],
    );
}

#[test]
fn the_order_of_the_binding_decides_among_overrides_of_one_kind() {
    let overrides =
        Overrides::default().cro("b-0", &on_shop(&annotate("a", "b"))).cro("a-0", &on_shop(&annotate("a", "a")));
    check(&overrides, "c1", expect![[r#"{"annotations":{"a":"a"},"data":{"a":"1"}}"#]]);
}

#[test]
fn placement_67_a_failure_names_override_resource_rule_path_and_cluster() {
    let wrong = rule_for_all("{op: replace, path: /data/a, value: '2'}, {op: remove, path: /data/b}");
    let overrides = Overrides::default().cro("a-3", &on_shop(&format!("{}, {wrong}", annotate("a", "b"))));
    check(
        &overrides,
        "c1",
        expect![[
            r#"ClusterResourceOverrideSnapshot "a-3" failed to apply on ConfigMap "settings" in namespace "shop": error in remove for path: '/data/b': Unable to remove nonexistent key: b: missing value (overrideRules[1].jsonPatchOverrides[1], path "/data/b", cluster "c1")"#
        ]],
    );
    let nameless = resource("{apiVersion: v1, metadata: {namespace: shop}}");
    expect![[
        r#"ClusterResourceOverrideSnapshot "a-3" failed to apply on Unknown "" in namespace "shop": add operation does not apply: doc is missing path: "/metadata/annotations/a": missing value (overrideRules[0].jsonPatchOverrides[0], path "/metadata/annotations/a", cluster "c1")"#
    ]]
    .assert_eq(&applied(&overrides, &nameless, "c1"));
}

#[test]
fn pl_o1_a_label_cannot_be_added_without_a_labels_map() {
    let rule = rule_for_all("{op: add, path: /metadata/labels/new-label, value: v}");
    let overrides = Overrides::default().cro("cro-1-0", &on_shop(&rule));
    let namespace = bare("Namespace shop");
    expect![[
        r#"ClusterResourceOverrideSnapshot "cro-1-0" failed to apply on Namespace "shop": add operation does not apply: doc is missing path: "/metadata/labels/new-label": missing value (overrideRules[0].jsonPatchOverrides[0], path "/metadata/labels/new-label", cluster "c1")"#
    ]]
    .assert_eq(&applied(&overrides, &namespace, "c1"));
}

#[test]
fn placement_68_the_result_is_not_validated() {
    let rule = rule_for_all("{op: replace, path: /metadata/annotations, value: text}");
    let overrides = Overrides::default().cro("a-0", &on_shop(&rule));
    check(&overrides, "c1", expect![[r#"{"annotations":"text","data":{"a":"1"}}"#]]);
}

#[test]
fn placement_69_a_delete_rule_keeps_a_resource_off_a_cluster() {
    let rules = format!("{}, {}", delete_on("region", "eu"), annotate("a", "b"));
    let overrides = Overrides::default().ro("shop/a-0", &on_settings(&rules));
    check(&overrides, "c1 region=eu", expect!["deleted"]);
    check(&overrides, "c2 region=us", expect![[r#"{"annotations":{"a":"b"},"data":{"a":"1"}}"#]]);
}

#[test]
fn a_delete_rule_is_final_and_unknown_variables_are_still_reported() {
    let overrides = Overrides::default()
        .cro("a-0", &on_shop(&delete_on("region", "eu")))
        .ro("shop/b-0", &on_settings(&rule_for_all("{op: remove, path: /not/there}")));
    check(&overrides, "c1 region=eu", expect!["deleted"]);
    let overrides = Overrides::default()
        .cro("a-0", &on_shop(&delete_on("region", "eu")))
        .ro("shop/b-0", &on_settings(&annotate("a", "${MEMBER-CLUSTER-LABEL-KEY-zone}")));
    check(
        &overrides,
        "c1 region=eu",
        expect![[
            r#"ResourceOverrideSnapshot "b-0" failed to apply on ConfigMap "settings" in namespace "shop": label key zone not found on cluster c1 (overrideRules[0].jsonPatchOverrides[0], path "/metadata/annotations/a", cluster "c1")"#
        ]],
    );
}

#[test]
fn placement_70_variables_stand_for_the_cluster() {
    let text = "${MEMBER-CLUSTER-NAME} in ${MEMBER-CLUSTER-LABEL-KEY-region}";
    let overrides = Overrides::default().cro("a-0", &on_shop(&annotate("a", text)));
    check(&overrides, "c1 region=eu", expect![[r#"{"annotations":{"a":"c1 in eu"},"data":{"a":"1"}}"#]]);
    check(
        &overrides,
        "c2",
        expect![[
            r#"ClusterResourceOverrideSnapshot "a-0" failed to apply on ConfigMap "settings" in namespace "shop": label key region not found on cluster c2 (overrideRules[0].jsonPatchOverrides[0], path "/metadata/annotations/a", cluster "c2")"#
        ]],
    );
}

#[test]
fn a_patch_without_value_adds_null() {
    let overrides = Overrides::default().cro("a-0", &on_shop(&rule_for_all("{op: add, path: /data/b}")));
    check(&overrides, "c1", expect![[r#"{"annotations":{},"data":{"a":"1","b":null}}"#]]);
}

#[test]
fn an_invalid_selector_fails() {
    let rule = "{clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {'/a': c}}}]}}";
    let overrides = Overrides::default().cro("a-0", &on_shop(rule));
    check(
        &overrides,
        "c1",
        expect![[
            r#"ClusterResourceOverrideSnapshot "a-0" failed to apply on ConfigMap "settings" in namespace "shop": cannot convert the label selector to a selector: key: Invalid value: "/a": prefix part must be non-empty (overrideRules[0], cluster "c1")"#
        ]],
    );
}

#[test]
fn placement_75_a_missing_pinned_snapshot_is_named() {
    let missing = Pinned::find(&["a-0".to_owned()], &[], &[]).unwrap_err();
    expect!["clusterResourceOverrideSnapshot a-0 is not found"].assert_eq(&missing.to_string());
    let pin = NamespacedName { name: "b-0".to_owned(), namespace: "shop".to_owned() };
    let missing = Pinned::find(&[], std::slice::from_ref(&pin), &[]).unwrap_err();
    expect!["resourceOverrideSnapshot {b-0 shop} is not found"].assert_eq(&missing.to_string());
    // An override with the same name but another kind or namespace is another override.
    let overrides = Overrides::default().cro("b-0", &on_shop("")).ro("bank/b-0", &on_settings(""));
    let missing = Pinned::find(&[], &[pin], &overrides.facts()).unwrap_err();
    assert!(matches!(missing, MissingSnapshot::Namespaced { .. }));
}

#[test]
fn pinned_snapshots_count_whether_or_not_they_are_the_latest() {
    let mut overrides = Overrides::default().cro("a-0", &on_shop(&annotate("a", "old")));
    overrides.cluster[0].metadata.labels = None;
    check(&overrides, "c1", expect![[r#"{"annotations":{"a":"old"},"data":{"a":"1"}}"#]]);
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|one| json!(one)),
        any::<i64>().prop_map(|one| json!(one)),
        "[ -~é]{0,8}".prop_map(|one| json!(one)),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|one| json!(one)),
            prop::collection::btree_map("[a-c~/]{0,2}", inner, 0..4).prop_map(|one| json!(one)),
        ]
    })
}

proptest! {
    #[test]
    fn a_patch_changes_only_the_paths_it_names(content in any_json(), value in "[a-z]{1,4}") {
        let mut before = settings();
        before.0["data"] = content;
        let overrides = Overrides::default().cro("a-0", &on_shop(&annotate("a", &value)));
        let facts = overrides.facts();
        let pinned = Pinned::find(&["a-0".to_owned()], &[], &facts).unwrap();
        let member = Member::parse("c1");
        let mut after = pinned.apply(&before, &member.target(), &KnownKinds).unwrap().unwrap();
        prop_assert_eq!(&after["metadata"]["annotations"]["a"], &json!(value));
        after.0["metadata"]["annotations"] = json!({});
        prop_assert_eq!(serde_json::to_vec(&after).unwrap(), serde_json::to_vec(&before).unwrap());
        let untouched = bare("Namespace bank");
        prop_assert_eq!(pinned.apply(&untouched, &member.target(), &KnownKinds).unwrap(), Some(untouched));
    }

    #[test]
    fn any_patch_applies_or_returns_an_error(
        content in any_json(),
        path in "(/[a-c0-9~-]{0,2}){0,3}",
        op in prop::sample::select(vec!["add", "remove", "replace"]),
        value in any_json(),
    ) {
        let rule = json!({"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [{"op": op, "path": path, "value": value}]});
        let overrides = Overrides::default().cro("a-0", &on_shop(&rule.to_string()));
        let facts = overrides.facts();
        let pinned = Pinned::find(&["a-0".to_owned()], &[], &facts).unwrap();
        let mut before = settings();
        before.0["data"] = content;
        match pinned.apply(&before, &Member::parse("c1").target(), &KnownKinds) {
            Ok(after) => prop_assert!(after.is_some()),
            Err(failure) => {
                prop_assert!(matches!(failure.cause, Cause::Patch(_) | Cause::Variable(_)));
                let place = format!("path {path:?}, cluster \"c1\"");
                prop_assert!(failure.to_string().contains(&place), "{}", failure);
            }
        }
    }
}
